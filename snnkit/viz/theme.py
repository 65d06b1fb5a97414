"""One look for every figure: colours that colour-blind people can tell apart, readable on light and dark pages.

Importing this module registers the plotly template "snnkit". Importing ``snnkit.viz`` also makes it plotly's default,
so that figures a notebook builds by hand look the same and stay small (plotly's own default adds 7 kB to each).
"""

from __future__ import annotations

import plotly.graph_objects as go
import plotly.io as pio

# Okabe and Ito, "Color Universal Design" (2008), without black and yellow, which vanish on dark and light pages.
BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY = "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9"
PALETTE = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY)
# Lines that share a panel differ in dash as well, so that nothing hangs on colour alone.
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")

TEXT = "#777777"  # contrast 4.5 : 1 on white and 4.2 : 1 on JupyterLab's dark page
GRID = "rgba(127,127,127,0.22)"
PALE = "rgba(127,127,127,0.38)"  # broad lines that stand behind others
AXIS = "rgba(127,127,127,0.6)"
GRID_HEX, AXIS_HEX = "#7f7f7f38", "#7f7f7f99"  # the same two as matplotlib writes them
CLEAR = "rgba(0,0,0,0)"
# From nothing to ink: the page shows through where the value is zero.
INK = ((0.0, "rgba(0,114,178,0)"), (1.0, "rgba(0,114,178,1)"))
FONT_SIZE = 13
TITLE_SIZE = 16
HEIGHT = 380  # of a page that says nothing else
# Under the plot, for figures whose panels need the whole width.
LEGEND_BELOW = {"orientation": "h", "x": 0, "y": -0.28, "yanchor": "top"}
# At the top left of the page, whatever the margin is.
TITLE = {"x": 0.01, "xanchor": "left", "y": 1, "yref": "container", "yanchor": "top", "pad": {"t": 12}}
TITLE["font"] = {"size": TITLE_SIZE}
MARGIN = {"l": 62, "r": 20, "t": 52, "b": 50}

NAME = "snnkit"


def colour(index: int) -> str:
    """The palette's colour of the index-th line (it repeats after six)."""
    return PALETTE[index % len(PALETTE)]


def dash(index: int) -> str:
    """The dash of the index-th line."""
    return DASHES[index % len(DASHES)]


def faint(colour: str, alpha: float) -> str:
    """A "#rrggbb" colour as "rgba(…)" with this opacity."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


def _template() -> go.layout.Template:
    axis = {
        "gridcolor": GRID,
        "linecolor": AXIS,
        "tickcolor": AXIS,
        "zeroline": False,
        "showline": True,
        "ticks": "outside",
        "ticklen": 4,
        "automargin": True,
        "title": {"standoff": 8, "font": {"size": FONT_SIZE}},
    }
    return go.layout.Template(
        layout={
            "colorway": PALETTE,
            "paper_bgcolor": CLEAR,
            "plot_bgcolor": CLEAR,
            "font": {"color": TEXT, "size": FONT_SIZE},
            "title": TITLE,
            "margin": MARGIN,
            "xaxis": axis,
            "yaxis": axis,
            "legend": {"bgcolor": CLEAR},
            "hoverlabel": {"align": "left"},
            "modebar": {"bgcolor": CLEAR, "color": AXIS, "activecolor": TEXT},
            "sliderdefaults": {"bgcolor": GRID, "activebgcolor": BLUE, "bordercolor": AXIS, "tickcolor": AXIS},
        }
    )


pio.templates[NAME] = _template()

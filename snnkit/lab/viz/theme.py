"""One look for every figure: colours that colour-blind people can tell apart, readable on light and dark pages.

Importing this module registers the plotly template "snnkit". Importing ``snnkit.lab.viz`` makes it plotly's default,
so that figures a notebook builds by hand look the same and stay small (plotly's own default adds 7 kB to each).
"""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
import plotly.io as pio

WHITE, BLACK = "#ffffff", "#000000"
DARK = "#111111"  # JupyterLab's dark page
# Okabe and Ito, "Color Universal Design" (2008), without black and yellow, which vanish on dark and light pages. Orange
# and sky blue are darker than theirs, so that all six have a contrast of at least 3 : 1 on WHITE and on DARK.
BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY = "#0072B2", "#D55E00", "#009E73", "#D47F00", "#CC79A7", "#3399E0"
PALETTE = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY)
CRIMSON = "#C92A60"  # what is below zero; concepts.py says what has which colour
# Lines that share a panel differ in dash as well, and bars in pattern, so that nothing hangs on colour alone.
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
PATTERNS = ("", "/", ".", "x", "-", "\\", "|", "+")

# Contrast 4.5 : 1 on WHITE and 4.2 : 1 on DARK. No colour has 4.5 on both, as these two pages are only 18.9 : 1 apart:
# web/plot_text.css makes it darker or lighter on pages that say which they are.
TEXT = "#767676"
INK_TEXT, DARK_TEXT = "#4a4f55", "#c9ced4"  # on white paper, and on dark pages
GRID = "rgba(127,127,127,0.22)"
PALE = "#949494"  # broad lines behind others
AXIS = "rgba(127,127,127,0.9)"
GRID_HEX, AXIS_HEX = "#7f7f7f38", "#7f7f7fe6"  # the same two as matplotlib writes them
CLEAR, CLEAR_HEX = "rgba(0,0,0,0)", "#00000000"
# From nothing to ink: the page shows through where the value is zero.
INK = ((0.0, "rgba(0,114,178,0)"), (1.0, "rgba(0,114,178,1)"))
# Brightness: from the black paper of a picture, which is drawn below it, to white. Bright is bright on every page.
NIGHT = "#16181b"
LIGHT = ((0.0, "rgba(246,247,249,0)"), (1.0, "rgba(246,247,249,1)"))
# Below zero, zero, above zero; the colours that people with any kind of colour vision tell apart best.
SIGNED = (
    (0.0, "rgba(201,42,96,1)"), (0.5, "rgba(201,42,96,0)"), (0.5, "rgba(0,114,178,0)"), (1.0, "rgba(0,114,178,1)"),
)  # fmt: skip
# On paper of its own, for cells with text: no ink is readable on half-clear cells on every page.
INK_ON_PAPER = ((0.0, "#f4f6f8"), (1.0, "#005a8c"))
FONT_SIZE = 13
TITLE_SIZE = 16
HEIGHT = 380  # of a figure that sets none
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


def bar(index: int, ink: str = "") -> dict[str, Any]:
    """The marker of the index-th bar of a stack: a colour, or ``ink``, and a white pattern on it (24 differ)."""
    look: dict[str, Any] = {"color": ink or colour(index)}
    shape = PATTERNS[index % len(PATTERNS)]
    if shape:
        look["pattern"] = {"shape": shape, "fillmode": "overlay", "fgcolor": WHITE, "size": 7, "solidity": 0.25}
    return look


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
    # Axes in space, without walls. WebGL leaves out lines that are as faint as GRID.
    space = {"gridcolor": AXIS, "gridwidth": 0.5, "showbackground": False, "zeroline": False}
    space |= {"showline": True, "linecolor": AXIS}
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
            "scene": {"xaxis": space, "yaxis": space, "zaxis": space},
            "legend": {"bgcolor": CLEAR},
            "hoverlabel": {"align": "left"},
            "modebar": {"bgcolor": CLEAR, "color": AXIS, "activecolor": TEXT},
            "sliderdefaults": {"bgcolor": BLUE, "activebgcolor": SKY, "bordercolor": AXIS, "tickcolor": AXIS},
        }
    )


pio.templates[NAME] = _template()

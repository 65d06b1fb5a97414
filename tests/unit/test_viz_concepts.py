"""One colour for each concept of the course, in figures, drawings and pages."""

import re

import pytest

from snnkit.lab.pages import web
from snnkit.lab.viz import concepts, figures, theme

from ..colours import strange
from ..javascript import SOURCES
from .every_figure import EXAMPLES

DRAWINGS = SOURCES.parents[1] / "notebooks" / "drawings"


def test_pages_have_the_table_of_today():
    assert (SOURCES / "concepts.js").read_text(encoding="utf-8") == concepts.script(), "run make web"


def test_every_hue_is_a_colour_of_figures_of_drawings_and_of_pages():
    hues = {hue for parts in concepts.TABLE.values() for hue in parts.values()}
    assert hues <= set(concepts.HUES)
    style, page = (DRAWINGS / "style.css").read_text(encoding="utf-8"), web.read("style.css")
    for hue in hues:
        assert f".{'dim' if hue == 'grey' else hue} {{ fill" in style
        assert f"--{concepts.ON_PAGES.get(hue, hue)}: light-dark(" in page


def test_concepts_that_meet_in_a_figure_differ():
    for parts in concepts.TABLE.values():
        hues = [hue for hue in parts.values() if hue != "muted"]
        assert parts == concepts.TABLE["weights"] or len(set(hues)) == len(hues)
    libraries = ("snnTorch", "SpikingJelly", "Norse", *concepts.TABLE["engines"])  # of the races
    assert len({concepts.hue(name) for name in libraries}) == len(libraries)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("cpp", "cpp"), ("cpp, 1 thread", "cpp"), ("eager on this CPU", "eager"), ("Poisson", "rate"), ("loop", "eager"),
     ("SpikingJelly (torch backend)", "SpikingJelly"), ("gradients", "gradients"), ("hidden", None), (3, None)],
)  # fmt: skip
def test_a_name_says_its_concept(name, meant):
    assert concepts.concept(name) == meant


def test_names_without_a_concept_take_colours_that_are_free():
    one, two, three = concepts.colours(["mine", "eager", "yours"])
    assert two == concepts.colour("eager") and len({one, two, three}) == 3
    assert concepts.colours("abcdef") == list(theme.PALETTE)
    # Of one hue in two groups: the first has it.
    compute, latency = concepts.colours(["compute", "latency"])
    assert compute == concepts.colour("compute") != latency


@pytest.mark.parametrize("name", EXAMPLES)
def test_figures_take_the_colours_of_the_table(name):
    assert strange(EXAMPLES[name]().to_plotly_json()) == []


def test_a_figure_in_other_colours_is_found():
    figure = figures.lines({"eager": [1, 2], "block": [2, 3]})
    assert strange(figure.to_plotly_json()) == []
    figure.update_traces(line_color=theme.PURPLE, selector={"name": "eager"})
    assert len(strange(figure.to_plotly_json())) == 1


def test_drawings_take_the_colours_of_the_table():
    parts = []
    for file in DRAWINGS.glob("*.svg"):
        found = re.findall(r'<[^>]*data-is="([^"]+)"[^>]*>', file.read_text(encoding="utf-8"))
        elements = re.findall(r'<[^>]*data-is="[^"]+"[^>]*>', file.read_text(encoding="utf-8"))
        for name, element in zip(found, elements, strict=True):
            hue = concepts.hue(name)
            (given,) = re.findall(r'class="([^"]*)"', element)
            assert {hue, f"soft-{hue}", "dim" if hue == "grey" else hue} & set(given.split()), (file.name, element)
            parts.append(name)
    assert {"latency", "rate", "compute", "wait", "exchange", "gradient"} <= set(parts)

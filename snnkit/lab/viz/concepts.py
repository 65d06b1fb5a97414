"""One colour for each concept of the course: plotly figures, drawings and pages take it from ``TABLE``.

A hue is a name: theme.py has its colour in figures, notebooks/drawings/style.css in drawings, web/style.css on pages.
Concepts that meet in one figure, such as engines and other frameworks, differ in hue. Others may share one.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from snnkit.files import write_text
from snnkit.lab.viz import theme

TABLE: dict[str, dict[str, str]] = {
    "engines": {"eager": "vermilion", "block": "green", "cpp": "blue", "triton": "purple"},
    "frameworks": {
        "snnkit": "blue", "snnTorch": "orange", "SpikingJelly": "sky", "Norse": "crimson", "Sinabs": "purple",
        "Spyx": "green", "brainevent": "vermilion", "PyTorch": "grey",
    },
    "codes": {"latency": "blue", "rate": "green", "neuron per pixel": "orange", "direct": "purple", "delta": "sky"},
    "memory": {"weights": "blue", "gradients": "vermilion", "optimizer": "green", "activity": "orange"},
    "passes": {"forward": "blue", "backward": "vermilion", "update": "green"},
    "time": {"compute": "blue", "elementwise": "sky", "wait": "grey", "exchange": "orange"},
    "devices": {"CPU": "blue", "GPU": "green", "IPU": "purple"},
    "numbers": {"measured": "blue", "predicted": "orange", "published": "green", "derived": "purple"},
    "learning": {"loss": "blue", "gradient": "vermilion"},
    "weights": {"excitatory": "blue", "inhibitory": "crimson", "potentiation": "green", "depression": "purple"},
    "neurons": {"pre": "blue", "post": "vermilion"},
    "events": {"on": "blue", "off": "crimson"},
    # Where several named neurons are compared, their membranes and spikes have the colours of the names instead.
    "signals": {"spike": "orange", "membrane": "blue", "threshold": "muted", "input": "muted"},
}  # fmt: skip
# Other words for a concept.
WORDS = {
    "loop": "eager", "auto": "cpp", "fused": "cpp", "neurons as a loop": "eager", "the loop": "eager",
    "Poisson": "rate", "LIF neuron": "neuron per pixel", "constant current": "neuron per pixel", "repeat": "direct",
    "saved": "activity", "activations": "activity", "saved for backward": "activity", "optimiser": "optimizer",
    "matrix product": "compute", "matmul": "compute", "arithmetic": "compute", "waiting": "wait", "sync": "wait",
    "waiting for all": "wait", "wait for the slowest": "wait", "all-reduce": "exchange", "send": "exchange",
    "surrogate gradient": "gradient", "excites": "excitatory", "inhibits": "inhibitory",
    "this CPU": "CPU", "this GPU": "GPU", "cpu": "CPU", "cuda": "GPU", "GC200": "IPU", "Bow": "IPU",
    "PyTorch loop": "PyTorch", "optimizer step": "update",
    "spikes": "spike", "potential": "membrane", "membrane potential": "membrane", "current": "input",
}  # fmt: skip
HUES = {"blue": theme.BLUE, "vermilion": theme.VERMILION, "green": theme.GREEN, "orange": theme.ORANGE}
HUES |= {"purple": theme.PURPLE, "sky": theme.SKY, "crimson": theme.CRIMSON, "grey": theme.PALE, "muted": theme.TEXT}
ON_PAGES = {"grey": "muted"}  # where web/style.css calls a hue otherwise
_GROUPS = {concept: group for group, concepts in TABLE.items() for concept in concepts}


def concept(name: Any) -> str | None:
    """What a line, a bar or a part of this name shows: "cpp" of "cpp, 1 thread"; None if it is no concept."""
    whole = str(name)
    for text in (whole, re.split(r"[,:(]| on ", whole)[0].strip()):
        word = WORDS.get(text, text)
        if word in _GROUPS:
            return word
    return None


def hue(name: str) -> str:
    """The name of a concept's hue. KeyError if there is no such concept."""
    word = WORDS.get(name, name)
    return TABLE[_GROUPS[word]][word]


def colour(name: str) -> str:
    """A concept's colour in figures. KeyError if there is no such concept."""
    return HUES[hue(name)]


def colours(names: Iterable[Any]) -> list[str]:
    """A colour for each name: that of its concept. Others take the palette's, and those first that are still free."""
    meant = [concept(name) for name in names]
    taken: dict[str, str] = {}  # colour to the concept that has it
    for one in filter(None, meant):
        taken.setdefault(colour(one), one)
    free = [one for one in theme.PALETTE if one not in taken]
    others = itertools.cycle([*free, *theme.PALETTE])
    # Of two concepts with one hue, the second is drawn as what has none.
    return [colour(one) if one and taken[colour(one)] == one else next(others) for one in meant]


def script() -> str:
    """The table as a module of JavaScript: concept to the name of a colour in style.css."""
    table = {group: {name: ON_PAGES.get(hue, hue) for name, hue in parts.items()} for group, parts in TABLE.items()}
    for word, name in WORDS.items():  # but not in "memory", whose keys are the parts
        if (group := _GROUPS[name]) in ("engines", "codes"):
            table[group][word] = table[group][name]
    note = "// Generated by `make web` from snnkit/lab/viz/concepts.py: one colour for each concept of the course."
    return f"{note}\nexport const CONCEPTS = {json.dumps(table, indent=2)};\n"


def write(file: Path) -> None:
    """Write ``script()`` if the file holds something else."""
    if not file.exists() or file.read_text(encoding="utf-8") != script():
        write_text(file, script())

"""The playground: one page in which a network of spiking neurons learns, in any browser and without a server."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path

import torch

from snnkit import checks, data, surrogate
from snnkit.engine import js
from snnkit.files import destination, expanded, write_text
from snnkit.lab.pages import web
from snnkit.neuron import ALIF, IF, LIF, CubaLIF, Leaky, Neuron

# The levels of grey of the digits are letters: a quarter less than base64.
_GREY = "abcdefghijklmnopq"


@checks.arguments
def playground(path: str | os.PathLike[str]) -> Path:
    """Write the playground, an HTML file of 400 kB that needs nothing else, and return its path.

    It holds the digits of ``data.load("digits")`` and, as JavaScript, the kit's neurons with each reset and each
    surrogate. Writing these takes about ten seconds, once in a process.

    Args:
        path: of the file, which replaces an older one; folders are made as needed.

    Raises:
        FileNotFoundError: scikit-learn, with which the digits come, is not installed.
    """
    target = destination(expanded(path))
    script = f"{_neurons()}\n{web.bundle('playground.js')}\nsnnkit.playground(GENERATED);\n"
    page = web.document(
        "Spiking playground",
        web.read("playground.html"),
        script=script,
        style=web.read("playground.css"),
        data=json.dumps({"digits": {split: _digits(split) for split in ("train", "test")}}),
    )
    write_text(target, page)
    return target


@functools.cache
def _neurons() -> str:
    """``GENERATED``: each neuron by its name, reset and surrogate, as in "Leaky/zero/ATan"."""
    kinds = (surrogate.ATan, surrogate.FastSigmoid, surrogate.Sigmoid, surrogate.SuperSpike, surrogate.Triangle)
    texts = [
        f"{json.dumps(f'{name}/{type(spike).__name__}')}: {js.source(neuron, adjustable=True)}"
        for spike in (*(kind() for kind in kinds), surrogate.StraightThrough())
        for name, neuron in _with(spike).items()
    ]
    # Without the indentation, a third of the text.
    lines = (line.strip() for line in ",\n".join(texts).splitlines())
    return f"const GENERATED = (() => {{\n{js.PRELUDE}\nreturn {{{chr(10).join(lines)}}};\n}})();"


def _with(spike: surrogate.Surrogate) -> dict[str, Neuron]:
    """The kit's neurons with this surrogate; their numbers are changed in the page."""
    resets = {"subtract": None, "zero": 0.0}
    return {
        **{f"IF/{name}": IF(v_reset=value, surrogate=spike) for name, value in resets.items()},
        **{f"LIF/{name}": LIF(v_reset=value, surrogate=spike) for name, value in resets.items()},
        **{f"Leaky/{name}": Leaky(0.9, reset_mechanism=name, surrogate=spike) for name in (*resets, "none")},
        "CubaLIF/zero": CubaLIF(surrogate=spike),
        **{f"ALIF/{name}": ALIF(v_reset=value, surrogate=spike) for name, value in resets.items()},
    }


def _digits(split: str) -> dict[str, str]:
    """Pixels [n * 64] as letters, and labels as digits."""
    images, labels = data.load("digits", split)
    levels = (images.flatten().to(torch.int64) * 16 + 127) // 255
    return {"pixels": "".join(_GREY[level] for level in levels), "labels": "".join(map(str, labels.tolist()))}

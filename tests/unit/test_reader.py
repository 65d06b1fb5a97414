"""The network of the first page reads forms that MNIST hardly has, drawn by formulas: with a slash, narrow, curly, …"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

import numpy as np
import pytest
import torch

from snnkit import encode
from snnkit.lab import pages
from tests.javascript import SOURCES
from tests.needed import needs

Points = list[tuple[float, float]]
RASTERIZE = """
import {rasterize} from "WEB/strokes.js";
let text = "";
for await (const part of process.stdin) text += part;
console.log(JSON.stringify(JSON.parse(text).map((strokes) => [...rasterize(strokes, 8, 8)])));
"""
DRAWINGS = 100


def arc(x: float, y: float, wide: float, high: float, start: float, end: float) -> Points:
    """Of an ellipse, from an angle to another: 0 is on its right, 90 below."""
    angles = np.radians(np.linspace(start, end, 24))
    return [(x + wide * np.cos(a), y + high * np.sin(a)) for a in angles.tolist()]


def zero(random: np.random.Generator, wide: tuple[float, float]) -> Points:
    start = random.uniform(-120, -60)
    return arc(0, 0, random.uniform(*wide), 1, start, start - 360 - random.uniform(-15, 15))


def slashed_zero(random: np.random.Generator) -> list[Points]:
    beyond = random.uniform(0.7, 1.2)
    x, y = random.uniform(0.3, 0.7) * beyond, random.uniform(0.5, 0.9) * beyond
    return [zero(random, (0.5, 0.85)), [(x, -y), (-x, y)]]


def narrow_zero(random: np.random.Generator) -> list[Points]:
    return [zero(random, (0.22, 0.45))]


def zero_drawn_over(random: np.random.Generator) -> list[Points]:
    rings = [zero(random, (0.45, 0.8)) for _ in range(random.integers(2, 4))]
    return [[(x + dx, y + dy) for x, y in ring] for ring in rings for dx, dy in [random.uniform(-0.2, 0.2, 2)]]


def nine(random: np.random.Generator) -> tuple[Points, float]:
    wide, high = random.uniform(0.45, 0.65), random.uniform(0.4, 0.5)
    return arc(0, -0.5, wide, high, -random.uniform(20, 60), -360 - random.uniform(0, 10)), wide


def curly_nine(random: np.random.Generator) -> list[Points]:
    loop, wide = nine(random)
    hook, deep = wide * random.uniform(0.8, 1.2), random.uniform(0.35, 0.6)
    tail = arc(wide - hook, 1 - deep, hook, deep, 0, random.uniform(150, 225))
    return [[*loop, *tail]]


def seven_with_a_bar(random: np.random.Generator) -> list[Points]:
    foot = random.uniform(-0.4, 0.0)
    middle = (0.6 + foot) / 2
    return [[(-0.6, -1), (0.6, -1), (foot, 1)], [(middle - 0.4, 0.05), (middle + 0.4, random.uniform(-0.05, 0.05))]]


def one_with_a_foot(random: np.random.Generator) -> list[Points]:
    foot = random.uniform(0.3, 0.5)
    return [[(-0.4, -0.55), (0, -1), (0, 1)], [(-foot, 1), (foot, 1)]]


FORMS: dict[Callable[[np.random.Generator], list[Points]], tuple[int, float]] = {
    slashed_zero: (0, 0.9),
    narrow_zero: (0, 0.9),
    zero_drawn_over: (0, 0.9),
    curly_nine: (9, 0.85),
    seven_with_a_bar: (7, 0.9),
    one_with_a_foot: (1, 0.9),
}


def drawn(form: Callable[[np.random.Generator], list[Points]]) -> list[list[Points]]:
    """By hands that tilt and slant differently."""
    random, all_strokes = np.random.default_rng(0), []
    for _ in range(DRAWINGS):
        strokes, tilt, slant = form(random), np.radians(random.uniform(-8, 8)), random.uniform(-0.05, 0.25)
        turn = np.array([[np.cos(tilt), -np.sin(tilt)], [np.sin(tilt), np.cos(tilt)]]) @ np.array([[1, -slant], [0, 1]])
        all_strokes.append([(np.array(points) @ turn.T * 80 + 100).tolist() for points in strokes])
    return all_strokes


@pytest.fixture(scope="module")
def net():
    return pages.reader_network()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_forms_that_mnist_hardly_has_are_read(net, form):
    digit, at_least = FORMS[form]
    script = RASTERIZE.replace("WEB", SOURCES.as_uri())
    command = [needs("node", "nodejs"), "--input-type=module", "-e", script]
    run = subprocess.run(command, input=json.dumps(drawn(form)), capture_output=True, text=True, timeout=60, check=True)
    images = torch.tensor(json.loads(run.stdout)).reshape(DRAWINGS, 1, 8, 8)
    with torch.no_grad():
        read = net(encode.repeat(images, steps=20))[0].sum(0).argmax(1)
    assert (read == digit).float().mean() >= at_least, read.bincount(minlength=10).tolist()

"""Trains `snnkit/lab/web/reader.pt`, a network that reads drawings: ``python docs/reader.py`` (node, MNIST, 10 min).

The 1442 training digits are few hands, and none of them drew with a mouse. So the digits of MNIST (LeCun and Cortes,
CC BY-SA 3.0) are thinned to lines, and `strokes.js` makes 8 × 8 pixels of these as it does of what a reader draws.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from snnkit import data, encode, loss, models, train

Drawing = list[list[list[float]]]
ROOT = Path(__file__).parents[1]
EPOCHS, STEPS, HIDDEN = 16, 20, 128
DIGITS = 12  # times in an epoch that each of the digits comes up
RASTERIZE = """
import {readFileSync, writeFileSync} from "node:fs";
import {rasterize} from "SOURCES/strokes.js";
const all = JSON.parse(readFileSync("strokes.json", "utf8")), out = new Float32Array(all.length * 64);
all.forEach((strokes, i) => out.set(rasterize(strokes, 8, 8), i * 64));
writeFileSync("pixels.bin", Buffer.from(out.buffer));
"""


def thinned(ink: np.ndarray) -> np.ndarray:
    """Lines one pixel wide of ink [N, H, W] (Zhang and Suen 1984, doi:10.1145/357994.358023)."""
    ink = ink.astype(np.uint8)
    changed = True
    while changed:
        changed = False
        for first in (True, False):
            p = np.pad(ink, ((0, 0), (1, 1), (1, 1)))
            up, right, down, left = p[:, :-2, 1:-1], p[:, 1:-1, 2:], p[:, 2:, 1:-1], p[:, 1:-1, :-2]
            ring = [up, p[:, :-2, 2:], right, p[:, 2:, 2:], down, p[:, 2:, :-2], left, p[:, :-2, :-2]]
            count = sum(ring)
            ends = sum(((a == 0) & (b == 1)).astype(np.uint8) for a, b in zip(ring, [*ring[1:], ring[0]], strict=True))
            open_sides = (up * right * down, right * down * left) if first else (up * right * left, up * down * left)
            peel = (ink == 1) & (count >= 2) & (count <= 6) & (ends == 1) & (open_sides[0] == 0) & (open_sides[1] == 0)
            ink[peel] = 0
            changed |= bool(peel.any())
    return ink


def strokes(images: Tensor) -> list[Drawing]:
    """Lines of each image [N, 1, 28, 28], from each pixel of the thinned ink to its neighbours."""
    large = F.interpolate(images.float(), scale_factor=2, mode="bilinear")[:, 0].numpy()
    thin = np.concatenate([thinned(part > 110) for part in np.array_split(large, max(len(large) // 1000, 1))])
    lines: list[Drawing] = [[] for _ in images]
    for dy, dx in ((0, 1), (1, 0), (1, 1), (1, -1)):
        both = thin & np.roll(thin, (-dy, -dx), (1, 2))
        for i, y, x in np.argwhere(both).tolist():
            lines[i].append([[x, y], [x + dx, y + dy]])
    return lines


def with_flags(lines: list[Drawing], labels: Tensor) -> None:
    """Every other 1 gets the upstroke that many people write, and hardly anybody in MNIST."""
    random = np.random.default_rng(0)
    for i in (labels == 1).nonzero()[::2, 0].tolist():
        points = [point for line in lines[i] for point in line]
        (x, y), bottom = min(points, key=lambda point: point[1]), max(point[1] for point in points)
        back, down = random.uniform(0.15, 0.4) * (bottom - y), random.uniform(0.05, 0.35) * (bottom - y)
        lines[i].append([[x, y], [x - back, y + down]])


def slashed(drawing: Drawing, random: np.random.Generator) -> Drawing:
    (left, top), (right, bottom) = box(drawing)
    low, high = random.uniform(-0.15, 0.3, 2) * (bottom - top)
    inset, outset = random.uniform(-0.15, 0.3, 2) * (right - left)
    return [*drawing, [[right - outset, top + high], [left + inset, bottom - low]]]


def narrow(drawing: Drawing, random: np.random.Generator) -> Drawing:
    (left, top), (right, bottom) = box(drawing)
    share = random.uniform(0.2, 0.5) * (bottom - top) / max(right - left, 1)
    return [[[x * share, y] for x, y in line] for line in drawing]


def drawn_over(drawing: Drawing, random: np.random.Generator) -> Drawing:
    (left, _), (right, _) = box(drawing)
    (dx, dy), middle, share = random.uniform(-4, 4, 2), (left + right) / 2, random.uniform(0.7, 1.2)
    return drawing + [[[middle + share * (x - middle) + dx, y + dy] for x, y in line] for line in drawing]


def curled(drawing: Drawing, random: np.random.Generator) -> Drawing:
    """With a tail that turns to the left, and up."""
    (left, top), (right, bottom) = box(drawing)
    x, y = max((point for line in drawing for point in line), key=lambda point: point[1])
    wide, deep = random.uniform(0.3, 0.7) * (right - left), random.uniform(0.15, 0.35) * (bottom - top)
    angles = np.radians(np.linspace(0, random.uniform(90, 225), 12))
    return [*drawing, [[x - wide + wide * np.cos(a), y + deep * np.sin(a)] for a in angles.tolist()]]


# Forms that many people write, and few of those whose digits are in MNIST.
FORMS: tuple[tuple[int, Callable[[Drawing, np.random.Generator], Drawing]], ...] = (
    (0, slashed),
    (0, narrow),
    (0, drawn_over),
    (9, curled),
    (9, curled),  # twice: of all it is the one most often misread, as an 8
)


def box(drawing: Drawing) -> tuple[np.ndarray, np.ndarray]:
    """Its corners at the upper left and at the lower right."""
    points = np.array([point for line in drawing for point in line])
    return points.min(0), points.max(0)


def other_forms(lines: list[Drawing], labels: Tensor) -> tuple[list[Drawing], Tensor]:
    """Each in FORMS, of a quarter of the drawings of its digit; drawings and labels."""
    random, drawings, digits = np.random.default_rng(1), [], []
    for digit, form in FORMS:
        at = (labels == digit).nonzero()[:, 0].numpy()
        for i in random.choice(at, len(at) // 4, replace=False).tolist():
            drawings.append(form(lines[i], random))
            digits.append(digit)
    return drawings, torch.tensor(digits)


def as_drawn(split: str) -> tuple[Tensor, Tensor]:
    """The images of MNIST as the page would make them of drawings, uint8 [N, 1, 8, 8], and their labels."""
    images, labels = data.load("mnist", split)
    with tempfile.TemporaryDirectory() as folder:
        lines = strokes(images)
        if split == "train":
            more, digits = other_forms(lines, labels)
            with_flags(lines, labels)
            lines, labels = lines + more, torch.cat([labels, digits])
        (Path(folder) / "strokes.json").write_text(json.dumps(lines))
        (Path(folder) / "run.mjs").write_text(RASTERIZE.replace("SOURCES", (ROOT / "js" / "src").as_uri()))
        subprocess.run(["node", "run.mjs"], cwd=folder, check=True)
        pixels = np.fromfile(Path(folder) / "pixels.bin", dtype=np.float32).reshape(-1, 1, 8, 8)
    return torch.from_numpy((pixels * 255).round().clip(0, 255).astype(np.uint8)), labels


def main() -> None:
    train.seed_everything(0)
    torch.set_num_threads(1)
    drawn, test = as_drawn("train"), as_drawn("test")
    digits, digits_test = data.load("digits", "train"), data.load("digits", "test")
    images, labels = (torch.cat([a, *[b] * DIGITS]) for a, b in zip(drawn, digits, strict=True))
    net, code = models.mlp((64, HIDDEN, 10)), partial(encode.repeat, steps=STEPS)
    for name, parameter in net.named_parameters():
        if name.endswith("bias"):  # no input, no spikes
            torch.nn.init.zeros_(parameter.requires_grad_(False))
    optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=5e-3)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    how = {"optimizer": optimizer, "scheduler": cosine, "batch_size": 128, "progress": False}
    train.fit(net, (images, labels), encode=code, loss=loss.count_cross_entropy, epochs=EPOCHS, **how)
    right = [train.evaluate(net, part, encode=code)["accuracy"] for part in (test, digits_test)]
    print(f"{right[0]:.4f} of MNIST's test images as drawings, {right[1]:.4f} of the digits' test images")
    train.save_checkpoint(ROOT / "snnkit" / "lab" / "web" / "reader.pt", net, epoch=EPOCHS)


if __name__ == "__main__":
    main()

"""Draws docs/neuron_lab.gif, the moving picture of the README: the neuron lab while its first slider moves.

    python docs/moving_picture.py [FILE.gif]

The figures are those of ``viz.labs.neuron_lab``, drawn by the kit's own PNG renderer, with a slider below.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from PIL import Image, ImageDraw

from snnkit import viz

CURRENTS = [round(0.8 + 0.2 * step, 1) for step in range(12)]
WIDTH, COLOURS, MILLISECONDS, REST = 640, 16, 220, 900
SLIDER = 70  # pixels below the figure


def picture(start: int) -> Image.Image:
    """The lab with its slider at the value of this number."""
    figure = viz.labs.neuron_lab.figure(current=CURRENTS[start], noise=0.3)
    drawn = Image.open(io.BytesIO(viz.png_bytes(figure))).convert("RGBA")
    paper = Image.new("RGBA", (drawn.width, drawn.height + SLIDER), "white")
    paper.alpha_composite(drawn)
    pen, y, (left, right) = ImageDraw.Draw(paper), drawn.height + SLIDER // 2, (62, drawn.width - 30)
    knob = left + (right - left) * start / (len(CURRENTS) - 1)
    pen.text((left, y - 30), f"current = {CURRENTS[start]}", fill=viz.theme.TEXT)
    pen.line([(left, y), (right, y)], fill="#bbbbbb", width=6)
    pen.ellipse([knob - 9, y - 9, knob + 9, y + 9], fill=viz.theme.BLUE)
    return paper.convert("RGB").resize((WIDTH, round(WIDTH * paper.height / paper.width)), Image.Resampling.LANCZOS)


def main(target: Path) -> None:
    rising = [picture(start) for start in range(len(CURRENTS))]
    # One palette for all, so that colours stand still; that of a frame with everything in it.
    palette = rising[-1].quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    frames = [one.quantize(palette=palette, dither=Image.Dither.NONE) for one in [*rising, *reversed(rising[1:-1])]]
    pauses = [REST if index in (0, len(rising) - 1) else MILLISECONDS for index in range(len(frames))]
    frames[0].save(target, save_all=True, append_images=frames[1:], duration=pauses, loop=0, optimize=True)
    print(f"{target}: {len(frames)} frames, {target.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("neuron_lab.gif"))

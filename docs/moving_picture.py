"""Draws docs/neuron_lab.gif, the moving picture of the README: the neuron lab while its first slider moves.

    python docs/moving_picture.py [FILE.gif]

The figures are those of ``viz.labs.neuron_lab``, drawn by the kit's own PNG renderer, slider included.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path

from PIL import Image

from snnkit import viz
from snnkit.viz.frame_slider import framed

CURRENTS = [round(0.8 + 0.2 * step, 1) for step in range(12)]
WIDTH, COLOURS, MILLISECONDS, REST = 640, 16, 220, 900


def picture(start: int) -> Image.Image:
    """The lab with its slider at the value of this number."""
    page = framed(
        [viz.labs.neuron_lab.figure(current=current, noise=0.3) for current in CURRENTS], "current", CURRENTS, start
    )
    drawn = Image.open(io.BytesIO(viz.png_bytes(page))).convert("RGBA")
    paper = Image.new("RGBA", drawn.size, "white")
    paper.alpha_composite(drawn)
    return paper.convert("RGB").resize((WIDTH, round(WIDTH * drawn.height / drawn.width)), Image.Resampling.LANCZOS)


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

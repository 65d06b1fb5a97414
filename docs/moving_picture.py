"""Records docs/neuron_explorer.gif, the moving picture of docs/features.md: a mark on a curve is dragged.

    python docs/moving_picture.py [FILE.gif]

The neuron explorer runs in chromium, and playwright drags the mark.
"""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from snnkit.lab import viz

STEPS, WAY = 14, 11  # pixels of the way from one picture to the next
WIDTH, HEIGHT, SHOWN, COLOURS, MILLISECONDS, REST = 860, 690, 640, 24, 160, 900


def pictures() -> list[Image.Image]:
    """The explorer from a current of 0.8 up."""
    page_of = '<!DOCTYPE html><meta charset="utf-8"><body style="margin:12px">{}</body>'
    taken = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.set_content(page_of.format(viz.explorers.neuron().html()))
        page.wait_for_selector(".headline:not(:empty)")
        page.evaluate("Object.values(snnkitExplorers)[0].set({current: 0.8, noise: 0.3})")
        page.wait_for_timeout(200)
        box = page.locator(".knob").bounding_box()
        assert box is not None
        page.mouse.move(box["x"], box["y"])
        page.mouse.down()
        for step in range(STEPS):
            page.mouse.move(box["x"] + WAY * step, box["y"])
            page.wait_for_timeout(60)
            shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            taken.append(shot.resize((SHOWN, SHOWN * HEIGHT // WIDTH), Image.Resampling.LANCZOS))
        browser.close()
    return taken


def main(target: Path) -> None:
    rising = pictures()
    # One palette for all, so that colours stand still; that of a frame with everything in it.
    palette = rising[-1].quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    frames = [one.quantize(palette=palette, dither=Image.Dither.NONE) for one in [*rising, *reversed(rising[1:-1])]]
    pauses = [REST if index in (0, len(rising) - 1) else MILLISECONDS for index in range(len(frames))]
    frames[0].save(target, save_all=True, append_images=frames[1:], duration=pauses, loop=0, optimize=True)
    print(f"{target}: {len(frames)} frames, {target.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("neuron.gif"))

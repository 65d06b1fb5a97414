"""``python docs/drawings.py``: puts the style into the drawings of the notebooks, and makes the pictures of them.

Notebooks hold a drawing as WebP within the text of a cell: that is what GitHub, Colab, JupyterLab and VS Code show,
before anything has run and without a network. Colab ignores attachments and cannot follow relative links; several of
these viewers refuse SVG within a text. An SVG would also be wrong in JupyterLab: it has the scheme of the system or of
the CSS property color-scheme, and JupyterLab sets none, whatever its theme is. So a picture is a light card with round
corners, which can be read on every page. What can tell that the page is dark makes the card dark, too, by
snnkit/lab/web/drawings.css: JupyterLab from the first cell that runs, and our own pages and slides. GitHub and VS Code
let nothing reach the page around a text, and Colab keeps outputs in frames: there the card stays light.
The site shows the SVG itself, which has colours for dark pages and follows the scheme that the site has chosen.
"""

import hashlib
import io
import re
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from snnkit.lab.viz import concepts

FOLDER = Path(__file__).parents[1] / "notebooks" / "drawings"
COLOURS = ("ink", "muted", "blue", "vermilion", "green", "orange", "purple", "sky", "crimson")
HUES = re.compile(rf"\b(soft-)?(?:{'|'.join(COLOURS[1:])}|dim)\b")
ARROW = '<marker id="{0}" viewBox="0 0 10 10" refX="5" refY="5" markerWidth="11" markerHeight="11" '
ARROW += 'markerUnits="userSpaceOnUse" orient="auto-start-reverse"><path class="{0}" d="M0 1 10 5 0 9z"/></marker>'
NARROW = 'text:not(.it):not(.mono) { font-family: "DejaVu Sans Condensed", sans-serif; }'


def main(names: list[str]) -> None:
    style = (FOLDER / "style.css").read_text("utf-8")
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as playwright:
        chrome = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        for path in sorted(FOLDER.glob("*.svg")):
            if names and path.stem not in names:
                continue
            text = re.sub(r"(?s)<style>.*?</defs>", "<style></style><defs></defs>", path.read_text("utf-8"), count=1)
            text = in_colours_of_the_course(text)
            arrows = "\n".join(ARROW.format(colour) for colour in COLOURS if f"url(#{colour})" in text)
            text = text.replace(
                "<style></style><defs></defs>", f"<style>\n{style}</style>\n<defs>\n{arrows}\n</defs>", 1
            )
            path.write_text(text, "utf-8")
            width, height = map(int, re.findall(r' (?:width|height)="(\d+)"', text)[:2])
            page = chrome.new_page(viewport={"width": width, "height": height}, device_scale_factor=2)
            page.set_content(f"<style>body {{ margin: 0; }}</style>{text.replace(style, style + NARROW)}")
            shot = Image.open(io.BytesIO(page.screenshot(omit_background=True)))
            few = with_few_colours(shot.convert("RGB")).convert("RGBA")
            few.putalpha(shot.getchannel("A"))
            mark = hashlib.sha256(text.encode()).hexdigest().encode()  # by which `snnkit build` sees that they fit
            few.save(path.with_suffix(".webp"), lossless=True, quality=100, method=6, xmp=mark)
            print(path.name, path.with_suffix(".webp").stat().st_size)
        chrome.close()


def in_colours_of_the_course(text: str) -> str:
    """Each element with ``data-is="CONCEPT"`` gets the hue of that concept, instead of the one in its class."""

    def coloured(match: re.Match[str]) -> str:
        hue = concepts.hue(match[1])
        return HUES.sub(lambda old: (old[1] or "") + ("dim" if hue == "grey" else hue), match[0])

    # Within the quotes of class and marker-end, not in the concept's own name.
    return re.sub(r'<[^>]*data-is="([^"]+)"[^>]*>', coloured, text)


def with_few_colours(image: Image.Image, many: int = 24) -> Image.Image:
    """The most frequent colours stay, which are those of the areas; others, at edges, become the nearest of them."""
    colours = sorted(image.getcolors(2**24), reverse=True)[:many]
    palette = Image.new("P", (1, 1))
    palette.putpalette([part for _, colour in colours for part in colour])
    return image.quantize(palette=palette, dither=Image.Dither.NONE)


if __name__ == "__main__":
    main(sys.argv[1:])

"""The site: pages and executed notebooks copied into a folder, and Sphinx with ``docs/conf.py`` over it.

Its pages need no kernel and no server: the plotly.js beside them draws figures, and formulas are MathML.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from html import escape, unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snnkit import checks, files
from snnkit.lab.pages import web
from snnkit.lab.tools.project import Project, ProjectError

if TYPE_CHECKING:
    from nbformat import NotebookNode

_EMBEDDED = re.compile(r'<img (?:width="\d+" )?alt="([^"]*)" src="data:[^"]*" data-file="([^"]*)">')
WIDGET, PLOT = "application/vnd.jupyter.widget-view+json", "application/vnd.plotly.v1+json"
# In TeX, what latex2mathml has no answer to; in its MathML, what TeX sets otherwise.
_UNKNOWN = {
    r"\\tag\{.*?\}|\\[bB]igg?[lr]?(?=\\[{}])": "",
    r"\\operatorname\*?": r"\\mathrm",
    ":=": "≔",
    r"\\arg(?![a-z])": r"\\mathrm{arg}\\,",
}
_OTHERWISE = {
    r"<mi>(&#x0039[0-9A-F];|&#x003A[0-9];)</mi>": r'<mi mathvariant="normal">\1</mi>',
    "<mo>(/|&#x0002F;)</mo>": '<mo lspace="0" rspace="0">/</mo>',
    # A label of an arrow: MathML Core, which browsers have, knows no width that is "+0.833em" more than that within.
    r'<mpadded width="\+[^>]*>(.*?)<mspace depth=".25em" /></mpadded>': r"\1",
    # An arrow that is long in every font; in some, one that is stretched loses its head.
    '<mstyle scriptlevel="0"><mo>&#x2192;</mo></mstyle>': '<mo stretchy="false">&#x27F6;</mo>',
    # Thin spaces around names of functions.
    r"(</m(?:i|n|su[bp]|frac)>)(?=<mi>(?:ln|log|exp)</mi>)": r'\1<mspace width="0.167em" />',
    r"(?<!<msu[bp]>)(<mi>(?:ln|log|exp)</mi>)(?=<m(?:i|n|su[bp]|frac|row|sqrt|text)>)": r'\1<mspace width="0.167em" />',
}
_COLAB = re.compile(r"\]\((https://colab\.research\.google\.com/[^)]*)\)")
COLAB = "<a>Colab</a>"  # in what `viz.explore` says where there is no kernel
_NARROW, _LINE = 400, 50  # a drawing for phones: its width, and the letters of its lines
SCRIPT = "figures.js"  # it loads plotly.min.js from its own folder


@checks.arguments
def scripts() -> dict[str, str]:
    """What pages with figures need in one folder: file name to text. The second is 4.5 MB, once for all pages."""
    from plotly.offline import get_plotlyjs

    return {SCRIPT: web.bundle(SCRIPT), "plotly.min.js": get_plotlyjs()}


@checks.arguments
def read(path: Path) -> NotebookNode:
    """An executed notebook whose plots are living figures, and without the widgets that only a kernel can show.

    What says that it needs a kernel leads to where its badge leads to.
    """
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    notebook.metadata.pop("widgets", None)
    badge = next(filter(None, (_COLAB.search(cell.source) for cell in notebook.cells)), None)
    for cell in notebook.cells:
        shown = []
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if data.pop(WIDGET, None) is not None and not {"image/png", "text/html"} & data.keys():
                continue
            if (plot := data.pop(PLOT, None)) is not None:
                data["text/html"] = _figure(plot, data.pop("image/png", ""))
            if badge and "text/html" in data:
                data["text/html"] = data["text/html"].replace(COLAB, f'<a href="{escape(badge[1])}">Colab</a>')
            shown.append(output)
        if cell.cell_type == "code":
            cell.outputs = shown
            if cell.metadata.get("jupyter", {}).get("source_hidden"):
                cell.metadata["tags"] = [*cell.metadata.get("tags", []), "hide-input"]
        else:
            words = badges_in_words(cell.source)
            cell.source = words.replace("<details>", "<details open>")  # on a page there is nothing to predict
    return notebook


@checks.arguments
def badges_in_words(markdown: str) -> str:
    """Markdown with words instead of pictures from other servers."""
    return re.sub(r"!\[([^\]]*)\]\(https?://[^)]*\)", r"\1", markdown)


def _figure(plot: NotebookNode, png: str) -> str:
    """A place of the figure's height, so that nothing moves when it is drawn; the PNG for browsers without scripts."""
    layout = plot.setdefault("layout", {})
    layout.pop("width", None)  # as wide as the page
    height = layout.setdefault("height", 380)
    image = f'<noscript><img alt="" src="data:image/png;base64,{escape("".join(png.split()))}"></noscript>' * bool(png)
    held = json.dumps(plot, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    style = f"margin:0;width:100%;min-height:{height}px"
    return f'<figure class="snn-figure" style="{style}"><script type="application/json">{held}</script>{image}</figure>'


@checks.arguments
def formula(text: str, *, block: bool = False) -> str:
    """TeX as MathML, which browsers draw by themselves.

    Raises:
        ModuleNotFoundError: latex2mathml is not installed.
        ValueError: there is nothing to write.
    """
    from latex2mathml.converter import convert

    if not text.strip():
        raise ValueError(f"text must be TeX, but it is {text!r}")
    tag = re.search(r"\\tag\{(.*?)\}", text)
    for pattern, instead in _UNKNOWN.items():
        text = re.sub(pattern, instead, text)
    made = convert(text.strip(), display="block" if block else "inline")
    for pattern, instead in _OTHERWISE.items():
        made = re.sub(pattern, instead, made)
    if not block:
        return made
    number = f'<span class="eqno">({escape(tag[1])})</span>' if tag else ""
    return f'<div class="snn-formula">{number}{made}</div>'


@checks.arguments
def glued(page: str) -> str:
    """HTML whose formulas within a text stay on one line with the comma, full stop or bracket beside them."""
    formula = '<math[^>]*display="inline"[^>]*>.*?</math>'
    return re.sub(
        rf'(?s)([(“]*)(<span class="math inline">{formula}</span>|{formula})([.,;:!?)”’]*)',
        lambda match: f'<span style="white-space: nowrap">{match[0]}</span>' if match[1] or match[3] else match[0],
        page,
    )


@checks.arguments
def narrow(drawing: str, rows: Sequence[Any]) -> str:
    """A drawing for a phone: parts of it one below the other, in the size they have there.

    Args:
        drawing: SVG with its definitions before the picture, as `python docs/drawings.py` leaves it.
        rows: of each row the parts beside one another, ``[x, y, width, height]`` in the drawing, or how a text of it
            begins, which is wrapped.

    Raises:
        ValueError: no text of the drawing begins so, or it has no definitions.
    """
    head, _, body = drawing.partition("</defs>")
    if body.count("\n") < 2:
        raise ValueError("drawing must be SVG with its definitions before the lines of the picture, but it is not")
    paper, body = body.split("\n", 2)[1:]  # the first of its elements is behind all others
    texts = [unescape(re.sub("<.*?>", "", text)) for text in re.findall("(?s)<text.*?</text>", body)]
    y, made = 12.0, list[str]()
    for row in rows:
        if isinstance(row, str):
            if (whole := next((text for text in texts if text.startswith(row)), None)) is None:
                raise ValueError(f"rows must name a text of the drawing, but none begins with {row!r}")
            even = len(whole) // -(-len(whole) // _LINE) + 6
            for line in textwrap.wrap(whole, even):
                made.append(f'<text class="small mid" x="{_NARROW / 2:g}" y="{y + 14:g}">{escape(line)}</text>')
                y += 20
        else:
            width = sum(part[2] for part in row)
            scale = min(1.0, (_NARROW - 20) / width)
            x = (_NARROW - scale * width) / 2
            for left, top, wide, high in row:
                place = f'x="{x:.1f}" y="{y:.1f}" width="{scale * wide:.1f}" height="{scale * high:.1f}"'
                made.append(f'<svg {place} viewBox="{left} {top} {wide} {high}"><use href="#all"/></svg>')
                x += scale * wide
            y += scale * max(part[3] for part in row)
        y += 10
    size = f'width="{_NARROW}" height="{y:.0f}" viewBox="0 0 {_NARROW} {y:.0f}"'
    head = re.sub(r'width="\d+" height="\d+" viewBox="[^"]*"', size, head, count=1)
    paper = re.sub(r'width="\d+" height="\d+"', f'width="{_NARROW - 2}" height="{y - 2:.0f}"', paper)
    whole = f'<g id="all">{body.removesuffix("</svg>").rstrip().removesuffix("</svg>")}</g>'
    return "\n".join([f"{head}{whole}</defs>", paper, *made, "</svg>\n"])


def build(project: Project, out: Path, copies: Path, echo: Callable[[str], None] = print) -> Path:
    """The site's first page, ``out/html/index.html``. A former site is replaced only by one without a fault.

    Args:
        copies: folder of the notebooks to show, as ``snnkit run`` leaves it, or the project's own.
        echo: gets a line for each step.

    Raises:
        ProjectError: a notebook is missing there, or Sphinx warns: also of links within the site that lead nowhere.
    """
    if missing := [name for name in project.names() if not (copies / f"{name}.ipynb").is_file()]:
        raise ProjectError(f"not in {copies}: {', '.join(missing)}; `snnkit run` makes executed notebooks")
    source, fresh = out / "source", out / "html.new"
    shutil.rmtree(source, ignore_errors=True)
    shutil.rmtree(fresh, ignore_errors=True)
    _stage(project, copies, source)
    echo("building the pages")
    # In a process of its own: Sphinx changes locale, warnings and logging of the one it runs in.
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going"]
    places = ["-c", str(project.root / "docs"), "-d", str(out / "doctrees"), str(source), str(fresh)]
    done = subprocess.run([*command, *places], capture_output=True, text=True)
    if done.returncode:
        missing = "No module named" in done.stderr
        why = f"needs Sphinx: {checks.pip_install('site')}" if missing else "has faults"
        raise ProjectError(f"the site {why}:\n{done.stderr.strip()}")
    shutil.copyfile(fresh / "README.html", fresh / "index.html")
    for name, text in scripts().items():
        files.write_text(fresh / "_static" / name, text)
    shutil.rmtree(out / "html", ignore_errors=True)
    fresh.rename(out / "html")
    return out / "html" / "index.html"


def _stage(project: Project, copies: Path, folder: Path) -> None:
    """Copy the pages to the places that they have in the project, with the pictures in ``docs``."""
    import nbformat

    pages = [path for path in (project.root / "workshop").rglob("*.md") if "solutions" not in path.parts]
    pages += [project.root / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")]
    pages += [path for path in (project.root / "docs").glob("*") if path.suffix in (".png", ".gif", ".md")]
    for path in pages:
        target = folder / path.relative_to(project.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        if path.suffix == ".md":
            target.write_text(badges_in_words(path.read_text("utf-8")), encoding="utf-8")
    (folder / "notebooks").mkdir()
    if (drawings := project.notebooks / "drawings").is_dir():
        shutil.copytree(
            drawings, folder / "notebooks" / "drawings", ignore=shutil.ignore_patterns("*.webp", "*.css", "*.json")
        )
    for name in project.names():
        notebook = read(copies / f"{name}.ipynb")
        for cell in notebook.cells:  # the drawing itself, which has colours for dark pages, too
            cell.source = _EMBEDDED.sub(r"![\1](\2)", cell.source)
        nbformat.write(notebook, folder / "notebooks" / f"{name}.ipynb")

"""Pages without a kernel or a server: the plotly.js beside them draws figures, and formulas are MathML."""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from snnkit import checks
from snnkit.export import web

if TYPE_CHECKING:
    from nbformat import NotebookNode

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
}
SCRIPT = "figures.js"  # it loads plotly.min.js from its own folder


@checks.arguments
def scripts() -> dict[str, str]:
    """What pages with figures need in one folder: file name to text. The second is 4.5 MB, once for all pages."""
    from plotly.offline import get_plotlyjs

    return {SCRIPT: web.read(SCRIPT), "plotly.min.js": get_plotlyjs()}


@checks.arguments
def read(path: Path) -> NotebookNode:
    """An executed notebook whose plots are living figures, and without the widgets that only a kernel can show."""
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        shown = []
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if data.pop(WIDGET, None) is not None and not {"image/png", "text/html"} & data.keys():
                continue
            if (plot := data.pop(PLOT, None)) is not None:
                data["text/html"] = _figure(plot, data.pop("image/png", ""))
            shown.append(output)
        if cell.cell_type == "code":
            cell.outputs = shown
            if cell.metadata.get("jupyter", {}).get("source_hidden"):
                cell.metadata["tags"] = [*cell.metadata.get("tags", []), "hide-input"]
        else:
            cell.source = badges_in_words(cell.source)
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

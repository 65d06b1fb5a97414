"""Slides from the cells of a notebook that are tagged for it, as one page without anything from a network.

A cell tagged ``slide`` begins a slide, one tagged ``slide-more`` goes on with it. Of code cells the outputs are shown;
``slide-code`` beside one of these tags shows the code, too.
"""

from __future__ import annotations

from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from .problem import WorkshopError

if TYPE_CHECKING:
    from nbformat import NotebookNode

NEW, MORE, CODE = "slide", "slide-more", "slide-code"


def html(notebook: NotebookNode, name: str) -> str:
    """The page.

    Raises:
        WorkshopError: no cell is tagged, the first tagged one goes on with a slide that is not there, or a tagged code
            cell has nothing to show; it names the notebook and the cell.
    """
    written = _markdown()
    slides: list[list[str]] = []
    for number, cell in enumerate(notebook.cells):
        tags = set(cell.metadata.get("tags", ()))
        if not tags & {NEW, MORE}:
            continue
        if MORE in tags and NEW not in tags and not slides:
            raise WorkshopError(f"{name}, cell {number}: {MORE!r} goes on with a slide, but none is before it")
        parts = [written.render(cell.source)] if cell.cell_type == "markdown" else _code(cell, CODE in tags)
        if not parts:
            raise WorkshopError(f"{name}, cell {number}: is to be on a slide, but has no picture, text or {CODE!r}")
        if NEW in tags:
            slides.append([])
        slides[-1] += parts
    if not slides:
        raise WorkshopError(f"{name}: no cell is tagged {NEW!r}")
    title = _title(notebook) or name
    body = "\n".join(f"<section>\n{''.join(parts)}</section>" for parts in slides)
    page = resources.files("snnkit.workshop").joinpath("slides.html").read_text(encoding="utf-8")
    return Template(page).substitute(title=escape(title), slides=body, name=escape(name))


def read(path: Path) -> NotebookNode:
    """An executed copy. WorkshopError where there is none."""
    import nbformat

    try:
        return nbformat.read(path, as_version=4)
    except (OSError, nbformat.reader.NotJSONError) as error:
        raise WorkshopError(f"no executed copy at {path}: run `snnkit run` first ({error})") from None


def _markdown() -> Any:
    """A renderer whose formulas become MathML, which browsers draw by themselves."""
    try:
        from latex2mathml.converter import convert
        from markdown_it import MarkdownIt
        from mdit_py_plugins.dollarmath import dollarmath_plugin
    except ImportError:
        raise WorkshopError("slides need markdown-it-py and latex2mathml: pip install 'snnkit[site]'") from None

    def formula(text: str, options: dict[str, Any]) -> str:
        return convert(text, display="block" if options["display_mode"] else "inline")

    return MarkdownIt("commonmark").enable("table").use(dollarmath_plugin, renderer=formula, double_inline=True)


def _code(cell: NotebookNode, with_source: bool) -> list[str]:
    parts = [f"<pre><code>{escape(cell.source)}</code></pre>"] if with_source else []
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        if "image/png" in data:
            told = output.get("metadata", {}).get("image/png", {}).get("alt", "")
            encoded = "".join(data["image/png"].split())
            parts.append(f'<img alt="{escape(told)}" src="data:image/png;base64,{encoded}">')
        elif output.output_type == "stream" and output.name == "stdout":
            parts.append(f"<pre>{escape(output.text)}</pre>")
    return parts


def _title(notebook: NotebookNode) -> str:
    lines = (line for cell in notebook.cells if cell.cell_type == "markdown" for line in cell.source.splitlines())
    return next((line.removeprefix("# ").strip() for line in lines if line.startswith("# ")), "")

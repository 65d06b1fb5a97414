"""Pages for a room: the cheatsheet for a printer, slides from tagged cells, and notebooks with their solutions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snnkit import checks
from snnkit.tools import run_report, runner, static_pages
from snnkit.tools.project import Project

from .timetable import WorkshopError

if TYPE_CHECKING:
    from nbformat import NotebookNode

CHEATSHEET = "workshop/cheatsheet.md"
SLIDE, MORE, CODE = "slide", "slide-more", "slide-code"
_KEY = re.compile(r'\battempt\(\s*"(\d\d\.\d+)"')


def _page(template: str, **values: Any) -> str:
    """A page without anything from a network, from a template beside this file."""
    from jinja2 import Environment

    text = resources.files("snnkit.workshop").joinpath(template).read_text(encoding="utf-8")
    return Environment(autoescape=True).from_string(text).render(**values)


def cheatsheet(root: Path) -> str:
    """The cheatsheet of the project in ``root`` as a page. Raises OSError where there is none."""
    from markdown_it import MarkdownIt

    text = (root / CHEATSHEET).read_text(encoding="utf-8")
    body = MarkdownIt("commonmark").enable("table").render(text)
    return _page("cheatsheet.html.j2", title=text.partition("\n")[0].lstrip("# "), body=body)


def slides(path: Path) -> str:
    """Slides from an executed notebook: a cell tagged ``slide`` begins one, one tagged ``slide-more`` continues it.

    Of code cells the outputs are shown; ``slide-code`` beside one of these tags shows the code, too. (Slides of
    nbconvert would load reveal.js from a network.) Raises WorkshopError, naming the notebook and the cell.
    """
    import nbformat

    try:
        notebook = nbformat.read(path, as_version=4)
    except (OSError, nbformat.reader.NotJSONError) as error:
        raise WorkshopError(f"no executed copy at {path}: run `snnkit run` first ({error})") from None
    markdown, name = _markdown(), path.stem
    made: list[list[str]] = []
    for number, cell in enumerate(notebook.cells):
        tags = set(cell.metadata.get("tags", ()))
        if not tags & {SLIDE, MORE}:
            continue
        if SLIDE in tags or not made:
            made.append([])
        parts = [markdown.render(cell.source)] if cell.cell_type == "markdown" else _outputs(cell, CODE in tags)
        if not parts:
            raise WorkshopError(f"{name}, cell {number}: is to be on a slide, but has no picture, text or {CODE!r}")
        made[-1] += parts
    if not made:
        raise WorkshopError(f"{name}: no cell is tagged {SLIDE!r}")
    texts = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    title = re.search(r"(?m)^# (.+)", texts)
    return _page("slides.html.j2", title=title[1].strip() if title else name, slides=["".join(one) for one in made])


def _markdown() -> Any:
    """A renderer whose formulas become MathML, which browsers draw by themselves."""
    try:
        import latex2mathml  # noqa: F401
        from markdown_it import MarkdownIt
        from mdit_py_plugins.dollarmath import dollarmath_plugin
    except ImportError:
        raise WorkshopError(f"slides need markdown-it-py and latex2mathml: {checks.pip_install('site')}") from None

    def formula(text: str, options: dict[str, Any]) -> str:
        return static_pages.formula(text, block=options["display_mode"])

    return MarkdownIt("commonmark").enable("table").use(dollarmath_plugin, renderer=formula, double_inline=True)


def _outputs(cell: NotebookNode, with_source: bool) -> list[str]:
    parts = [f"<pre><code>{escape(cell.source)}</code></pre>"] if with_source else []
    for output in cell.get("outputs", ()):
        png, page = (output.get("data", {}).get(kind) for kind in ("image/png", "text/html"))
        if page and 'class="snn explorer"' in page:  # it lives on a slide, too
            parts.append(page)
        elif png is not None:
            alt = output.get("metadata", {}).get("image/png", {}).get("alt", "")
            parts.append(f'<img alt="{escape(alt)}" src="data:image/png;base64,{"".join(png.split())}">')
        elif output.output_type == "stream" and output.name == "stdout":
            parts.append(f"<pre>{escape(output.text)}</pre>")
    return parts


def solutions(project: Project, names: Sequence[str], out: Path, echo: Callable[[str], None]) -> list[str]:
    """Run notebooks, each exercise with its solution, checks and hints; ``out/notebooks`` and ``out/html`` get copies.

    Returns those that failed, be it a check of an exercise that its own solution does not pass, with cell and error.
    """
    jobs = runner.prepare(project, names, {}, solve=True)
    for job in jobs:
        job.notebook.cells = annotated(job.notebook)
    folder = runner.output_folder(project, out)

    def note(result: runner.Result) -> None:
        echo(f"{result.name}: {result.status}, {result.seconds:.0f} s")
        run_report.render_copy(folder, result.name)

    results = runner.execute_all(project, jobs, folder, on_result=note)
    return [str(one) for one in results if one.status != "ok"]


def annotated(notebook: NotebookNode) -> list[NotebookNode]:
    """The cells of a notebook, with a page for the instructor after each exercise."""
    import nbformat

    from snnkit.course import attempts
    from snnkit.course import exercise as registry

    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        for key in _KEY.findall(cell.source) if cell.cell_type == "code" else ():
            exercise = registry.find(key)
            checks = "\n".join(f"1. {check.name}" for check in exercise.checks)
            hints = "\n".join(f"1. {hint}" for hint in exercise.hints)
            page = nbformat.v4.new_markdown_cell(
                f"> **For the instructor: {exercise.key} {exercise.title}** ({exercise.minutes} minutes)\n\n"
                f"```python\n{attempts.source(exercise)}\n```\n\n"
                f"What is checked, in this order:\n\n{checks}\n\nThe hints, as they open:\n\n{hints}"
            )
            page.id = f"solution-{key.replace('.', '-')}"
            cells.append(page)
    return cells


checks.all_arguments(__name__)

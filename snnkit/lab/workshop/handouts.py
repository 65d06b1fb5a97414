"""Pages for a room: the cheatsheet for a printer, slides from tagged cells, and notebooks with their solutions."""

from __future__ import annotations

import ast
import base64
import io
import re
from collections.abc import Callable, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from snnkit import checks
from snnkit.lab.course import question
from snnkit.lab.pages import web
from snnkit.lab.tools import run_report, runner, site
from snnkit.lab.tools.project import Project
from snnkit.lab.workshop.timetable import WorkshopError

if TYPE_CHECKING:
    from nbformat import NotebookNode

CHEATSHEET = "workshop/cheatsheet.md"
SLIDE, MORE, CODE = "slide", "slide-more", "slide-code"
MOST_WORDS, MOST_LINES, WITH_CODE = 60, 14, 20  # of text, of printed lines, and of these with those of code
BESIDE = 5  # of printed lines beside a figure; and a sign that there are more: slides.html.j2 has room for 6
_SHOWING = ("viz.show(", "viz.explore(", "viz.embed(", "viz.explorers.", "print(")
_SECTION = re.compile(r"(?m)^(?=#{1,4} )")
_ITEM = re.compile(r"\n(?=(?:>? ?[-*]|>? ?\d+\.) )")
_LEAD = re.compile(r"(?:> ?)?(?:[-*] |\d+\. )?\s*(?:\*\*[^*]+\*\*\s*)?")
_SENTENCE = re.compile(r"(?:(?<=[.!?])|(?<=[.!?]\*\*)|(?<=[.!?][)*\"]))\s+(?=(?:> )?[A-Z*`$\"(])")
_STAYS = re.compile(r"(?:> ?)?\*\*Predict first|#|\||!\[|<img|```")
_SOURCE = re.compile(r"(?<=[\w.,;:)]) \[\d+\](?!\()")
_EQUATION, _TAG = re.compile(r"\$\$.+?\$\$", re.DOTALL), re.compile(r"\\tag\{(\w+)\}")
_CITED = re.compile(r"(?:[Ee]quations?|[Rr]ules?|and|or|by|of|in|that|does) \((\d+)\)")
_FOLDED = re.compile(r"<details>\n<summary><b>(.*?)</b></summary>\n\n(.*?)\n\n</details>", re.DOTALL)
_DRAWING = re.compile(r"(?m)^<img .*>\n*")
_KEY = re.compile(r'\battempt\(\s*"(\w+\.\d+)"')
_ASKED = re.compile(r'(?m)^predict\("(\w+\.\w+)"')
_LOOK = "What do you see, and what did you expect?"  # where there is no prediction
_SHARP = 1280 / 700  # a slide is so much wider than a figure
_DARK = "screen and (prefers-color-scheme: dark)"  # as in slides.html.j2


def _page(template: str, **values: Any) -> str:
    """A page without anything from a network, from a template beside this file."""
    from jinja2 import Environment

    text = resources.files("snnkit.lab.workshop").joinpath(template).read_text(encoding="utf-8")
    return Environment(autoescape=True).from_string(text).render(**values)


def cheatsheet(root: Path) -> str:
    """The cheatsheet of the project in ``root`` as a page. Raises OSError if there is none."""
    from markdown_it import MarkdownIt

    text = (root / CHEATSHEET).read_text(encoding="utf-8")
    body = MarkdownIt("commonmark").enable("table").render(text)
    return _page("cheatsheet.html.j2", title=text.partition("\n")[0].lstrip("# "), body=body)


def slides(path: Path) -> str:
    """Slides from an executed notebook: a cell tagged ``slide`` begins one, one tagged ``slide-more`` continues it.

    A slide is complete by itself. Headings, formulas, tables, pictures and predictions stay; of other text as many
    sentences as 60 words hold. Each heading begins a slide; one without its own repeats the last. An equation that it
    cites, "(4)", is on it. A slide with nothing but a figure asks the prediction of its section. Figures fill it; a
    drawing has one of its own, before the text that it comes with. Of code cells the outputs are shown; ``slide-code``
    beside one of these tags shows the code, too. (Slides of nbconvert would load reveal.js from a network.)

    Raises:
        WorkshopError: no copy, a cell with nothing to show, or an equation without a number; with notebook and cell.
    """
    import nbformat

    try:
        notebook = nbformat.read(path, as_version=4)
    except (OSError, nbformat.reader.NotJSONError) as error:
        raise WorkshopError(f"no executed copy at {path}: run `snnkit run` first ({error})") from None
    render, name = _markdown().render, path.stem
    made = [
        "".join(render(part) if isinstance(part, str) else "".join(_outputs(*part)) for part in slide)
        for slide in outline(notebook, name)
    ]
    made = [re.sub("(?:<figure>.*?</figure>){2,}", r"<div>\g<0></div>", slide) for slide in made]  # side by side
    texts = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    heading = re.search(r"(?m)^# (.+)", texts)
    title = heading[1].replace("`", "").strip() if heading else name
    made = [site.glued(slide) for slide in made]
    return _page("slides.html.j2", title=title, slides=made, drawings=web.read("drawings.css"))


def outline(notebook: NotebookNode, name: str) -> list[list[Any]]:
    """What is on each slide: Markdown, or a pair of a code cell and whether its code is shown. Raises as ``slides``."""
    texts = "\n\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    equations = {number: block for block in _EQUATION.findall(texts) for number in _TAG.findall(block)}
    made: list[list[Any]] = []
    # By code cells: the cell, the slide, which has its heading so far, and what it asks if it gets no text.
    begun: list[tuple[int, list[Any], str]] = []
    heading, ask_now = "", _LOOK
    for number, cell in enumerate(notebook.cells):
        tags = set(cell.metadata.get("tags", ()))
        chosen, begins = tags & {SLIDE, MORE}, SLIDE in tags
        if cell.cell_type == "markdown":
            for section in _SECTION.split(_FOLDED.sub(_unfolded, cell.source)):
                own = section.startswith("#")
                if own and not re.match("#+ Exercise", section):  # an exercise ends before the next slide
                    heading = section.partition("\n")[0].strip()
                    ask_now = _LOOK
                if not chosen or not (section.partition("\n")[2] if section[:2] == "##" else section).strip():
                    continue
                drawings, section = _DRAWING.findall(section), _DRAWING.sub("", section)
                made += [[*[heading] * bool(heading), drawing] for drawing in drawings]
                if drawings and not (section.partition("\n")[2] if own else section).strip():
                    continue
                if begins or own or drawings or not made:
                    made.append([] if own or not heading else [heading])
                made[-1].append(_shortened(section, MOST_WORDS - words("\n\n".join(filter(_is_text, made[-1])))))
                begins = False
            continue
        for key in _ASKED.findall(cell.source):
            ask_now = question.find(key)["ask"]
        if chosen:
            if begins or not made:
                made.append([heading] * bool(heading))
                begun.append((number, made[-1], ask_now))
            if _outputs(cell, CODE in tags) or _will_show(cell):
                made[-1].append((cell, CODE in tags))
    if not made:
        raise WorkshopError(f"{name}: no cell is tagged {SLIDE!r}")
    for number, slide, ask in begun:
        if len(slide) < 2 and all(map(_is_text, slide)):
            raise WorkshopError(f"{name}, cell {number}: is to be on a slide, but has no picture, text or {CODE!r}")
        if not any(_is_text(part) and not part.startswith("#") for part in slide):
            slide.insert(sum(map(_is_text, slide)), f"**{ask}**")
    for slide in made:
        text = "\n\n".join(filter(_is_text, slide))
        for cited in dict.fromkeys(_CITED.findall(_prose(text))):
            if cited not in equations:
                raise WorkshopError(f"{name}: equation ({cited}) must have a \\tag{{{cited}}}, but there is none")
            if equations[cited] not in text:
                slide.append(equations[cited])
    return made


def _unfolded(match: re.Match[str]) -> str:
    """A part that notebooks fold, as a paragraph with a title, or a list below one."""
    title, text = match.groups()
    return f"**{title}.**{' ' if text[:1].isalpha() else chr(10) * 2}{text}"


def _is_text(part: Any) -> bool:
    return isinstance(part, str)


def _will_show(cell: NotebookNode) -> bool:
    """Whether a cell that has not run yet will show something: a figure, a print, or its last expression."""
    last = ast.parse(cell.source).body[-1:]
    return cell.execution_count is None and any(
        [*(call in cell.source for call in _SHOWING), *(isinstance(one, ast.Expr) for one in last)]
    )


def _prose(text: str) -> str:
    """Without formulas, code, tables, pictures and headings."""
    return re.sub(r"(?ms)\$\$.*?\$\$|```.*?```|^\|.*?$|^#.*?$|!\[.*?\]\(.*?\)|<img.*?>|\$.*?\$|`[^`]*`", " … ", text)


def words(text: str) -> int:
    return len(re.findall(r"\w[\w'’.-]*", _prose(text)))


def _shortened(section: str, most: int) -> str:
    """Markdown with at most so many words, if they are not all in what stays: of each text as many sentences as fit."""
    blocks = re.split(r"\n\s*\n", _SOURCE.sub("", section).strip())
    stays = [_STAYS.match(block) is not None or "$$" in block for block in blocks]
    texts = [[[block]] if stay else _sentences(block) for block, stay in zip(blocks, stays, strict=True)]
    left = most - sum(words(block) for block, stay in zip(blocks, stays, strict=True) if stay)
    shown = [[int(stay)] * len(items) for items, stay in zip(texts, stays, strict=True)]
    for wanted in (1, len(section)):  # a sentence of each text, then more
        for items, counts in zip(texts, shown, strict=True):
            for k, item in enumerate(items):
                while counts[k] < min(wanted, len(item)) and (more := words(item[counts[k]])) <= left:
                    left -= more
                    counts[k] += 1
    cut = [[" ".join(item[:n]) for item, n in zip(*pair, strict=True) if n] for pair in zip(texts, shown, strict=True)]
    return "\n\n".join("\n".join(items) for items in cut if items)


def _sentences(block: str) -> list[list[str]]:
    """Of each item of a list, or of a paragraph, the sentences. The first has its mark and bold words in front."""
    items = []
    for item in _ITEM.split(block):
        lead = _LEAD.match(item).end()  # type: ignore[union-attr]
        first, *others = _SENTENCE.split(item[lead:])
        items.append([item[:lead] + first, *others])
    return items


def _markdown() -> Any:
    """A renderer whose formulas become MathML, which browsers draw by themselves."""
    try:
        import latex2mathml  # noqa: F401
        from markdown_it import MarkdownIt
        from mdit_py_plugins.dollarmath import dollarmath_plugin
    except ImportError:
        raise WorkshopError(f"slides need markdown-it-py and latex2mathml: {checks.pip_install('site')}") from None

    def formula(text: str, options: dict[str, Any]) -> str:
        return site.formula(text, block=options["display_mode"])

    return MarkdownIt("commonmark").enable("table").use(dollarmath_plugin, renderer=formula, double_inline=True)


def _outputs(cell: NotebookNode, with_source: bool) -> list[str]:
    parts = [f"<pre><code>{escape(cell.source)}</code></pre>"] if with_source else []
    most = min(MOST_LINES, max(BESIDE, WITH_CODE - cell.source.count("\n"))) if with_source else MOST_LINES
    if any("image/png" in output.get("data", {}) for output in cell.get("outputs", ())):
        most = BESIDE
    printed = ""  # since the last picture: kernels send it in pieces, some of them a line feed alone
    for output in cell.get("outputs", ()):
        data = output.get("data", {})
        png, page = (data.get(kind) for kind in ("image/png", "text/html"))
        if page and ('class="snn explorer"' in page or "<iframe" in page):  # it lives on a slide, too
            parts.append(page.replace('name=""', 'name="compact"'))  # of a network's page, what a slide has room for
        elif png is not None:
            alt = output.get("metadata", {}).get("image/png", {}).get("alt", "")
            if site.PLOT in data:
                light, dark = (_sharp(data[site.PLOT], dark) for dark in (False, True))
                image = f'<source media="{_DARK}" srcset="{dark}"><img alt="{escape(alt)}" src="{light}">'
                parts.append(f"<figure><picture>{image}</picture></figure>")
            else:  # a picture that is no figure of plotly has the colours that it has
                image = f'<img alt="{escape(alt)}" src="data:image/png;base64,{"".join(png.split())}">'
                parts.append(f"<figure>{image}</figure>")
        elif output.output_type == "stream" and output.name == "stdout":
            if printed.strip():
                parts.pop()
            printed += output.text
            if printed.strip():
                lines = printed.strip("\n").split("\n")
                more = ["…"] * (len(lines) > most)
                parts.append(f"<pre>{escape(chr(10).join(lines[:most] + more))}</pre>")
            continue
        else:
            continue
        printed = ""
    return parts


def _sharp(plot: dict[str, Any], dark: bool) -> str:
    """A figure in the pixels of a slide, as a URL: WebP without loss, which has a third of the bytes of a PNG."""
    from PIL import Image
    from plotly.graph_objects import Figure

    from snnkit.lab.viz.png import png_bytes

    figure, made = Figure({part: _plain(plot[part]) for part in ("data", "layout") if part in plot}), io.BytesIO()
    Image.open(io.BytesIO(png_bytes(figure, _SHARP, dark=dark))).save(made, "WEBP", lossless=True)
    return f"data:image/webp;base64,{base64.b64encode(made.getvalue()).decode('ascii')}"


def _plain(value: Any) -> Any:
    """JSON of plotly with its arrays, which are bytes in base64, as NumPy's."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    if "bdata" in value:
        flat = np.frombuffer(base64.b64decode(value["bdata"]), value["dtype"])
        return flat.reshape([int(n) for n in value.get("shape", str(flat.size)).split(",")])
    return {key: _plain(one) for key, one in value.items()}


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

    from snnkit.lab.course import attempts, exercise as registry

    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        for key in _KEY.findall(cell.source) if cell.cell_type == "code" else ():
            exercise = registry.find(key)
            checks = "\n".join(f"1. {check.name}" for check in exercise.checks)
            hints = "\n".join(f"1. {hint}" for hint in exercise.hints)
            page = nbformat.v4.new_markdown_cell(
                f"> **For the instructor: {exercise.heading}** ({exercise.minutes} minutes)\n\n"
                f"```python\n{attempts.source(exercise)}\n```\n\n"
                f"What is checked, in this order:\n\n{checks}\n\nThe hints, as they open:\n\n{hints}"
            )
            page.id = f"solution-{key.replace('.', '-')}"
            cells.append(page)
    return cells


checks.all_arguments(__name__)

"""Sphinx's settings for the site that `make site` builds; `snnkit/lab/tools/site.py` copies the pages."""

import ast
import importlib
import inspect
import json
import posixpath
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from docutils.nodes import SkipNode, math_block

import snnkit
from snnkit.lab import pages
from snnkit.lab.course.order import TRACKS
from snnkit.lab.pages import web
from snnkit.lab.tools import site
from snnkit.lab.tools.project import find

PROJECT = find(Path(__file__).parent)
NARROW = json.loads((PROJECT.notebooks / "drawings" / "narrow.json").read_text("utf-8"))  # by `site.narrow`

project = "snnkit"
author = "The snnkit authors"
copyright = "the snnkit authors, MIT license"
release = version = snnkit.__version__
root_doc = "README"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]

# Notebooks are executed before, by the kit's own runner, which finds errors that widgets swallow.
nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "amsmath", "tasklist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

default_role = "code"
autodoc_inherit_docstrings = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False
python_use_unqualified_type_names = True
# Some attributes have the name of a type (`bytes`): which one an annotation means is clear to readers.
suppress_warnings = ["ref.python"]

html_theme = "sphinx_book_theme"
html_title = "snnkit"
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "repository_url": PROJECT.repository,
    "navbar_persistent": [],  # the search is in the menu
    "use_repository_button": True,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "home_page_in_toc": True,
    "show_toc_level": 2,
}

# On the first page: a network that reads what one draws, in the scheme of the site. (Sphinx checks no raw HTML.)
FIRST = """```{raw} html
<p>Nothing to install: draw a digit, and a network of 128 spiking neurons reads it. Or
<a href="playground.html"><b>open the playground</b></a>, and a network learns in your browser.</p>
<iframe id="reader" src="reader.html#compact" title="A spiking network that reads what you draw" scrolling="no"
  style="width: 100%; height: 560px; border: 0; color-scheme: normal"></iframe>
<script>
(() => {
FRAME
snnkit.follow(document.getElementById("reader"));
})();
</script>
```
"""

FIRST = FIRST.replace("FRAME", web.bundle("frame.js"))

# The pages of the reference. A test checks that every room of the kit is on one.
PAGES: dict[str, tuple[str, ...]] = {
    "Neurons": ("snnkit.neuron",),
    "Surrogate gradients": ("snnkit.surrogate",),
    "Engines": ("snnkit.engine",),
    "Networks": ("snnkit.nn", "snnkit.models"),
    "Encodings and losses": ("snnkit.encode", "snnkit.loss"),
    "Data": ("snnkit.data",),
    "Events": ("snnkit.data.events",),
    "Training": ("snnkit.train",),
    "Training through Lightning": ("snnkit.train.lit",),
    "Batch scripts for SLURM": ("snnkit.train.slurm",),
    "Local learning": ("snnkit.plasticity",),
    "Sweeps and the open challenge": ("snnkit.lab.sweep", "snnkit.lab.challenge"),
    "Devices and memory": ("snnkit.device",),
    "Text": ("snnkit.lab.text",),
    "Exchange and export": ("snnkit.interop", "snnkit.export", "snnkit.quantize", "snnkit.lab.pages"),
    "Benchmarks and cost models": ("snnkit.lab.bench", "snnkit.lab.hardware"),
    "Figures and explorers": ("snnkit.lab.viz",),
    "Exercises": ("snnkit.lab.course",),
}


def public(module: ModuleType) -> list[str]:
    """What ``module`` offers: ``__all__``, or what it imports ``as`` itself and defines without an underscore."""
    names = getattr(module, "__all__", None)
    if names is None:
        names = {}
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.ImportFrom | ast.Import):
                names |= dict.fromkeys(alias.asname for alias in node.names if alias.asname == alias.name)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                names[node.name] = None
    return [name for name in names if not isinstance(getattr(module, name), ModuleType)]


def write_reference(app: Any) -> None:
    """A page of directives for each of PAGES; what an earlier page has is linked to."""
    shown: dict[int, str] = {}
    for title, modules in PAGES.items():
        text = [f"# {title}\n"]
        for name in modules:
            module = importlib.import_module(name)
            text.append(f"## `{name}`\n\n```{{eval-rst}}\n.. automodule:: {name}\n   :no-members:\n```\n")
            for entry in public(module):
                value = getattr(module, entry)
                kind = "class" if inspect.isclass(value) else "function" if inspect.isroutine(value) else "data"
                if kind != "data" and id(value) in shown:
                    text.append(f"`{entry}`: see {{py:obj}}`{shown[id(value)]}`.\n")
                    continue
                shown[id(value)] = f"{name}.{entry}"
                options = "   :members:\n   :show-inheritance:\n" if kind == "class" else ""
                text.append(f"```{{eval-rst}}\n.. auto{kind}:: {name}.{entry}\n{options}```\n")
        file = Path(app.srcdir, "api", title.lower().replace(" ", "_") + ".md")
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n".join(text), encoding="utf-8")


def adapt_page(app: Any, name: str, source: list[str]) -> None:
    """Links to files of the project that are no pages lead to the repository; the first page gets the menu."""

    def relinked(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(name), match[1]))
        if Path(app.srcdir, target).is_file() or not (PROJECT.root / target).exists():
            return match[0]  # what does not exist stays as it is, and Sphinx warns
        kind = "tree" if (PROJECT.root / target).is_dir() else "blob"
        return f"]({PROJECT.repository}/{kind}/{PROJECT.branch}/{target}{match[2]})"

    if not name.startswith("api/"):
        here = posixpath.relpath(".", posixpath.dirname(name) or ".")  # what a notebook links to on GitHub is here, too
        source[0] = source[0].replace(f"]({PROJECT.repository}/blob/{PROJECT.branch}/", f"]({here}/")
        source[0] = re.sub(r"\]\(((?!\w+:|#)[^()\s#]+)(#[^()\s]*)?\)", relinked, source[0])
    if name == root_doc:
        heading, _, rest = source[0].partition("\n")
        source[0] = f"{heading}\n\n{FIRST}\n{rest}"
        pages = sorted(path.relative_to(app.srcdir).with_suffix("").as_posix() for path in _staged(app.srcdir))
        tracks = {title: (f"docs/{key}", f"notebooks/{i}") for i, (key, title) in enumerate(TRACKS.items())}
        menu = {**tracks, "Workshop": "workshop/", "Reference": "api/"}
        menu["The project"] = ("CONTRIBUTING", "CHANGELOG", "docs/")
        listed: set[str] = set()
        for caption, folder in menu.items():
            own = [p for p in pages if p.startswith(folder) and p not in listed]
            entries = sorted(own, key=lambda p: (not p.endswith("README"), p))
            listed.update(own)
            source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(entries) + "\n```\n"


def _staged(folder: str) -> list[Path]:
    return [path for path in Path(folder).rglob("*") if path.suffix in (".md", ".ipynb")]


def keep_colon(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Napoleon takes what is before a colon in the first line of an attribute's docstring for its type: "None: it does
    not fire" would be shown as "Type: None". So an empty comment is in that line."""
    if what in ("attribute", "data", "property"):
        lines[:0] = ["..", ""]


def adapt_docstring(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are for ``help`` and editors: fenced code, Markdown tables, |x| and doi:… become reStructuredText."""
    if what == "data" and value.__doc__ == type(value).__doc__:
        lines[:] = []  # the docstring of `dict` is no help with a table
    text = "\n".join(lines)
    text = re.sub(r"(?ms)^( *)```(\w*)\n(.*?)^\1```$", _code_block, text)
    if what == "module":  # an indented paragraph is code, as there are no sections
        text = re.sub(r"(?<!::)\n\n((?:    .*\n|\n(?=\n*    ))+)", r"\n\n::\n\n\1\n", text)
    text = re.sub(r"(?m)^ *\|.*\|\n *\|[ :|-]+\|\n(?: *\|.*\|(?:\n|\Z))+", _list_table, text)
    pieces = re.split(r"(``[^`]*``|`[^`]+`)", text)
    for i in range(0, len(pieces), 2):
        pieces[i] = pieces[i].replace("|", "\\|")
        if i and pieces[i][:1].isalnum():  # ``Recurrent``s: a literal ends where no letter follows
            pieces[i] = f"\\ {pieces[i]}"
        pieces[i] = re.sub(r"\bdoi:(10\.\d{4,9}/[^\s<>,;]*[\w/])", r"`doi:\1 <https://doi.org/\1>`__", pieces[i])
        pieces[i] = re.sub(r"\barXiv:(\d{4}\.\d{4,5})", r"`arXiv:\1 <https://arxiv.org/abs/\1>`__", pieces[i])
    lines[:] = "".join(pieces).split("\n")


def _code_block(match: re.Match[str]) -> str:
    margin, language, code = match.groups()
    indented = "".join(f"   {line}" if line.strip() else line for line in code.splitlines(keepends=True))
    return f"\n{margin}.. code-block:: {language or 'text'}\n\n{indented}"


def _list_table(match: re.Match[str]) -> str:
    rows = match[0].rstrip().split("\n")
    margin = " " * (len(rows[0]) - len(rows[0].lstrip()))
    made = [".. list-table::", "   :header-rows: 1", ""]
    for row in (rows[0], *rows[2:]):
        cells = row.strip()[1:-1].split("|")
        made += [f"   {'  -' if i else '* -'} {cell.strip()}" for i, cell in enumerate(cells)]
    return "\n" + "\n".join(margin + line for line in made) + "\n\n"


def write_formula(writer: Any, node: Any) -> None:
    """A formula as MathML: MathJax would be loaded from a server."""
    writer.body.append(site.formula(node.astext(), block=isinstance(node, math_block)))
    raise SkipNode


def fit_phones(app: Any, name: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """A phone gets drawings in their narrow form, where they have one, and prints that are no tables may wrap."""
    offered = r'<picture><source media="(max-width: 640px)" srcset="\2-narrow.svg">\1</picture>'
    image = rf'(<img [^>]*src="([^"]*_images/(?:{"|".join(NARROW)}))\.svg"[^>]*>)'
    body = re.sub(image, offered, context.get("body") or "")

    def marked(match: re.Match[str]) -> str:
        in_columns = re.search(r"\S {2,}\S", match[2])
        return match[0] if in_columns else f'<div class="snn-words {match[1]}"{match[2]}'

    body = site.glued(body)
    context["body"] = re.sub(r'(?s)<div class="(output [^"]*)"(><div class="highlight"><pre>.*?</pre>)', marked, body)


def write_living_pages(app: Any, error: Exception | None) -> None:
    """Beside the others."""
    if error is None:
        for drawing, rows in NARROW.items():
            text = (PROJECT.notebooks / "drawings" / f"{drawing}.svg").read_text("utf-8")
            Path(app.outdir, "_images", f"{drawing}-narrow.svg").write_text(site.narrow(text, rows), "utf-8")
        pages.playground(Path(app.outdir) / "playground.html")
        pages.reader(Path(app.outdir) / "reader.html")


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", (write_formula, None), (write_formula, None))
    app.add_js_file("figures.js")  # which `snnkit site` puts there
    app.connect("builder-inited", write_reference)
    app.connect("source-read", adapt_page)
    app.connect("html-page-context", fit_phones)
    app.connect("build-finished", write_living_pages)
    app.connect("autodoc-process-docstring", keep_colon, priority=400)  # before Napoleon's
    app.connect("autodoc-process-docstring", adapt_docstring)

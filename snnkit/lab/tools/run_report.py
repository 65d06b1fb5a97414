"""`report.json` for programs, `report.html` for people, and executed notebooks as pages. They need nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from snnkit import checks, files
from snnkit.lab.pages import web
from snnkit.lab.tools import site
from snnkit.lab.tools.runner import Result
from snnkit.lab.tools.site import formula
from snnkit.tables import count_of, duration_of, size_of

FIELDS = ("name", "status", "seconds", "peak_mb", "cell", "error")


def write(out: Path, results: Sequence[Result], environment: Mapping[str, Any]) -> Path:
    """Write `out/report.json` and `out/report.html`, each whole; returns the path of the page."""
    content = {
        "notebooks": [{field: getattr(result, field) for field in FIELDS} for result in results],
        "environment": dict(environment),
    }
    files.write_text(out / "report.json", json.dumps(content, indent=1, ensure_ascii=False, default=str) + "\n")
    page = out / "report.html"
    files.write_text(page, html(out, results, environment))
    return page


def render_copy(out: Path, name: str) -> None:
    """Turn the executed copy of notebook `name` into `out/html/NAME.html`, which needs no server.

    Its figures are alive, its formulas are MathML where latex2mathml is installed and TeX elsewhere.
    """
    from jinja2 import DictLoader
    from nbconvert import HTMLExporter
    from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

    class Renderer(IPythonRenderer):
        def block_math(self, body: str) -> str:
            return formula(body, block=True)

        def inline_math(self, body: str) -> str:
            return formula(body)

    def markdown(source: str) -> str:
        return site.glued(MarkdownWithMath(renderer=Renderer(escape=False)).render(source))

    page = resources.files("snnkit.lab.tools").joinpath("notebook_page.html.j2").read_text(encoding="utf-8")
    exporter = HTMLExporter(
        template_name="lab", template_file="page.html.j2", extra_loaders=[DictLoader({"page.html.j2": page})]
    )
    if find_spec("latex2mathml"):
        exporter.register_filter("markdown2html", markdown)
    notebook = site.read(out / "notebooks" / f"{name}.ipynb")
    body, _ = exporter.from_notebook_node(notebook, {"metadata": {"name": name}, "drawings": web.read("drawings.css")})
    for file, text in {f"{name}.html": body, **site.scripts()}.items():
        files.write_text(out / "html" / file, text)


def html(out: Path, results: Sequence[Result], environment: Mapping[str, Any]) -> str:
    """The page. Links lead to files in `out`."""
    from jinja2 import Environment

    failed = sum(result.status != "ok" for result in results)
    number = count_of(len(results), "notebook")
    if environment.get("interrupted"):
        verdict, tone = f"Interrupted after {number}", "amber"
    elif failed:
        verdict, tone = f"{failed} of {number} failed", "red"
    else:
        verdict, tone = f"{number}, all ran", "green"
    links = {}
    for result in results:
        both = (("page", f"html/{result.name}.html"), ("notebook", f"notebooks/{result.name}.ipynb"))
        links[result.name] = [(label, file) for label, file in both if (out / file).exists()]
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template.filters |= {
        "clock": lambda seconds: duration_of(seconds, 1),
        "size": lambda megabytes: size_of(1e6 * megabytes),
        "fact": _fact,
    }
    page = resources.files("snnkit.lab.tools").joinpath("run_report.html.j2").read_text(encoding="utf-8")
    return template.from_string(page).render(
        verdict=verdict,
        tone=tone,
        results=results,
        links=links,
        total=sum(result.seconds for result in results),
        peak=max((result.peak_mb for result in results), default=0.0),
        slowest=max((result.seconds for result in results), default=0.0) or 1.0,
        environment={key: value for key, value in environment.items() if key != "interrupted"},  # the headline says so
    )


def _fact(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}\u00a0{_fact(item)}" for key, item in value.items()) or "none"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


checks.all_arguments(__name__)

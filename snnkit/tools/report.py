"""`report.json` for programs and `report.html`, one self-contained page, for people."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from snnkit import files
from snnkit.tools import alive
from snnkit.tools.run import Result

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
    """Turn the executed copy of notebook `name` into `out/html/NAME.html`; does nothing without nbconvert or a copy.

    Its figures stay alive, by a plotly.js beside the pages.
    """
    copy = out / "notebooks" / f"{name}.ipynb"
    try:
        import nbformat
        from nbconvert import HTMLExporter
    except ImportError:
        return
    if copy.exists():
        notebook = nbformat.read(copy, as_version=4)
        figures = alive.enliven(notebook)
        resources = {"metadata": {"name": name}}
        body, _ = HTMLExporter(template_name="lab").from_notebook_node(notebook, resources)
        if figures:
            alive.write_script(out / "html")
            body = alive.page(body)
        files.write_text(out / "html" / f"{name}.html", body)


def html(out: Path, results: Sequence[Result], environment: Mapping[str, Any]) -> str:
    """The page. Links lead to files in `out`."""
    failed = sum(result.status != "ok" for result in results)
    total = sum(result.seconds for result in results)
    slowest = max((result.seconds for result in results), default=0.0) or 1.0
    if environment.get("interrupted"):
        verdict, tone = f"Interrupted after {_count(len(results), 'notebook')}", "amber"
    elif failed:
        verdict, tone = f"{failed} of {_count(len(results), 'notebook')} failed", "red"
    else:
        verdict, tone = f"{_count(len(results), 'notebook')}, all ran", "green"
    peak = max((result.peak_mb for result in results), default=0.0)
    rows = "\n".join(_row(out, result, slowest) for result in results)
    facts = "\n".join(
        f"<div><dt>{escape(key.replace('_', ' '))}</dt><dd>{_fact(value)}</dd></div>"
        for key, value in environment.items()
        if key != "interrupted"  # the headline says so
    )
    page = Template(resources.files("snnkit.tools").joinpath("report_page.html").read_text(encoding="utf-8"))
    return page.substitute(
        verdict=escape(verdict), tone=tone, total=_clock(total), peak=_size(peak), rows=rows, facts=facts
    )


def _row(out: Path, result: Result, slowest: float) -> str:
    links = []
    for label, file in (("page", f"html/{result.name}.html"), ("notebook", f"notebooks/{result.name}.ipynb")):
        if (out / file).exists():
            links.append(f'<a href="{escape(file)}">{label}</a>')
    ok = result.status == "ok"
    row = (
        f'<tr class="{"ok" if ok else "bad"}"><td class="name">{escape(result.name)}</td>'
        f'<td><span class="pill {"green" if ok else "red"}">{escape(result.status)}</span></td>'
        f'<td class="time"><span class="bar" style="width:{100 * result.seconds / slowest:.1f}%"></span>'
        f"<b>{_clock(result.seconds)}</b></td>"
        f'<td class="number">{_size(result.peak_mb)}</td><td>{" · ".join(links)}</td></tr>'
    )
    if ok:
        return row
    where = f"cell {result.cell}: " if result.cell is not None else ""
    details = "".join(
        f"<h3>{title}</h3><pre>{escape(text)}</pre>"
        for title, text in (("The cell", result.source), ("What it raised", result.traceback))
        if text
    )
    return (
        f'{row}<tr class="why"><td colspan="5"><details><summary>{escape(where + (result.error or ""))}</summary>'
        f"{details}</details></td></tr>"
    )


def _fact(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{escape(str(key))}&nbsp;{_fact(item)}" for key, item in value.items()) or "none"
    if isinstance(value, (list, tuple)):
        return escape(", ".join(map(str, value))) or "none"
    return "none" if value is None else escape(str(value))


def _clock(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds // 60)} min {seconds % 60:02.0f} s"


def _size(mebibytes: float) -> str:
    return f"{mebibytes:.0f} MB" if mebibytes < 1024 else f"{mebibytes / 1024:.1f} GB"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")

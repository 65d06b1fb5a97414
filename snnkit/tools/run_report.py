"""`report.json` for programs, `report.html` for people, and executed notebooks as pages with interactive figures.

`report.html` needs nothing else; the pages share one plotly.js beside them, so that hovering, zooming and sliders work
in any browser, offline.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from snnkit import files
from snnkit.tools.runner import Result

FIELDS = ("name", "status", "seconds", "peak_mb", "cell", "error")
PLOTLY_MIME = "application/vnd.plotly.v1+json"
SCRIPT = "plotly.min.js"  # beside the pages, which share it: it has 5 MB


# The PNG is shown until plotly.js has drawn the figure, and stays where plotly.js is missing.
_FIGURE = """<div id="{id}" role="group" aria-label="{alt}">
<img src="data:image/png;base64,{png}" alt="{alt}" style="max-width:100%">
</div>
<script>
(function () {{
    if (!window.Plotly) return;
    const figure = {figure}, place = document.getElementById("{id}");
    place.replaceChildren();
    window.Plotly.newPlot(place, figure.data, figure.layout, figure.config)
        .then(() => window.Plotly.addFrames(place, figure.frames || []));
}})();
</script>"""


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
    """Turn the executed copy of notebook `name` into `out/html/NAME.html`; does nothing without nbconvert or a copy."""
    copy = out / "notebooks" / f"{name}.ipynb"
    try:
        import nbformat
        from nbconvert import HTMLExporter
    except ImportError:
        return
    if not copy.exists():
        return
    notebook = nbformat.read(copy, as_version=4)
    figures = embed_plotly(notebook)
    body, _ = HTMLExporter(template_name="lab").from_notebook_node(notebook, {"metadata": {"name": name}})
    if figures:
        _write_plotly(out / "html")
        # First of all scripts, as require.js, which comes with nbconvert's pages, would keep it for itself.
        body = body.replace("<head>", f'<head><script src="{SCRIPT}"></script>', 1)
    files.write_text(out / "html" / f"{name}.html", body)


def html(out: Path, results: Sequence[Result], environment: Mapping[str, Any]) -> str:
    """The page. Links lead to files in `out`."""
    from jinja2 import Environment

    failed = sum(result.status != "ok" for result in results)
    if environment.get("interrupted"):
        verdict, tone = f"Interrupted after {_count(len(results), 'notebook')}", "amber"
    elif failed:
        verdict, tone = f"{failed} of {_count(len(results), 'notebook')} failed", "red"
    else:
        verdict, tone = f"{_count(len(results), 'notebook')}, all ran", "green"
    links = {
        result.name: [(label, file) for label, file in _files(result.name) if (out / file).exists()]
        for result in results
    }
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template.filters |= {"clock": _clock, "size": _size, "fact": _fact}
    page = resources.files("snnkit.tools").joinpath("run_report.html.j2").read_text(encoding="utf-8")
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


def embed_plotly(notebook: Any) -> int:
    """Turn the plotly figures among the outputs of ``notebook`` (an nbformat node) into HTML; how many there were."""
    count = 0
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if PLOTLY_MIME in data and "image/png" in data:
                # Within a script "</" could end it, whatever the quotes around it.
                figure = json.dumps(data.pop(PLOTLY_MIME)).replace("</", "<\\/")
                alt = escape(_text(data.get("text/plain", "")), quote=True)
                png = _text(data.pop("image/png")).strip()
                data["text/html"] = _FIGURE.format(id=f"figure-{count}", png=png, alt=alt, figure=figure)
                count += 1
    return count


def _write_plotly(folder: Path) -> None:
    from plotly.offline import get_plotlyjs

    script = get_plotlyjs()
    path = folder / SCRIPT
    if not path.exists() or path.stat().st_size != len(script.encode()):
        files.write_text(path, script)


def _files(name: str) -> tuple[tuple[str, str], ...]:
    return ("page", f"html/{name}.html"), ("notebook", f"notebooks/{name}.ipynb")


def _text(value: Any) -> str:
    """Notebooks hold texts whole or as lists of lines."""
    return value if isinstance(value, str) else "".join(value)


def _fact(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}\u00a0{_fact(item)}" for key, item in value.items()) or "none"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _clock(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds // 60)} min {seconds % 60:02.0f} s"


def _size(mebibytes: float) -> str:
    return f"{mebibytes:.0f} MB" if mebibytes < 1024 else f"{mebibytes / 1024:.1f} GB"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")

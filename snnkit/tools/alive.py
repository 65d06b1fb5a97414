"""Figures of an exported notebook that stay alive: hovering, zooming and sliders work in any browser, offline."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

from snnkit import files

PLOTLY_MIME = "application/vnd.plotly.v1+json"
SCRIPT = "plotly.min.js"  # beside the pages, which share it: it has 5 MB

# The picture stands there until plotly.js does, and stays where that is missing.
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


def enliven(notebook: Any) -> int:
    """Turn the plotly figures among the outputs of ``notebook`` (an nbformat node) into HTML; how many there were."""
    count = 0
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if PLOTLY_MIME in data and "image/png" in data:
                data["text/html"] = _html(f"figure-{count}", data)
                del data[PLOTLY_MIME], data["image/png"]
                count += 1
    return count


def page(body: str) -> str:
    """An exported page whose figures were enlivened, with plotly.js. First of all scripts, as require.js, which comes
    with nbconvert's pages, would keep it for itself."""
    return body.replace("<head>", f'<head><script src="{SCRIPT}"></script>', 1)


def write_script(folder: Path) -> None:
    """Put plotly.js into ``folder``, unless it is there."""
    from plotly.offline import get_plotlyjs

    script = get_plotlyjs()
    path = folder / SCRIPT
    if not path.exists() or path.stat().st_size != len(script.encode()):
        files.write_text(path, script)


def _html(name: str, data: Any) -> str:
    # Within a script "</" could end it, whatever the quotes around it.
    figure = json.dumps(data[PLOTLY_MIME]).replace("</", "<\\/")
    alt = escape(_text(data.get("text/plain", "")), quote=True)
    return _FIGURE.format(id=name, png=_text(data["image/png"]).strip(), alt=alt, figure=figure)


def _text(value: Any) -> str:
    """Notebooks hold texts whole or as lists of lines."""
    return value if isinstance(value, str) else "".join(value)

"""Pages of the course in a notebook's output, and the line from them to this kernel and back.

A page is HTML that needs nothing else, so it lives in JupyterLab, Colab, an executed copy and the site. What a learner
does there is said on the line, if there is one: in JupyterLab a widget without a view, on Colab its own callbacks.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import re
import uuid
from collections.abc import Callable
from typing import Any

from snnkit.export import web
from snnkit.viz.frontend import in_notebook, live, on_colab

CHANNEL = "snnkit.course"  # of Colab's callbacks and between its outputs
Receive = Callable[[Any], dict[str, Any]]  # from what a page says to the news for all pages
_LINE = """
const line = LINE, hub = (globalThis.snnkitCourse ??= courseHub());
export default {initialize({model}) {
  hub.connect(line, (message) => model.send(message));
  model.on("msg:custom", (news) => hub.spread(news));
}};
"""
_PAGE = """
const wait = (left) => {
  const place = document.getElementById(KEY);
  if (place) NAME(place, DATA);
  else if (left) requestAnimationFrame(() => wait(left - 1));
};
wait(600);
"""
_lines: dict[str, Any] = {}


def line(receive: Receive) -> str | None:
    """The name under which pages reach ``receive``; None where none can: without a viewer, or without the widgets."""
    if not live():
        return None
    if not _lines:
        if on_colab():
            from google.colab import output  # type: ignore[import-not-found]
            from IPython.display import JSON

            output.register_callback(CHANNEL, lambda message: JSON(receive(message)))
            _lines[CHANNEL] = None
        elif importlib.util.find_spec("anywidget") is not None:
            name = f"snnkit-{uuid.uuid4().hex[:12]}"
            _lines[name] = _line_class()(name)
            _lines[name].on_msg(lambda widget, message, buffers: widget.send(receive(message)))
            _lines[name].open()
    return next(iter(_lines), None)


@functools.cache
def _line_class() -> Any:
    from anywidget import AnyWidget

    class Line(AnyWidget):
        """What a page says comes as a message, and what all pages should know goes out as one. It has no view."""

        def __init__(self, name: str) -> None:
            self._esm = web.bundle("course_hub.js") + _LINE.replace("LINE", json.dumps(name))
            super().__init__()

    return Line


def tell(news: dict[str, Any]) -> None:
    """Let all open pages know, from a cell that runs."""
    for widget in _lines.values():
        if widget is not None:
            widget.send(news)
        else:
            from IPython.display import HTML, display

            call = f"new BroadcastChannel({json.dumps(CHANNEL)}).postMessage({_held(news)})"
            display(HTML(f"<script>{call}</script>"))


def html(name: str, data: dict[str, Any], fallback: str, *, plain: bool = False) -> str:
    """What the function ``name`` of ``course_pages.js`` makes of ``data``; without scripts ``fallback``, HTML.

    ``plain``: it needs the function ``name`` of ``course_hub.js`` only, and no style.
    """
    key = f"snn-{uuid.uuid4().hex[:12]}"
    code = _PAGE.replace("KEY", json.dumps(key)).replace("NAME", name).replace("DATA", _held(data))
    style, script = ("", _script("course_hub.js")) if plain else (_style(), _script("course_pages.js"))
    place = f'<div class="{"" if plain else "snn course"}" id="{key}">{fallback}</div>'
    return f"{style}{place}<script>(() => {{\n{script}{code}}})();</script>"


def show(name: str, data: dict[str, Any], fallback: str, words: str) -> None:
    """Display ``html(…)`` in a notebook, or ``words`` where no HTML is shown; print ``words`` elsewhere."""
    if not in_notebook():
        print(words)
        return
    from IPython.display import display

    display({"text/html": html(name, data, fallback), "text/plain": words}, raw=True)


def _held(data: Any) -> str:
    """JSON that may stand within a script element."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


@functools.cache
def _script(name: str) -> str:
    code = re.sub(r"^\s*(//.*|/\*\*[\s\S]*?\*/)\n", "", web.bundle(name), flags=re.MULTILINE)
    return re.sub(r"^\s+", "", code, flags=re.MULTILINE).replace("</script", "<\\/script")


@functools.cache
def _style() -> str:
    css = re.sub(r"/\*[\s\S]*?\*/", "", web.read("style.css") + web.read("course.css"))
    css = re.sub(r"\s+", " ", css)
    return f"<style>{css}</style>"

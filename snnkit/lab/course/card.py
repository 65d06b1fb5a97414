"""Cards in a notebook's output: results as HTML (plain text elsewhere), and pages on which a learner answers.

A page needs nothing else, so it works in JupyterLab, in Colab, in an executed copy and on the site. If there is a
kernel, the page sends it what the learner does: in JupyterLab through a widget without a view, on Colab by callbacks.
"""

from __future__ import annotations

import base64
import functools
import gzip
import html
import importlib.util
import json
import re
import textwrap
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from snnkit import checks
from snnkit.lab.pages import web
from snnkit.lab.viz.frontend import in_notebook, live, on_colab

# The figures' colours (viz.theme); each also has a sign and a word, so colour alone carries no meaning.
TONES = {
    "good": ("✓", "#009E73"),
    "fair": ("!", "#D47F00"),
    "bad": ("✗", "#D55E00"),
    "open": ("○", "#D47F00"),
    "info": ("·", "#3399E0"),
}
LIMIT, ITEMS, DEPTH = 400, 8, 4  # characters, entries and levels of a value that are shown
WHOLE = 16  # numbers of an array that are all shown
ROWS = 4  # of a matrix that are shown as such; of more, its numbers in one line
_FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif"
_CARD = (
    "border-radius:8px;padding:10px 14px;margin:4px 0;max-width:720px;box-sizing:border-box;"
    f"background:rgba(127,127,127,.07);font:15px/1.5 {_FONT}"
)
_HEAD = "display:flex;flex-wrap:wrap;gap:2px 10px;align-items:baseline"
_GREY = "background:rgba(127,127,127,.14);border-radius:3px"


class Line(NamedTuple):
    """One line of a card: running text, or a labelled value, or a block of code."""

    text: str
    label: str = ""
    code: bool = False


@dataclass(frozen=True)
class Card:
    """A heading ("01.1 One step: passed") in a tone of ``TONES``, and lines under it."""

    tone: str
    heading: str
    word: str = ""
    lines: Sequence[Line] = ()

    def text(self) -> str:
        out = [f"{TONES[self.tone][0]} {self.heading}" + (f": {self.word}" if self.word else "")]
        for text, label, code in self.lines:
            if code:
                shown = f"{label}  {textwrap.indent(text, ' ' * 12).lstrip()}" if label else text
                out.append(textwrap.indent(shown, "    "))
            else:
                out.append(textwrap.fill(f"{label}: {text}" if label else text, 100, initial_indent="  "))
        return "\n".join(out)

    def html(self) -> str:
        return framed(self.tone, self.heading, self.word, "".join(_html_line(line) for line in self.lines))

    def announced(self) -> str:
        """``html()`` for a widget: screen readers read it out when it appears."""
        return f'<div role="status">{self.html()}</div>'

    def show(self) -> None:
        """Display in a notebook, print elsewhere."""
        if in_notebook():
            from IPython.display import display

            display({"text/html": self.html(), "text/plain": self.text()}, raw=True)
        else:
            print(self.text())


def framed(tone: str, heading: str, word: str, body: str) -> str:
    """HTML of a card like those of predictions (web/course.css), in both schemes and without a style sheet."""
    sign, colour = TONES[tone]
    tag = f"font-size:12px;font-weight:650;background:{colour}2b;border-radius:4px;padding:1px 7px;white-space:nowrap"
    word = f'<span style="{tag}">{sign} {html.escape(word)}</span>' if word else ""
    head = f'<div style="{_HEAD}">{word}<b style="font-weight:600">{html.escape(heading)}</b></div>'
    edge = "1px solid rgba(127,127,127,.3)"
    style = f"border:{edge};border-left:4px solid {colour};{_CARD}"
    return f'<div class="snnkit-card" style="{style}">{head}{body}</div>'


def _html_line(line: Line) -> str:
    label = html.escape(line.label)
    if line.code:
        pre = f"{_GREY};padding:.15em .5em;margin:.15em 0;white-space:pre-wrap;font-size:.92em"
        tag = f'<span style="min-width:5.5em;opacity:.8">{label}</span>' if label else ""
        block = f'<pre style="{pre}">{html.escape(line.text)}</pre>'
        return f'<div style="display:flex;align-items:baseline">{tag}{block}</div>'
    prefix = f"<b>{label}:</b> " if label else ""
    return f'<div style="margin:.2em 0">{prefix}{rich(line.text)}</div>'


def rich(text: str) -> str:
    """Escaped HTML of a text in which `…` marks code, and *…* a word with emphasis."""
    pieces = re.split(r"`([^`]+)`", html.escape(text))  # code at odd places
    for i, piece in enumerate(pieces):
        code = f'<code style="{_GREY};padding:0 .25em">{piece}</code>'
        pieces[i] = code if i % 2 else re.sub(r"(?<!\S)\*(\w+)\*(?![\w*])", r"<em>\1</em>", piece)
    return "".join(pieces)


def short(value: Any) -> str:
    """A value for a learner to read: few digits and elements; with shape and dtype if elements are left out.

    A value that cannot be shown (its ``__repr__`` raises, say) is named by its type: a card never fails.
    """
    try:
        return checks.cut(_short(value, DEPTH), LIMIT)
    except Exception:
        return unshowable(value)


def unshowable(value: Any) -> str:
    """What a card has in place of a value that can't be shown."""
    return f"({type(value).__name__} that cannot be shown)"


def _short(value: Any, depth: int) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (Tensor, np.ndarray)):
        return _array(value)
    if isinstance(value, (dict, tuple, list)) and not depth:
        return "…"
    if isinstance(value, dict):
        return "\n".join(f"{name} = {_short(item, depth - 1)}" for name, item in value.items())
    if isinstance(value, (tuple, list)):
        inner = ", ".join([_short(item, depth - 1) for item in value[:ITEMS]] + ["…"] * (len(value) > ITEMS))
        comma = "," * (len(value) == 1)
        return f"({inner}{comma})" if isinstance(value, tuple) else f"[{inner}]"
    if isinstance(value, float):
        return f"{value:.6g}"
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    return repr(value)


def _array(value: Tensor | np.ndarray) -> str:
    note = f"shape {tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    if isinstance(value, Tensor):
        if value.is_meta:
            return f"no numbers, on the device meta\n{note}"
        value = value.detach().cpu().to_dense() if value.layout != torch.strided else value.detach().cpu()
        value = (value.float() if value.dtype == torch.bfloat16 else value.resolve_conj()).numpy()
    if value.ndim == 0:
        return f"{value.item():.6g}" if value.dtype.kind == "f" else str(value.item())
    if value.size > 1 and (value == value.flat[0]).all():
        return f"{_short(value.flat[0].item(), 0)} everywhere, {note}"
    others = np.argwhere(value != 0)
    if value.size > WHOLE and len(others) <= ITEMS:
        listed = ", ".join(f"{_short(value[tuple(place)].item(), 0)} at {place.tolist()}" for place in others)
        return f"0 but for {listed}\n{note}"
    with np.printoptions(precision=4, threshold=WHOLE, edgeitems=3, suppress=True, linewidth=90):
        text = str(value)
        if value.ndim > 2 or text.count("\n") >= ROWS:
            return f"{value.reshape(-1)}\n{note}"
        return text if value.size <= WHOLE else f"{text}\n{note}"


# --- pages -----------------------------------------------------------------------------------------------------------

CHANNEL = "snnkit.course"  # of Colab's callbacks and between its outputs
Receive = Callable[[Any], dict[str, Any]]  # from what a page says to the news for all pages
_LINE = """
const line = LINE, hub = (globalThis.snnkitCourse ??= snnkit.courseHub());
export default {initialize({model}) {
  let answered = false;
  model.on("msg:custom", (news) => {
    answered = true;
    hub.spread(news);
  });
  hub.connect(line, (message) => model.send(message));
  // anywidget lets no message through to a model that took it more than 2 s to load. Then the kernel has replied to
  // this, but no message came: it opens the line again.
  const status = ({content}) => {
    if (content.execution_state === "idle") setTimeout(() => answered || model.send({deaf: true}), 500);
  };
  model.send({known: []}, {iopub: {status}});
}};
"""
_PAGE = """
const wait = (left) => {
  const place = document.getElementById(KEY);
  if (place) snnkit.NAME(place, DATA);
  else if (left) requestAnimationFrame(() => wait(left - 1));
};
wait(600);
"""
_UNPACK = """<script>(async () => {
const bytes = Uint8Array.from(atob("%s"), (one) => one.charCodeAt(0));
const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
const [css, code] = await new Response(stream).json();
for (const [kind, text] of [["style", css], ["script", `(() => {${code}${%s}})();`]]) {
  document.head.appendChild(document.createElement(kind)).textContent = text;
}
})();</script>"""
_lines: dict[str, Any] = {}


def line(receive: Receive) -> str | None:
    """The name by which pages reach ``receive``; None if none can: without a viewer, or without widgets."""
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
            _open(name, receive)
    return next(iter(_lines), None)


def _open(name: str, receive: Receive) -> None:
    """Open a line for the pages that know its name, or a new one if they do not hear what comes by the old one."""

    def pass_on(widget: Any, message: Any, buffers: Any) -> None:
        if "deaf" not in message:
            widget.send(receive(message))
        elif widget is _lines[name]:
            _open(name, receive)

    _lines[name] = _line_class()(name)
    _lines[name].on_msg(pass_on)
    _lines[name].open()


@functools.cache
def _line_class() -> Any:
    from anywidget import AnyWidget

    class Line(AnyWidget):
        """It receives the messages of pages, and sends news to all of them. It has no view."""

        def __init__(self, name: str) -> None:
            self._esm = web.bundle("course_hub.js") + _LINE.replace("LINE", json.dumps(name))
            super().__init__()

    return Line


def tell(news: dict[str, Any]) -> None:
    """Send news to all open pages, from a cell that runs."""
    for widget in _lines.values():
        if widget is not None:
            widget.send(news)
        else:
            from IPython.display import HTML, display

            call = f"new BroadcastChannel({json.dumps(CHANNEL)}).postMessage({_held(news)})"
            display(HTML(f"<script>{call}</script>"))


def page(name: str, data: dict[str, Any], fallback: str, *, plain: bool = False) -> str:
    """The page that ``name`` of ``course_pages.js`` makes from ``data``; without scripts ``fallback``, HTML.

    ``plain``: it needs the function ``name`` of ``course_hub.js`` only, and no style.
    """
    key = f"snn-{uuid.uuid4().hex[:12]}"
    code = _PAGE.replace("KEY", json.dumps(key)).replace("NAME", name).replace("DATA", _held(data))
    place = f'<div class="{"" if plain else "snn course"}" id="{key}">{fallback}</div>'
    if plain:
        return f"{place}<script>(() => {{\n{_script('course_hub.js')}{code}}})();</script>"
    return place + _UNPACK % (_packed(), _held(code))


def show(name: str, data: dict[str, Any], fallback: str, words: str, *, plain: bool = False) -> None:
    """Display ``page(…)`` in a notebook, or ``words`` where no HTML is shown; print ``words`` elsewhere."""
    if not in_notebook():
        print(words)
        return
    from IPython.display import display

    display({"text/html": page(name, data, fallback, plain=plain), "text/plain": words}, raw=True)


def _held(data: Any) -> str:
    """JSON that is safe within a script element."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


@functools.cache
def _script(name: str) -> str:
    return web.bundle(name).replace("</script", "<\\/script")


@functools.cache
def _packed() -> str:
    """Style and scripts of the pages, compressed: each output has them, as on Colab it is a document of its own."""
    css = re.sub(r"/\*[\s\S]*?\*/", "", web.read("style.css") + web.read("course.css"))
    both = json.dumps([re.sub(r"\s+", " ", css), _script("course_pages.js")])
    return base64.b64encode(gzip.compress(both.encode(), 9, mtime=0)).decode()

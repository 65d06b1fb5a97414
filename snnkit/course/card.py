"""A small result card: HTML in a notebook (light and dark), plain text elsewhere."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from snnkit.viz.frontend import in_notebook

SHOWN = 12  # entries of a dict
# The figures' colours (viz.theme); each also has a sign and a word, so that nothing hangs on the colour alone.
TONES = {
    "good": ("✓", "#009E73"),
    "bad": ("✗", "#D55E00"),
    "open": ("○", "#D47F00"),
    "info": ("·", "#3399E0"),
}


@dataclass(frozen=True)
class Line:
    """One line of a card: running text, or a labelled value, or a block of code."""

    text: str
    label: str = ""
    code: bool = False


@dataclass(frozen=True)
class Card:
    """A heading ("01.1 One step: passed") with a tone of ``TONES``, and lines under it."""

    tone: str
    heading: str
    word: str = ""
    lines: Sequence[Line] = field(default_factory=tuple)

    def text(self) -> str:
        sign = TONES[self.tone][0]
        out = [f"{sign} {self.heading}" + (f": {self.word}" if self.word else "")]
        width = max((len(line.label) for line in self.lines if line.code), default=0)
        for line in self.lines:
            if line.code and line.label:
                body = textwrap.indent(line.text, " " * (width + 6)).lstrip()
                out.append(f"    {line.label.ljust(width)}  {body}")
            elif line.code:
                out.append(textwrap.indent(line.text, "    "))
            else:
                out.append(
                    textwrap.fill(
                        f"{line.label}{': ' if line.label else ''}{line.text}",
                        100,
                        initial_indent="  ",
                        subsequent_indent="  ",
                    )
                )
        return "\n".join(out)

    def html(self) -> str:
        sign, colour = TONES[self.tone]
        word = f' <span style="opacity:.85">· {html.escape(self.word)}</span>' if self.word else ""
        head = f'<div><b><span style="color:{colour}">{sign}</span> {html.escape(self.heading)}</b>{word}</div>'
        body = "".join(_html_line(line) for line in self.lines)
        style = f"border-left:4px solid {colour};padding:.4em .9em;margin:.4em 0;line-height:1.45;max-width:60em"
        return f'<div class="snnkit-card" style="{style}">{head}{body}</div>'

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


_GREY = "background:rgba(127,127,127,.14);border-radius:3px"


def _html_line(line: Line) -> str:
    label = html.escape(line.label)
    if line.code:
        tag = f'<span style="display:inline-block;min-width:5.5em;opacity:.8">{label}</span>' if label else ""
        pre = f"{_GREY};padding:.15em .5em;margin:.15em 0;white-space:pre-wrap;display:inline-block;font-size:.92em"
        block = f'<pre style="{pre}">{html.escape(line.text)}</pre>'
        return f'<div style="display:flex;align-items:baseline">{tag}{block}</div>'
    prefix = f"<b>{label}:</b> " if label else ""
    return f'<div style="margin:.2em 0">{prefix}{rich(line.text)}</div>'


def rich(text: str) -> str:
    """Escaped HTML of a text in which `…` marks code."""
    return re.sub(r"`([^`]+)`", rf'<code style="{_GREY};padding:0 .25em">\1</code>', html.escape(text))


def short(value: Any, limit: int = 400) -> str:
    """A value as a learner can read it: few digits, few elements, shape and dtype when elements are left out.

    A value that cannot be shown (its ``__repr__`` raises, say) is named by its type: a card never fails.
    """
    try:
        return _short(value, limit, depth=4)
    except Exception:
        return f"({type(value).__name__} that cannot be shown)"


def _short(value: Any, limit: int, depth: int) -> str:
    if isinstance(value, str):
        return _cut(value, limit)
    if isinstance(value, Tensor):
        return _cut(_tensor(value), limit)
    if isinstance(value, np.ndarray):
        return _cut(_array(value, f"{value.shape} {value.dtype}"), limit)
    if isinstance(value, (dict, tuple, list)) and not depth:
        return "…"
    if isinstance(value, dict):
        shown = list(value.items())[:SHOWN]
        rows = [f"{_short(name, limit, depth - 1)} = {_short(v, limit, depth - 1)}" for name, v in shown]
        return _cut("\n".join(rows + ["…"] * (len(value) > SHOWN)), limit)
    if isinstance(value, (tuple, list)):
        inner = ", ".join(_short(v, limit, depth - 1) for v in value[:8]) + (", …" if len(value) > 8 else "")
        return _cut(f"({inner})" if isinstance(value, tuple) else f"[{inner}]", limit)
    if isinstance(value, float):
        return f"{value:.6g}"
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    return _cut(repr(value), limit)


def _tensor(value: Tensor) -> str:
    note = f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"
    if value.is_meta:
        return f"no numbers, on the device meta\nshape {note}"
    array = value.detach().to("cpu")
    if array.layout != torch.strided:
        array = array.to_dense()
    array = array.resolve_conj().resolve_neg()
    return _array(array.float().numpy() if array.dtype == torch.bfloat16 else array.numpy(), note)


def _array(array: np.ndarray, note: str) -> str:
    if array.ndim == 0:
        return f"{array.item():.6g}" if array.dtype.kind == "f" else str(array.item())
    with np.printoptions(precision=4, threshold=16, edgeitems=3, suppress=True, linewidth=90):
        text = str(array)
    return text if array.size <= 16 else f"{text}\nshape {note}"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"

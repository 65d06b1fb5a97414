"""The gate between a prediction and its outcome: what cells show there is hidden until the learner locks or skips.

``predict`` asks, ``outcome`` answers. Each cell that runs from the one to the other begins with a gate, a small page
that hides the outputs below it in the same cell. It is an output like others: where no script and no style runs (on
GitHub, say), or no one is there to read (``attended``), nothing is hidden. Cells with an exercise are never hidden.
"""

from __future__ import annotations

import re
from typing import Any

from snnkit.lab.course import card, order, progress
from snnkit.lab.viz.frontend import attended, on_colab

_OUTCOME = re.compile(r"\boutcome\(\s*[\"'](\w+\.[a-z])[\"']")
_OPEN = re.compile(r"\b(?:predict|attempt|hint|solution|quiz|scorecard)\(")
# What holds the outputs of a cell, and one of them: in JupyterLab, and in VS Code. On Colab each cell is a page.
_PLACES = ((".jp-OutputArea", ".jp-OutputArea-child"), (".cell_container", ".output_container"))
_FAILED = '<span class="snn-failed"></span>'  # opens the gate of its cell: an error must be seen
_HIDDEN = (
    "visibility: hidden !important; height: 0 !important; min-height: 0 !important; margin: 0 !important; "
    "padding: 0 !important; border: 0 !important; overflow: hidden !important"  # it has its width, so figures fit
)
_LOOK = """
.snn-gate { font: 14px/1.6 system-ui, sans-serif; opacity: .85; margin: 2px 0 }
.snn-gate button { font: inherit; color: inherit; background: none; border: 1px solid; border-radius: 6px;
  padding: 0 10px; cursor: pointer }
"""


def closes(source: str, place: str) -> list[str]:
    """The predictions, without an answer so far, that the cell ``source`` at ``place`` (its id) has to wait for."""
    now, last = progress.current(), [order.named(key) for key in _OUTCOME.findall(source)]
    waits = [*now.gates.get(place, []), *now.waiting, *last]
    now.waiting = [
        key for key in now.waiting if key not in last
    ]  # whether or not the cell comes to its call of outcome
    now.gates[place] = [] if _OPEN.search(source) else list(dict.fromkeys(waits))
    return [key for key in now.gates[place] if progress.record(key) is None]


def ask(key: str, line: str | None) -> None:
    """From here on cells wait for the prediction ``key``; ``line`` leads from pages to the kernel."""
    now = progress.current()
    now.line = line
    if key not in now.waiting:
        now.waiting.append(key)
    if attended():
        from IPython import get_ipython

        shell: Any = get_ipython()
        if _close not in shell.events.callbacks["pre_run_cell"]:
            shell.events.register("pre_run_cell", _close)
            shell.events.register("post_run_cell", _end)


def _close(info: Any) -> None:
    """Before a cell: show its gate, if it has to wait."""
    source = info.raw_cell or ""
    now, keys = progress.current(), closes(source, getattr(info, "cell_id", None) or source)
    now.gated = bool(keys) and attended()
    if now.gated:
        data = {"keys": {key: order.label(key) for key in keys}, "line": now.line}
        card.show("gatePage", data, _closed(), "", plain=True)


def _end(result: Any) -> None:
    """After a cell: show what it failed with."""
    if progress.current().gated and not result.success:
        from IPython.display import display

        display({"text/html": _FAILED, "text/plain": ""}, raw=True)


def _closed() -> str:
    """A gate without words, which its script adds: where none runs, nothing is hidden."""
    places = (("html", "*"),) if on_colab() else _PLACES
    waiting = [f"{cell}:not(:has(.snn-failed)) {one}:has(.snn-gate.closed) ~ {one}" for cell, one in places]
    failed = [f"{cell}:has(.snn-failed) .snn-gate" for cell, _ in places]
    alone = [f"{one}:not(:has(~ {one})) .snn-gate" for _, one in _PLACES]
    gone = ", ".join([".snn-gate:not(.closed)", *failed, *alone])
    style = f"{', '.join(waiting)} {{ {_HIDDEN} }}\n{gone} {{ display: none }}"
    return f'<style>{_LOOK}{style}</style><div class="snn-gate closed"></div>'

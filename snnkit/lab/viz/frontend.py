"""The place where this code runs (a notebook with a kernel, Colab, or a headless run), and the needs of live figures
there."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import sys
from typing import Any

SLOW = "rfc3987_syntax"


def headless() -> bool:
    """Whether there is no viewer: the notebook runner sets SNNKIT_HEADLESS=1. Then nothing live is built."""
    return os.environ.get("SNNKIT_HEADLESS", "") not in ("", "0")


def on_colab() -> bool:
    return "COLAB_RELEASE_TAG" in os.environ or "google.colab" in sys.modules


def in_notebook() -> bool:
    """Whether an IPython kernel runs this, so that rich output is displayed."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def attended() -> bool:
    """Whether a person runs the cells of a notebook: papermill and nbconvert start them without a way to ask one."""
    if headless() or not in_notebook():
        return False
    return getattr(sys.modules["IPython"].get_ipython().kernel, "_allow_stdin", True)


def in_jupyterlab() -> bool:
    """Whether JupyterLab, or an editor that draws figures as it does, requested what runs now: these name the cell in
    their request. What executes notebooks without a viewer (papermill, nbclient) does not."""
    if not in_notebook():
        return False
    from IPython import get_ipython

    return "cellId" in get_ipython().kernel.get_parent().get("metadata", {})


def live() -> bool:
    """Whether widgets make sense here: a notebook with a viewer, and ipywidgets installed."""
    return not headless() and in_notebook() and importlib.util.find_spec("ipywidgets") is not None


def prepare_plotly() -> None:
    """Before the first ``figure.show()``: import jsonschema without its slow part.

    plotly's renderers import nbformat, which imports jsonschema, which imports grammars of IRIs if they are installed.
    This takes more than 8 tenths of the time until the first explorer appears, and no notebook has an IRI to check.
    """
    if SLOW in sys.modules or "jsonschema" in sys.modules:
        return
    sys.modules[SLOW] = None  # type: ignore[assignment]
    try:
        with contextlib.suppress(ImportError):
            import jsonschema  # noqa: F401
    finally:
        sys.modules.pop(SLOW, None)


def darken_drawings() -> None:
    """In JupyterLab: make the drawings of notebooks dark where its theme is. The style is in the head of the page, as
    JupyterLab takes outputs that are out of sight off the page."""
    if headless() or on_colab() or not in_jupyterlab():
        return
    from IPython.display import display

    from snnkit.lab.pages import web

    style = f'Object.assign(document.createElement("style"), {{textContent: {json.dumps(web.read("drawings.css"))}}})'
    page = f"<script>window.snnkitDrawings ??= document.head.appendChild({style});</script>"
    display({"text/html": page, "text/plain": ""}, raw=True)


def page_helpers() -> tuple[Any, ...]:
    """For a VBox with figures: an invisible widget whose script gives sliders names that screen readers read aloud;
    nothing on Colab, where scripts see no widget."""
    if on_colab():
        return ()
    import ipywidgets

    from snnkit.lab.pages import web

    page = (
        f"<style>{web.read('plot_text.css')}</style><script>(() => {{\n{web.bundle('page_helpers.js')}}})();</script>"
    )
    output = {"output_type": "display_data", "data": {"text/html": page, "text/plain": ""}, "metadata": {}}
    return (ipywidgets.Output(outputs=(output,), layout={"height": "0", "margin": "0", "overflow": "hidden"}),)

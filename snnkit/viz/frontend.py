"""Where this code runs, and what live figures need there: a notebook with a kernel, Colab, or a headless run."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from typing import Any

SLOW = "rfc3987_syntax"

# plotly.js listens to the window alone, and skips plots that are not displayed: one in a part of the notebook that
# JupyterLab has taken off the page keeps its old width, and a sidebar that opens resizes no window. The observer
# notices both, and a plot's return. Plotly's own handler does the rest; where a release has no such name, all plots are
# notified. ipywidgets shows a slider's description beside it, but the element with the focus is an unnamed handle.
_HELP = """
function fit(box) {
    const plot = box.querySelector('.js-plotly-plot'), drawn = plot?.querySelector('.main-svg');
    if (!drawn || !plot.clientWidth || Math.abs(drawn.clientWidth - plot.clientWidth) <= 1) return;
    if (plot._responsiveChartHandler) plot._responsiveChartHandler();
    else window.dispatchEvent(new Event('resize'));
}
function name(box) {
    for (const handle of box.querySelectorAll('.widget-slider .noUi-handle')) {
        const label = handle.closest('.widget-slider').querySelector('label');
        if (label?.textContent) handle.setAttribute('aria-label', label.textContent);
    }
}
export default {
    render({ el }) {
        const observer = new ResizeObserver(() => {
            const box = el.closest('.widget-vbox');
            if (box) { fit(box); name(box); }
        });
        observer.observe(el);
        return () => observer.disconnect();
    },
};
"""


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


def live() -> bool:
    """Whether widgets make sense here: a notebook with a viewer, and ipywidgets installed."""
    if headless() or not in_notebook():
        return False
    try:
        import ipywidgets  # noqa: F401
    except ImportError:
        return False
    return True


def prepare_plotly() -> None:
    """Before the first ``go.FigureWidget`` or ``figure.show()``: import jsonschema without its slow part.

    plotly's renderers import nbformat, which imports jsonschema, which can check IRIs, by grammars that rfc3987_syntax
    builds while it is imported: where it is installed, as by JupyterLab and on Colab, that is more than 8 tenths of the
    time until the first explorer appears. No notebook has an IRI to check. So jsonschema is made to find it missing,
    and omits this check; other importers still get it.
    """
    if SLOW in sys.modules or "jsonschema" in sys.modules:
        return
    sys.modules[SLOW] = None  # type: ignore[assignment]
    try:
        with contextlib.suppress(ImportError):
            import jsonschema  # noqa: F401
    finally:
        sys.modules.pop(SLOW, None)


def page_helper() -> Any:
    """An invisible widget that keeps the live figures in its VBox as wide as their place, and gives sliders names that
    screen readers read aloud. Needs anywidget."""
    return _helper()(layout={"width": "100%", "height": "0", "margin": "0"})


@functools.cache
def _helper() -> Any:
    from anywidget import AnyWidget

    class PageHelper(AnyWidget):
        _esm = _HELP

    return PageHelper

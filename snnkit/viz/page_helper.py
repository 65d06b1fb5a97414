"""What only the page can do: keep live figures as wide as their place, and say aloud what sliders are called."""

from __future__ import annotations

import functools
from typing import Any

# plotly.js listens to the window alone, and passes over plots that are not displayed: one in a part of the notebook
# that JupyterLab has taken off the page keeps its old width, and a sidebar that opens resizes no window. The observer
# hears of both, and of a plot's return. Plotly's own handler does what is to be done then; where a release gives it
# no such name, all plots are asked.
# ipywidgets shows a slider's description beside it, but what has the focus is a handle without a name.
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


def page_helper() -> Any:
    """A widget that shows nothing and looks after the VBox it is in. Needs anywidget."""
    return _helper()(layout={"width": "100%", "height": "0", "margin": "0"})


@functools.cache
def _helper() -> Any:
    from anywidget import AnyWidget

    class PageHelper(AnyWidget):
        _esm = _HELP

    return PageHelper

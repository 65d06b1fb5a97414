// plotly.js listens to the window alone, and skips plots that are not displayed: one in a part of the notebook that
// JupyterLab has taken off the page keeps its old width, and a sidebar that opens resizes no window. The observer
// notices both, and a plot's return. ipywidgets shows a slider's description beside it, but the element with the focus
// is an unnamed handle.
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

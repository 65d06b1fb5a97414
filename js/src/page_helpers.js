// ipywidgets shows a slider's description beside it, but the element with the focus is an unnamed handle.
const box = /** @type {HTMLElement} */ (
  /** @type {HTMLScriptElement} */ (document.currentScript).closest('.widget-vbox'));
const name = () => {
  for (const handle of box.querySelectorAll('.widget-slider .noUi-handle')) {
    const label = /** @type {Element} */ (handle.closest('.widget-slider')).querySelector('label');
    if (label?.textContent) handle.setAttribute('aria-label', label.textContent);
  }
};
// Sliders come after this, and anew when JupyterLab has taken the cell off the page.
if (box) new ResizeObserver(name).observe(box);

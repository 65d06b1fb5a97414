// JupyterLab's plotly shows the PNG of an output until the mouse meets it. Here each such picture is met as soon as it
// is on the page, and hidden before it is painted: what appears is the figure itself. One observer serves the page.
(() => {
  if (window.snnkitAwake || !document.getElementById("jupyter-config-data")) return;
  const images = document.getElementsByClassName("plot-img");
  const wake = () => {
    for (const image of images) {
      if (!image.getAttribute("src") || image.dataset.awake) continue;
      image.dataset.awake = "true";
      image.style.visibility = "hidden";
      image.dispatchEvent(new Event("mouseenter"));
      setTimeout(() => { image.style.visibility = ""; }, 5000); // plotly returns to it where WebGL fails
    }
  };
  window.snnkitAwake = new MutationObserver(wake);
  window.snnkitAwake.observe(document.body, {childList: true, subtree: true, attributeFilter: ["src"]});
  wake();
})();

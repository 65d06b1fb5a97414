// Plotly figures of pages without a kernel: the site and the reports. Each is a <figure class="snn-figure"> that holds
// its data as JSON, and is drawn before it comes into view; plotly.js, which lies beside this file, is loaded only by
// pages that have one.
(() => {
  const here = document.currentScript.src;
  let plotly;

  const load = () => (plotly ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = new URL("plotly.min.js", here);
    script.onload = () => done(window.Plotly);
    script.onerror = () => failed(new Error("plotly.min.js is missing"));
    document.head.append(script);
  }));

  const draw = async (place) => {
    const {data, layout, frames, config} = JSON.parse(place.querySelector("script").textContent);
    const Plotly = await load();
    const plot = document.createElement("div"), ink = () => getComputedStyle(place).color;
    plot.style.height = place.style.minHeight;
    place.append(plot);
    layout.font = {...layout.font, color: ink()}; // the kit's grey has to do for both kinds of page; here one is known
    await Plotly.newPlot(plot, data, layout, config);
    if (frames) await Plotly.addFrames(plot, frames);
    // A window may keep its size while a menu beside the text opens.
    new ResizeObserver(() => { if (plot.clientWidth) Plotly.Plots.resize(plot); }).observe(place);
    const recolour = () => Plotly.relayout(plot, {"font.color": ink()});
    new MutationObserver(recolour).observe(document.documentElement, {attributeFilter: ["data-theme"]});
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  };

  const start = () => {
    const near = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        near.unobserve(entry.target);
        draw(entry.target);
      }
    }, {rootMargin: "800px 0px"});
    for (const place of document.querySelectorAll("figure.snn-figure")) near.observe(place);
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();

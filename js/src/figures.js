// Plotly figures of pages without a kernel: the site and the reports. Each is a <figure class="snn-figure"> that holds
// its data as JSON, and is drawn before it comes into view; plotly.js, which lies beside this file, is loaded only by
// pages that have one.

import {isGrid, narrow, wrapped} from "./narrow.js";

(() => {
  /**
   * @typedef {{title?: {text: string}, height: number, margin?: {t?: number}, font?: {color?: string},
   *   dragmode?: string|false}} Layout
   * @typedef {Layout & {title: {text: string}}} Titled
   * @typedef {{layout?: Layout}} Frame
   * @typedef {{data: object[], layout: Layout, frames?: Frame[], config: object}} Figure
   * @typedef {{newPlot(plot: HTMLElement, data: object[], layout: Layout, config: object): Promise<void>,
   *   addFrames(plot: HTMLElement, frames: Frame[]): Promise<void>,
   *   relayout(plot: HTMLElement, changes: Record<string, string>): Promise<void>,
   *   Plots: {resize(plot: HTMLElement): void}}} Plotly what is used of it
   */
  const here = /** @type {HTMLScriptElement} */ (document.currentScript).src;
  /** @type {Promise<Plotly>|undefined} */
  let plotly;

  const load = () => (plotly ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = new URL("plotly.min.js", here).href;
    script.onload = () => done(/** @type {{Plotly: Plotly}} */ (/** @type {unknown} */ (window)).Plotly);
    script.onerror = () => failed(new Error("plotly.min.js is missing"));
    document.head.append(script);
  }));

  // Narrower than this, panels come one below the other. Grids of pictures are moved sideways by the reader.
  const LEAST = 640, LETTER = 8.6, LINE = 21; // px; the last two of a title

  /**
   * Breaks titles that the reader could not see whole, and makes room for their lines.
   * @param {HTMLElement} plot @param {[Layout, ...Array<Layout|undefined>]} layouts @param {number} wide
   */
  const fitTitles = (plot, layouts, wide) => {
    const titled = /** @type {Titled[]} */ (layouts.filter((layout) => layout?.title?.text));
    /** @param {Titled} layout */
    const lines = (layout) => layout.title.text.split("<br>").length;
    const before = Math.max(0, ...titled.map(lines));
    for (const layout of titled) layout.title.text = wrapped(layout.title.text, (wide - 16) / LETTER);
    const more = LINE * (Math.max(0, ...titled.map(lines)) - before);
    for (const layout of layouts) if (layout?.height) layout.height += more;
    const [{margin = {}}] = layouts;
    layouts[0].margin = {...margin, t: (margin.t ?? 52) + more};
    plot.style.height = `${layouts[0].height}px`;
  };

  /** @param {HTMLElement} place */
  const draw = async (place) => {
    const script = /** @type {HTMLScriptElement} */ (place.querySelector("script"));
    const {data, layout, frames, config} = /** @type {Figure} */ (JSON.parse(script.textContent));
    const Plotly = await load();
    const plot = document.createElement("div"), ink = () => getComputedStyle(place).color;
    const small = place.clientWidth < LEAST;
    if (small && isGrid(layout)) {
      const said = document.createElement("div");
      said.textContent = "The figure moves sideways →";
      said.style.cssText = "position: sticky; left: 0; font-size: 13px; opacity: .7";
      place.append(said);
      place.style.overflowX = "auto";
      plot.style.minWidth = `${LEAST}px`;
    } else if (small) narrow({data, layout, frames}, place.clientWidth);
    place.style.minHeight = "";
    place.append(plot);
    fitTitles(plot, [layout, ...(frames ?? []).map((frame) => frame.layout)], place.clientWidth);
    if (small) layout.dragmode = false; // fingers move the page
    const buttons = small ? {displayModeBar: false} : {}; // they would lie over the title
    // The kit's grey has to do for both kinds of page, and plots in space have white paper for theirs; here one is known.
    const scenes = Object.keys(layout).filter((key) => /^scene\d*$/.test(key));
    /** @returns {Record<string, string>} */
    const inked = () => Object.fromEntries([["font.color", ink()], ...scenes.flatMap((scene) => ["x", "y", "z"].flatMap(
      (axis) => ["color", "tickfont.color"].map((part) => [`${scene}.${axis}axis.${part}`, ink()])))]);
    for (const scene of scenes) /** @type {any} */ (layout)[scene].bgcolor = "rgba(0,0,0,0)";
    layout.font = {...layout.font, color: ink()};
    await Plotly.newPlot(plot, data, layout, {...config, ...buttons});
    if (frames) await Plotly.addFrames(plot, frames);
    const recolour = () => Plotly.relayout(plot, inked());
    if (scenes.length) await recolour();
    // A window may keep its size while a menu beside the text opens.
    new ResizeObserver(() => { if (plot.clientWidth) Plotly.Plots.resize(plot); }).observe(place);
    new MutationObserver(recolour).observe(document.documentElement, {attributeFilter: ["data-theme"]});
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", recolour);
  };

  const start = () => {
    const near = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        near.unobserve(entry.target);
        draw(/** @type {HTMLElement} */ (entry.target));
      }
    }, {rootMargin: "800px 0px"});
    for (const place of document.querySelectorAll("figure.snn-figure")) near.observe(place);
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();

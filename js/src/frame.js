// A page within another, in a frame.

/**
 * Keeps the page in `frame` in the scheme of the page around it, with letters as large as that wants them (`--letters` of
 * style.css), and the frame as high as its page asks for (see fit_in.js).
 * @param {HTMLIFrameElement} frame
 */
export function follow(frame) {
  const tell = () => {
    if (!frame.isConnected) return; // JupyterLab takes cells that are far from view out of the page
    const parent = /** @type {HTMLElement} */ (frame.parentElement);
    const style = getComputedStyle(parent), letters = style.getPropertyValue("--letters");
    const [red, green, blue] = /** @type {string[]} */ (style.color.match(/\d+/g)).map(Number);
    const theme = red + green + blue > 382 ? "dark" : "light"; // light letters
    frame.contentWindow?.postMessage({snnkit: {theme, letters}}, "*");
  };
  addEventListener("message", (event) => {
    const said = event.source === frame.contentWindow && event.data?.snnkit;
    if (!said) return;
    if (said.height) frame.style.height = `${said.height}px`;
    tell();
  });
  const attributeFilter = ["class", "theme", "data-theme", "data-jp-theme-light"]; // where notebooks and sites say theirs
  const changed = new MutationObserver(() => requestAnimationFrame(tell));
  for (const place of [document.documentElement, document.body]) changed.observe(place, {attributeFilter});
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
}

// A page that stands within another, in a frame which `follow` of frame.js keeps.

/**
 * Takes the scheme of the page around this one, if there is one.
 * @param {HTMLElement} [whole] as high as the frame should be; without it, the frame stays as it is
 */
export function fitIn(whole) {
  if (parent === self) return;
  addEventListener("message", (event) => {
    const theme = event.source === parent && event.data?.snnkit?.theme;
    if (theme === "dark" || theme === "light") document.body.dataset.theme = theme;
  });
  const say = () => parent.postMessage({snnkit: {height: whole?.offsetHeight}}, "*");
  if (whole) new ResizeObserver(say).observe(whole);
  else say();
}

// A page that stands within another, in a frame which `follow` of frame.js keeps.

/**
 * Takes the scheme of the page around this one, if there is one, and the size of letters, if it has one.
 * @param {HTMLElement} [whole] the frame becomes as high as this has ever been at its width; without it, it stays as it is
 */
export function fitIn(whole) {
  if (parent === self) return;
  addEventListener("message", (event) => {
    const {theme, letters} = (event.source === parent && event.data?.snnkit) || {};
    if (theme === "dark" || theme === "light") document.body.dataset.theme = theme;
    if (!letters || document.body.style.getPropertyValue("--letters") === letters) return;
    for (const name of ["--letters", "--small"]) document.body.style.setProperty(name, letters);
    dispatchEvent(new Event("resize")); // drawings look again
  });
  // What a page says while it plays takes two lines or four: its frame grows with it and stays, so that the text below stays.
  let height = 0, width = 0;
  const say = () => {
    if (whole) height = Math.max(whole.offsetHeight, whole.offsetWidth === width ? height : 0);
    width = whole?.offsetWidth ?? 0;
    parent.postMessage({snnkit: {height}}, "*");
  };
  if (whole) new ResizeObserver(say).observe(whole);
  else say();
}

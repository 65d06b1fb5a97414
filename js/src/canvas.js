// What every drawing needs: a canvas that is as sharp as the screen, colours of the scheme that is on, and one loop.

/**
 * @typedef {Record<string, string>} Colours by their names, such as `ink` and `strongLine`, each "rgb(r, g, b)" or rgba
 * @typedef {{element: HTMLElement, canvas: HTMLCanvasElement, colours: Colours, fit?: function(): void,
 *   draw: function(): void}} View also has `context`, `width`, `height` and `letters`, which is the font size of its
 *   canvas in px, once that has a place
 */

const TOKENS = ["page", "panel", "raised", "line", "strong-line", "ink", "muted", "faint", "accent", "on-accent",
  "accent-soft", "error", "blue", "vermilion", "green", "orange", "purple", "sky",
  "crimson", "violet", "teal", "olive"];

export const BELOW_ZERO = [5, 3]; // dashes of weights: their colour alone does not say it

/**
 * The colours of style.css as they are now: {page, panel, ..., strongLine, onAccent}.
 * @param {Element} element inside an element of class "snn", or that itself
 */
export function colours(element) {
  const probe = document.createElement("span");
  element.append(probe);
  const values = /** @type {Colours} */ ({});
  for (const token of TOKENS) {
    probe.style.color = `var(--${token})`;
    values[token.replace(/-(\w)/, (_, letter) => letter.toUpperCase())] = getComputedStyle(probe).color;
  }
  probe.remove();
  return values;
}

/**
 * Calls back with the new colours when the scheme changes, be it that of the system or of the page around.
 * @param {Element} element
 * @param {function(Colours): void} callback
 * @returns {function(): void} ends it
 */
export function watchColours(element, callback) {
  let last = JSON.stringify(colours(element));
  const look = () => {
    if (!element.isConnected) return; // JupyterLab takes cells that are far from view out of the page
    const now = colours(element), text = JSON.stringify(now);
    if (text !== last) {
      last = text;
      callback(now);
    }
  };
  const query = matchMedia("(prefers-color-scheme: dark)");
  query.addEventListener("change", look);
  const observer = new MutationObserver(look);
  const options = {attributes: true, attributeFilter: ["class", "data-theme", "data-jp-theme-light", "theme"]};
  for (const place of [document.documentElement, document.body]) observer.observe(place, options);
  const back = new ResizeObserver(look); // in the page again
  back.observe(element);
  return () => {
    query.removeEventListener("change", look);
    observer.disconnect();
    back.disconnect();
  };
}

/** "rgb(r, g, b)" with another opacity. @param {string} colour @param {number} alpha */
export function faint(colour, alpha) {
  const [red, green, blue] = /** @type {string[]} */ (colour.match(/[\d.]+/g));
  return `rgba(${red}, ${green}, ${blue}, ${alpha})`;
}

/**
 * Keeps a canvas as many pixels as its place on the screen has, whatever the zoom.
 * @param {HTMLCanvasElement} canvas whose size CSS decides
 * @param {function(CanvasRenderingContext2D, number, number, number): void} resized is called with the size and that of
 *   letters in CSS pixels, at first and whenever one changes; the context is scaled, so that drawing is in CSS pixels, too
 * @returns {function(): void} ends it
 */
export function surface(canvas, resized) {
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  let last = "";
  const look = () => {
    const {width, height} = canvas.getBoundingClientRect(), ratio = devicePixelRatio || 1;
    const letters = parseFloat(getComputedStyle(canvas).fontSize), size = `${width} ${height} ${ratio} ${letters}`;
    if (size === last || width === 0 || height === 0) return;
    last = size;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    context.setTransform(canvas.width / width, 0, 0, canvas.height / height, 0, 0);
    resized(context, width, height, letters);
  };
  const observer = new ResizeObserver(look);
  observer.observe(canvas);
  addEventListener("resize", look); // the zoom changes the ratio, but not the size
  look();
  return () => {
    observer.disconnect();
    removeEventListener("resize", look);
  };
}

/**
 * One animation: `frame(seconds since the last one)` is called for each picture of the screen until it returns false.
 * It rests while the tab is hidden, and so costs nothing there; `wake()` starts it again.
 */
export class Loop {
  /** @param {function(number): (boolean|void)} frame */
  constructor(frame) {
    this.frame = frame;
    this.request = 0;
    this.last = 0;
    this.ended = false;
    this.seen = () => this.wake();
    document.addEventListener("visibilitychange", this.seen);
  }

  wake() {
    if (this.request || document.hidden || this.ended) return;
    this.last = performance.now();
    this.request = requestAnimationFrame((now) => this.tick(now));
  }

  /** @param {number} now */
  tick(now) {
    this.request = 0;
    if (document.hidden) return;
    const passed = Math.min(Math.max(now - this.last, 0), 100) / 1000; // after a pause it goes on where it was
    this.last = now;
    if (this.frame(passed) !== false && !this.ended) this.request = requestAnimationFrame((next) => this.tick(next));
  }

  end() {
    this.ended = true;
    cancelAnimationFrame(this.request);
    document.removeEventListener("visibilitychange", this.seen);
  }
}

/** Whether movement is to be avoided, as the system's settings say. */
export function calm() {
  return matchMedia("(prefers-reduced-motion: reduce)").matches;
}

/**
 * Draws `view`, which has an element, a canvas and `draw`, whenever its place or its colours change; ends by a call.
 * @param {View} view
 */
export function follow(view) {
  view.colours = colours(view.element);
  const ends = [
    watchColours(view.element, (found) => {
      view.colours = found;
      view.draw();
    }),
    surface(view.canvas, (context, width, height, letters) => {
      Object.assign(view, {context, width, height, letters});
      view.fit?.();
      view.draw();
    }),
  ];
  return () => ends.forEach((one) => one());
}

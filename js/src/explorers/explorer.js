// What all explorers share: a frame of controls, a headline that says what is seen, plots, and seeded noise.

import {framed, make, panel} from "../controls.js";
import {colour, listen} from "./words.js";

/**
 * @import {Control, Controls} from "../controls.js"
 * @typedef {{start(): unknown, end(): void, knows?(name: string): boolean, light?(name: ?string): void}} Picture such as
 *   a Plot; `light` its marks of that name
 */
/**
 * @template T
 * @typedef {{label: string, controls: Controls<T>, body: Array<Node>, plots: Array<Picture>, saved?: Partial<T>,
 *   draw: function(T, Set<keyof T>): string, report?: function(T): void}} ExplorerOptions T: the values of its controls
 */
/**
 * @template T
 * @typedef {{set(values: Partial<T>): void, values(): T, ask(name: keyof T): void, end(): void,
 *   use<Name extends keyof T>(name: Name, value: T[Name]): void}} Explorer
 */
/**
 * @template Data, T
 * @typedef {function(HTMLElement, Data, Partial<T>=, function(T): void=): Explorer<T>} Start of an explorer at a place
 */

/**
 * Builds an explorer into `place`: controls above, a headline that `draw` writes, and whatever `body` holds.
 *
 * @template T
 * @param {HTMLElement} place
 * @param {ExplorerOptions<T>} options `draw` gets the values of the controls and the names of those that have changed,
 *   and returns the headline; `saved` are values to begin with, and `report` is called after every change
 * @returns {Explorer<T>}
 */
export function explorer(place, {label, controls, body, plots, saved = {}, draw, report = () => {}}) {
  const headline = make("p", {className: "headline"});
  const spoken = make("p", {className: "visually-hidden", role: "status"});
  const changed = new Set(/** @type {Array<keyof T>} */ (Object.keys(controls)));
  /** @type {ReturnType<typeof setTimeout>|number} */
  let timer = 0;
  let silent = true;
  const ask = framed(() => {
    if (ended) return;
    const words = draw(knobs.values(), new Set(changed));
    changed.clear();
    headline.textContent = words;
    quiet ??= listen(lamp);
    // What is read aloud waits until the hand rests.
    clearTimeout(timer);
    timer = setTimeout(() => {
      spoken.textContent = words;
      if (!silent) report(knobs.values());
    }, 300);
  });
  /** @param {keyof T} name */
  const want = (name) => {
    changed.add(name);
    ask();
  };
  // Words of the text light up what they name here, and controls light up these words.
  /** @type {(() => void)|undefined} */
  let quiet;
  const named = /** @type {Array<[string, Control<T[keyof T]>]>} */ (Object.entries(controls));
  const lamp = {
    place,
    knows: (/** @type {string} */ name) => name in controls || plots.some((plot) => plot.knows?.(name)),
    light(/** @type {?string} */ name) {
      for (const [key, {element}] of named) element.classList.toggle("lit", key === name);
      for (const plot of plots) plot.light?.(name);
    },
    control: (/** @type {string} */ name) => /** @type {?HTMLElement} */ (
      named.find(([key]) => key === name)?.[1].element.querySelector("[type=range], select, button, input") ?? null),
  };
  for (const [name, {element}] of named) {
    for (const kind of ["pointerenter", "focusin"]) element.addEventListener(kind, () => colour(name, true));
    for (const kind of ["pointerleave", "focusout"]) element.addEventListener(kind, () => colour(name, false));
  }
  const knobs = panel(controls, (name) => {
    silent = false;
    want(name);
  });
  let ended = false;
  knobs.set(saved);
  place.classList.add("snn", "explorer");
  place.setAttribute("role", "group");
  // JupyterLab has shortcuts of its own, and takes the focus at any key.
  place.setAttribute("data-lm-suppress-shortcuts", "true");
  place.addEventListener("keydown", (event) => event.stopPropagation());
  place.setAttribute("aria-label", label);
  place.replaceChildren(knobs.element, headline, ...body, spoken);
  // A container query would do, but in JupyterLab Chromium 156 may leave what is in a container without boxes.
  const sizes = new ResizeObserver(([entry]) => place.classList.toggle("narrow", entry.contentRect.width <= 620));
  sizes.observe(place);
  for (const plot of plots) plot.start();
  ask();
  return {
    ask: want,
    values: knobs.values,
    set(values) {
      knobs.set(values);
      for (const name of /** @type {Array<keyof T>} */ (Object.keys(values))) want(name);
    },
    /** As if the reader had moved a control. */
    use(name, value) {
      controls[name].set(value);
      silent = false;
      want(name);
    },
    end() {
      ended = true;
      quiet?.();
      sizes.disconnect();
      clearTimeout(timer);
      for (const plot of plots) plot.end();
    },
  };
}

/**
 * Numbers from 0 to 1, the same for the same seed (mulberry32, by Tommy Ettinger, in the public domain).
 * @param {number} seed
 */
export function uniform(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** Standard normal numbers, by Box and Muller. @param {number} count @param {number} seed */
export function normal(count, seed) {
  const next = uniform(seed), found = new Float32Array(count);
  for (let i = 0; i < count; i += 2) {
    const radius = Math.sqrt(-2 * Math.log(1 - next())), angle = 2 * Math.PI * next();
    found[i] = radius * Math.cos(angle);
    if (i + 1 < count) found[i + 1] = radius * Math.sin(angle);
  }
  return found;
}

/** "1 spike", "2 spikes". @param {number} count @param {string} noun */
export function counted(count, noun) {
  return `${Number(count.toPrecision(3))} ${noun}${count === 1 ? "" : "s"}`;
}

/** A little square of a colour, by its name in style.css. @param {string} colour */
export function swatch(colour) {
  const element = make("span", {textContent: "■ ", "aria-hidden": "true"});
  element.style.color = `var(--${colour})`;
  return element;
}

/** What each colour stands for, a line each: `set([[colour, text], …])`, colours by their names in style.css. */
export function swatches() {
  const element = make("div", {className: "small"});
  /** @param {[colour: string, text: string]} entry */
  const line = ([colour, text]) => make("div", {}, swatch(colour), text);
  /** @param {Array<[colour: string, text: string]>} entries */
  const set = (entries) => element.replaceChildren(...entries.map(line));
  return {element, set};
}

/**
 * A value without a control, such as a spike that is dragged: `explorer` treats it as one of its controls.
 * @template T
 * @param {T} first
 * @returns {Control<T>}
 */
export function held(first) {
  const changed = /** @type {function(T): void} */ (() => {});
  const one = /** @type {Control<T>} */ ({element: make("span", {hidden: true}), value: first, first, changed});
  one.set = (value) => (one.value = value);
  one.reset = () => {
    if (one.value === first) return;
    one.value = first;
    one.changed(first);
  };
  return one;
}

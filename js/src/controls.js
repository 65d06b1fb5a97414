// Controls: a slider with a value that one can type, a choice, a switch, a button, and panels of them. Each is
// {element, value, first, set(value), reset(), changed(value)}: `changed` is called for what the reader does, never for
// what a program sets.

/**
 * @template T
 * @typedef {{element: HTMLElement, value: T, first: T, set(value: T): void, reset(): void, changed(value: T): void}}
 *   Control
 */
/** @typedef {Control<number>} Slider */
/** @typedef {{label: string, unit?: string, min: number, max: number, step: number, value: number, log?: boolean,
 *   hint?: string, change?: function(number): void}} SliderOptions with `log`, equal ways multiply the value alike, and
 *   `step` only says how it is rounded and written */
/** @typedef {string|number|boolean} Choosable */
/** @template {Choosable} T @typedef {{value: T, label: string, hint?: string}} Option */
/**
 * @template {Choosable} T
 * @typedef {{label: string, options: Array<T|Option<T>>, value?: NoInfer<T>, hint?: string, list?: boolean,
 *   change?: function(T): void}} ChoiceOptions `list`: a menu, not buttons
 */
/** @template T @typedef {{[K in keyof T]: Control<T[K]>}} Controls by their names, with values of T */
/** @typedef {function(number, number, PointerEvent): void} Move to a place, in CSS pixels */

let controlsMade = 0;
// a page may hold several explorers, each with its own module
const controlsOf = Math.random().toString(36).slice(2, 8);

/**
 * An element with properties, attributes (those with a dash, and "role") and children.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string|number|boolean|undefined>} properties
 * @param {...(Node|string)} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, properties = {}, ...children) {
  const element = /** @type {HTMLElementTagNameMap[Tag] & Record<string, unknown>} */ (document.createElement(tag));
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined) continue;
    if (name.includes("-") || name === "role" || name === "for") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

/**
 * A number as a reader writes it: with the digits that `step` has, and a proper minus sign.
 * @param {number} value
 */
export function written(value, step = 0) {
  const first = step ? Math.max(0, Math.min(8, -Math.floor(Math.log10(step) + 1e-9))) : 0;
  const parts = step * 10 ** first, digits = first + (first < 8 && Math.abs(parts - Math.round(parts)) > 1e-6 ? 1 : 0);
  const text = step ? value.toFixed(digits) : String(Number(value.toPrecision(3)));
  return text.replace("-", "−");
}

/**
 * A slider: drag it, use the arrow keys, or type its value. Double click sets it back, as the button that appears does.
 * @param {SliderOptions} options
 * @returns {Slider}
 */
export function slider({label, unit = "", min, max, step, value: first, log = false, hint = "", change = () => {}}) {
  const id = `snn-${controlsOf}-${++controlsMade}`;
  const places = log ? 200 : Math.round((max - min) / step);
  /** @param {number} place */
  const valueAt = (place) => (log ? min * (max / min) ** (place / places) : min + place * step);
  /** @param {number} value */
  const placeOf = (value) => (log ? (places * Math.log(value / min)) / Math.log(max / min) : (value - min) / step);
  /** @param {number} value */
  const allowed = (value) => {
    const whole = Math.round((value - (log ? 0 : min)) / step) * step + (log ? 0 : min);
    return Number(Math.min(max, Math.max(min, whole)).toPrecision(12));
  };
  const range = make("input", {type: "range", id, min: 0, max: places, step: 1, title: hint});
  const box = make("input", {type: "text", inputMode: "decimal", className: "number", autocomplete: "off",
    title: "type a value", "aria-label": `${label}${unit && `, in ${unit}`}`});
  const back = make("button", {type: "button", className: "quiet back", textContent: "↺",
    title: `back to ${written(first, step)}`, "aria-label": `${label}: back to ${written(first, step)}`});
  const value = make("span", {className: "value"}, back, box, unit && ` ${unit}`);
  const element = make("div", {className: "control"}, make("label", {for: id, title: hint}, label), value, range);
  /** @type {Slider} */
  const control = {element, value: first, set, reset: () => use(control.first), first: allowed(first), changed: change};

  /** @param {number} wanted */
  function set(wanted) {
    control.value = allowed(wanted);
    const place = placeOf(control.value), text = written(control.value, step);
    range.value = String(Math.round(place));
    range.style.setProperty("--done", `${(100 * place) / (places || 1)}%`);
    range.setAttribute("aria-valuetext", `${text} ${unit}`.trim());
    box.value = text;
    box.size = Math.max(text.length, 3);
    back.classList.toggle("idle", control.value === control.first);
    back.disabled = control.value === control.first;
  }

  /** @param {number} wanted */
  function use(wanted) {
    const before = control.value;
    set(wanted);
    if (control.value !== before) control.changed(control.value);
  }

  function typed() {
    const number = Number(box.value.trim().replace("−", "-").replace(",", "."));
    if (box.value.trim() === "" || Number.isNaN(number)) set(control.value);
    else use(number);
  }

  range.addEventListener("input", () => use(valueAt(Number(range.value))));
  range.addEventListener("dblclick", () => use(control.first));
  box.addEventListener("change", typed);
  box.addEventListener("focus", () => box.select());
  box.addEventListener("keydown", (event) => {
    const way = /** @type {Record<string, number|undefined>} */ ({ArrowUp: 1, ArrowDown: -1})[event.key];
    if (way) {
      event.preventDefault();
      use(log ? valueAt(placeOf(control.value) + way) : control.value + way * step);
    } else if (event.key === "Escape") {
      set(control.value);
    }
    event.stopPropagation(); // a notebook has shortcuts of its own
  });
  back.addEventListener("click", () => {
    use(control.first);
    range.focus();
  });
  set(first);
  return control;
}

/**
 * One of several: buttons side by side where they are few and short, else a list.
 * @template {Choosable} T
 * @param {ChoiceOptions<T>} options
 * @returns {Control<T>}
 */
export function choice({label, options, value: first, hint = "", list, change = () => {}}) {
  const ways = options.map((one) => (typeof one === "object" ? one : {value: one, label: String(one)}));
  const letters = ways.reduce((sum, one) => sum + one.label.length + 3, 0);
  const control = /** @type {Control<T>} */ (
    {set, reset: () => use(control.first), first: first ?? ways[0].value, changed: change});
  const id = `snn-${controlsOf}-${++controlsMade}`;
  const name = make("span", {className: "name", id, title: hint}, label);
  /** @type {function(number): void} */
  let show;
  if (list ?? letters > 44) {
    const menu = make("select", {title: hint, "aria-labelledby": id},
      ...ways.map((one, i) => make("option", {value: i, textContent: one.label, title: one.hint ?? ""})));
    menu.addEventListener("change", () => use(ways[Number(menu.value)].value));
    show = (index) => (menu.value = String(index));
    control.element = make("div", {className: "control"}, name, menu);
  } else {
    const buttons = ways.map((one) => make("button", {type: "button", textContent: one.label, title: one.hint ?? ""}));
    buttons.forEach((button, i) => button.addEventListener("click", () => use(ways[i].value)));
    show = (index) => buttons.forEach((button, i) => button.setAttribute("aria-pressed", i === index));
    const group = make("div", {className: "segments", role: "group", "aria-labelledby": id}, ...buttons);
    control.element = make("div", {className: "control"}, name, group);
  }

  /** @param {T} wanted */
  function set(wanted) {
    const index = ways.findIndex((one) => one.value === wanted);
    const words = ways.map((one) => one.label).join(", ");
    if (index < 0) throw new RangeError(`${label} must be one of ${words}, but it is ${wanted}`);
    control.value = wanted;
    show(index);
  }

  /** @param {T} wanted */
  function use(wanted) {
    const before = control.value;
    set(wanted);
    if (wanted !== before) control.changed(wanted);
  }

  set(control.first);
  return control;
}

/**
 * On or off.
 * @param {{label: string, value?: boolean, hint?: string, change?: function(boolean): void}} options
 * @returns {Control<boolean>}
 */
export function toggle({label, value: first = false, hint = "", change = () => {}}) {
  const box = make("input", {type: "checkbox", role: "switch"});
  const element = make("div", {className: "control"}, make("label", {className: "switch", title: hint}, box, label));
  /** @type {Control<boolean>} */
  const control = {element, value: first, set, reset: () => use(control.first), first, changed: change};

  /** @param {boolean} wanted */
  function set(wanted) {
    control.value = box.checked = Boolean(wanted);
  }

  /** @param {boolean} wanted */
  function use(wanted) {
    const before = control.value;
    set(wanted);
    if (control.value !== before) control.changed(control.value);
  }

  box.addEventListener("change", () => {
    control.value = box.checked;
    control.changed(control.value);
  });
  set(first);
  return control;
}

/** A button. @param {{label: string, hint?: string, primary?: boolean, press: function(): void}} options */
export function button({label, hint = "", primary = false, press}) {
  const className = primary ? "primary" : "";
  const element = make("button", {type: "button", textContent: label, title: hint, className});
  element.addEventListener("click", press);
  return element;
}

/**
 * What the colours and marks of a picture mean.
 * @param {...[mark: string, colour: string, words: string]} entries mark ("box", "disc", "triangle", "line", "thin",
 *   "dashed" or "cross"), colour of style.css, and words
 */
export function legend(...entries) {
  return make("ul", {className: "legend"}, ...entries.map(([mark, colour, words]) => {
    const sign = make("i", {className: mark, "aria-hidden": true});
    sign.style.color = `var(--${colour})`;
    return make("li", {}, sign, words);
  }));
}

/**
 * Many requests for a picture, one picture: `draw` runs at most once for each frame of the screen.
 * @param {function(): void} draw
 * @returns {function(): void} asks for it
 */
export function framed(draw) {
  let waiting = 0;
  return () => {
    waiting ||= requestAnimationFrame(() => {
      waiting = 0;
      draw();
    });
  };
}

/**
 * Named controls side by side, and a button that sets all of them back.
 * @template T
 * @param {Controls<T>} controls
 * @param {function(keyof T, T[keyof T]): void} change is called with a control's name and value
 * @returns {{element: HTMLElement, values: function(): T, set: function(Partial<T>): void, reset: function(): void}}
 */
export function panel(controls, change) {
  const all = /** @type {Array<Control<T[keyof T]>>} */ (Object.values(controls));
  const named = /** @type {Array<[keyof T, Control<T[keyof T]>]>} */ (Object.entries(controls));
  for (const [name, one] of named) one.changed = (value) => change(name, value);
  const reset = () => all.forEach((one) => one.reset());
  const back = button({label: "Reset all", hint: "back to the first setting of everything here", press: reset});
  back.className = "quiet";
  const element = make("div", {className: "controls"}, ...all.map((one) => one.element),
    ...(all.length > 1 ? [back] : []));
  return {
    element,
    reset,
    values: () => /** @type {T} */ (Object.fromEntries(named.map(([name, one]) => [name, one.value]))),
    set: (values) => (/** @type {Array<[keyof T, T[keyof T]]>} */ (Object.entries(values)))
      .forEach(([name, value]) => controls[name]?.set(value)),
  };
}

/**
 * Follows a pointer that holds `element`: `move(x, y, event)` in CSS pixels of `frame`, until it lets go, or until the
 * browser takes it to scroll (`cancelled`).
 * @param {GlobalEventHandlers & Element & ElementCSSInlineStyle} element of HTML or SVG
 * @param {{frame: Element, start?: function(number, number, PointerEvent): (boolean|void), move: Move,
 *   end?: function(boolean): void, touch?: string}} options a `start` that returns false leaves the pointer alone;
 *   `end(cancelled)`; `touch`: which way a finger scrolls the page, such as "pan-y" where only x is dragged
 */
export function drag(element, {frame, start = () => {}, move, end = () => {}, touch = "none"}) {
  /** @param {PointerEvent} event @returns {[x: number, y: number]} */
  const place = (event) => {
    const box = frame.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  element.style.touchAction = touch;
  element.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || start(...place(event), event) === false) return;
    event.preventDefault();
    element.setPointerCapture(event.pointerId);
    /** @param {PointerEvent} next */
    const moved = (next) => move(...place(next), next);
    let cancelled = false;
    const cancel = () => (cancelled = true);
    const done = () => {
      element.removeEventListener("pointermove", moved);
      element.removeEventListener("pointercancel", cancel);
      end(cancelled);
    };
    element.addEventListener("pointermove", moved);
    element.addEventListener("pointercancel", cancel);
    element.addEventListener("lostpointercapture", done, {once: true});
  });
}

// A plot on which one draws a curve, with the pointer or the keyboard, and over which a result is laid.

import {drag, make, written} from "./controls.js";
import {heightAt} from "./course_answers.js";
import {labelled, ticksOf} from "./ticks.js";

/**
 * @import {Curve, NumberQuestion, SketchQuestion} from "./course_answers.js"
 * @typedef {Object<string, string|number>} Attributes
 */

const POINTS = 41; // of a curve, as in course/question.py
const EDGE = {left: 46, right: 14, top: 12, bottom: 40};
/** @type {Object<string, [number, number]>} */
const WAYS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1], Home: [-POINTS, 0],
  End: [POINTS, 0]};
const SVG = "http://www.w3.org/2000/svg";

/** @template {keyof SVGElementTagNameMap} T @param {T} tag @param {Attributes} attributes */
function shape(tag, attributes, text = "") {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.textContent = text;
  return element;
}

/** @param {string} kind @param {number} x @param {number} y @param {string} words */
const letters = (kind, x, y, words, anchor = "middle") => shape("text", {class: kind, x, y, "text-anchor": anchor}, words);

/**
 * An element that is drawn again, by draw(width), when its width changes.
 * @param {Element} element @param {function(number): void} draw
 */
export function asWide(element, draw) {
  let width = 0;
  const redraw = () => draw(width || 320);
  new ResizeObserver(([entry]) => {
    if (Math.abs(entry.contentRect.width - width) < 1 || !entry.contentRect.width) return;
    width = entry.contentRect.width;
    redraw();
  }).observe(element);
  return redraw;
}

/**
 * @param {Pick<SketchQuestion, "x"|"y">} question its axes
 * @param {{guess?: number[], result?: ?Curve, changed?: function(): void, labelledBy?: string}} options with a guess,
 *   or a result, nothing can be drawn
 * @returns {{element: HTMLElement, heights: function(): (number[]|null), clear: function(): void}} heights: null until
 *   the curve goes from edge to edge
 */
export function sketch(question, {guess, result, changed = () => {}, labelledBy} = {}) {
  const [left, right, xLabel] = question.x, [low, high, yLabel] = question.y, fixed = Boolean(guess);
  /** @type {Array<?number>} */
  const known = guess ? [...guess] : Array(POINTS).fill(null);
  const element = make("div", {className: "sketch"});
  /** @param {number} i */
  const xAt = (i) => left + ((right - left) * i) / (POINTS - 1);
  /** @type {?number} */
  let cursor = null;
  /** @type {?[number, number]} */
  let last = null, size = {width: 320, height: 220};
  /** @param {number} x */
  const toX = (x) => EDGE.left + ((size.width - EDGE.left - EDGE.right) * (x - left)) / (right - left);
  /** @param {number} y */
  const toY = (y) => size.height - EDGE.bottom - ((size.height - EDGE.top - EDGE.bottom) * (y - low)) / (high - low);

  /** What is drawn, with straight lines over gaps: [[x, y], …]. */
  const drawn = () => /** @type {Array<[number, number]>} */ (
    known.map((y, i) => [xAt(i), y]).filter(([, y]) => y !== null));
  /** @param {number[][]} points */
  const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${toX(x).toFixed(1)} ${toY(y).toFixed(1)}`).join("");

  const redraw = asWide(element, (width) => {
    size = {width, height: Math.round(Math.min(260, Math.max(190, width * 0.45)))};
    const parts = [], bottom = size.height - EDGE.bottom, middle = (EDGE.left + width - EDGE.right) / 2;
    for (const [x, text] of labelled(ticksOf(left, right, 5))) {
      parts.push(shape("line", {class: "grid", x1: toX(x), x2: toX(x), y1: EDGE.top, y2: bottom}));
      parts.push(letters("tick", toX(x), bottom + 16, text));
    }
    for (const [y, text] of labelled(ticksOf(low, high, 5))) {
      parts.push(shape("line", {class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: toY(y), y2: toY(y)}));
      parts.push(letters("tick", EDGE.left - 6, toY(y) + 4, text, "end"));
    }
    parts.push(letters("axis", middle, size.height - 6, xLabel));
    const sideways = letters("axis", 0, 0, yLabel);
    sideways.setAttribute("transform", `translate(12 ${(EDGE.top + bottom) / 2}) rotate(-90)`);
    parts.push(sideways);
    if (result) {
      const inside = result[0].map((x, i) => [x, Math.min(high, Math.max(low, result[1][i]))]);
      const cut = inside.filter(([x]) => x >= left && x <= right);
      parts.push(shape("path", {class: "result", d: path(cut)}));
    }
    const mine = drawn();
    if (mine.length) parts.push(shape("path", {class: "guess", d: path(mine)}));
    else if (!fixed) parts.push(letters("hint", middle, (EDGE.top + bottom) / 2, "draw here, from left to right"));
    if (cursor !== null && !fixed && document.activeElement === field) {
      parts.push(shape("circle", {class: "cursor", cx: toX(xAt(cursor)), cy: toY(height(cursor)), r: 6}));
    }
    field.setAttribute("width", width);
    field.setAttribute("height", size.height);
    field.replaceChildren(...parts);
  });

  /**
   * The height of the curve at place i: as drawn, with straight lines over gaps and level ends; else the middle.
   * @param {number} i
   * @returns {number}
   */
  function height(i) {
    const points = drawn(), x = xAt(i), first = points[0], end = points[points.length - 1];
    if (!first) return (low + high) / 2;
    const between = first === end ? null : heightAt([points.map(([at]) => at), points.map(([, y]) => y)], x);
    return between ?? (x < first[0] ? first : end)[1];
  }

  /** @param {number} x @param {number} y */
  function put(x, y) {
    /** @param {number} value @param {number} a @param {number} b */
    const inside = (value, a, b) => Math.min(b, Math.max(a, value));
    const across = size.width - EDGE.left - EDGE.right, up = size.height - EDGE.top - EDGE.bottom;
    const i = inside(Math.round(((x - EDGE.left) / across) * (POINTS - 1)), 0, POINTS - 1);
    const value = inside(low + ((size.height - EDGE.bottom - y) / up) * (high - low), low, high);
    const from = last ?? [i, value], ways = Math.max(1, Math.abs(i - from[0]));
    for (let n = 0; n <= ways; n++) {
      const at = from[0] + Math.round(((i - from[0]) * n) / ways);
      known[at] = Number((from[1] + ((value - from[1]) * n) / ways).toPrecision(4));
    }
    last = [i, value];
    redraw();
    changed();
  }

  const field = shape("svg", {class: "field", role: fixed ? "img" : "slider", tabindex: fixed ? -1 : 0});
  if (labelledBy) field.setAttribute("aria-labelledby", labelledBy);
  else field.setAttribute("aria-label", result ? "Your curve and the result" : "Your curve");
  if (fixed) field.removeAttribute("tabindex");
  else {
    drag(field, {frame: field, start: (x, y) => {
      last = null;
      cursor = null;
      field.focus({preventScroll: true});
      put(x, y);
    }, move: put});
    field.setAttribute("aria-valuemin", low);
    field.setAttribute("aria-valuemax", high);
    field.setAttribute("aria-valuenow", (low + high) / 2);
    field.setAttribute("aria-valuetext", "nothing drawn yet");
    field.addEventListener("keydown", (event) => {
      const way = WAYS[event.key];
      if (!way || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      cursor ??= way[0] ? (way[0] > 0 ? -2 : POINTS + 1) : 0;
      if (way[0]) {
        cursor = Math.min(POINTS - 1, Math.max(0, cursor + way[0] * (event.shiftKey ? 1 : 2)));
        if (known.every((one) => one === null)) redraw();
      } else {
        const step = ((high - low) * (event.shiftKey ? 1 : 5)) / 100;
        known[cursor] = Number(Math.min(high, Math.max(low, height(cursor) + way[1] * step)).toPrecision(4));
        changed();
      }
      redraw();
      field.setAttribute("aria-valuenow", height(cursor));
      field.setAttribute("aria-valuetext", `${xLabel} ${written(xAt(cursor))}: ${yLabel} ${written(height(cursor))}`);
    });
    for (const name of ["focus", "blur"]) field.addEventListener(name, () => redraw());
  }
  element.append(field);
  redraw();
  return {
    element,
    heights() {
      const points = drawn(), reach = 0.1 * (right - left);
      if (points.length < 2 || points[0][0] > left + reach || points[points.length - 1][0] < right - reach) return null;
      return known.map((_, i) => Number(height(i).toPrecision(4)));
    },
    clear() {
      known.fill(null);
      cursor = last = null;
      redraw();
      changed();
    },
  };
}

/**
 * A line of numbers with a guess and, once it is known, the result, and the range around it that counts as right.
 * @param {NumberQuestion} question @param {number} guess @param {?number} truth
 */
export function numberLine(question, guess, truth) {
  const {unit} = question, element = make("div", {className: "number-line"});
  const near = truth === null ? 0 : (question.within ?? question.tolerance * Math.abs(truth));
  const all = [question.low, question.high, guess, ...(truth === null ? [] : [truth - near, truth + near])];
  const low = Math.min(...all), high = Math.max(...all), log = low > 0 && high / low > 30;
  /** @param {number} value */
  const share = (value) => (log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));
  asWide(element, (width) => {
    const powers = [...Array(40).keys()].map((i) => 10 ** (i - 20)).filter((one) => one >= low && one <= high);
    const ticks = labelled(log ? powers : ticksOf(low, high, 5), log);
    const edge = Math.max(14, ...ticks.map(([, text]) => 4 * text.length)); // half a number at either end
    /** @param {number} value */
    const at = (value) => edge + (width - 2 * edge) * share(value), parts = [];
    if (truth !== null) {
      const from = at(Math.max(low, truth - near)), to = at(truth + near);
      parts.push(shape("rect", {class: "near", x: from, width: Math.max(2, to - from), y: 34, height: 16, rx: 3}));
    }
    parts.push(shape("line", {class: "base", x1: edge, x2: width - edge, y1: 42, y2: 42}));
    for (const [tick, text] of ticks) {
      parts.push(shape("line", {class: "base", x1: at(tick), x2: at(tick), y1: 42, y2: 47}));
      parts.push(letters("tick", at(tick), truth === null ? 62 : 88, text));
    }
    /** @param {number} value @param {string} kind @param {string} words @param {number} y */
    const mark = (value, kind, words, y) => {
      const x = at(value), half = Math.min(width / 2, 4.5 * words.length);
      parts.push(shape("path", {class: `${kind} mark`, d: `M${x} 42l-7 ${kind === "guess" ? -11 : 11}h14z`}));
      parts.push(letters(`${kind} label`, Math.min(width - half, Math.max(half, x)), y, words));
    };
    mark(guess, "guess", `you: ${written(guess)} ${unit}`, 22);
    if (truth !== null) mark(truth, "result", `result: ${written(truth)} ${unit}`, 70);
    const label = truth === null ? "Your number on a line" : "Your number and the result on a line";
    element.replaceChildren(shape("svg", {width, height: truth === null ? 68 : 94, role: "img", "aria-label": label}));
    /** @type {Element} */ (element.firstChild).append(...parts);
  })();
  return element;
}

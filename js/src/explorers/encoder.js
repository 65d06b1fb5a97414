// The encoder explorer: an image as spikes, decoded again, and the error against the number of time steps. The codes are
// those of snnkit.encode, in float32 as there.

import {CONCEPTS} from "../concepts.js";
import {choice, drag, make, slider, toggle, written} from "../controls.js";
import {Plot} from "../plot.js";
import {explorer, uniform} from "./explorer.js";

/**
 * @typedef {{encoding: string, digit: number, contrast: number, T: number, other: boolean}} Settings
 * @typedef {{write(x: Float32Array, steps: number, draw: function(): number): Float32Array,
 *   read(out: Float32Array, steps: number, count: number): Float64Array}} Code `write` gives [steps * pixels], `read`
 *   the brightness of each pixel
 * @typedef {{x: Float32Array, decoded: Float64Array, error?: number, errors: number[]}} Seen
 */

const LONGEST = 64, LENGTHS = [1, 2, 4, 8, 16, 32, LONGEST], LEAST = 1e-3, SIDE = 8;
const GAIN = 4; // current per brightness into the LIF code: pixels darker than 1 / GAIN never fire
const DECAY = 0.9; // of that code's membrane per step: 1 - dt tau_mem_inv
const DELTA = 0.1; // the smallest change that the delta code sends
const f = Math.fround;

/** To the nearest whole number, halves to the even one, as PyTorch rounds. @param {number} value */
const rounded = (value) => {
  const down = Math.floor(value), rest = value - down;
  return rest < 0.5 || (rest === 0.5 && down % 2 === 0) ? down : down + 1;
};

/**
 * Each pixel's spike falls on a step, the earlier the brighter.
 * @param {Float32Array} x @param {number} steps @param {boolean} linear
 */
function latency(x, steps, linear) {
  const out = new Float32Array(steps * x.length), least = f(0.01), longest = linear ? 1 : Math.log1p(0.01 / 1e-7);
  x.forEach((value, i) => {
    if (value < least) return;
    const time = linear ? f(1 - value) : f(Math.log1p(f(least / Math.max(f(value - least), f(1e-7)))));
    const step = Math.min(steps - 1, Math.max(0, rounded(f(time * f((steps - 1) / longest)))));
    out[step * x.length + i] = 1;
  });
  return out;
}

/** Mean over time of each pixel's spikes. @type {Code["read"]} */
function rateOf(out, steps, count) {
  const mean = new Float64Array(count);
  for (let at = 0; at < steps * count; at++) mean[at % count] += out[at] / steps;
  return mean;
}

/** @type {Record<string, Code>} */
export const CODES = {
  Poisson: {
    write: (x, steps, draw) => Float32Array.from({length: steps * x.length}, (_, at) =>
      Number(f(draw()) < x[at % x.length])),
    read: rateOf,
  },
  latency: {write: (x, steps) => latency(x, steps, true), read: readLatency},
  "latency (logarithm)": {write: (x, steps) => latency(x, steps, false), read: readLatency},
  "LIF neuron": {
    write(x, steps) {
      const out = new Float32Array(steps * x.length), v = new Float32Array(x.length), rate = f(0.1);
      for (let t = 0, at = 0; t < steps; t++) for (let i = 0; i < x.length; i++, at++) {
        v[i] = f(v[i] + f(rate * f(f(0 - v[i]) + f(GAIN * x[i]))));
        if (v[i] > 1) [out[at], v[i]] = [1, 0];
      }
      return out;
    },
    // The rate of a LIF neuron that integrates a constant current for as long as its period, inverted.
    read: (out, steps, count) => rateOf(out, steps, count).map((rate) => {
      const period = 1 / rate - 0.5; // it crossed the threshold somewhere within the last step
      return rate > 0 ? Math.min(1, 1 / (1 - DECAY ** Math.max(period, 0.3)) / GAIN) : 0;
    }),
  },
  delta: {
    write: (x, steps) => Float32Array.from({length: steps * x.length},
      (_, at) => Number(at < x.length && x[at] >= f(DELTA))),
    read: (out, steps, count) => rateOf(out, steps, count).map((rate) => DELTA * rate * steps),
  },
  direct: {
    write: (x, steps) => Float32Array.from({length: steps * x.length}, (_, at) => x[at % x.length]),
    read: rateOf,
  },
};

/**
 * Of at most one spike per pixel, the earlier the brighter: 1 - t / (steps - 1); silence is black.
 * @type {Code["read"]}
 */
function readLatency(out, steps, count) {
  const read = new Float64Array(count);
  for (let at = steps * count - 1; at >= 0; at--) {
    if (out[at]) read[at % count] = 1 - Math.floor(at / count) / Math.max(steps - 1, 1);
  }
  return read;
}

/** The colour of a code in all figures of the course. @param {string} code */
const inkOf = (code) => /** @type {Record<string, string>} */ (CONCEPTS.codes)[code.split(" (")[0]] ?? "ink";

/**
 * Grey levels on black: bright is bright on light and on dark pages.
 * @param {ArrayLike<number>} pixels
 * @returns {import("../plot.js").Mark[]}
 */
const picture = (pixels) => [{boxes: [[-0.5, SIDE - 0.5, -0.5, SIDE - 0.5]], colour: "#16181b"},
  {pixels, rows: SIDE, columns: SIDE, colour: "#f4f6f8"}];

/** Root mean square of the difference. @param {ArrayLike<number>} decoded @param {Float32Array} x */
export function errorOf(decoded, x) {
  return Math.sqrt(x.reduce((sum, value, i) => sum + (decoded[i] - value) ** 2, 0) / x.length);
}

/**
 * @param {HTMLElement} place
 * @param {{digits: Array<Array<number>>}} data brightness of ten images, 0 to 16
 * @param {Partial<Settings>} saved @param {function(Settings): void} report
 */
export function encoderExplorer(place, data, saved, report) {
  const controls = {
    encoding: choice({label: "code", options: Object.keys(CODES), list: true,
      hint: "where the spikes carry the information"}),
    digit: slider({label: "digit", min: 0, max: 9, step: 1, value: 3, hint: "which of ten typical digits"}),
    contrast: slider({label: "contrast", min: 0.1, max: 1, step: 0.05, value: 1,
      hint: "what its brightness is multiplied by"}),
    T: slider({label: "T", unit: "steps", min: 1, max: LONGEST, step: 1, value: 16, hint: "time steps"}),
    other: toggle({label: "another draw", hint: "other random numbers for the Poisson code"}),
  };
  const now = /** @type {Seen} */ ({});
  /** @param {string} title @param {function(): ArrayLike<number>} pixels */
  const square = (title, pixels) => new Plot({label: title, height: 232, left: 10, equal: true,
    x: {title, min: -0.5, max: SIDE - 0.5, ticks: []}, y: {min: SIDE - 0.5, max: -0.5, ticks: []},
    read: (x, y) => `brightness ${written(pixels()[Math.round(y) * SIDE + Math.round(x)] ?? 0)}`});
  const before = square("image; draw on it", () => now.x), after = square("decoded", () => now.decoded);
  const raster = new Plot({label: "spikes of all pixels over time", height: 232, x: {title: "time step"},
    y: {title: "pixel", min: 63.7, max: -0.7},
    read: (x, y) => `pixel ${Math.round(y)}, step ${Math.round(x)}`});
  const curve = new Plot({label: "error of the decoded image against the number of steps; drag the diamond",
    height: 190, x: {title: "time steps T", min: 0.93, max: 72, log: true, ticks: LENGTHS},
    y: {title: "error (RMS)", min: LEAST * 0.7, max: 1.3, log: true, ticks: [1, 0.1, 0.01, [LEAST, "≤ 0.001"]]}});
  const drawn = new Float32Array(SIDE * SIDE);

  /** @param {Settings} settings @param {Set<keyof Settings>} changed */
  function draw({encoding, digit, contrast, T, other}, changed) {
    if (changed.has("digit")) drawn.set(data.digits[digit].map((level) => level / 16));
    const {write, read} = CODES[encoding], colour = inkOf(encoding), x = drawn.map((value) => f(f(contrast) * value));
    // The same numbers at every move of a slider: only the setting changes.
    /** @param {number} steps @returns {[out: Float32Array, decoded: Float64Array]} */
    const decodedAt = (steps) => {
      const out = write(x, steps, uniform(other ? 2 : 1));
      return [out, read(out, steps, x.length)];
    };
    const [out, decoded] = decodedAt(T), error = errorOf(decoded, x);
    Object.assign(now, {x, decoded, error});
    before.show(picture(x));
    after.show(picture(decoded));
    Object.assign(raster.x, {min: -0.5, max: T - 0.5});
    const pixels = new Float32Array(out.length); // rows are pixels
    out.forEach((value, at) => (pixels[(at % x.length) * T + Math.floor(at / x.length)] = value));
    raster.show([{pixels, rows: x.length, columns: T, colour, gap: T <= 32 ? 2 : 0.5}]);
    if (changed.size > 1 || !changed.has("T")) {
      now.errors = LENGTHS.map((steps) => Math.max(LEAST, errorOf(decodedAt(steps)[1], x)));
    }
    curve.show([{line: [LENGTHS, now.errors], colour},
      {dots: [LENGTHS, now.errors], colour, size: 7}]);
    const sent = out.reduce((sum, value) => sum + Number(value !== 0), 0) / x.length;
    const what = out.every((value) => value === 0 || value === 1) ? "spikes" : "numbers";
    return `${encoding}, T = ${T}: error ${written(error, 0.001)} for ${Number(sent.toPrecision(2))} ${what} per pixel`;
  }

  const ui = explorer(place, {label: "Encoder explorer", controls, plots: [before, raster, after, curve], saved, report,
    draw, body: [
    make("div", {className: "coded"}, before.element, raster.element, after.element), curve.element,
  ]});
  curve.handle({label: "T on the error curve", ways: "x", colour: "ink", step: 1,
    at: () => (now.error === undefined ? null : [ui.values().T, Math.max(now.error, LEAST)]),
    move: (x) => ui.use("T", x),
    words: () => `T = ${ui.values().T}, error ${written(/** @type {number} */ (now.error), 0.001)}`,
    back: () => ui.use("T", 16)});
  let ink = 1;
  /** @param {number} x @param {number} y */
  const paint = (x, y) => {
    const [column, row] = before.at(x, y).map((value) => Math.min(SIDE - 1, Math.max(0, Math.round(value))));
    drawn[row * SIDE + column] = ink;
    ui.use("contrast", ui.values().contrast);
  };
  before.canvas.style.cursor = "crosshair";
  drag(before.canvas, {frame: before.canvas, move: paint, start: (x, y) => {
    const [column, row] = before.at(x, y).map(Math.round);
    ink = drawn[row * SIDE + column] > 0.5 ? 0 : 1; // from a bright pixel on, it erases
    paint(x, y);
  }});
  return ui;
}

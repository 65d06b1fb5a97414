// The surrogate explorer: a surrogate, its derivative among the membranes of a deep network, and how the gradients of that
// network decay or grow, back through its layers and back through time. All layers fire at about the same rate, and
// their spikes do not depend on the surrogate: only the gradient changes with it.

import {CONCEPTS} from "../concepts.js";
import {choice, make, slider, toggle, written} from "../controls.js";
import {Plot} from "../plot.js";
import {tickText} from "../ticks.js";
import {EQUATIONS} from "./equations.js";
import {explorer, normal, uniform} from "./explorer.js";

/**
 * @import {Equation} from "../network.js"
 * @typedef {{derivative: Equation, primitive?: Equation}} Shape
 * @typedef {{weight: Float64Array, x: Uint8Array, u: Float32Array}} Layer its input's spikes, and the distance of its
 *   membranes from the threshold
 * @typedef {{byLayer: number[], byStep: number[]}} Flow of each layer's weights, and of the input at each step
 * @typedef {{bars: Float64Array, sorted: Float32Array}} Distances shares in bins, and all of them
 * @typedef {{shape: string, slope: number, depth: number, detach_reset: boolean}} Settings
 * @typedef {{usual: Record<string, Flow>, distances: Record<number, Distances>, flow: Flow, bars: Float64Array,
 *   primitive?: Float32Array, derivative: Float32Array}} Seen
 */

export const NET = {deepest: 16, steps: 10, batch: 16, width: 64, rate: 0.3, tau: 2, threshold: 1};
const LIMIT = 3, POINTS = 241, BINS = 60;
const SIGNALS = CONCEPTS.signals, GRADIENT = CONCEPTS.learning.gradient;

/**
 * Of each shape, half-width times slope: at that distance from the threshold, the derivative is half its peak.
 * @type {Record<string, number>}
 */
const HALF_WIDTHS = {
  ATan: 2 / Math.PI,
  Sigmoid: 2 * Math.acosh(Math.SQRT2),
  Triangle: 0.5,
  FastSigmoid: Math.SQRT2 - 1,
  SuperSpike: Math.SQRT2 - 1,
  StraightThrough: Infinity,
};

/**
 * Values of a curve of a surrogate: `equation` is its "primitive" or "derivative".
 * @param {Equation} equation @param {number} slope @param {Float32Array} u
 */
export function curveOf(equation, slope, u) {
  const out = new Float32Array(u.length);
  equation.forward(1, u.length, u, out, [], equation.parameters.map(() => Float32Array.of(slope)));
  return out;
}

/**
 * The network: weights of each layer [width * width, rows are outputs], the input's spikes [steps * batch * width], and
 * the direction of the loss [batch * width]. Gain and mean are such that activity neither dies out nor grows.
 */
export function network() {
  const {deepest, steps, batch, width, rate} = NET, next = uniform(7);
  const gain = 2.5 / Math.sqrt(width), mean = 0.5 / width;
  return {
    weights: Array.from({length: deepest}, (_, i) =>
      Float64Array.from(normal(width * width, 100 + i), (draw) => gain * draw + mean)),
    x: Uint8Array.from({length: steps * batch * width}, () => Number(next() < rate)),
    direction: Float64Array.from(normal(batch * width, 8)),
  };
}

/**
 * Forward, once for all: of each layer its input's spikes, and the distance of its membranes from the threshold.
 * @param {{weights: Float64Array[], x: Uint8Array}} net
 * @returns {Layer[]}
 */
export function activity({weights, x}) {
  const {steps, batch, width, tau, threshold} = NET, each = batch * width, layers = [];
  for (const weight of weights) {
    const u = new Float32Array(steps * each), out = new Uint8Array(steps * each), v = new Float64Array(each);
    for (let t = 0; t < steps; t++) for (let b = 0; b < batch; b++) {
      const row = t * each + b * width;
      for (let n = 0; n < width; n++) {
        let sum = 0;
        for (let k = 0; k < width; k++) if (x[row + k]) sum += weight[n * width + k];
        const at = b * width + n, membrane = v[at] + sum - v[at] / tau;
        u[row + n] = membrane - threshold;
        out[row + n] = membrane >= threshold ? 1 : 0;
        v[at] = membrane - threshold * out[row + n];
      }
    }
    layers.push({weight, x, u});
    x = out;
  }
  return layers;
}

/**
 * Norms of the gradient of a loss of the last step's spikes, in float64, as a narrow surrogate makes gradients that
 * float32 can't hold.
 * @param {Layer[]} layers @param {Float64Array} direction @param {Equation} derivative @param {number} slope
 * @param {boolean} detach
 * @returns {Flow}
 */
export function gradientFlow(layers, direction, derivative, slope, detach) {
  const {steps, batch, width, tau, threshold} = NET, each = batch * width, byLayer = [];
  const g = new Float64Array(width), active = new Uint8Array(width);
  let dOut = new Float64Array(steps * each);
  dOut.set(direction, (steps - 1) * each);
  for (const {weight, x, u} of [...layers].reverse()) {
    const shape = curveOf(derivative, slope, u), dIn = new Float64Array(steps * each);
    const dWeight = new Float64Array(width * width), later = new Float64Array(each);
    for (let t = steps - 1; t >= 0; t--) for (let b = 0; b < batch; b++) {
      const row = t * each + b * width, own = b * width;
      let count = 0;
      for (let n = 0; n < width; n++) {
        const after = later[own + n], spike = dOut[row + n] - (detach ? 0 : threshold * after);
        g[n] = after + spike * shape[row + n];
        later[own + n] = g[n] - g[n] / tau;
        if (x[row + n]) active[count++] = n;
      }
      throughWeights(g, weight, dIn, row, width);
      for (let n = 0; n < width; n++) for (let k = 0; k < count; k++) dWeight[n * width + active[k]] += g[n];
    }
    byLayer.unshift(norm(dWeight));
    dOut = dIn;
  }
  return {byLayer, byStep: Array.from({length: steps}, (_, t) => norm(dOut.subarray(t * each, (t + 1) * each)))};
}

/**
 * Adds the transposed weights times `g` to a row of `dIn`, four outputs at a time, as that is twice as fast.
 * @param {Float64Array} g @param {Float64Array} weight @param {Float64Array} dIn @param {number} row
 * @param {number} width
 */
function throughWeights(g, weight, dIn, row, width) {
  for (let n = 0; n < width; n += 4) {
    const g0 = g[n], g1 = g[n + 1], g2 = g[n + 2], g3 = g[n + 3], from = n * width;
    for (let k = 0; k < width; k++) {
      const at = from + k;
      dIn[row + k] += g0 * weight[at] + g1 * weight[at + width] + g2 * weight[at + 2 * width]
        + g3 * weight[at + 3 * width];
    }
  }
}

/** @param {Float64Array} values */
function norm(values) {
  let sum = 0;
  for (const value of values) sum += value * value;
  return Math.sqrt(sum);
}

/**
 * @param {HTMLElement} place @param {{own?: Record<string, Shape>}} data
 * @param {Partial<Settings>} saved @param {function(Settings): void} report
 */
export function surrogateExplorer(place, data, saved, report) {
  const shapes = {...data.own, ...EQUATIONS.surrogates}, net = network(), all = activity(net),
    names = Object.keys(shapes);
  const [own] = Object.keys(data.own ?? {}), first = own ? shapes[own].derivative.values[0]?.[0] ?? 1 : 2;
  const controls = {
    shape: choice({label: "shape", options: names, value: names[0], hint: "which surrogate", list: true}),
    slope: slider({label: "slope", min: Math.min(0.25, first / 8), max: 128, step: 0.01, value: first, log: true,
      hint: "the surrogate's one number"}),
    depth: slider({label: "depth", unit: "layers", min: 2, max: NET.deepest, step: 1, value: 8,
      hint: "the loss is at the last"}),
    detach_reset: toggle({label: "detach reset", value: true, hint: "leave the reset out of the gradient"}),
  };
  const u = Float32Array.from({length: POINTS}, (_, i) => -LIMIT + (2 * LIMIT * i) / (POINTS - 1));
  const across = {title: "u = potential − threshold", min: -LIMIT, max: LIMIT};
  const near = (/** @type {number} */ x) => Math.round(((x + LIMIT) / (2 * LIMIT)) * (POINTS - 1));
  const at = (/** @type {Float32Array} */ values, /** @type {number} */ x) => written(values[near(x)]);
  /** @param {number} x */
  const about = (x) => written(100 * (now.bars[Math.floor(((x + LIMIT) / (2 * LIMIT)) * BINS)] ?? 0));
  const forward = new Plot({label: "the spike, and the surrogate in its place", height: 190, x: across,
    y: {title: "forward: spike", min: -0.2, max: 1.2},
    read: (x) => `u = ${written(x, 0.01)}: spike ${Number(x >= 0)}`
      + (now.primitive ? `, surrogate ${at(now.primitive, x)}` : "")});
  const backward = new Plot({label: "derivative of the surrogate above the distribution of the membranes", height: 190,
    x: across,
    y: {title: "backward: derivative"},
    read: (x) => `u = ${written(x, 0.01)}: derivative ${at(now.derivative, x)}\n${about(x)} % of membranes here`});
  const place0 = (/** @type {number[]} */ values, /** @type {number} */ index) => (index >= 0 && index < values.length
    ? tickText(Number(values[index].toPrecision(3))) : "");
  const depth = new Plot({label: "norm of the gradient of each layer's weights", height: 220,
    x: {title: "layer (the loss is at the last)"}, y: {title: "gradient norm", log: true},
    read: (x) => `layer ${Math.round(x)}: ${place0(now.flow.byLayer, Math.round(x) - 1)}`});
  const time = new Plot({label: "norm of the gradient of the input at each step", height: 220,
    x: {title: "time step (the loss is at 0)", min: 1 - NET.steps - 0.3, max: 0.3},
    y: {title: "gradient norm", log: true},
    read: (x) => `step ${Math.round(x)}: ${place0(now.flow.byStep, Math.round(x) + NET.steps - 1)}`});
  const now = /** @type {Seen} */ ({usual: {}, distances: {}});

  /** @param {Layer[]} layers @param {boolean} detach */
  function usual(layers, detach) {
    const key = `${layers.length} ${detach}`;
    return (now.usual[key] ??= gradientFlow(layers, net.direction, EQUATIONS.surrogates.ATan.derivative, 2, detach));
  }

  /** Distances of all membranes from their threshold, sorted, and their shares in bins. @param {Layer[]} layers */
  function membranes(layers) {
    return (now.distances[layers.length] ??= (() => {
      const count = layers.reduce((sum, one) => sum + one.u.length, 0), bars = new Float64Array(BINS),
        sorted = new Float32Array(count);
      let filled = 0;
      for (const layer of layers) for (const distance of layer.u) {
        const bin = Math.floor(((distance + LIMIT) / (2 * LIMIT)) * BINS);
        if (bin >= 0 && bin < BINS) bars[bin] += 1 / count;
        sorted[filled++] = Math.abs(distance);
      }
      return {bars, sorted: sorted.sort()};
    })());
  }

  /** @param {Settings} settings */
  function draw({shape, slope, depth: deep, detach_reset: detach}) {
    const layers = all.slice(0, deep), {primitive, derivative} = shapes[shape];
    const {bars, sorted} = membranes(layers), flow = gradientFlow(layers, net.direction, derivative, slope, detach);
    Object.assign(now, {flow, bars, primitive: primitive && curveOf(primitive, slope, u),
      derivative: curveOf(derivative, slope, u)});
    forward.show([
      {name: "spike", line: [[-LIMIT, 0, 0, LIMIT], [0, 0, 1, 1]], colour: SIGNALS.spike},
      ...(now.primitive ? [{name: "surrogate", line: [u, now.primitive], colour: "ink", dash: "dash"}] : []),
    ]);
    const peak = Math.max(...now.derivative), tallest = Math.max(...bars);
    Object.assign(backward.y, {min: 0, max: 1.12 * peak});
    const lefts = Array.from(bars, (_, i) => -LIMIT + (2 * LIMIT * i) / BINS);
    backward.show([ // shares have no axis of their own: the tallest bar is as tall as the derivative
      {name: "membranes", bars: [lefts, Array.from(bars, (share) => (peak * share) / tallest)], width: (2 * LIMIT) / BINS,
        colour: SIGNALS.membrane, opacity: 0.4},
      {name: "derivative", line: [u, now.derivative], colour: GRADIENT},
    ]);
    showFlow(layers, flow, usual(layers, detach));
    const half = HALF_WIDTHS[shape] / slope;
    const [start, end] = [flow.byLayer[0], /** @type {number} */ (flow.byLayer.at(-1))];
    const change = start > 0 && end > 0
      ? `gradient × ${tickText(Number((start / end).toPrecision(2)))} through ${deep} layers` : "no gradient arrives";
    if (half === undefined || Number.isNaN(half)) return `${shape}: ${change}`;
    if (half === Infinity) return `${shape} passes gradient to all membranes alike; ${change}`;
    let within = 0;
    while (within < sorted.length && sorted[within] < half) within++;
    const share = Number(((100 * within) / sorted.length).toPrecision(2)), wide = Number(half.toPrecision(2));
    return `${shape}(${written(slope)}): ${share} % of membranes within its half-width of ${wide}; ${change}`;
  }

  /** @param {Layer[]} layers @param {Flow} flow @param {Flow} pale */
  function showFlow(layers, flow, pale) {
    const steps = Array.from({length: NET.steps}, (_, i) => i + 1 - NET.steps), places = layers.map((_, i) => i + 1);
    const ticks = places.length > 10 ? places.filter((one) => one % 2) : places;
    Object.assign(depth.x, {min: 0.7, max: layers.length + 0.3, ticks});
    for (const [plot, xs, key] of /** @type {Array<[Plot, number[], keyof Flow]>} */ (
      [[depth, places, "byLayer"], [time, steps, "byStep"]])) {
      const found = [...flow[key], ...pale[key]].filter((one) => one > 0 && Number.isFinite(one));
      const [low, high] = [Math.min(...found), Math.max(...found)];
      Object.assign(plot.y, {min: 10 ** Math.floor(Math.log10(low / 1.2)),
        max: 10 ** Math.ceil(Math.log10(high * 1.2))});
      const values = flow[key].map((one) => (one > 0 ? one : NaN)); // a logarithmic axis has no place for zero
      plot.show([
        {line: [xs, pale[key]], colour: "muted", width: 7, opacity: 0.7},
        {name: "gradient", line: [xs, values], colour: GRADIENT},
        {name: "gradient", dots: [xs, values], colour: GRADIENT, size: 7},
      ]);
    }
  }

  const caption = (/** @type {string} */ text) => make("p", {className: "small muted", textContent: text});
  const ui = explorer(place, {label: "Surrogate explorer", controls, plots: [forward, backward, depth, time], saved, report,
    draw, body: [
    make("div", {className: "halves"}, forward.element, backward.element, depth.element, time.element),
    caption("Bars: where the membranes are. Drag the diamond to make the surrogate wider or narrower. "
      + "Dots: this surrogate; broad pale line: ATan(2)."),
  ]});
  backward.handle({label: "half-width", ways: "x", colour: GRADIENT, step: 0.05,
    at: () => {
      const {shape, slope} = ui.values(), half = HALF_WIDTHS[shape] / slope;
      return half <= LIMIT && now.derivative ? [half, Math.max(...now.derivative) / 2] : null;
    },
    move: (x) => ui.use("slope", HALF_WIDTHS[ui.values().shape] / Math.max(x, 1e-3)),
    words: () => written(HALF_WIDTHS[ui.values().shape] / ui.values().slope),
    back: () => ui.use("slope", first)});
  return ui;
}

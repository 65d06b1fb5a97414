// The STDP explorer: move the spikes of two neurons, and the synapse between them changes. Pair-based STDP by traces, as in
// snnkit.plasticity.PairSTDP.

import {CONCEPTS} from "../concepts.js";
import {choice, make, slider, written} from "../controls.js";
import {Plot} from "../plot.js";
import {explorer, held} from "./explorer.js";

/**
 * @import {Start} from "./explorer.js"
 * @typedef {{aPlus: number, aMinus: number, tauPlus: number, tauMinus: number, bound: "hard"|"soft"|"none"}} Rule
 *   times in ms
 * @typedef {{a_plus: number, tau_plus: number, a_minus: number, tau_minus: number, weight: number,
 *   bound: "hard"|"soft"|"none", pre_1: number, pre_2: number, post_1: number, post_2: number}} Settings
 * @typedef {{pre: Float64Array, post: Float64Array, weights: Float64Array}} Traces after each step
 */

const {pre: BEFORE, post: AFTER} = CONCEPTS.neurons;
const STEPS = 100; // of a millisecond each

/**
 * Both traces and the weight after each step.
 * @param {Rule} rule
 * @param {Array<number>} before steps of the presynaptic spikes
 * @param {Array<number>} after steps of the postsynaptic spikes
 * @param {number} weight at the start
 * @returns {Traces}
 */
export function course({aPlus, aMinus, tauPlus, tauMinus, bound}, before, after, weight, steps = STEPS) {
  const pre = new Float64Array(steps), post = new Float64Array(steps), weights = new Float64Array(steps);
  const first = new Set(before), second = new Set(after);
  const keepPre = Math.exp(-1 / tauPlus), keepPost = Math.exp(-1 / tauMinus);
  let x = 0, y = 0;
  for (let t = 0; t < steps; t++) {
    const [came, left] = [Number(first.has(t)), Number(second.has(t))];
    x = x * keepPre + came;
    y = y * keepPost + left;
    const up = aPlus * left * x, down = aMinus * y * came;
    weight += bound === "soft" ? up * (1 - weight) - down * weight : up - down;
    if (bound !== "none") weight = Math.min(1, Math.max(0, weight));
    [pre[t], post[t], weights[t]] = [x, y, weight];
  }
  return {pre, post, weights};
}

/** The change by one pair whose lag t_post - t_pre is so many ms. @param {Rule} rule @param {number} lag */
export function windowAt({aPlus, aMinus, tauPlus, tauMinus}, lag) {
  return (lag >= 0 ? aPlus * Math.exp(-lag / tauPlus) : 0) - (lag <= 0 ? aMinus * Math.exp(lag / tauMinus) : 0);
}

/** @type {Start<{}, Settings>} */
export function stdpExplorer(place, data, saved, report) {
  const spikes = {pre_1: held(20), pre_2: held(60), post_1: held(30), post_2: held(55)};
  /** @param {string} label @param {number} value @param {string} hint */
  const size = (label, value, hint) => slider({label, min: 0, max: 0.5, step: 0.01, value, hint});
  /** @param {string} label @param {string} hint */
  const time = (label, hint) => slider({label, unit: "ms", min: 2, max: 60, step: 1, value: 20, hint});
  const controls = {
    a_plus: size("A₊", 0.2, "change by a pair without lag, post after pre"),
    tau_plus: time("τ₊", "time constant of the presynaptic trace"),
    a_minus: size("A₋", 0.21, "change by a pair without lag, pre after post"),
    tau_minus: time("τ₋", "time constant of the postsynaptic trace"),
    weight: slider({label: "weight at the start", min: 0, max: 1, step: 0.05, value: 0.5}),
    bound: choice({label: "bounds", options: [{value: "hard", label: "hard", hint: "cut off at 0 and 1"},
      {value: "soft", label: "soft", hint: "changes shrink towards 0 and 1"}, {value: "none", label: "none"}]}),
    ...spikes,
  };
  const now = /** @type {Traces & {rule: Rule}} */ ({});
  /** @param {number} x */
  const ms = (x) => Math.min(STEPS - 1, Math.max(0, Math.round(x)));
  /** @param {string} label @param {string} title @param {number} height @param {keyof Traces} key
   * @param {boolean} [last] */
  const along = (label, title, height, key, last) =>
    new Plot({label, height, x: {min: 0, max: STEPS, bare: !last, title: last ? "time (ms)" : ""},
    y: {title}, read: (x) => `${ms(x)} ms: ${written(now[key][ms(x)])}`});
  const pre = along("presynaptic spikes and their trace; drag the spikes", "pre trace", 130, "pre");
  const post = along("postsynaptic spikes and their trace; drag the spikes", "post trace", 130, "post");
  const weights = along("weight over time", "weight", 180, "weights", true);
  const curve = new Plot({label: "STDP window: change by one pair against its lag", height: 330,
    x: {title: "lag t_post − t_pre (ms)", min: -STEPS, max: STEPS},
    y: {title: "change by one pair"},
    read: (x) => `lag ${Math.round(x)} ms: ${written(windowAt(now.rule, Math.round(x)))}`});
  const lags = Array.from({length: 401}, (_, i) => (i - 200) / 2).map((lag) => lag || 1e-9);
  lags.splice(200, 0, -1e-9, NaN); // the window jumps at 0

  /** @param {Settings} values */
  function draw(values) {
    const rule = now.rule = {aPlus: values.a_plus, aMinus: values.a_minus, tauPlus: values.tau_plus,
      tauMinus: values.tau_minus, bound: values.bound};
    const before = [...new Set([values.pre_1, values.pre_2])], after = [...new Set([values.post_1, values.post_2])];
    Object.assign(now, course(rule, before, after, values.weight));
    for (const [plot, trace, when, colour] of /** @type {Array<[Plot, Float64Array, number[], string]>} */ (
      [[pre, now.pre, before, BEFORE], [post, now.post, after, AFTER]])) {
      const top = 1.3 * Math.max(...trace);
      Object.assign(plot.y, {min: 0, max: top});
      plot.show([{line: [null, trace], colour, step: true, fill: 0.1},
        ...when.map((at) => ({text: `${at} ms`, x: at + 2, y: 0.92 * top, colour}))]);
    }
    const [low, high] = [Math.min(0, ...now.weights), Math.max(1, ...now.weights)];
    Object.assign(weights.y, {min: low - 0.05, max: high + 0.05});
    weights.show([{line: [null, now.weights], colour: "green", step: true}]);
    const most = Math.max(values.a_plus, values.a_minus, 0.05);
    const pairs = before.flatMap((one) => after.map((other) => other - one));
    curve.reach(-1.3 * most, 1.3 * most);
    curve.y.title = values.bound === "soft" ? "change by one pair (share of the room left)" : "change by one pair";
    curve.show([
      {rule: "y", at: 0, colour: "muted", width: 1}, {rule: "x", at: 0, colour: "muted", width: 1},
      {line: [lags, lags.map((lag) => (Number.isNaN(lag) ? NaN : windowAt(rule, lag)))], colour: "purple"},
      {dots: [pairs, pairs.map((lag) => windowAt(rule, lag))], colour: "green", size: 10},
    ]);
    const end = /** @type {number} */ (now.weights.at(-1)), change = end - values.weight;
    const sign = change < 0 ? "" : "+";
    return `weight ${written(values.weight, 0.001)} → ${written(end, 0.001)}: Δw = ${sign}${written(change, 0.001)}`;
  }

  const note = make("p", {className: "small muted",
    textContent: "Drag the spikes in time, the diamonds to bend the window. Green dots: the pairs of your spikes."});
  const ui = explorer(place, {label: "STDP explorer", controls, plots: [pre, post, weights, curve], saved, report, draw,
    body: [
    make("div", {className: "beside"}, make("div", {className: "stacked"}, pre.element, post.element, weights.element),
      make("div", {className: "stacked"}, curve.element, note)),
  ]});
  for (const [plot, side, colour] of /** @type {Array<[Plot, "pre"|"post", string]>} */ (
    [[pre, "pre", BEFORE], [post, "post", AFTER]])) for (const index of /** @type {Array<1|2>} */ ([1, 2])) {
    const name = /** @type {const} */ (`${side}_${index}`);
    plot.handle({label: `${side}synaptic spike ${index}`, ways: "x", line: true, colour, step: 1,
      at: () => [ui.values()[name], 0],
      move: (x) => ui.use(name, ms(x)),
      words: () => `${ui.values()[name]} ms`,
      back: () => ui.use(name, spikes[name].first)});
  }
  for (const [side, sign] of /** @type {Array<["plus"|"minus", number]>} */ ([["plus", 1], ["minus", -1]])) {
    curve.handle({label: side === "plus" ? "A₊ and τ₊" : "A₋ and τ₋", ways: "xy", colour: "purple", step: 1,
      at: () => {
        const values = ui.values(), tau = values[`tau_${side}`];
        return [sign * tau, (sign * values[`a_${side}`]) / Math.E];
      },
      move: (x, y) => {
        ui.use(`tau_${side}`, sign * x);
        ui.use(`a_${side}`, Math.max(0, sign * y * Math.E));
      },
      words: () => `${written(ui.values()[`a_${side}`], 0.01)}, ${ui.values()[`tau_${side}`]} ms`,
      rest: () => ui.ask(`a_${side}`),
      back: () => /** @type {Array<"tau"|"a">} */ (["tau", "a"]).forEach((one) =>
        ui.use(`${one}_${side}`, controls[`${one}_${side}`].first))});
  }
  return ui;
}

// The neuron explorer: input, membrane and spikes of a population, and its rate against the current. The equations come from
// snnkit.engine.js, so that they are those of the kit, or of a neuron that a learner wrote.

import {CONCEPTS} from "../concepts.js";
import {choice, drag, make, slider, written} from "../controls.js";
import {Plot} from "../plot.js";
import {EQUATIONS} from "./equations.js";
import {counted, explorer, normal} from "./explorer.js";

/**
 * @import {Controls, Option} from "../controls.js"
 * @import {Equation} from "../network.js"
 * @typedef {"hard"|"soft"} Reset
 * @typedef {{tau: number, threshold: number, reset: Reset}} Knobs
 * @typedef {Record<string, number|string|null>} Call
 * @typedef {{silent?: boolean, rise?: number, peak?: number, others?: string[], note?: string}} Traits `rise`: of the
 *   threshold, by a spike; `peak`: where a spike is drawn; `others`: states after the membrane; `silent`: a readout
 * @typedef {Traits & {call(k: Knobs): Call, numbers?: function(Knobs): Record<string, number>,
 *   scale?: function(Knobs): number, unit?: string}} Kind
 * @typedef {Traits & {name: string, equation: Equation, numbers: Call, scale: number, unit: string, code: string,
 *   level?: number}} Cell
 * @typedef {{kind?: string, current: number, tau?: number, threshold?: number, reset?: Reset, noise?: number,
 *   input?: string} & {[name: `own ${string}`]: number}} Settings those that the explorer has controls for
 * @typedef {{out: Float32Array, states: Float32Array[]}} Recorded
 * @typedef {{scale: number, noise?: ?{strength: number, draws: Float32Array}, steps: number, count: number,
 *   silent?: boolean}} Conditions
 * @typedef {{drive: Float32Array, x: Float32Array, v: Float32Array, curve: number[], unit: string, silent?: boolean,
 *   others: Array<[name: string, line: Float32Array]>}} Seen
 */

const MOST = 4, CURRENTS = 33, SIGNALS = CONCEPTS.signals;

/** @param {Knobs} k */
const reset = (k) => (k.reset === "hard" ? 0 : null);
/** @param {Knobs} k */
const charge = (k) => -Math.expm1(-1 / k.tau);
/**
 * How the controls translate to each neuron's own arguments. `current` is the level at which a leaky membrane would
 * settle without a threshold, and `scale` takes it to the neuron's x. `call` holds the arguments in Python, `numbers`
 * those that the equation knows by another name. A neuron of the kit that is not here keeps the numbers of its class.
 * @type {Record<string, Kind>}
 */
export const KINDS = {
  LIF: {call: (k) => ({tau: k.tau, v_threshold: k.threshold, v_reset: reset(k)})},
  IF: {
    call: (k) => ({v_threshold: k.threshold, v_reset: reset(k)}),
    scale: (k) => 1 / k.tau,
    note: "tau only divides the input: nothing leaks",
  },
  PLIF: {
    call: (k) => ({init_tau: k.tau, v_threshold: k.threshold, v_reset: reset(k)}),
    numbers: (k) => ({w: -Math.log(k.tau - 1)}),
    note: "tau is where learning begins",
  },
  Leaky: {
    call: (k) => ({beta: Math.exp(-1 / k.tau), threshold: k.threshold,
      reset_mechanism: k.reset === "hard" ? "zero" : "subtract"}),
    scale: charge,
  },
  Synaptic: {
    call: (k) => ({alpha: 0.8, beta: Math.exp(-1 / k.tau), threshold: k.threshold,
      reset_mechanism: k.reset === "hard" ? "zero" : "subtract"}),
    scale: (k) => 0.2 * charge(k),
    others: ["syn"],
  },
  ALIF: {
    call: (k) => ({tau: k.tau, beta: 0.2, v_threshold: k.threshold, v_reset: reset(k)}),
    scale: charge,
    rise: 0.2, // of the threshold, by a spike
    others: ["a"],
  },
  CubaLIF: {
    call: (k) => ({tau_mem_inv: 1000 / k.tau, v_th: k.threshold}),
    scale: () => 0.2,
    others: ["i"],
    note: "reset does nothing here",
  },
  Izhikevich: {
    call: (k) => ({a: 1 / k.tau}),
    scale: () => 10, // it needs about 4 to fire
    peak: 30,
    others: ["u"],
    unit: "mV",
    note: "tau is that of recovery, 1/a in ms; threshold and reset do nothing here",
  },
  LI: {
    call: (k) => ({tau_mem_inv: 1000 / k.tau}),
    scale: () => 0.2,
    silent: true,
    others: ["i"],
    note: "threshold and reset do nothing here",
  },
  Readout: {
    call: (k) => ({beta: Math.exp(-1 / k.tau)}),
    scale: charge,
    silent: true,
    note: "threshold and reset do nothing here",
  },
};

/** @param {string} name @returns {Kind} */
const kindOf = (name) => KINDS[name] ?? {call: () => ({}),
  note: `tau, threshold and reset do nothing here; explorers.neuron(${name}()) has a slider for each of its numbers`};

/** @param {number|string|null} value */
function pythonic(value) {
  if (value === null) return "None";
  return typeof value === "string" ? `"${value}"` : String(Number(value.toPrecision(4)));
}

/** The line of Python that makes a neuron. @param {string} name @param {Call} call */
export function codeOf(name, call) {
  return `${name}(${Object.entries(call).map(([key, value]) => `${key}=${pythonic(value)}`).join(", ")})`;
}

/**
 * The parameters that an equation takes, with the numbers given by name.
 * @param {Equation} equation @param {Call} numbers
 */
export function parametersOf(equation, numbers) {
  return equation.parameters.map((name, i) =>
    Float32Array.of(...(numbers[name] === undefined ? equation.values[i]
      : [/** @type {number} */ (numbers[name])])));
}

/** @param {Equation} equation @param {number} count */
const restOf = (equation, count) => equation.rest.map((value) => new Float32Array(count).fill(value));

/**
 * A population step by step.
 * @param {Equation} equation @param {Float32Array[]} parameters
 * @param {Float32Array} x [steps * count]
 * @param {number} steps @param {number} count
 * @returns {Recorded} spikes of all, and each state of neuron 0 after each step
 */
export function recorded(equation, parameters, x, steps, count) {
  const out = new Float32Array(steps * count), state = restOf(equation, count);
  const states = state.map(() => new Float32Array(steps));
  for (let t = 0; t < steps; t++) {
    const now = x.subarray(t * count, (t + 1) * count);
    equation.forward(1, count, now, out.subarray(t * count, (t + 1) * count), state, parameters);
    state.forEach((one, i) => (states[i][t] = one[0]));
  }
  return {out, states};
}

/**
 * Mean output per step (of a readout: its last output) at each constant current, with the same noise for all.
 * @param {Equation} equation @param {Float32Array[]} parameters @param {number[]} currents
 * @param {Conditions} conditions
 */
export function rates(equation, parameters, currents, {scale, noise, steps, count, silent}) {
  const each = noise ? count : 1, wide = currents.length * each;
  const x = new Float32Array(steps * wide), out = new Float32Array(steps * wide);
  for (let t = 0, at = 0; t < steps; t++) {
    for (const current of currents) for (let n = 0; n < each; n++, at++) {
      x[at] = scale * (current + (noise ? noise.strength * noise.draws[t * count + n] : 0));
    }
  }
  equation.forward(steps, wide, x, out, restOf(equation, wide), parameters);
  return currents.map((_, c) => {
    let sum = 0;
    for (let t = silent ? steps - 1 : 0; t < steps; t++) {
      for (let n = 0; n < each; n++) sum += out[t * wide + c * each + n];
    }
    return sum / each / (silent ? 1 : steps);
  });
}

/**
 * Steps and neurons of the spikes, and the mean interval from one spike of a neuron to its next (NaN: none).
 * @param {ArrayLike<number>} out @param {number} steps @param {number} count
 */
export function firing(out, steps, count) {
  const when = [], who = [];
  let sum = 0, gaps = 0;
  for (let n = 0; n < count; n++) {
    let last = -1;
    for (let t = 0; t < steps; t++) {
      if (!(out[t * count + n] > 0)) continue;
      when.push(t);
      who.push(n);
      if (last >= 0) [sum, gaps] = [sum + t - last, gaps + 1];
      last = t;
    }
  }
  return {when, who, interval: sum / gaps};
}

/** @type {Record<string, (function(number): number)|undefined>} */
const SHAPES = {
  constant: () => 1,
  pulses: (share) => Number((share > 0.1 && share < 0.35) || (share > 0.5 && share < 0.9)),
  ramp: (share) => share,
  wave: (share) => 0.5 - 0.5 * Math.cos(6 * Math.PI * share),
};

/**
 * @param {HTMLElement} place
 * @param {{steps: number, shown: number, count: number, curve: boolean, own?: Record<string, Equation>, only?: string,
 *   controls?: Array<string>, first?: Partial<Settings>, most?: number, states?: Array<string>}} data `own` holds a
 *   neuron that is not the kit's, which gets a slider for each of its numbers, and `states` names its state; `only`
 *   names one of the kit's
 * @param {Partial<Settings>} saved @param {function(Settings): void} report
 */
export function neuronExplorer(place, data, saved, report) {
  const {steps, shown, count, curve, most = MOST} = data;
  const [own] = Object.keys(data.own ?? {});
  const names = own ? [own] : data.only ? [data.only] : [...new Set([...Object.keys(KINDS), ...Object.keys(EQUATIONS.neurons)])];
  const first = {current: 1.5, tau: 20, threshold: 1, noise: 0, ...data.first};
  const draws = normal(steps * count, 1);
  const mine = /** @type {Equation} */ (own && /** @type {Record<string, Equation>} */ (data.own)[own]);
  /** @type {Controls<Settings>} */
  const controls = {
    kind: choice({label: "neuron", options: names, hint: "which neuron of the catalogue", list: true}),
    current: slider({label: "current", min: 0, max: most, step: most / 80, value: first.current,
      hint: own ? "the constant input x" : "where a leaky membrane without a threshold would settle"}),
    tau: slider({label: "τ", unit: "steps", min: 2, max: 60, step: 1, value: first.tau,
      hint: "time constant of the membrane"}),
    threshold: slider({label: "threshold", min: 0.2, max: 2, step: 0.1, value: first.threshold,
      hint: "where it fires, on the scale of the current"}),
    reset: choice({label: "reset", options: /** @type {Option<Reset>[]} */ ([
      {value: "hard", label: "hard", hint: "back to 0"},
      {value: "soft", label: "soft", hint: "down by the threshold"}])}),
    noise: slider({label: "noise", min: 0, max: 3, step: 0.1, value: first.noise,
      hint: "standard deviation of what each step adds to the current"}),
    input: choice({label: "input over time", list: true, options: [...Object.keys(SHAPES),
      {value: "drawn", label: "drawn", hint: "draw it in the upper panel"}]}),
  };
  if (names.length === 1) delete controls.kind;
  if (own) {
    for (const name of /** @type {const} */ (["tau", "threshold", "reset"])) delete controls[name];
    mine.parameters.forEach((name, i) => {
      if (name.startsWith("surrogate.") || mine.values[i].length > 1) return;
      controls[`own ${name}`] = knobFor(name, mine.values[i][0]);
    });
  }
  if (data.controls) for (const name of Object.keys(controls)) if (!data.controls.includes(name)) {
    delete /** @type {Record<string, unknown>} */ (controls)[name];
  }

  const drawn = new Float32Array(steps).fill(first.current);
  const low = first.noise || controls.noise ? -0.25 * most : 0;
  const input = new Plot({label: "input current of neuron 0 over time; drag to draw another", height: 104,
    x: {min: 0, max: shown, bare: true},
    y: {title: own ? "input x" : "current", min: low, max: 1.1 * most},
    read: (x) => `step ${Math.floor(x)}: ${written(now.drive[Math.floor(x) * count])}`});
  const membrane = new Plot({label: "membrane potential of neuron 0", height: count > 1 ? 190 : 240,
    x: {min: 0, max: shown, bare: count > 1, title: count > 1 ? "" : "step"},
    y: {title: "potential"}, read: (x) => `step ${Math.floor(x)}: ${written(now.v[Math.floor(x)])} ${now.unit}`});
  const others = new Plot({label: "the rest of neuron 0's state", height: 84, x: {min: 0, max: shown, bare: true},
    y: {title: "state"},
    read: (x) => now.others.map(([name, line]) => `${name} ${written(line[Math.floor(x)])}`).join(", ")});
  const raster = new Plot({label: "spikes of all neurons", height: 150, x: {title: "step", min: 0, max: shown},
    y: {title: "neuron", min: -0.7, max: count - 0.3},
    read: (x, y) => `neuron ${Math.round(y)}, step ${Math.floor(x)}`});
  const response = new Plot({label: "firing rate against the current; drag the diamond", height: 300,
    x: {title: own ? "constant input x" : "constant current", min: 0, max: most},
    y: {title: "spikes per step"},
    read: (x) => `current ${written(x)}: ${written(between(x))} ${now.silent ? "at the end" : "per step"}`});
  const code = make("code"), note = make("span", {className: "muted"});
  const currents = Array.from({length: CURRENTS}, (_, i) => (i * most) / (CURRENTS - 1));
  const now = /** @type {Seen} */ ({drive: new Float32Array(steps * count), x: new Float32Array(steps * count),
    v: new Float32Array(steps), curve: /** @type {number[]} */ ([])});
  /** @param {number} x */
  const between = (x) => {
    const at = (x / most) * (CURRENTS - 1), left = Math.min(CURRENTS - 2, Math.floor(at));
    return now.curve[left] + (at - left) * (now.curve[left + 1] - now.curve[left]);
  };

  /** The neuron that the controls ask for. @param {Settings} values @returns {Cell} */
  function chosen(values) {
    const name = values.kind ?? names[0];
    if (name === own) {
      const numbers = /** @type {Call} */ ({});
      for (const [key, value] of Object.entries(values)) if (key.startsWith("own ")) numbers[key.slice(4)] = value;
      return {name, equation: mine, numbers, scale: 1, unit: "", others: (data.states ?? []).slice(1),
        code: `${own}: ${Object.entries(numbers).map(([key, value]) => `${key} = ${pythonic(value)}`).join(", ")}`};
    }
    const k = /** @type {Knobs} */ ({...first, reset: "hard", ...values}), kind = kindOf(name), call = kind.call(k);
    const variants = EQUATIONS.neurons[name], equation = variants[k.reset] ?? variants.hard;
    const numbers = {...call, ...kind.numbers?.(k)};
    return {...kind, name, equation, numbers, scale: kind.scale?.(k) ?? 1, unit: kind.unit ?? "",
      code: codeOf(name, call),
      level: kind.peak ?? (kind.silent ? NaN : k.threshold)};
  }

  /** @param {Settings} values @param {Set<keyof Settings>} changed */
  function draw(values, changed) {
    if (changed.has("current") && values.input === "drawn") ui.set({input: (values.input = "constant")});
    const cell = chosen(values), {equation, scale} = cell, noise = values.noise ?? 0, current = values.current;
    const parameters = parametersOf(equation, cell.numbers), shape = SHAPES[values.input ?? "constant"];
    for (let t = 0, at = 0; t < steps; t++) {
      const level = shape ? current * shape(t / shown) : drawn[t];
      for (let n = 0; n < count; n++, at++) now.x[at] = scale * (now.drive[at] = level + noise * draws[at]);
    }
    const ran = recorded(equation, parameters, now.x, steps, count);
    const {when, who, interval} = firing(cell.silent ? [] : ran.out, steps, count);
    Object.assign(now, {v: ran.states[0], unit: cell.unit, silent: cell.silent});
    // it is reset by then
    if (cell.peak) for (let t = 0; t < steps; t++) if (ran.out[t * count] > 0) now.v[t] = cell.peak;
    if (curve && [...changed].some((name) => name !== "current" && name !== "input")) {
      const options = {scale, steps, count, silent: cell.silent, noise: noise ? {strength: noise, draws} : null};
      now.curve = rates(equation, parameters, currents, options);
    }
    show(cell, ran, when, who);
    code.textContent = `${cell.code} with x = ${pythonic(scale * current)}`;
    note.textContent = cell.note ? `(${cell.note})` : "";
    if (cell.silent) return `${cell.name}: ${written(ran.out[(steps - 1) * count])} at the end`;
    if (!when.length) return `${cell.name}: silence`;
    const apart = Number.isNaN(interval) ? "" : `, ${interval.toFixed(1)} steps apart on average`;
    const spikes = counted(when.length / count, "spike") + (count > 1 ? " per neuron" : "");
    return `${cell.name}: ${spikes} in ${steps} steps${apart}`;
  }

  /** @param {Cell} cell @param {Recorded} ran @param {number[]} when @param {number[]} who */
  function show(cell, ran, when, who) {
    const drive = now.drive.filter((_, at) => at % count === 0).subarray(0, shown + 1),
      v = now.v.subarray(0, shown + 1);
    input.show([{name: "current", line: [null, drive], colour: SIGNALS.input, width: 1.5, step: true, fill: 0.12}]);
    const own0 = when.filter((_, i) => who[i] === 0);
    let level = null;
    if (!Number.isNaN(cell.level ?? NaN)) {
      level = new Float32Array(shown + 1).fill(/** @type {number} */ (cell.level));
      if (cell.rise) for (let t = 1; t <= shown; t++) level[t] += cell.rise * (ran.states[1][t - 1] ?? 0);
    }
    let lowest = Infinity, highest = -Infinity;
    for (const value of [...v, ...(level ?? [])]) {
      [lowest, highest] = [Math.min(lowest, value), Math.max(highest, value)];
    }
    const span = Math.max(highest - lowest, 1e-6);
    membrane.reach(lowest - 0.08 * span, highest + 0.2 * span);
    membrane.y.title = cell.unit ? `potential (${cell.unit})` : "potential";
    membrane.show([
      ...(level ? [{name: "threshold", line: [null, level], colour: SIGNALS.threshold, width: 1.5, dash: "dash",
        step: true}] : []),
      {name: "potential", line: [null, v], colour: SIGNALS.membrane},
      {name: "spikes", dots: [own0, own0.map(() => highest + 0.11 * span)], colour: SIGNALS.spike, shape: "triangle", size: 7},
    ]);
    others.element.hidden = !cell.others?.length || count === 1;
    now.others = (cell.others ?? []).map((name, i) => [name, ran.states[i + 1].subarray(0, shown + 1)]);
    const rest = now.others.flatMap(([, line]) => [...line]),
      [low, high] = [Math.min(0, ...rest), Math.max(0, ...rest)];
    Object.assign(others.y, {min: low - 0.05 * (high - low), max: high + 0.1 * (high - low || 1),
      title: cell.others?.join(", ") ?? ""});
    others.show(now.others.map(([, line], i) =>
      ({line: [null, line], colour: ["purple", "green", "sky"][i % 3], width: 1.5})));
    raster.show([{name: "spikes", dots: [when, who], colour: SIGNALS.spike, shape: "tick", size: Math.max(3, 88 / count)}]);
    if (!curve) return;
    const top = Math.max(...now.curve.filter(Number.isFinite), 0.01);
    const title = cell.silent ? "potential at the end" : "spikes per step";
    Object.assign(response.y, {min: Math.min(0, ...now.curve), max: 1.08 * top, title});
    response.show([{name: "rate", line: [currents, now.curve], colour: CONCEPTS.codes.rate}]);
  }

  const left = make("div", {className: "stacked"}, input.element, membrane.element, others.element,
    ...(count > 1 ? [raster.element] : []));
  const words = `Drag the diamond along the curve${own ? "" : ", the dashed threshold up and down"}, or draw an input.`;
  const right = make("div", {className: "stacked"}, response.element,
    make("p", {className: "small muted", textContent: words}));
  const plots = [input, membrane, others, ...(count > 1 ? [raster] : []), ...(curve ? [response] : [])];
  const ui = explorer(place, {label: "Neuron explorer", controls, plots, saved, report, draw, body: [
    make("p", {className: "small"}, code, " ", note),
    make("div", {className: curve ? "beside" : "stacked"}, left, ...(curve ? [right] : [])),
  ]});

  // Drawing the input.
  let before = /** @type {?[step: number, level: number]} */ (null);
  input.canvas.style.cursor = "crosshair";
  if (controls.input) drag(input.canvas, {
    frame: input.canvas,
    start: (x, y) => {
      const values = ui.values();
      const shape = SHAPES[/** @type {string} */ (values.input)]; // none: what is drawn is drawn on
      if (shape) drawn.forEach((_, t) => (drawn[t] = values.current * shape(t / shown)));
      before = null;
      paint(x, y);
    },
    move: paint,
  });
  /** @param {number} x @param {number} y */
  function paint(x, y) {
    const [step, level] = input.at(x, y), to = Math.min(steps - 1, Math.floor(step)), height = Math.max(level, 0);
    const [from, start] = before ?? [to, height];
    const way = Math.sign(to - from) || 1;
    for (let t = from; way * (to - t) >= 0; t += way) {
      drawn[t] = to === from ? height : start + ((height - start) * (t - from)) / (to - from);
    }
    if (steps > shown && to >= shown - 1) drawn.fill(height, shown);
    before = [to, height];
    ui.use("input", "drawn");
  }

  if (controls.threshold) membrane.handle({label: "threshold", ways: "y", line: true, step: 0.1,
    at: () => {
      const values = /** @type {Required<Settings>} */ (ui.values()), cell = chosen(values);
      return cell.peak || cell.silent || cell.rise ? null : [0, values.threshold];
    },
    move: (_, y) => ui.use("threshold", y),
    words: () => written(/** @type {number} */ (ui.values().threshold), 0.1),
    back: () => ui.use("threshold", first.threshold),
    rest: () => ui.ask("threshold")});
  if (curve) response.handle({label: "current on the curve", ways: "x", colour: "blue", step: most / 80,
    at: () => {
      const {current, input: shape} = ui.values();
      return (shape ?? "constant") === "constant" && now.curve.length ? [current, between(current)] : null;
    },
    move: (x) => ui.use("current", x),
    words: () => `${written(ui.values().current, 0.05)}, ${written(between(ui.values().current))} per step`,
    back: () => ui.use("current", first.current)});
  return ui;
}

/**
 * A slider for a number of a learner's neuron: from a tenth to ten times of what it is.
 * @param {string} name @param {number} value
 */
function knobFor(name, value) {
  if (value === 0) return slider({label: name, min: -1, max: 1, step: 0.05, value: 0});
  if (value < 0) return slider({label: name, min: 2 * value, max: 0, step: -value / 50, value});
  return slider({label: name, min: value / 10, max: 10 * value, step: 10 ** (Math.floor(Math.log10(value)) - 2), value,
    log: true});
}

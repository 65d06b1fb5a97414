/** The settings of a run: what each may be, how a link holds them, and the same run as Python. */

import {CUE, PLANE} from "./toys.js";

/**
 * @typedef {"yinyang"|"spirals"|"circles"|"digits"|"xor"} DataName
 * @typedef {"IF"|"LIF"|"Leaky"|"CubaLIF"|"ALIF"} NeuronName
 * @typedef {"ATan"|"FastSigmoid"|"Sigmoid"|"SuperSpike"|"Triangle"|"StraightThrough"} SurrogateName
 * @typedef {"current"|"poisson"|"latency"} Encoding
 * @typedef {"subtract"|"zero"|"none"} Reset
 * @typedef {"leak"|"synapse"|"adaptation"} NeuronKey a number that only some neurons have
 *
 * @typedef {object} PlainSettings
 * @property {DataName} data
 * @property {number[]} hidden neurons of each hidden layer
 * @property {number} steps time steps of a sample, T
 * @property {Encoding} encoding
 * @property {NeuronName} neuron
 * @property {Reset} reset
 * @property {number} threshold
 * @property {SurrogateName} surrogate
 * @property {number} width of the surrogate
 * @property {number} lr learning rate
 * @property {number} penalty
 * @property {number} batch samples
 * @property {number} seed
 *
 * @typedef {PlainSettings & {[key in NeuronKey]?: number}} Settings of a run, as a link holds them
 * @typedef {Settings & {numbers: Record<string, number>}} Run the same with the neuron's numbers by their names
 *
 * @typedef {{label: string, unit?: string, min: number, max: number, step: number, log?: boolean,
 *   whole?: boolean}} Range
 * @typedef {Range & {key: NeuronKey, name: string, value: number}} NeuronNumber
 * @typedef {{hint: string, threshold: string, raised?: string, resets: Reset[], numbers: NeuronNumber[]}} NeuronKind
 */

/** @template T @typedef {Partial<Record<DataName, T>>} OfSome data sets */

const AT_MOST = 128, DEEPEST = 3;

/**
 * Where each data set starts: what learns it within seconds.
 * @type {Record<DataName, {label: string, hidden: number[], steps: number, batch: number, lr: number}>}
 */
export const DATA = {
  yinyang: {label: "yin-yang", hidden: [32, 32], steps: 20, batch: 32, lr: 0.005},
  spirals: {label: "spirals", hidden: [32, 32], steps: 20, batch: 32, lr: 0.005},
  circles: {label: "circles", hidden: [16], steps: 20, batch: 32, lr: 0.01},
  digits: {label: "digits", hidden: [64], steps: 10, batch: 32, lr: 0.005},
  xor: {label: "XOR in time", hidden: [32], steps: 20, batch: 32, lr: 0.01},
};

/**
 * Neurons: `threshold` names theirs; `raised` names what the second part of the state raises it by, times that part;
 * `numbers` are those that differ, each {key, name of the argument, …}.
 * @type {Record<NeuronName, NeuronKind>}
 */
export const NEURONS = {
  IF: {hint: "integrates and never forgets", threshold: "v_threshold", resets: ["subtract", "zero"], numbers: []},
  LIF: {
    hint: "leaks towards rest; its input is divided by τ", threshold: "v_threshold", resets: ["subtract", "zero"],
    numbers: [{key: "leak", name: "tau", label: "leak: τ", unit: "steps", min: 1, max: 50, step: 0.1, value: 2,
      log: true}],
  },
  Leaky: {
    hint: "decays by the factor β in each step", threshold: "threshold", resets: ["subtract", "zero", "none"],
    numbers: [{key: "leak", name: "beta", label: "leak: decay β", min: 0, max: 1, step: 0.01, value: 0.9}],
  },
  CubaLIF: {
    hint: "a synaptic current charges the membrane", threshold: "v_th", resets: ["zero"],
    numbers: [
      {key: "leak", name: "tau_mem_inv", label: "leak: 1/τ", unit: "1/s", min: 10, max: 1000, step: 1,
        value: 100, log: true},
      {key: "synapse", name: "tau_syn_inv", label: "synapse: 1/τ", unit: "1/s", min: 10, max: 1000, step: 1,
        value: 200, log: true},
    ],
  },
  ALIF: {
    hint: "each spike raises its threshold for a while", threshold: "v_threshold", raised: "beta",
    resets: ["subtract", "zero"],
    numbers: [
      {key: "leak", name: "tau", label: "leak: τ", unit: "steps", min: 1, max: 100, step: 0.1, value: 20,
        log: true},
      {key: "adaptation", name: "beta", label: "adaptation β", min: 0, max: 2, step: 0.01, value: 0.07},
    ],
  },
};

/**
 * Surrogates: `slope` names the number that is 1 over the width (none: it has no width).
 * @type {Record<SurrogateName, {slope: ?string, label: string}>}
 */
export const SURROGATES = {
  ATan: {slope: "alpha", label: "arctangent"},
  FastSigmoid: {slope: "slope", label: "fast sigmoid"},
  Sigmoid: {slope: "alpha", label: "sigmoid"},
  SuperSpike: {slope: "alpha", label: "SuperSpike"},
  Triangle: {slope: "alpha", label: "triangle"},
  StraightThrough: {slope: null, label: "straight through"},
};

export const ENCODINGS = {
  current: {label: "constant current"}, poisson: {label: "Poisson spikes"}, latency: {label: "time of one spike"},
};
export const BATCHES = [1, 4, 16, 32, 64, 128];

/** Numbers that every run has. */
export const NUMBERS = {
  threshold: {label: "threshold", unit: "", min: 0.05, max: 20, step: 0.01, value: 1, log: true},
  width: {label: "surrogate width", unit: "", min: 0.001, max: 10, step: 0.001, value: 0.5, log: true},
  steps: {label: "time T", unit: "steps", min: 2, max: 50, step: 1, whole: true},
  lr: {label: "learning rate", unit: "", min: 0.00001, max: 1, step: 0.00001, log: true},
  penalty: {label: "rate penalty", unit: "", min: 0, max: 100, step: 0.5, value: 0},
  seed: {label: "seed", unit: "", min: 0, max: 9999, step: 1, value: 0, whole: true},
};

/**
 * What a run starts with, for a data set and a neuron.
 * @param {DataName} data @param {NeuronName} neuron
 * @returns {Settings}
 */
export function defaults(data = "yinyang", neuron = "Leaky") {
  const {hidden, steps, batch, lr} = DATA[data], {resets, numbers} = NEURONS[neuron];
  const settings = /** @type {Settings} */ (
    {data, hidden: [...hidden], steps, encoding: "current", neuron, reset: resets[0]});
  for (const {key, value} of numbers) settings[key] = value;
  const {threshold, width, penalty, seed} = NUMBERS;
  return Object.assign(settings, {
    threshold: threshold.value, surrogate: "ATan", width: width.value, lr, penalty: penalty.value, batch,
    seed: seed.value,
  });
}

/**
 * A run as the trainer takes it: with the numbers of its neuron by their names.
 * @param {Settings} settings
 * @returns {Run}
 */
export function complete(settings) {
  const {neuron, threshold, surrogate, width} = settings, kind = NEURONS[neuron], {slope} = SURROGATES[surrogate];
  const numbers = {[kind.threshold]: threshold};
  for (const {key, name} of kind.numbers) numbers[name] = /** @type {number} */ (settings[key]);
  if (slope) numbers[`surrogate.${slope}`] = steepness(width);
  return {...settings, numbers};
}

/** @param {number} width */
const steepness = (width) => Number((1 / width).toPrecision(6));
/** @param {Array<string|number>} names */
const oneOf = (names) => `one of ${names.join(", ")}`;

/**
 * The value of a key, or a text that says what it may be.
 * @param {string} key @param {string} text @param {Settings} settings
 * @returns {{value?: string|number|number[], wanted?: string}}
 */
function readKey(key, text, settings) {
  const kind = NEURONS[settings.neuron];
  const names = /** @type {Record<string, string[]|undefined>} */ ({
    data: Object.keys(DATA), neuron: Object.keys(NEURONS), reset: kind.resets, surrogate: Object.keys(SURROGATES),
    encoding: settings.data === "xor" ? ["current"] : Object.keys(ENCODINGS),
  })[key];
  if (names) {
    const of = key === "reset" ? ` for ${settings.neuron}` : key === "encoding" && names.length === 1 ? " for xor" : "";
    return names.includes(text) ? {value: text} : {wanted: (names.length > 1 ? oneOf(names) : names[0]) + of};
  }
  if (key === "hidden") {
    const sizes = text.split(",").map(Number);
    const good = sizes.length <= DEEPEST && sizes.every((n) => Number.isInteger(n) && n >= 2 && n <= AT_MOST);
    return good ? {value: sizes} : {wanted: `one to three whole numbers from 2 to ${AT_MOST}, such as 64,32`};
  }
  const number = text.trim() === "" ? NaN : Number(text);
  if (key === "batch") return BATCHES.includes(number) ? {value: number} : {wanted: oneOf(BATCHES)};
  const {min, max, whole} = /** @type {Range|{min?: undefined, max?: undefined, whole?: undefined}} */ (
    /** @type {Record<string, Range>} */ (NUMBERS)[key] ?? kind.numbers.find((one) => one.key === key) ?? {});
  if (min === undefined) return {wanted: `left out for ${settings.neuron}`};
  const least = key === "steps" && settings.data === "xor" ? CUE * 2 + 4 : min;
  const good = number >= least && number <= max && (!whole || Number.isInteger(number));
  return good ? {value: number} : {wanted: `a ${whole ? "whole " : ""}number from ${least} to ${max}`};
}

/** @type {Array<keyof Settings>} */
const KEYS = ["data", "neuron", "hidden", "steps", "encoding", "reset", "leak", "synapse", "adaptation", "threshold",
  "surrogate", "width", "lr", "penalty", "batch", "seed"];

/**
 * Settings from a link's part after "#"; `errors` are lines of text, and what they name stays at its default.
 * @param {string} hash
 */
export function readLink(hash) {
  const given = new URLSearchParams(hash.replace(/^#/, "")), errors = [];
  let settings = defaults();
  for (const key of KEYS) {
    const text = given.get(key);
    if (text === null) continue;
    const {value, wanted} = readKey(key, text, settings);
    if (wanted !== undefined) errors.push(`${key} must be ${wanted}, but it is ${JSON.stringify(text.slice(0, 40))}`);
    else if (key === "data") settings = defaults(/** @type {DataName} */ (value));
    else if (key === "neuron") settings = defaults(settings.data, /** @type {NeuronName} */ (value));
    else /** @type {Record<string, unknown>} */ (settings)[key] = value;
  }
  for (const key of new Set(given.keys())) {
    if (/** @type {string[]} */ (KEYS).includes(key)) continue;
    errors.push(`a key of the link must be ${oneOf(KEYS)}, but one is ${JSON.stringify(key.slice(0, 40))}`);
  }
  return {settings, errors};
}

/**
 * The part of a link after "#": what differs from the defaults of the data set and the neuron.
 * @param {Settings} settings
 */
export function writeLink(settings) {
  const plain = defaults(settings.data, settings.neuron), first = defaults(), parts = [];
  for (const key of KEYS) {
    const basis = key === "data" || key === "neuron" ? first : plain;
    if (key in settings && String(settings[key]) !== String(basis[key])) parts.push(`${key}=${settings[key]}`);
  }
  return parts.join("&");
}

/** A number as Python writes a float. @param {number} value */
const float = (value) => (Number.isInteger(value) ? `${value}.0` : String(value));

/** The same run as a script of snnkit: the same data, weights and batches. @param {Settings} settings */
export function asPython(settings) {
  const {data, hidden, neuron, steps, encoding, reset, threshold, surrogate, width} = settings;
  const {lr, penalty, batch, seed} = settings;
  const kind = NEURONS[neuron], {slope} = SURROGATES[surrogate], inTime = data === "xor", plane = data in PLANE;
  const sizes = [/** @type {OfSome<number>} */ ({digits: 64, xor: 10})[data] ?? 4, ...hidden,
    /** @type {OfSome<number>} */ ({digits: 10, xor: 2})[data] ?? PLANE[data].classes.length];
  const given = kind.numbers.map(({key, name}) => `${name}=${float(/** @type {number} */ (settings[key]))}`);
  given.push(`${kind.threshold}=${float(threshold)}`);
  if (neuron === "Leaky") given.push(`reset_mechanism="${reset}"`);
  else if (neuron !== "CubaLIF") given.push(`v_reset=${reset === "zero" ? "0.0" : "None"}`);
  given.push(`surrogate=surrogate.${surrogate}(${slope ? float(steepness(width)) : ""})`);
  const encoded = {
    current: `encode.repeat(x, ${steps})`, poisson: `encode.poisson(x, ${steps})`,
    latency: `encode.latency(x, ${steps}, linear=True)`,
  }[encoding];
  const samples = /** @type {OfSome<string>} */ ({
    digits: `
def load(split):  # images [n, 64] in [0, 1], labels [n]
    images, labels = data.load("digits", split)
    return data.to_unit(images).flatten(1), labels


x, labels = load("train")
test_x, test_labels = load("test")`,
    xor: `# spikes [T, n, 10], labels [n]
x, labels = data.xor_in_time(1000, ${steps}, delay=${steps - 10}, seed=0)
test_x, test_labels = data.xor_in_time(400, ${steps}, delay=${steps - 10}, seed=1)`,
  })[data] ?? `generator = torch.Generator().manual_seed(0)


def rand(n, k):
    return torch.rand(n, k, generator=generator).double()


${PLANE[data].python}


def load(n):  # points as [n, 4] = x, y, 1 - x, 1 - y, labels [n]
    points, labels = draw(n)
    points = points.float()
    return torch.cat([points, 1 - points], 1), labels


x, labels = load(${data === "circles" ? 1000 : 2000})
test_x, test_labels = load(${data === "circles" ? 400 : 600})`;
  const layers = sizes.slice(1).map((size, i) => `    nn.Linear(${sizes[i]}, ${size}),\n    neuron(),`).join("\n");
  const some = inTime ? "x[:, batch]" : "encoded(x[batch])", all = inTime ? "test_x" : "encoded(test_x)";
  const error = penalty > 0 ? `        recording = net.record(${some})
        hidden = recording.layers[1:-2:2]
        error = loss.count_cross_entropy(recording.out, labels[batch])
        error = error + loss.spike_rate_regulariser(hidden, 0.1, weight=${float(penalty)})` :
    `        spikes, _ = net(${some})
        error = loss.count_cross_entropy(spikes, labels[batch])`;
  const imports = [!inTime && "encode", !plane && "data", "loss", "surrogate"].filter(Boolean).sort().join(", ");
  return `${samples.includes("math.") ? "import math\n\n" : ""}import torch
from torch import nn

from snnkit import ${imports}
from snnkit.neuron import ${neuron}
from snnkit.nn import Sequential

${samples}

torch.manual_seed(${seed})


def neuron():
    return ${neuron}(${given.join(", ")})


net = Sequential(
${layers}
)
optimizer = torch.optim.Adam(net.parameters(), lr=${lr})
${inTime ? "" : `

def encoded(x):
    return ${encoded}

`}
for epoch in range(10):
    for batch in torch.randperm(len(labels)).split(${batch}):
${error}
        optimizer.zero_grad()
        error.backward()
        optimizer.step()
    with torch.no_grad():
        accuracy = loss.accuracy(net(${all})[0], test_labels)
    print(f"epoch {epoch + 1}: loss {error.item():.3f}, test accuracy {accuracy.item():.1%}")
`;
}

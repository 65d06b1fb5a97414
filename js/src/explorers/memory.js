// The memory calculator: the memory of one training step with Adam, part by part, and the largest batch that fits.

import {CONCEPTS} from "../concepts.js";
import {choice, make, slider, written} from "../controls.js";
import {Plot} from "../plot.js";
import {explorer, swatches, swatch} from "./explorer.js";

/**
 * @import {Start} from "./explorer.js"
 * @typedef {"dense"|"convolutional"} Network
 * @typedef {{network: Network, layers: number, width: number, T: number, batch: number,
 *   numbers: "float32"|"bfloat16", saving: string}} Setting hidden layers of `width` neurons or channels; checkpoints
 *   are √T steps apart, which needs least memory
 * @typedef {Setting & {gigabytes: number}} Settings
 * @typedef {{weights: number, gradients: number, optimizer: number, activity: number}} Memory bytes
 * @typedef {[part: keyof Memory, colour: string]} Part
 * @typedef {[weights: number, biases: number, inputs: number, neurons: number, pooled: number]} Block
 */

const INPUTS = 784, CLASSES = 10, SIDE = 28;
const POOLED = 2; // so many convolutions are followed by 2 × 2 max-pooling
const PER_CHANNEL = 8; // neurons of a dense layer, for each channel of a convolution of the same width
const ADAM = 2; // numbers that it stores for each weight
const LONGEST = 64;
export const SAVINGS = ["nothing", "recompute and pack", "checkpoints in time"];

/**
 * Of each layer: weights, biases, inputs, neurons, and values after its pooling (0: none).
 * @param {Network} network @param {number} layers @param {number} width
 * @returns {Block[]}
 */
function blocks(network, layers, width) {
  if (network === "dense") {
    const sizes = [INPUTS, ...Array(layers).fill(width), CLASSES];
    return sizes.slice(1).map((neurons, i) => [sizes[i] * neurons, neurons, sizes[i], neurons, 0]);
  }
  const all = /** @type {Block[]} */ ([]);
  let channels = 1, side = SIDE;
  for (let i = 0; i < layers; i++) {
    const after = i < POOLED ? side / 2 : side;
    all.push([9 * channels * width, 0, channels * side ** 2, width * side ** 2, i < POOLED ? width * after ** 2 : 0]);
    [channels, side] = [width, after];
  }
  const inputs = channels * side ** 2;
  return [...all, [inputs * CLASSES, CLASSES, inputs, CLASSES, 0]];
}

/**
 * Bytes that one training step holds between forward and backward, for images of 28 × 28 pixels whose steps all differ.
 * @param {Setting} setting
 * @returns {Memory}
 */
export function memoryOf({network, layers, width, T, batch, numbers, saving}) {
  const size = numbers === "float32" ? 4 : 2, calls = T * batch;
  let weights = 0, plain = 0, recomputed = 0;
  blocks(network, layers, width).forEach(([matrix, biases, inputs, neurons, pooled], i) => {
    weights += matrix + biases;
    const cast = size < 4 ? matrix * size : 0; // autocast's narrow copy of the weights
    const indices = 8 * pooled; // bytes of the places that max-pooling has chosen: PyTorch's, as on a GPU
    // The weights' input, and the neurons' input, from which backward runs them again. Pooling holds their output.
    plain += calls * (inputs * size + neurons * size + (pooled ? neurons * size : 0) + indices) + cast;
    // Spikes are packed, eight to a byte; neurons are run again, and pooling saves a byte for each place.
    const packed = i ? Math.floor(calls * inputs / 8) : calls * inputs * size;
    recomputed += packed + calls * (neurons * size + pooled) + cast;
  });
  const inTime = Math.floor(plain * Math.min(Math.ceil(Math.sqrt(T)) / T, 1)) + 4 * calls * INPUTS;
  const activity = [plain, recomputed, inTime][SAVINGS.indexOf(saving)];
  return {weights: 4 * weights, gradients: 4 * weights, optimizer: 4 * ADAM * weights, activity};
}

/** @param {Setting} setting */
export const totalOf = (setting) => Object.values(memoryOf(setting)).reduce((sum, bytes) => sum + bytes);

/**
 * Number of samples that fit into so many bytes: 0 if the model alone is too large.
 * @param {Setting} setting @param {number} bytes
 */
export function largestBatch(setting, bytes) {
  const {batch} = setting, each = (totalOf({...setting, batch: 2 * batch}) - totalOf(setting)) / batch;
  return Math.max(0, Math.floor((bytes - (totalOf(setting) - each * batch)) / each));
}

/** @type {Record<keyof Memory, string>} */
const PARTS = CONCEPTS.memory;
const COLOURS = ["ink", "purple", "sky"]; // of the ways to save

/** @type {Start<{}, Settings>} */
export function memoryExplorer(place, data, saved, report) {
  const controls = {
    network: choice({label: "network", value: "convolutional", list: true, options: [
      {value: "dense", label: "dense", hint: "Linear and Leaky"},
      {value: "convolutional", label: "convolutional", hint: "3 × 3 convolutions and IF, two with max-pooling by PyTorch"}]}),
    layers: slider({label: "layers", min: 1, max: 6, step: 1, value: 3, hint: "hidden layers"}),
    width: slider({label: "width", min: 8, max: 128, step: 8, value: 64,
      hint: "channels of a convolution; a dense layer has 8 neurons for each"}),
    T: slider({label: "T", unit: "steps", min: 1, max: LONGEST, step: 1, value: 16,
      hint: "time steps, whose inputs all differ"}),
    batch: slider({label: "batch", min: 8, max: 2048, step: 8, value: 128, hint: "samples in a batch"}),
    numbers: choice({label: "numbers", options: ["float32", "bfloat16"], list: true,
      hint: "of the activity; weights and their optimizer stay in float32"}),
    saving: choice({label: "saving", options: SAVINGS, value: SAVINGS[1], list: true,
      hint: "what device.optimize_memory_usage does; in time, √T steps are held at once"}),
    gigabytes: choice({label: "gigabytes", options: [1, 4, 8, 16, 24, 40, 80, 141], value: 8, list: true,
      hint: "memory of the device, in 10⁹ bytes"}),
  };
  const now = /** @type {{memory: Memory[], chosen: number, fits: number[][], unit: number}} */ ({});
  /** @param {number} bytes */
  const sized = (bytes) => (bytes < 1e8 ? `${written(bytes / 1e6)} MB` : `${written(bytes / 1e9)} GB`);
  /** @param {number} count */
  const samples = (count) => (count ? `${count.toLocaleString("en")} samples` : "no room for a single sample");
  const bars = new Plot({label: "memory of a training step, by parts, for each way to save", height: 210, left: 142,
    x: {title: "memory (GB)"}, y: {min: 2.5, max: -0.85},
    read(x, y) {
      const row = Math.min(2, Math.max(0, Math.round(y))), memory = now.memory[row];
      let end = 0;
      const part = /** @type {Array<keyof Memory>} */ (Object.keys(PARTS))
        .find((one) => x * now.unit <= (end += memory[one]));
      return `${SAVINGS[row]}: ${part ? `${part} ${sized(memory[part])}` : sized(end)}`;
    }});
  const room = new Plot({label: "largest batch that fits against the number of time steps; drag the diamond", height: 230,
    x: {title: "time steps T", min: 0.93, max: 72, log: true, ticks: [1, 2, 4, 8, 16, 32, LONGEST]},
    y: {title: "largest batch", log: true},
    read(x) {
      const T = Math.min(LONGEST, Math.max(1, Math.round(x)));
      const lines = SAVINGS.map((saving, i) => `${saving}: ${samples(now.fits[i][T - 1])}`);
      return [`T = ${T}`, ...lines].join("\n");
    }});
  const table = make("table", {className: "numbers", "aria-label": "bytes of each part"});
  const steps = Array.from({length: LONGEST}, (_, i) => i + 1);

  /** @param {Settings} values */
  function draw(values) {
    const {gigabytes, saving, T} = values, limit = gigabytes * 1e9;
    const width = values.network === "dense" ? PER_CHANNEL * values.width : values.width;
    const settings = SAVINGS.map((one) => ({...values, width, saving: one})), chosen = SAVINGS.indexOf(saving);
    Object.assign(now, {memory: settings.map(memoryOf), chosen,
      fits: settings.map((one) => steps.map((count) => largestBatch({...one, T: count}, limit)))});
    const totals = settings.map(totalOf), unit = Math.max(...totals) < 1e8 ? 1e6 : 1e9, device = limit / unit;
    now.unit = unit;
    const longest = Math.max(...totals) / unit, most = now.fits[chosen][T - 1];
    const shown = device < 5 * longest; // a line beyond would leave the bars no room
    Object.assign(bars.x, {min: 0, max: 1.05 * (shown ? Math.max(longest, device) : longest),
      title: unit === 1e6 ? "memory (MB)" : "memory (GB)"});
    bars.y.ticks = SAVINGS.map((one, row) => [row, row === chosen ? `▸ ${one}` : one]);
    const marks = now.memory.flatMap((memory, row) => {
      let end = 0;
      return /** @type {Part[]} */ (Object.entries(PARTS)).map(([part, colour]) =>
        ({line: [[end, (end += memory[part] / unit)], [row, row]], colour, width: 26}));
    });
    const words = `the device: ${gigabytes} GB`, left = Math.min(device / bars.x.max, 0.62) + 0.01;
    bars.show([...marks, ...(shown ? [{rule: "x", at: device, dash: "dash", width: 1.5}] : []),
      {text: shown ? words : `${words} →`, x: (shown ? left : 0.01) * bars.x.max, y: -0.65}]);
    const all = now.fits.flat().filter((count) => count > 0);
    Object.assign(room.y, {min: 10 ** Math.floor(Math.log10(Math.min(...all, 1e9) / 1.2)),
      max: 10 ** Math.ceil(Math.log10(Math.max(...all, 10)))});
    if (room.y.min >= room.y.max) Object.assign(room.y, {min: 1, max: 10});
    room.show([...now.fits.map((counts, i) => ({line: [steps, counts.map((count) => count || NaN)],
      colour: COLOURS[i], width: i === chosen ? 3 : 1.5, dash: i === chosen ? "solid" : "dash"})),
    {rule: "y", at: values.batch, colour: "muted", dash: "dot", width: 1}]);
    const total = totals[chosen];
    /** @param {Array<Node|string>} part @param {number} bytes */
    const row = (part, bytes) => make("tr", {}, make("th", {scope: "row"}, ...part),
      make("td", {textContent: sized(bytes)}),
      make("td", {textContent: `${bytes < total / 200 ? "< 1" : Math.round((100 * bytes) / total)} %`}));
    table.replaceChildren(.../** @type {Part[]} */ (Object.entries(PARTS)).map(([part, colour]) =>
      row([swatch(colour), part], now.memory[chosen][part])), row(["in all"], total));
    return `${total <= limit ? "Fits" : "Does not fit"} in ${gigabytes} GB: ${most ? "room for " : ""}${samples(most)}`;
  }

  const ways = swatches();
  ways.element.classList.add("inline");
  ways.set([...SAVINGS.map(/** @returns {[string, string]} */ (one, i) => [COLOURS[i], one]),
    ["muted", "your batch (dotted)"]]);
  const ui = explorer(place, {label: "Memory calculator", controls, plots: [bars, room], saved, report, draw, body: [
    make("div", {className: "beside"}, bars.element, table),
    make("div", {className: "stacked"}, room.element, ways.element),
  ]});
  room.handle({label: "T and the largest batch", ways: "x", colour: "accent", step: 1,
    at: () => {
      const most = now.fits?.[now.chosen][ui.values().T - 1];
      return most ? [ui.values().T, most] : null;
    },
    move: (x) => ui.use("T", x),
    words: () => `T = ${ui.values().T}, ${samples(now.fits[now.chosen][ui.values().T - 1])}`,
    back: () => ui.use("T", 16)});
  return ui;
}

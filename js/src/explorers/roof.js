// Under the roof: a model of a layer of neurons, as a loop of operations and as one fused kernel, on a machine whose
// rate and bandwidth were measured.

import {CONCEPTS} from "../concepts.js";
import {choice, make, slider, written} from "../controls.js";
import {Plot} from "../plot.js";
import {explorer, swatch} from "./explorer.js";

/**
 * @import {Start} from "./explorer.js"
 * @typedef {{operations: number, log2_neurons: number, steps: number, launch_us: number, numbers: string}} Settings
 * @typedef {{rate: number, bandwidth: number}} Machine operations and bytes per second
 * @typedef {{arithmetic: number, memory: number, launches: number}} Parts seconds
 * @typedef {{operations: number, bytes: number, parts: Parts, seconds: number}} Run
 * @typedef {{loop: Run, fused: Run}} Runs
 */

/** @type {Record<string, [input: number, spike: number]>} */
const SIZES = {float32: [4, 4], bfloat16: [2, 2], "float32, uint8 spikes": [4, 1]}; // bytes of an input, of a spike
const PASSES = 2.25; // numbers that an operation of the loop reads and writes, as its outcome may be a boolean
const COLOURS = {loop: CONCEPTS.engines.eager, fused: CONCEPTS.engines.fused};
const MOST = 500, SPAN = [0.03, 1000];

/**
 * The least time of a program that computes and moves memory at the same time.
 * @param {number} operations @param {number} bytes @param {number} rate @param {number} bandwidth
 */
export const leastSeconds = (operations, bytes, rate, bandwidth) => Math.max(operations / rate, bytes / bandwidth);

/**
 * Operations, bytes and seconds of both, and how many seconds are for what.
 * @param {Settings} settings @param {Machine} machine
 * @returns {Runs}
 */
export function modelOf({operations, log2_neurons, steps, launch_us, numbers}, {rate, bandwidth}) {
  const count = 2 ** log2_neurons * steps, [wide, spike] = SIZES[numbers], all = operations * count;
  /** @param {number} bytes @param {number} launches @returns {Run} */
  const run = (bytes, launches) => {
    const parts = {arithmetic: all / rate, memory: bytes / bandwidth, launches: launches * launch_us * 1e-6};
    return {operations: all, bytes, parts, seconds: leastSeconds(all, bytes, rate, bandwidth) + parts.launches};
  };
  return {loop: run(PASSES * wide * all, operations * steps), fused: run((wide + spike) * count, 1)};
}

/** "404 s", "12.3 ms", "50 µs". @param {number} seconds */
function lasting(seconds) {
  const [unit, size] = /** @type {Array<[string, number]>} */ ([["s", 1], ["ms", 1e-3], ["µs", 1e-6]])
    .find(([, one]) => seconds >= one) ?? ["ns", 1e-9];
  return `${written(seconds / size)} ${unit}`;
}

/** @type {Start<Machine, Settings>} */
export function roofExplorer(place, data, saved, report) {
  const controls = {
    operations: slider({label: "operations", min: 1, max: MOST, step: 1, value: 10, hint: "per neuron and step"}),
    log2_neurons: slider({label: "log2 neurons", min: 8, max: 24, step: 1, value: 16,
      hint: "the layer has 2 to this power: 10 are 1024 neurons, 16 are 65,536"}),
    steps: slider({label: "steps", min: 4, max: 128, step: 4, value: 32, hint: "time steps"}),
    launch_us: slider({label: "launch", unit: "µs", min: 0, max: 20, step: 1, value: 4,
      hint: "time to start a kernel: one for each operation and step of the loop, one in all if fused"}),
    numbers: choice({label: "numbers", options: Object.keys(SIZES), list: true, hint: "of inputs and spikes"}),
  };
  const {rate, bandwidth} = data, ridge = rate / bandwidth, now = /** @type {Partial<Runs>} */ ({});
  /** @param {number} x */
  const roofAt = (x) => Math.min(rate, bandwidth * x) / 1e9;
  const corners = [SPAN[0], ...(ridge > SPAN[0] && ridge < SPAN[1] ? [ridge] : []), SPAN[1]];
  // The slowest of all settings is a loop over the smallest layer, with the longest launches.
  const slowest = Math.min(roofAt(SPAN[0]), 2 ** 8 / 20e-6 / 1e9) / 2, highest = roofAt(SPAN[1]);
  const roof = new Plot({label: "operations per second of both against operations per byte, and the roof", height: 270,
    x: {title: "operations per byte moved", min: SPAN[0], max: SPAN[1], log: true},
    y: {title: "10⁹ operations per second", min: slowest, max: 3 * highest, log: true},
    read: (x) => `${written(x)} operations per byte:\nat most ${written(roofAt(x))}·10⁹ per second`});
  const time = new Plot({label: "time of both against the operations of a step; drag the diamond", height: 270,
    x: {title: "operations per neuron and step", min: 1, max: MOST, log: true, ticks: [1, 2, 5, 10, 20, 50, 100, 200]},
    y: {title: "time (ms)", log: true},
    read(x) {
      const operations = Math.round(x), {loop, fused} = modelOf({...ui.values(), operations}, data);
      return `${operations} operations:\nloop ${lasting(loop.seconds)}\nfused ${lasting(fused.seconds)}`;
    }});
  const table = make("table", {className: "numbers", "aria-label": "what the time is for"});
  const ladder = Array.from({length: 121}, (_, i) => MOST ** (i / 120));

  /** @param {Settings} values */
  function draw(values) {
    const runs = Object.assign(now, modelOf(values, data)), {loop, fused} = runs;
    const names = /** @type {Array<keyof Runs>} */ (Object.keys(COLOURS));
    roof.show([
      {line: [corners, corners.map(roofAt)], colour: "muted", width: 3},
      ...(corners.length > 2 ? [{rule: "x", at: ridge, colour: "muted", dash: "dot", width: 1},
        {text: "memory bound", x: 1.15 * SPAN[0], y: 1.6 * highest, colour: "muted"},
        {text: "compute bound", x: 1.1 * ridge, y: 1.6 * highest, colour: "muted"}] : []),
      ...names.flatMap((name) => {
        const {operations, bytes, seconds} = runs[name], colour = COLOURS[name], x = operations / bytes;
        const y = operations / seconds / 1e9;
        return [{line: [[x, x], [y, roofAt(x)]], colour, dash: "dot", width: 1.5}, {dots: [[x], [y]], colour, size: 11},
          {text: name, x: 1.15 * x, y: y / 1.5}];
      }),
    ]);
    const curves = names.map((name) => ladder.map((operations) =>
      modelOf({...values, operations}, data)[name].seconds * 1e3));
    const [low, high] = [Math.min(...curves.flat()), Math.max(...curves.flat())];
    Object.assign(time.y, {min: 10 ** Math.floor(Math.log10(low / 1.1)), max: 10 ** Math.ceil(Math.log10(high * 1.1))});
    time.show(names.flatMap((name, i) => [{line: [ladder, curves[i]], colour: COLOURS[name]},
      {dots: [[values.operations], [runs[name].seconds * 1e3]], colour: COLOURS[name], size: 9}]));
    const heads = ["", "arithmetic", "memory", "launches", "in all"];
    table.replaceChildren(make("tr", {}, ...heads.map((textContent) => make("th", {textContent, scope: "col"}))),
      ...names.map((name) => make("tr", {}, make("th", {scope: "row"}, swatch(COLOURS[name]), name),
        ...[...Object.values(runs[name].parts), runs[name].seconds].map((one) => make("td", {textContent: lasting(one)})))));
    /** @param {Run} run */
    const longest = ({parts}) => /** @type {Array<keyof Parts>} */ (Object.keys(parts))
      .reduce((one, other) => (parts[other] > parts[one] ? other : one));
    return `loop ${lasting(loop.seconds)} (${longest(loop)}), fused ${lasting(fused.seconds)} (${longest(fused)}): `
      + `${written(loop.seconds / fused.seconds)} times`;
  }

  const note = make("p", {className: "small muted", textContent:
    "The machine computes and moves memory at the same time: the longer of these counts, then the launches."});
  const ui = explorer(place, {label: "Under the roof", controls, plots: [roof, time], saved, report, draw, body: [
    make("div", {className: "halves"}, roof.element, time.element), table, note]});
  time.handle({label: "operations", ways: "x", colour: "blue", step: 1,
    at: () => (now.fused ? [ui.values().operations, now.fused.seconds * 1e3] : null),
    move: (x) => ui.use("operations", x),
    words: () => `${ui.values().operations} operations, fused ${lasting(/** @type {Run} */ (now.fused).seconds)}`,
    back: () => ui.use("operations", 10)});
  return ui;
}

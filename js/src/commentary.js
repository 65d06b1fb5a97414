/** What the page says and shows of a run, and the mistakes that it offers. */

import {PLANE} from "./toys.js";
import {dataSet} from "./trainer.js";

/**
 * @import {Colours} from "./canvas.js"
 * @import {Settings} from "./setup.js"
 * @import {Digits, Report, Samples} from "./trainer.js"
 *
 * @typedef {{layer: number, unit: number}} Place of a neuron; layer 0 is the first hidden one
 * @typedef {{test: Samples & {points: Float32Array}, side: number, classColours: function(Colours): string[]}} Plane of
 *   answers, with `side` cells in a row
 *
 * @typedef {{rows: string[], columns: string[], groups: ArrayLike<number>, right: function(number): number,
 *   across: string}} Table of answers: names, the row of each sample, row => column, and what the columns are
 *
 * @typedef {object} Model what the pictures need to know of a run
 * @property {number[]} sizes of all layers, with that of the input
 * @property {number} classes
 * @property {string[]} classNames
 * @property {function(Colours): string[]} classColours
 * @property {number} side cells of a map in a row
 * @property {boolean} smooth whether maps are
 * @property {boolean} spikingInput
 * @property {boolean} [isImage] whether the input is one
 * @property {boolean} [inTime] whether it differs from step to step
 * @property {string} inputUnit
 * @property {string[]} [inputNames]
 * @property {HTMLCanvasElement[]} [inputPictures] filled as they are needed
 * @property {function(number, number): number[]} [inputShade] of an input and a cell of its picture: red, green, blue
 * @property {Plane} [plane] either this
 * @property {Table} [table] or this
 * @property {string} text of the answers
 */

/** @param {Colours} palette */
const classColours = (palette) => CLASS_COLOURS.map((name) => palette[name]);
export const CLASS_COLOURS = ["violet", "teal", "olive"];

/**
 * Mistakes that people make, each with what it does.
 * @type {Array<{label: string, set: Partial<Settings>, text: string}>}
 */
export const PRESETS = [
  {
    label: "A surrogate of no width", set: {data: "digits", surrogate: "Triangle", width: 0.001},
    text: "A spike is a step, and the slope of a step is zero wherever the membrane is not exactly at the threshold. " +
      "A surrogate lends it a slope within its width. With a width of 0.001 hardly any membrane is ever inside: no " +
      "gradient passes, the weights stay as they were drawn, and the loss stays where guessing leaves it. Widen it " +
      "to 1.",
  },
  {
    label: "A threshold too high", set: {data: "yinyang", threshold: 15, surrogate: "Triangle", width: 1},
    text: "The input charges the membranes to a few units, and the threshold is 15: no neuron ever fires, every vote " +
      "is 0, and all membranes are far outside the surrogate's width, so that no gradient says in which direction to " +
      "go. Lower the threshold to 1 and press Start again. (The arctangent has long tails: with it, even these " +
      "neurons wake up, slowly.)",
  },
  {
    label: "A learning rate too high", set: {data: "digits", lr: 1},
    text: "A single step moves each weight by about 1, many times its size. Neurons end up far above the threshold, " +
      "where they fire at every step, or far below, where they never do. Both say the same for every image, and " +
      "little gradient is left to bring them back. Lower the rate to 0.005 and press Start again.",
  },
  {
    label: "No memory", set: {data: "xor", neuron: "LIF", leak: 1},
    text: "Two cues come one after the other, and the answer is whether they differ. With a time constant of one " +
      "step a membrane forgets the first before the second comes: whatever is learned, half of the answers are wrong. " +
      "Raise τ to 10.",
  },
];

/**
 * What the pictures need to know of a run.
 * @param {Settings} settings @param {Digits} digits
 * @returns {Model}
 */
export function describe(settings, digits) {
  const {data, hidden, encoding} = settings;
  if (data in PLANE) {
    const names = PLANE[data].classes;
    const {test} = dataSet(settings, digits);
    return {
      sizes: [4, ...hidden, names.length], classes: names.length, classNames: names, classColours, side: 32,
      smooth: true, spikingInput: encoding !== "current",
      inputUnit: "numbers", inputNames: ["x", "y", "1 − x", "1 − y"], inputPictures: [],
      inputShade: (unit, cell) => {
        const x = ((cell % 32) + 0.5) / 32, y = 1 - (Math.floor(cell / 32) + 0.5) / 32;
        const value = 255 * (1 - [x, y, 1 - x, 1 - y][unit]);
        return [value, value, value];
      },
      plane: {test: /** @type {Plane["test"]} */ (test), side: 32, classColours},
      text: "Each mark is a sample of the test set, a bold rim an error; no colour where no output leads. Drag over " +
        "it to see the spikes of a point.",
    };
  }
  if (data === "xor") {
    const {test} = dataSet(settings, digits);
    return {
      sizes: [10, ...hidden, 2], classes: 2, classNames: ["same", "different"], classColours, side: 2, smooth: false,
      inputUnit: "channels", inputNames: Array.from("aaaaabbbbb"), spikingInput: true, inTime: true,
      table: {
        rows: ["a, then a", "a, then b", "b, then a", "b, then b"], columns: ["same", "different"],
        groups: /** @type {Int32Array} */ (test.pairs), right: (row) => (row === 1 || row === 2 ? 1 : 0),
        across: "answer of the network",
      },
      text: "Samples of the test set: two cues, and the answer; none where no output fires. Press a cell to see the " +
        "spikes of one of them.",
    };
  }
  const names = Array.from("0123456789");
  return {
    sizes: [64, ...hidden, 10], classes: 10, classNames: names, classColours: () => [], side: 5, smooth: false,
    isImage: true, inputUnit: "pixels", spikingInput: encoding !== "current",
    table: {
      rows: names, columns: names, groups: Array.from(digits.test.labels, Number), right: (row) => row,
      across: "answer of the network",
    },
    text: "355 digits that it was not trained on; in the last column no output fires. Press a cell to see the spikes " +
      "of one of them.",
  };
}

/**
 * In words, what is wrong with a network, if anything is.
 * @param {Pick<Report, "rates"|"gradients"|"updates">} report
 */
export function diagnosis({rates, gradients, updates}) {
  /** @param {number} i */
  const name = (i) => (i === rates.length - 1 ? "The output layer" : `Layer hidden ${i + 1}`);
  const silent = rates.findIndex((layer) => layer.every((rate) => rate === 0));
  const cut = updates > 0 ? gradients.findLastIndex((size) => size === 0) : -1;
  const stuck = rates.findIndex((layer) => layer.some((rate) => rate > 0.9) &&
    layer.filter((rate) => rate > 0.9 || rate === 0).length >= 0.9 * layer.length);
  if (silent >= 0) {
    const dead = cut >= 0 ? " No gradient comes back through it, so it stays silent: it is dead." :
      updates ? " A weak gradient comes back through the surrogate's tails: it may wake up." : "";
    const then = silent === rates.length - 1 ? "no sample gets an answer" : "the next layer sees nothing";
    return `${name(silent)} is silent: its membranes do not reach the threshold, and ${then}.${dead}`;
  }
  if (cut >= 0) return `${name(cut)} gets no gradient: no membrane on the way to it is within the surrogate's width.`;
  if (stuck >= 0) {
    return `${name(stuck)} hands on no information: nearly every neuron fires always or never, whatever it sees.`;
  }
  return "";
}

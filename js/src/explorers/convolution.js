// The price of a convolutional network: FLOPs of models.FashionConvNet for one image, with the static part computed
// once or at each step.

import {choice, slider, written} from "../controls.js";
import {Plot} from "../plot.js";
import {explorer, swatches} from "./explorer.js";

/**
 * @import {Start} from "./explorer.js"
 * @typedef {{channels: number, steps: number, in_channels: number}} Settings
 */

const SIDE = 28, KERNEL = 9, HIDDEN = 16, CLASSES = 10; // HIDDEN: neurons of the hidden layer for each channel
/** @type {Object<string, string>} colours */
const PARTS = {"conv 1": "blue", "conv 2": "vermilion", linear: "green"};

/**
 * FLOPs of each part for one image; a product with its addition is two.
 * @param {number} channels @param {number} steps @param {number} inputs channels of the image
 * @param {boolean} once whether the first convolution is computed once, not at each step
 * @returns {Object<string, number>}
 */
export function flops(channels, steps, inputs, once) {
  const half = SIDE / 2, quarter = SIDE / 4, hidden = HIDDEN * channels;
  return {
    "conv 1": 2 * inputs * channels * KERNEL * SIDE ** 2 * (once ? 1 : steps),
    "conv 2": 2 * channels ** 2 * KERNEL * half ** 2 * steps,
    linear: 2 * (channels * quarter ** 2 * hidden + hidden * CLASSES) * steps,
  };
}

/** @param {Object<string, number>} parts */
const sum = (parts) => Object.values(parts).reduce((a, b) => a + b, 0);

/** @type {Start<{}, Settings>} */
export function convolutionExplorer(place, data, saved, report) {
  const controls = {
    channels: slider({label: "channels", min: 8, max: 256, step: 8, value: 128, hint: "of both convolutions"}),
    steps: slider({label: "T", unit: "steps", min: 1, max: 16, step: 1, value: 4, hint: "time steps"}),
    in_channels: choice({label: "in_channels", options: [1, 3, 16, 64], hint: "channels of the image"}),
  };
  const now = {bars: /** @type {Array<Object<string, number>>} */ ([])}, words = swatches();
  const plot = new Plot({label: "FLOPs of one image, part by part", height: 170, left: 104,
    x: {title: "MFLOP for one image"}, y: {min: 0, max: 2, grid: false}, read});

  /** @param {number} x @param {number} y */
  function read(x, y) {
    const parts = now.bars[y >= 1 ? 0 : 1];
    let end = 0;
    for (const [name, count] of Object.entries(parts)) {
      end += count / 1e6;
      if (x <= end) return `${name}: ${written(count / 1e6)} MFLOP, ${written((100 * count) / sum(parts))} %`;
    }
    return null;
  }

  /** @param {Settings} settings */
  function draw({channels, steps, in_channels: inputs}) {
    const once = flops(channels, steps, inputs, true), each = flops(channels, steps, inputs, false);
    now.bars = [once, each];
    Object.assign(plot.x, {max: (1.25 * sum(each)) / 1e6});
    plot.y.ticks = [[1.5, "static: once"], [0.5, `computed ${steps} ×`]];
    plot.show(now.bars.flatMap((parts, row) => {
      let end = 0;
      const boxes = Object.entries(parts).map(([name, count]) => {
        const from = end;
        end += count / 1e6;
        return {boxes: [[from, end, 1.2 - row, 1.8 - row]], colour: PARTS[name]};
      });
      return [...boxes, {text: ` ${written(end)}`, x: end, y: 1.5 - row, colour: "ink"}];
    }));
    words.set(Object.entries(PARTS).map(([name, colour]) => [colour, `${name}: ${written(once[name] / 1e6)} MFLOP`
      + (once[name] < each[name] ? ` computed once, ${written(each[name] / 1e6)} computed ${steps} ×` : "")]));
    return `One image through ${channels} channels, T = ${steps}: `
      + `once saves ${written(100 * (1 - sum(once) / sum(each)), 0.1)}\u00a0%`;
  }

  return explorer(place, {label: "The price of a convolution", controls, plots: [plot], saved, report, draw,
    body: [plot.element, words.element]});
}

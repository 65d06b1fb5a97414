// The spikes of a convolution's busiest channels for one image, step by step, and their mean over time.

import {bitsOf, bytesOf} from "../bytes.js";
import {CONCEPTS} from "../concepts.js";
import {choice, make, slider, written} from "../controls.js";
import {Plot} from "../plot.js";
import {explorer} from "./explorer.js";

/**
 * @import {Start} from "./explorer.js"
 * @typedef {{rows: number, columns: number, channels: number[][], spikes: string}} Layer `channels`: of each image, the
 *   busiest first; `spikes` are bits [images, steps, channels, rows, columns]
 * @typedef {{steps: number, rows: number, columns: number, images: string, labels: string[], answers: string[],
 *   layers: Object<string, Layer>}} Data `images` are bytes
 * @typedef {{image: number, layer: string}} Settings
 * @typedef {Array<Array<Uint8Array|Float32Array>>} Maps
 * @typedef {{rows: number, columns: number, channels: number[], maps: Maps, wide: number, high: number,
 *   pixels: number[]}} View `wide`, `high`: from one map to the next
 */

/**
 * The maps of one image: [steps + 1][channels] of [rows * columns] values from 0 to 1; the last are the means.
 * @param {{spikes: Uint8Array, shown: number, rows: number, columns: number}} layer
 * @param {number} image @param {number} steps
 * @returns {Maps}
 */
export function mapsOf({spikes, shown, rows, columns}, image, steps) {
  const each = rows * columns, first = image * steps * shown * each;
  const maps = Array.from({length: steps}, (_, t) => Array.from({length: shown}, (_, c) =>
    spikes.subarray(first + (t * shown + c) * each, first + (t * shown + c + 1) * each)));
  /** @param {number} c @param {number} i */
  const sum = (c, i) => maps.reduce((count, row) => count + row[c][i], 0);
  return [...maps, Array.from({length: shown}, (_, c) => Float32Array.from({length: each}, (_, i) => sum(c, i) / steps))];
}

/** @type {Start<Data, Settings>} */
export function mapsExplorer(place, data, saved, report) {
  const layers = Object.fromEntries(Object.entries(data.layers).map(([name, one]) =>
    [name, {...one, spikes: bitsOf(one.spikes), shown: one.channels[0].length}]));
  const bytes = bytesOf(data.images), each = data.rows * data.columns;
  const controls = {
    image: slider({label: "image", min: 0, max: data.labels.length - 1, step: 1, value: 0, hint: "which test image"}),
    layer: choice({label: "layer", options: Object.keys(layers), hint: "whose spikes are seen"}),
  };
  const now = /** @type {View} */ ({maps: /** @type {Maps} */ ([])});
  const view = new Plot({label: "spikes of the busiest channels, one column each, at each step and on average",
    height: 430, left: 56, equal: true, x: {title: "channel", grid: false}, y: {grid: false}, read});
  const picture = new Plot({label: "the image", height: 240, left: 10, equal: true,
    x: {title: "image", min: -0.5, max: data.columns - 0.5, ticks: []}, y: {min: data.rows - 0.5, max: -0.5, ticks: []},
    read: (x, y) => `brightness ${written(now.pixels[Math.round(y) * data.columns + Math.round(x)] ?? 0)}`});

  /** Which cell of the grid is under the pointer, and what it holds there. @param {number} x @param {number} y */
  function read(x, y) {
    const {rows, columns, channels, maps, wide, high} = now, across = Math.floor(x / wide), down = Math.floor(y / high);
    const column = Math.floor(x - across * wide), row = Math.floor(y - down * high);
    const value = column < columns && row < rows ? maps[down]?.[across]?.[row * columns + column] : undefined;
    if (value === undefined) return null;
    const what = down < data.steps ? `step ${down}: ${value ? "spike" : "no spike"}` : `${written(value)} per step`;
    return `channel ${channels[across]}, row ${row}, column ${column}\n${what}`;
  }

  /** @param {Settings} settings */
  function draw({image, layer: name}) {
    const layer = layers[name], {rows, columns} = layer, channels = layer.channels[image];
    const wide = columns + Math.max(1, columns / 14), high = rows + Math.max(1, rows / 14);
    const maps = mapsOf(layer, image, data.steps);
    const pixels = Array.from(bytes.subarray(image * each, (image + 1) * each), (one) => one / 255);
    Object.assign(now, {rows, columns, channels, maps, wide, high, pixels});
    Object.assign(view.x, {min: 0, max: channels.length * wide,
      ticks: channels.map((channel, i) => [(i + 0.5) * wide, String(channel)])});
    Object.assign(view.y, {min: maps.length * high, max: 0, ticks: maps.map((_, t) =>
      [(t + 0.5) * high, t < data.steps ? `step ${t}` : "mean"])});
    view.fit();
    view.show(maps.flatMap((row, t) => row.flatMap((spikes, c) => {
      const left = c * wide, top = t * high, right = left + columns, under = top + rows;
      return [
        {line: [[left, right, right, left, left], [top, top, under, under, top]], colour: "strongLine", width: 1},
        {pixels: spikes, rows, columns, x: left + 0.5, y: top + 0.5, colour: t < data.steps ? CONCEPTS.signals.spike : "green"},
      ];
    })));
    picture.show([{pixels, rows: data.rows, columns: data.columns, colour: "ink"}]);
    const answer = data.answers[image], label = data.labels[image];
    const rate = written(
      /** @type {Float32Array[]} */ (maps.at(-1))[0].reduce((sum, value) => sum + value, 0) / (rows * columns), 0.01);
    const right = answer === label ? `${label}, read correctly` : `${label}, read as ${answer}`;
    return `${name}, image ${image} (${right}); busiest: channel ${channels[0]}, rate ${rate}`;
  }

  const note = make("p", {className: "small muted", textContent: "Each column is a channel, the busiest at the left; "
    + "each row a time step. Orange: a spike. Green: the mean over time, the rate."});
  return explorer(place, {label: "Feature maps", controls, plots: [view, picture], saved, report, draw, body: [
    make("div", {className: "beside"}, view.element, make("div", {className: "stacked"}, picture.element, note)),
  ]});
}

import assert from "node:assert/strict";
import test from "node:test";
import {STYLES, isBlank, moved, rasterize} from "../src/strokes.js";

/** @type {import("../src/strokes.js").Stroke[]} */
const SEVEN = [[[10, 10], [60, 12], [30, 95]], [[25, 50], [52, 50]]];

/** Between which rows a square image is not 0, its centre of mass, and its mean. @param {Float32Array} image */
function seen(image) {
  const side = Math.sqrt(image.length), at = [...image.keys()].filter((i) => image[i]);
  const rows = at.map((i) => Math.floor(i / side)), columns = at.map((i) => i % side);
  const sum = image.reduce((a, b) => a + b);
  /** @param {number[]} places */
  const middle = (places) => Math.round((100 * at.reduce((all, i, n) => all + image[i] * places[n], 0)) / sum) / 100;
  return {top: Math.min(...rows), bottom: Math.max(...rows), middle: [middle(columns), middle(rows)],
    mean: sum / image.length};
}

test("where nothing is drawn, nothing is seen", () => {
  assert.ok(isBlank([]) && isBlank([[], []]) && !isBlank([[], [[1, 1]]]));
  assert.deepEqual(rasterize([[]], 8, 8), new Float32Array(64));
});

test("a drawing of 28 × 28 pixels is 20 high, with its mass in the middle, as those of MNIST", () => {
  const image = rasterize(SEVEN, 28, 28), {top, bottom, middle} = seen(image);
  assert.ok(Math.abs(bottom - top + 1 - 20) <= 1, `${top} to ${bottom}`);
  assert.deepEqual(middle, [13.5, 13.5]);
  assert.ok(Math.min(...image) === 0 && Math.abs(Math.max(...image) - 1) < 1e-6);
});

test("one of 8 × 8 pixels reaches from edge to edge, with as much ink as the digits; a dash stays flat", () => {
  const {top, bottom, mean} = seen(rasterize(SEVEN, 8, 8)), dash = seen(rasterize([[[0, 0], [100, 2]]], 8, 8));
  assert.deepEqual([top, bottom], [0, 7]);
  assert.ok(Math.abs(mean - 0.3) < 0.05 && dash.bottom - dash.top < 4, `${mean}, ${dash.top} to ${dash.bottom}`);
});

test("what is read from left to right stays where it was drawn, in parts of the field", () => {
  const image = rasterize([[[0.25, 0.75], [0.25, 0.75]]], 20, 20, STYLES.drawn), {middle, top, bottom} = seen(image);
  assert.deepEqual([middle, top, bottom], [[4.5, 14.5], 13, 16]);
});

test("where and how large something is drawn does not matter", () => {
  /** @type {typeof SEVEN} */
  const far = SEVEN.map((stroke) => stroke.map(([x, y]) => [400 + 3 * x, 3 * y - 70]));
  for (const rows of [8, 28]) {
    const one = rasterize(SEVEN, rows, rows), other = rasterize(far, rows, rows);
    assert.ok(one.every((value, i) => Math.abs(value - other[i]) < 1e-3));
  }
});

test("an image moves by whole and half pixels, and 0 comes in", () => {
  const image = Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8);
  assert.deepEqual(moved(image, [2, 2, 2], 1, 0, 0), Float32Array.of(0, 1, 0, 3, 0, 5, 0, 7));
  assert.deepEqual(moved(image, [2, 2, 2], 0, -0.5, 0), Float32Array.of(2, 3, 1.5, 2, 6, 7, 3.5, 4));
});

test("an image turns clockwise about its middle", () => {
  const found = moved(Float32Array.of(1, 2, 3, 4, 5, 6, 7, 8, 9), [1, 3, 3], 0, 0, 90);
  assert.deepEqual(found.map(Math.round), Float32Array.of(7, 4, 1, 8, 5, 2, 9, 6, 3));
});

import assert from "node:assert/strict";
import test from "node:test";
import {busiest, trace} from "../src/learning_plots.js";

/** Three steps of two hidden neurons, and of an output that always fires. @param {number[][]} hidden */
const probe = (hidden) => /** @type {any} */ ({decisions: [
  hidden.map((away) => ({away, threshold: [1, 2]})), hidden.map(() => ({away: [1], threshold: [1]})),
]});
const second = probe([[-0.5, 0.25], [0.5, -1], [-2, 0.125]]);

test("the hidden neuron that fires most, of several the first", () => {
  assert.deepEqual(busiest(second), {layer: 0, unit: 1});
  assert.deepEqual(busiest(probe([[1, 1], [-1, -1], [-1, -1]])), {layer: 0, unit: 0});
  assert.deepEqual(busiest(probe([[-1, -1], [-1, -1], [-1, -1]])), {layer: 0, unit: 0});
});

test("a neuron's membrane, threshold and spikes", () => {
  const of = trace(second, {layer: 0, unit: 1});
  assert.deepEqual(of, {membrane: [2.25, 1, 2.125], threshold: [2, 2, 2], fired: [true, false, true]});
});

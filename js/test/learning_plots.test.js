import assert from "node:assert/strict";
import test from "node:test";
import {busiest, trace} from "../src/learning_plots.js";

// Three steps of two hidden neurons and an output: the second fires twice, the output always.
const probe = /** @type {any} */ ({
  spikes: [Uint8Array.of(0, 1, 1, 0, 0, 1), Uint8Array.of(1, 1, 1)],
  decisions: [
    [[-0.5, 0.25], [0.5, -1], [-2, 0.125]].map((away) => ({away, threshold: [1, 2]})),
    [0, 0, 0].map(() => ({away: [1], threshold: [1]})),
  ],
});

test("the hidden neuron that fires most, of several the first", () => {
  assert.deepEqual(busiest(probe), {layer: 0, unit: 1});
  const tie = {...probe, spikes: [Uint8Array.of(1, 1, 0, 0, 0, 0), probe.spikes[1]]};
  assert.deepEqual(busiest(tie), {layer: 0, unit: 0});
  const silent = {...probe, spikes: [new Uint8Array(6), probe.spikes[1]]};
  assert.deepEqual(busiest(silent), {layer: 0, unit: 0});
});

test("a neuron's membrane, threshold and spikes", () => {
  assert.deepEqual(trace(probe, {layer: 0, unit: 1}), {
    membrane: [2.25, 1, 2.125], threshold: [2, 2, 2], fired: [true, false, true],
  });
});

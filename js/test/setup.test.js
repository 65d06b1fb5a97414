import assert from "node:assert/strict";
import test from "node:test";
import {BATCHES, DATA, defaults, ENCODINGS, NEURONS, NUMBERS, readLink, SURROGATES, writeLink} from "../src/setup.js";

/** @import {DataName, NeuronName, Settings} from "../src/setup.js" */

const ALL = /** @type {DataName[]} */ (Object.keys(DATA)).flatMap((data) =>
  /** @type {NeuronName[]} */ (Object.keys(NEURONS)).map((neuron) => defaults(data, neuron)));

/** @param {Settings} settings */
const again = (settings) => readLink(`#${writeLink(settings)}`);

test("the defaults of every data set and neuron come back from their link", () => {
  assert.deepEqual([ALL.length, writeLink(defaults())], [25, ""]);
  assert.equal(writeLink(defaults("xor", "IF")), "data=xor&neuron=IF");
  for (const settings of ALL) assert.deepEqual(again(settings), {settings, errors: []});
});

test("whatever a setting may be comes back", () => {
  for (const first of ALL) {
    const {numbers, resets} = NEURONS[first.neuron], steps = {...NUMBERS.steps, min: 10}; // XOR in time takes so long
    const ranges = {...NUMBERS, steps, ...Object.fromEntries(numbers.map((one) => [one.key, one]))};
    const changes = [...Object.entries(ranges).flatMap(([key, {min, max}]) => [[key, min], [key, max]]),
      ...resets.map((one) => ["reset", one]), ...Object.keys(SURROGATES).map((one) => ["surrogate", one]),
      ...BATCHES.map((one) => ["batch", one]), ["hidden", [2, 128, 7]],
      ...(first.data === "xor" ? [] : Object.keys(ENCODINGS)).map((one) => ["encoding", one])];
    for (const [key, value] of changes) {
      const settings = {...first, [String(key)]: value};
      assert.deepEqual(again(settings), {settings, errors: []}, `${key} = ${value}`);
    }
  }
});

test("the order in a link does not matter", () => {
  const parts = ["data=digits", "neuron=LIF", "leak=7", "steps=33"], {settings} = readLink(parts.join("&"));
  assert.deepEqual(settings, {...defaults("digits", "LIF"), leak: 7, steps: 33});
  assert.deepEqual(readLink(parts.toReversed().join("&")).settings, settings);
});

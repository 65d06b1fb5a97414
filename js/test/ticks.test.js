import assert from "node:assert/strict";
import test from "node:test";
import {raised, ticksOf, tickText} from "../src/ticks.js";

test("ticks are round numbers without errors of rounding, both ends included", () => {
  assert.deepEqual(ticksOf(0.1, 0.7, 6), [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]);
  assert.deepEqual(ticksOf(-3, 7, 5), [-2, 0, 2, 4, 6]);
  for (const high of [3e-5, 0.7, 12, 99, 4567]) {
    for (const most of [5, 9]) {
      const ticks = ticksOf(0, high, most), step = ticks[1];
      assert.ok(ticks.length <= most + 1 && ticks.length > most / 2.5 && high - step * (ticks.length - 1) < step);
      assert.match(step.toExponential(), /^[125]e/);
    }
  }
});

test("numbers far from 1 are written with a power of ten", () => {
  const written = {0: "0", 0.05: "0.05", "-2": "−2", 0.001: "0.001", 99999: "99999", 123456.7: "1.23·10⁵", 1e5: "10⁵",
    2.5e-4: "2.5·10⁻⁴", 1e-12: "10⁻¹²", "-3e7": "−3·10⁷"};
  for (const [value, text] of Object.entries(written)) assert.equal(tickText(Number(value)), text);
  assert.equal(raised(-1023456789), "⁻¹⁰²³⁴⁵⁶⁷⁸⁹");
});

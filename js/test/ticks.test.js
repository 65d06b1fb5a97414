import assert from "node:assert/strict";
import test from "node:test";
import {Axis} from "../src/plot.js";
import {labelled, raised, ticksOf, tickText} from "../src/ticks.js";

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

test("the numbers of an axis are all digits, or all have a power of ten", () => {
  const texts = (/** @type {number[]} */ values, log = false) => labelled(values, log).map(([, text]) => text).join(" ");
  assert.equal(texts([1, 10, 100, 1e3, 1e4], true), "1 10 100 1000 10000");
  assert.equal(texts([1, 10, 1e4, 1e5], true), "10⁰ 10¹ 10⁴ 10⁵");
  assert.equal(texts([1e-4, 0.01, 0.2, 1], true), "10⁻⁴ 10⁻² 2·10⁻¹ 10⁰");
  assert.equal(texts([0, 5e4, 1e5, 1.5e5]), "0 0.5·10⁵ 1·10⁵ 1.5·10⁵");
  assert.equal(texts([-2e5, 0, 2e5]), "−2·10⁵ 0 2·10⁵");
  assert.equal(texts([0, 5e-4, 0.001]), "0 0.0005 0.001");
  assert.equal(texts([0, 2e-4, 4e-4]), "0 2·10⁻⁴ 4·10⁻⁴");
  assert.equal(texts([]), "");
});

test("an axis of an explorer has one style of numbers, wherever it ends", () => {
  for (const [min, max] of [[1, 1e4], [1, 1e5], [1e-6, 10], [3, 2e7], [1e-3, 0.2]]) {
    for (const log of [true, false]) {
      const texts = new Axis({min, max, log}).shown(6).map(([, text]) => text).filter((text) => text !== "0");
      assert.ok(texts.length > 1, `${min} to ${max}`);
      assert.equal(new Set(texts.map((text) => /10[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]/.test(text))).size, 1, texts.join(" "));
    }
  }
  const given = new Axis({min: 0.001, max: 1, log: true, ticks: [1, 0.1, [1e-4, "least"]]}).shown(6);
  assert.deepEqual(given, [[1, "1"], [0.1, "0.1"], [1e-4, "least"]]);
});

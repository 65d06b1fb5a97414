// Answers to predictions: read, judged and put into words. The rules of what is right are those of course/question.py.

import {written} from "./controls.js";

/**
 * @typedef {[xs: number[], ys: number[]]} Curve xs ascending
 * @typedef {number|number[]} Guess an index, a number, or heights at even places
 * @typedef {number|Curve} Truth an index, a number, or a curve
 * @typedef {[low: number, high: number, label: string]} AxisEnds
 *
 * @typedef {{key: string, label: string, ask: string, why: string}} Asked
 * @typedef {Asked & {kind: "choice", choices: string[]}} ChoiceQuestion
 * @typedef {{tolerance: number, within?: undefined}|{within: number, tolerance?: undefined}} Width around the truth, in
 *   which an answer is right: a share of it, or so much
 * @typedef {Asked & Width & {kind: "number", unit: string, low: number, high: number}} NumberQuestion
 * @typedef {Asked & {kind: "sketch", x: AxisEnds, y: AxisEnds, tolerance: number}} SketchQuestion
 * @typedef {ChoiceQuestion|NumberQuestion|SketchQuestion} Question as course/question.py gives it
 */

/** A share as a percentage to two digits. @param {number} share */
function percent(share) {
  return written(Number((100 * share).toPrecision(2)));
}

/**
 * The number that a reader has typed.
 * @param {string} text @param {Pick<NumberQuestion, "low"|"high"|"unit">} question
 * @returns {{value: number, problem?: undefined}|{problem: string, value?: undefined}}
 */
export function numberOf(text, {low, high, unit}) {
  const typed = text.trim().replace(/[−–]/g, "-");
  if (!typed) return {problem: "Enter a number first."};
  if (/^[-+]?\d*,\d+$/.test(typed)) return {problem: `Write a point for the comma: ${typed.replace(",", ".")}`};
  const value = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(typed) ? Number(typed) : NaN;
  if (!Number.isFinite(value)) {
    return {problem: `Enter a number alone, such as ${written((low + high) / 2)}${unit && `, without “${unit}”`}.`};
  }
  if (value < low || value > high) return {problem: `Enter a number from ${written(low)} to ${written(high)}.`};
  return {value};
}

/** The height of a curve at x, or null outside of it. @param {Curve} curve @param {number} x */
export function heightAt([xs, ys], x) {
  if (x < xs[0] || x > xs[xs.length - 1]) return null;
  let i = 1;
  while (i < xs.length - 1 && xs[i] < x) i++;
  const width = xs[i] - xs[i - 1];
  return width ? ys[i - 1] + ((ys[i] - ys[i - 1]) * (x - xs[i - 1])) / width : ys[i];
}

/**
 * Was a guess right, and how far off?
 * @param {Question} question
 * @param {Guess} guess
 * @param {Truth} truth
 * @returns {{right: boolean, words: string}}
 */
export function judge(question, guess, truth) {
  if (question.kind === "choice") {
    return {right: guess === truth, words: `It is “${question.choices[/** @type {number} */ (truth)]}”.`};
  }
  if (question.kind === "number") {
    const said = /** @type {number} */ (guess), found = /** @type {number} */ (truth);
    const off = Math.abs(said - found), {within, tolerance, unit} = question;
    const right = off <= (within ?? tolerance * Math.abs(found)) * (1 + 1e-9);
    const way = said > found ? "too high" : "too low", measure = unit && ` ${unit}`;
    // 27 % too high would be 13 % times 1.27
    const points = (/** @type {number} */ of) => unit !== "%" ? "" : written(of) === "1" ? " point" : " points";
    const apart = off / Math.abs(found), small = said * found > 0 && found / said >= 10;
    const far = within !== undefined || !found ? `${written(off)}${points(off)}`
      : small ? `1/${written(found / said)} of the result,` : apart < 3 ? `${percent(apart)} %` : `${written(said / found)} times the result,`;
    const limit = within === undefined ? `${percent(tolerance)} %` : `${written(within)}${points(within)}`;
    const words = `You said ${written(said)}, it is ${written(found)}${measure}: `;
    const rule = within === 0 ? "Only this number is right." : `Right is within ${limit}.`;
    return {right, words: words + (off ? `${far} ${way}. ${rule}` : "exact.")};
  }
  const [low, high, label] = question.y, [left, end] = question.x, differences = /** @type {number[]} */ ([]);
  const heights = /** @type {number[]} */ (guess);
  heights.forEach((height, i) => {
    const result = heightAt(/** @type {Curve} */ (truth), left + ((end - left) * i) / (heights.length - 1));
    if (result !== null) differences.push(Math.abs(height - Math.min(high, Math.max(low, result))));
  });
  const far = differences.reduce((sum, one) => sum + one, 0) / Math.max(1, differences.length);
  return {right: differences.length > 0 && far <= question.tolerance * (high - low),
    words: `On average your curve is ${written(far)} from the result (${label}), ${percent(far / (high - low))} % of the `
      + `height of the plot. Right is within ${percent(question.tolerance)} %.`};
}

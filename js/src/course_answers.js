// Answers to predictions: read, judged and put into words. The rules of what is right are those of course/question.py.

import {written} from "./controls.js";

/** A share as a percentage to two digits. */
function percent(share) {
  return written(Number((100 * share).toPrecision(2)));
}

/**
 * The number that a reader has typed.
 * @returns {{value: number}|{problem: string}}
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

/** The height of a curve (xs ascending) at x, or null outside of it. */
export function heightAt([xs, ys], x) {
  if (x < xs[0] || x > xs[xs.length - 1]) return null;
  let i = 1;
  while (i < xs.length - 1 && xs[i] < x) i++;
  const width = xs[i] - xs[i - 1];
  return width ? ys[i - 1] + ((ys[i] - ys[i - 1]) * (x - xs[i - 1])) / width : ys[i];
}

/**
 * Was a guess right, and how far off?
 * @param {Object} question as course/question.py gives it
 * @param {*} guess an index, a number, or heights at even places
 * @param {*} truth an index, a number, or a curve [xs, ys]
 * @returns {{right: boolean, words: string}}
 */
export function judge(question, guess, truth) {
  if (question.kind === "choice") {
    return {right: guess === truth, words: `It is “${question.choices[truth]}”.`};
  }
  if (question.kind === "number") {
    const off = Math.abs(guess - truth), {within, tolerance, unit} = question;
    const right = off <= (within ?? tolerance * Math.abs(truth)) * (1 + 1e-9);
    const way = guess > truth ? "too high" : "too low", measure = unit && ` ${unit}`;
    const step = unit === "%" ? " points" : measure; // 27 % too high would be 13 % times 1.27
    const apart = off / Math.abs(truth);
    const far = within !== undefined || !truth ? `${written(off)}${step}`
      : apart < 3 ? `${percent(apart)} %` : `${written(guess / truth)} times the result,`;
    const limit = within === undefined ? `${percent(tolerance)} %` : `${written(within)}${step}`;
    const words = `You said ${written(guess)}, it is ${written(truth)}${measure}: `;
    return {right, words: words + (off ? `${far} ${way}. Right is within ${limit}.` : "exact.")};
  }
  const [low, high, label] = question.y, [left, end] = question.x, differences = [];
  guess.forEach((height, i) => {
    const result = heightAt(truth, left + ((end - left) * i) / (guess.length - 1));
    if (result !== null) differences.push(Math.abs(height - Math.min(high, Math.max(low, result))));
  });
  const far = differences.reduce((sum, one) => sum + one, 0) / Math.max(1, differences.length);
  return {right: differences.length > 0 && far <= question.tolerance * (high - low),
    words: `On average your curve is ${written(far)} from the result (${label}), ${percent(far / (high - low))} % of the `
      + `height of the plot. Right is within ${percent(question.tolerance)} %.`};
}

// Ticks of axes: where they are, and what they say.

import {written} from "./controls.js";

/**
 * Round numbers (1, 2 or 5 times a power of ten) between two ends, at most `most` of them.
 * @param {number} low @param {number} high @param {number} most
 */
export function ticksOf(low, high, most) {
  const least = (high - low) / Math.max(most, 1), power = 10 ** Math.floor(Math.log10(least));
  const step = /** @type {number} */ (
    [1, 2, 5, 10].map((one) => one * power).find((one) => one >= least * 0.999));
  const ticks = [];
  const last = high + 1e-9 * step;
  for (let i = Math.ceil(low / step - 1e-9); i * step <= last; i++) ticks.push(Number((i * step).toPrecision(10)));
  return ticks;
}

/** A whole number as an exponent: 10 with it is "10⁻³". @param {number} power */
export function raised(power) {
  return String(power).replace(/./g, (sign) => (sign === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(sign)]));
}

/** Whether a number is written with a power of ten. @param {number} value */
const far = (value) => value !== 0 && (Math.abs(value) >= 1e5 || Math.abs(value) < 9.99e-4);

/** As digits: "0.05", "−2". @param {number} value */
const plain = (value) => String(Number(value.toPrecision(6))).replace("-", "−");

/** A number as a label: "0.05", "−2", "10⁻³" where it is far from 1. @param {number} value */
export function tickText(value) {
  if (!far(value)) return plain(value);
  const power = Math.floor(Math.log10(Math.abs(value)) + 1e-9), digits = value / 10 ** power;
  const factor = Math.abs(Math.abs(digits) - 1) < 1e-6 ? (value < 0 ? "−" : "") : `${written(digits)}·`;
  return `${factor}10${raised(power)}`;
}

/**
 * Values with the labels of an axis, in one style: all are digits, or all have a power of ten, each its own on a
 * logarithmic axis ("10⁰", "10⁵"), and that of the largest on others ("0.5·10⁵", "1·10⁵").
 * @param {number[]} values @returns {Array<[value: number, text: string]>}
 */
export function labelled(values, log = false) {
  const largest = Math.max(...values.map(Math.abs)), common = Math.floor(Math.log10(largest) + 1e-9);
  const powers = log ? values.some(far) : far(largest);
  return values.map((value) => {
    if (!powers || value === 0) return [value, plain(value)];
    const power = log ? Math.floor(Math.log10(Math.abs(value)) + 1e-9) : common, digits = value / 10 ** power;
    return [value, `${log && Math.abs(digits - 1) < 1e-6 ? "" : `${plain(digits)}·`}10${raised(power)}`];
  });
}

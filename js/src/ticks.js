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

/** As a tick label: "0.05", "−2", "10⁻³" where it is far from 1. @param {number} value */
export function tickText(value) {
  if (value !== 0 && (Math.abs(value) >= 1e5 || Math.abs(value) < 9.99e-4)) {
    const power = Math.floor(Math.log10(Math.abs(value)) + 1e-9), digits = value / 10 ** power;
    const factor = Math.abs(Math.abs(digits) - 1) < 1e-6 ? (value < 0 ? "−" : "") : `${written(digits)}·`;
    return `${factor}10${raised(power)}`;
  }
  return String(Number(value.toPrecision(6))).replace("-", "−");
}

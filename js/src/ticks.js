// Ticks of axes: where they are, and what they say.

import {written} from "./controls.js";

/** Round numbers (1, 2 or 5 times a power of ten) between two ends, at most `most` of them. */
export function ticksOf(low, high, most) {
  const least = (high - low) / Math.max(most, 1), power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= least * 0.999);
  const ticks = [];
  const last = high + 1e-9 * step;
  for (let i = Math.ceil(low / step - 1e-9); i * step <= last; i++) ticks.push(Number((i * step).toPrecision(10)));
  return ticks;
}

/** A whole number as an exponent: 10 with it is "10⁻³". */
export function raised(power) {
  return String(power).replace(/./g, (sign) => (sign === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign]));
}

/** As a tick label: "0.05", "−2", "10⁻³" where it is far from 1. */
export function tickText(value) {
  if (value !== 0 && (Math.abs(value) >= 1e5 || Math.abs(value) < 9.99e-4)) {
    const power = Math.floor(Math.log10(Math.abs(value)) + 1e-9), digits = value / 10 ** power;
    return `${Math.abs(digits - 1) < 1e-6 ? "" : `${written(digits)}·`}10${raised(power)}`;
  }
  return String(Number(value.toPrecision(6))).replace("-", "−");
}

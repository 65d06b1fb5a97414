// Three number lines: the numbers of float32, bfloat16 and float16 near a value, and the one to which it is rounded.

import {slider} from "../controls.js";
import {Plot} from "../plot.js";
import {tickText} from "../ticks.js";
import {explorer} from "./explorer.js";

/**
 * @import {Mark} from "../plot.js"
 * @import {Start} from "./explorer.js"
 * @typedef {{digits: number, lowest: number}} Format binary digits with the first, and the exponent of the smallest
 *   number that has all of them
 * @typedef {{digits: number, power: number, percent: number}} Settings
 */

const MOST = 200; // numbers on a line; more are drawn as a bar

/** @type {Object<string, Format>} */
export const FORMATS = {
  float32: {digits: 24, lowest: -126},
  bfloat16: {digits: 8, lowest: -126},
  float16: {digits: 11, lowest: -14},
};

/** @param {Format} format */
export const largestOf = ({digits, lowest}) => (2 - 2 ** (1 - digits)) * 2 ** (1 - lowest);
/** @param {Format} format */
export const smallestOf = ({digits, lowest}) => 2 ** (lowest + 1 - digits);

/**
 * The power of two below a positive value, or that of the smallest number with all digits.
 * @param {number} value @param {Format} format
 */
function powerOf(value, {lowest}) {
  const power = Math.floor(Math.log2(value)); // rounded: it may be one beside
  return Math.max(lowest, power + Number(2 ** (power + 1) <= value) - Number(2 ** power > value));
}

/**
 * From a positive value to the next larger number of a format is one such step.
 * @param {number} value @param {Format} format
 */
export const stepAt = (value, format) => 2 ** (powerOf(value, format) + 1 - format.digits);

/**
 * The number of a format that is nearest to a value, of two the one whose last digit is 0; too large: infinity.
 * @param {number} value @param {Format} format
 */
export function nearestIn(value, format) {
  if (value === 0) return value;
  const size = Math.abs(value), step = stepAt(size, format), down = Math.floor(size / step), rest = size / step - down;
  const nearest = step * (rest < 0.5 || (rest === 0.5 && down % 2 === 0) ? down : down + 1);
  return Math.sign(value) * (nearest > largestOf(format) ? Infinity : nearest);
}

/**
 * How many numbers of a format are from `low` to `high`, which are positive, and which: null if they are many.
 * @param {number} low @param {number} high @param {Format} format
 */
export function between(low, high, format) {
  const {digits, lowest} = format, each = 2 ** (digits - 1); // numbers to a power of two
  // Places in the row of all positive numbers, each of which is one step from the next.
  /** @param {number} value @param {function(number): number} whole */
  const place = (value, whole) => (powerOf(value, format) - lowest) * each + whole(value / stepAt(value, format));
  const first = place(low, Math.ceil), last = place(Math.min(high, largestOf(format)), Math.floor);
  const count = Math.max(0, last - first + 1);
  /** @param {number} index */
  const numberAt = (index) => {
    const power = Math.max(0, Math.floor(index / each) - 1);
    return (index - power * each) * 2 ** (power + lowest + 1 - digits);
  };
  return {count, numbers: count > MOST ? null : Array.from({length: count}, (_, i) => numberAt(first + i))};
}

/** With as many digits as float32 has: "1.234375", "1.23400002·10⁻⁸". @param {number} value */
function long(value) {
  const [digits, power] = value.toExponential(8).split("e").map(Number);
  return power > -4 && power < 7 ? String(Number(value.toPrecision(9))) : `${digits}·${tickText(10 ** power)}`;
}

/** @type {Start<{}, Settings>} */
export function formatsExplorer(place, data, saved, report) {
  const controls = {
    digits: slider({label: "digits", min: 1, max: 9.99, step: 0.001, value: 1.234, hint: "of your number"}),
    power: slider({label: "power", min: -10, max: 6, step: 1, value: 0, hint: "of ten, by which they are multiplied"}),
    percent: slider({label: "percent", unit: "%", min: 0.1, max: 10, step: 0.1, value: 2,
      hint: "how far the lines reach on each side"}),
  };
  const names = Object.keys(FORMATS), colours = ["blue", "vermilion", "green"], now = {scale: 1};
  const rows = names.map((_, i) => names.length - 1 - i);
  const lines = new Plot({label: "the numbers of each format near your number", height: 310, left: 68,
    x: {title: "value"}, y: {min: -0.35, max: 2.75, ticks: names.map((name, i) => [rows[i], name])},
    read(x, y) {
      const name = names[rows.indexOf(Math.min(2, Math.max(0, Math.round(y - 0.15))))], format = FORMATS[name];
      const nearest = nearestIn(x * now.scale, format);
      if (nearest === Infinity) return `${name} ends at ${largestOf(format)}`;
      if (nearest === 0) return `${name} begins at ${tickText(smallestOf(format))}`;
      return `${name}: ${long(nearest)}\nneighbours ${tickText(stepAt(nearest, format))} apart`;
    }});

  /** @param {Settings} settings */
  function draw({digits, power, percent}) {
    const value = Number(`${digits}e${power}`), scale = now.scale = 10 ** power, words = /** @type {string[]} */ ([]);
    const [low, high] = [digits * (1 - percent / 100), digits * (1 + percent / 100)];
    const marks = /** @type {Mark[]} */ ([]);
    Object.assign(lines.x, {min: low, max: high, title: power ? `value / ${tickText(scale)}` : "value"});
    names.forEach((name, i) => {
      const format = FORMATS[name], colour = colours[i], y = rows[i], nearest = nearestIn(value, format);
      const {count, numbers} = between(low * scale, high * scale, format);
      const off = (100 * Math.abs(nearest - value)) / value, percentage = `${tickText(Number(off.toPrecision(2)))} %`;
      const [becomes, error] = nearest === 0
        ? [`becomes 0: the smallest number is ${tickText(smallestOf(format))}`, "100 % (becomes 0)"]
        : nearest === Infinity ? [`becomes ∞: the largest number is ${largestOf(format)}`, "∞"]
          : [`becomes ${long(nearest)}, ${off ? `off by ${percentage}` : "exactly"}`, off ? percentage : "none"];
      words.push(`${error} in ${name}`);
      const here = `${count ? count.toLocaleString("en") : "no"} number${count === 1 ? "" : "s"} here`;
      const left = low + 0.01 * (high - low);
      marks.push({line: [[low, high], [y, y]], colour: "strongLine", width: 1},
        numbers ? {dots: [numbers.map((one) => one / scale), numbers.map(() => y)], colour, shape: "tick", size: 18}
          : {line: [[low, high], [y, y]], colour, width: 14},
        {line: [[digits, digits], [y - 0.3, y + 0.24]], dash: "dash", width: 1.5},
        {text: here, x: left, y: y + 0.56, colour: "muted"}, {text: becomes, x: left, y: y + 0.36});
      if (nearest > 0 && nearest < Infinity) {
        marks.push({dots: [[nearest / scale], [y]], colour: "page", shape: "diamond", size: 17},
          {dots: [[nearest / scale], [y]], colour, shape: "diamond", size: 13});
      }
    });
    lines.show(marks);
    return `Error of ${long(value)}: ${words.join(", ")}`;
  }

  return explorer(place, {label: "Number lines", controls, plots: [lines], saved, report, draw, body: [lines.element]});
}

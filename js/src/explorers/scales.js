// Gradients times a power of two, held in 16 bits: which of them become zero or infinite. A histogram is enough for
// that, as a power of two moves it by whole bins. Bin i holds sizes above 2^(low + i - 1), up to and with 2^(low + i).

import {choice, slider} from "../controls.js";
import {Plot} from "../plot.js";
import {raised} from "../ticks.js";
import {explorer, swatches} from "./explorer.js";
import {FORMATS} from "./formats.js";

/**
 * @import {Start} from "./explorer.js"
 * @typedef {{low: number, counts: number[], top: number[]}} Histogram `top` counts what is so near the upper end of its
 *   bin that a format whose range ends there has no number for it
 * @typedef {[name: string, from: number, to: number, opacity: number]} Band of the x axis
 * @typedef {{log2_scale: number, held_in: string}} Settings
 */

const COLOURS = ["blue", "vermilion", "purple", "orange", "sky", "green"];
const LARGEST = 40; // exponent of the scale
const SEEN = [-48, 20]; // exponents that are seen at least

/**
 * Powers of two of a format: the smallest number, the smallest with all digits, and the end of the range.
 * @param {string} name
 */
function endsOf(name) {
  const {digits, lowest} = FORMATS[name];
  return {tiny: lowest + 1 - digits, least: lowest, most: 2 - lowest};
}

/**
 * Which shares a format rounds to zero and to infinity.
 * @param {Histogram} values
 * @param {string} held the name of the format
 * @param {number} power exponent of the scale
 */
export function rounded({low, counts, top}, held, power) {
  const {tiny, most} = endsOf(held);
  let lost = 0, infinite = 0, all = 0;
  counts.forEach((count, i) => {
    const upper = low + i + power; // to the nearest, and half of the smallest number to the even one of two, 0
    if (upper <= tiny - 1) lost += count;
    if (upper > most) infinite += count;
    else if (upper === most) infinite += top[i];
    all += count;
  });
  return {lost: lost / all, infinite: infinite / all};
}

const NONE = "none becomes 0 or infinite";

/** Shares in words; the first number that is lost shows. @param {{lost: number, infinite: number}} shares */
function lossOf({lost, infinite}) {
  /** @param {number} share */
  const percent = (share) => (share < 0.001 ? "less than 0.1\u00a0%" : `${(100 * share).toFixed(1)}\u00a0%`);
  const words = [lost && `${percent(lost)} become 0`, infinite && `${percent(infinite)} infinite`].filter(Boolean);
  return words.join(", ") || NONE;
}

/** @type {Start<{values: Object<string, Histogram>}, Settings>} */
export function scalesExplorer(place, data, saved, report) {
  const controls = {
    log2_scale: slider({label: "log₂ scale", min: 0, max: LARGEST, step: 1, value: 0,
      hint: "all gradients are multiplied by 2 to this power"}),
    held_in: choice({label: "held in", options: ["float16", "bfloat16"], hint: "the format of 16 bits"}),
  };
  const names = Object.keys(data.values), all = Object.values(data.values), now = {power: 0};
  const shares = all.map(({counts}) => {
    const sum = counts.reduce((a, b) => a + b, 0);
    return counts.map((count) => (100 * count) / sum);
  });
  const left = Math.min(SEEN[0], ...all.map(({low}) => low - 2));
  const right = Math.max(SEEN[1], ...all.map(({low, counts}) => low + counts.length + LARGEST));
  const top = 1.3 * Math.max(...shares.flat()), words = swatches();
  /** @param {number} i @param {number} exponent */
  const at = (i, exponent) => shares[i][exponent + 1 - all[i].low - now.power] ?? 0;
  const plot = new Plot({label: "histograms of the sizes of gradients, and the range of the format", height: 300,
    x: {title: "size: the power of two", min: left, max: right},
    y: {title: "% of those not 0", min: 0, max: top},
    read: (x) => [`2${raised(Math.floor(x))} to 2${raised(Math.floor(x) + 1)}`,
      ...names.map((name, i) => `${name}: ${at(i, Math.floor(x)).toFixed(1)} %`)].join("\n")});

  /** @param {Settings} settings */
  function draw({log2_scale: power, held_in: held}) {
    const {tiny, least, most} = endsOf(held);
    now.power = power;
    const bands = /** @type {Band[]} */ ([["→ 0", left, tiny - 1, 0], ["fewer digits", tiny - 1, least, 0.1],
      [held, least, most, 0.22], ["→ ∞", most, right, 0]]).map(/** @returns {Band} */ ([name, from, to, opacity]) =>
      [name, Math.max(from, left), Math.min(to, right), opacity]).filter(([, from, to]) => to > from);
    const edges = Array.from({length: right - left}, (_, i) => left + i);
    plot.show([
      ...bands.map(([, from, to, opacity]) => ({bars: [[from], [top]], width: to - from, colour: "green", opacity})),
      ...bands.map(([text, from], i) => ({text, x: from + 0.7, y: top * (0.95 - 0.08 * (i % 2)), colour: "muted"})),
      ...names.map((_, i) => ({line: [edges, edges.map((exponent) => at(i, exponent))], step: true,
        colour: COLOURS[i % COLOURS.length]})),
    ]);
    const found = all.map((values) => rounded(values, held, power));
    words.set(found.map((one, i) => [COLOURS[i % COLOURS.length], `${names[i]}: ${lossOf(one)}`]));
    /** @param {"lost"|"infinite"} key */
    const worst = (key) => Math.max(...found.map((one) => one[key]));
    const loss = lossOf({lost: worst("lost"), infinite: worst("infinite")});
    return `Times 2${raised(power)} in ${held}: ${loss === NONE ? "" : "up to "}${loss}`;
  }

  return explorer(place, {label: "Gradients times a scale, held in 16 bits", controls, plots: [plot], saved, report,
    draw, body: [plot.element, words.element]});
}

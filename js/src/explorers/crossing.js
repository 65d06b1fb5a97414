// The crossing: samples per second of a CPU, as measured, and of another device, and from which batch on that pays.

import {CONCEPTS} from "../concepts.js";
import {make, slider, written} from "../controls.js";
import {Plot} from "../plot.js";
import {explorer, swatch} from "./explorer.js";

/**
 * @import {Start} from "./explorer.js"
 * @typedef {[overhead: number, rate: number]} Device seconds for each batch, and samples per second
 * @typedef {{overhead_ms: number, times_the_rate: number}} Settings
 */

const MOST = 4096;

/** Samples per second of a device. @param {Device} device @param {number} batch */
export const speedOf = ([overhead, rate], batch) => batch / (overhead + batch / rate);

/**
 * The batches, from 1 on, for which the second is faster: [from, to], or null.
 * @param {Device} device @param {Device} other
 */
export function pays([overhead, rate], [otherOverhead, otherRate]) {
  const gained = overhead - otherOverhead, each = 1 / rate - 1 / otherRate; // seconds per batch, and per sample
  const at = -gained / each;
  if (each > 0) return [Math.max(at, 1), Infinity];
  if (each === 0) return gained > 0 ? [1, Infinity] : null;
  return at > 1 ? [1, at] : null;
}

/** @type {Start<{cpu: Device, other: Device}, Settings>} */
export function crossingExplorer(place, data, saved, report) {
  const {cpu} = data, first = [data.other[0] * 1e3, data.other[1] / cpu[1]].map((one) => Math.max(0.1, one));
  /** @param {string} label @param {number} value @param {number} min @param {{hint: string}} options */
  const knob = (label, value, min, options) => slider({label, min: Math.min(min, Number(value.toFixed(1))),
    max: Math.max(200, Math.ceil(value)), step: 0.1, value, ...options});
  const controls = {
    overhead_ms: knob("overhead (ms)", first[0], 0.5, {hint: "of the other device, for each batch"}),
    times_the_rate: knob("times the rate", first[1], 1, {hint: "of the CPU, that the other device reaches"}),
  };
  const batches = Array.from({length: 121}, (_, i) => MOST ** (i / 120));
  const now = /** @type {{other: Device}} */ ({});
  const slowest = Math.min(speedOf(cpu, 1), speedOf([0.2, cpu[1]], 1));
  const speeds = new Plot({label: "samples per second of both devices against the batch", height: 330,
    x: {title: "batch", min: 1, max: MOST, log: true, ticks: [1, 4, 16, 64, 256, 1024, MOST]},
    y: {title: "samples per second", log: true, min: slowest / 1.5, max: 1.5 * cpu[1] * controls.times_the_rate.first},
    read(x) {
      const [one, other] = [cpu, now.other].map((device) => Math.round(speedOf(device, Math.round(x))));
      return `batch ${Math.round(x)}, samples per second:\nCPU ${one.toLocaleString("en")}\n`
        + `other ${other.toLocaleString("en")}`;
    }});
  const table = make("table", {className: "numbers", "aria-label": "the devices"});

  /** @param {Settings} settings */
  function draw({overhead_ms, times_the_rate}) {
    /** @type {Device} */
    const other = now.other = [overhead_ms / 1e3, times_the_rate * cpu[1]], where = pays(cpu, other);
    /** @type {Array<[string, string, Device]>} */
    const devices = [["CPU, as measured", CONCEPTS.devices.CPU, cpu], ["the other device", CONCEPTS.devices.GPU, other]];
    speeds.y.max = 1.5 * Math.max(cpu[1] * controls.times_the_rate.first, other[1]);
    const at = where && [...where].find((batch) => batch > 1 && batch <= MOST);
    speeds.show([
      ...devices.map(([, colour, device]) =>
        ({line: [batches, batches.map((batch) => speedOf(device, batch))], colour})),
      ...(at ? [{rule: "x", at, dash: "dash", width: 1.5}, {dots: [[at], [speedOf(cpu, at)]], size: 9}] : []),
    ]);
    table.replaceChildren(
      make("tr", {}, ...["", "overhead", "samples/s", "half of it at batch"].map((textContent) =>
        make("th", {textContent, scope: "col"}))),
      ...devices.map(([name, colour, [overhead, rate]]) => make("tr", {},
        make("th", {scope: "row"}, swatch(colour), name),
        ...[`${written(overhead * 1e3)} ms`, `up to ${Math.round(rate).toLocaleString("en")}`,
          written(overhead * rate)].map((textContent) => make("td", {textContent})))));
    if (!where || where[0] > MOST) return `The other device does not pay at any batch up to ${MOST}`;
    if (where[1] <= MOST) return `The other device pays up to a batch of ${Math.floor(where[1])}`;
    return at ? `The other device pays from a batch of ${Math.ceil(at)} on` : "The other device pays at every batch";
  }

  return explorer(place, {label: "The crossing of two devices", controls, plots: [speeds], saved, report, draw,
    body: [speeds.element, table]});
}

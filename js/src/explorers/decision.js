// A trained network decides: an image, the spikes of its hidden layer, and the votes, computed in the page by the
// network that pages.page writes.

import {bytesOf} from "../bytes.js";
import {CONCEPTS} from "../concepts.js";
import {make, slider, toggle, written} from "../controls.js";
import {Network} from "../network.js";
import {Plot} from "../plot.js";
import {explorer, normal} from "./explorer.js";

/**
 * @import {Cells, Description, Neurons} from "../network.js"
 * @typedef {{image: number, noise: number, mistakes_only: boolean}} Settings
 * @typedef {{spikes: Array<[step: number, neuron: number]>, busy: number[], votes: Float64Array[], index: number,
 *   leaders: number[]}} Decision `spikes`, steps from 0, of the last hidden layer; its neurons that fired, the
 *   busiest first; votes after each step; the answer, -1 if there is none; all classes that have as many votes
 */

/**
 * The network after all steps of a picture.
 * @param {Network} net @param {Float32Array} picture
 * @returns {Decision}
 */
export function decide(net, picture) {
  const hidden = /** @type {Cells} */ (net.cells.at(-2)), spikes = /** @type {Decision["spikes"]} */ ([]);
  const votes = /** @type {Float64Array[]} */ ([]);
  net.show(picture);
  net.reset();
  while (net.t < net.steps) {
    const t = net.t;
    net.step();
    hidden.out.forEach((fired, neuron) => fired && spikes.push([t, neuron]));
    votes.push(net.votes.slice());
  }
  const busy = [...hidden.counts.keys()].filter((i) => hidden.counts[i]);
  busy.sort((a, b) => hidden.counts[b] - hidden.counts[a] || a - b);
  const {index, leaders} = net.answer();
  return {spikes, busy, votes, index, leaders};
}

/**
 * A picture with noise of that standard deviation in each pixel, the same for the same seed; it stays in [0, 1].
 * @param {Float32Array} picture @param {number} noise @param {number} seed
 */
export function noisy(picture, noise, seed) {
  const grain = normal(picture.length, seed);
  return picture.map((value, i) => Math.min(1, Math.max(0, value + noise * grain[i])));
}

/**
 * @param {HTMLElement} place
 * @param {{network: Description, own: Neurons[], images: string, labels: Array<number>, shown: number,
 *   wrong: Array<number>}} data `images` are bytes; the first `shown` are for the slider, `wrong` are the misread ones
 * @param {Partial<Settings>} saved @param {function(Settings): void} report
 */
export function decisionExplorer(place, data, saved, report) {
  const net = new Network(data.network, data.own), [, rows, columns] = net.size, {labels: classes} = net;
  const bytes = bytesOf(data.images), each = net.image.length, {shown, wrong} = data;
  const neurons = /** @type {Cells} */ (net.cells.at(-2)).size;
  const controls = {
    image: slider({label: "image", min: 0, max: shown - 1, step: 1, value: Math.min(3, shown - 1),
      hint: "which test image; of the mistakes, the how-manieth"}),
    noise: slider({label: "noise", min: 0, max: 1, step: 0.05, value: 0,
      hint: "standard deviation of what is added to each pixel, which is from 0 to 1"}),
    mistakes_only: toggle({label: "mistakes only", hint: "go through the images that the network misreads"}),
  };
  const now = /** @type {Decision & {picture: Float32Array}} */ ({});
  const view = new Plot({label: "the image", height: 260, left: 10, equal: true,
    x: {title: "image", min: -0.5, max: columns - 0.5, ticks: []}, y: {min: rows - 0.5, max: -0.5, ticks: []},
    read: (x, y) => `brightness ${written(now.picture[Math.round(y) * columns + Math.round(x)] ?? 0)}`});
  const steps = {title: "time step", min: -0.5, max: net.steps - 0.5};
  const raster = new Plot({label: "spikes of the hidden layer", height: 260, x: steps,
    y: {title: "hidden neuron, sorted", min: -0.7},
    read: (x, y) => {
      const neuron = now.busy[Math.round(y)], count = now.spikes.filter((one) => one[1] === neuron).length;
      return neuron === undefined ? null : `neuron ${neuron}: ${count} spikes in ${net.steps} steps`;
    }});
  const poll = new Plot({label: "spikes of each output neuron so far", height: 260, x: steps,
    y: {title: "spikes so far"},
    read: (x) => {
      const t = Math.round(x);
      /** @type {Array<[count: number, name: string]>} */
      const votes = [...(now.votes[t] ?? [])].map((count, k) => [count, classes[k]]);
      const some = votes.filter(([count]) => count).sort((a, b) => b[0] - a[0]).slice(0, 4);
      return `step ${t}: ${some.map(([count, name]) => `${name} ${written(count)}`).join(", ") || "no votes"}`;
    }});

  /** @param {Settings} settings */
  function draw({image, noise, mistakes_only: only}) {
    const mistakes = only && wrong.length, at = mistakes ? wrong[image % wrong.length] : image, right = data.labels[at];
    const clean = Float32Array.from(bytes.subarray(at * each, (at + 1) * each), (value) => value / 255);
    const picture = noise ? noisy(clean, noise, at + 1) : clean;
    const {spikes, busy, votes, index, leaders} = decide(net, picture);
    Object.assign(now, {picture, spikes, busy, votes});
    view.show([{name: "image", pixels: picture, rows, columns, colour: "ink"}]);
    const rank = new Map(busy.map((neuron, i) => [neuron, i]));
    raster.y.max = Math.max(busy.length, neurons / 4);
    raster.show([{name: "spikes", dots: [spikes.map(([t]) => t), spikes.map(([, neuron]) => /** @type {number} */ (rank.get(neuron)))],
      colour: CONCEPTS.signals.spike, size: 4}]);
    const last = /** @type {Float64Array} */ (votes.at(-1));
    const first = Array.from(last.keys()), when = Array.from(votes.keys());
    /** @param {number} k */
    const look = (k) => (k === right ? {colour: "green", width: 3}
      : k === index ? {colour: "vermilion", width: 3, dash: "dash"} : {colour: "muted", width: 1, opacity: 0.7});
    first.sort((a, b) => look(a).width - look(b).width); // what matters is painted last
    poll.y.max = Math.max(5, 1.15 * Math.max(...last));
    poll.y.min = Math.min(0, ...last);
    poll.show([...first.map((k) => ({name: "votes", line: [when, votes.map((one) => one[k])], ...look(k)})),
      ...[...new Set([right, index])].filter((k) => k >= 0).map((k) => ({text: classes[k], x: net.steps - 2,
        y: last[k] + 0.05 * poll.y.max, colour: look(k).colour}))]);
    const which = mistakes ? `Mistake ${(image % wrong.length) + 1} of ${wrong.length}` : `Image ${image}`;
    const tie = leaders.length > 1 ? `a tie of ${leaders.map((k) => classes[k]).join(" and ")}, ` : "";
    const answer = index < 0 ? "no answer, the output is silent"
      : `${tie}the answer is ${classes[index]} (${index === right ? "right" : `wrong: it is ${classes[right]}`})`;
    const none = only && !wrong.length ? "There are no mistakes. " : "";
    return `${none}${which}: ${answer}; ${spikes.length} hidden spikes`;
  }

  return explorer(place, {label: "Watch the decision", controls, plots: [view, raster, poll], saved, report, draw,
    body: [make("div", {className: "thirds"}, view.element, raster.element, poll.element),
      make("p", {className: "small muted", textContent: "Green: the right class. Dashed: a wrong answer."})]});
}

/** Which neurons and which pixels brought a label its votes. */

/** @import {Cells, Network} from "./network.js" */

/**
 * What the last layer of a label was sent in the steps so far: by each hidden neuron, weight × spikes (or, where there
 * are none, by each pixel, weight × value), and by its `bias`. These sums are exact. `pixels` behind one layer of hidden
 * neurons: what each neuron sent, shared out among its pixels and its bias in proportion to what they sent to it; `left`:
 * what neurons sent whose input is not above 0 in sum, which is shared out to none. What is null is not shown, for the reason that `note` gives.
 *
 * @typedef {{label: number, cells: ?Cells, sent: ?Float64Array, pixels: ?Float64Array, bias: number, left: number,
 *   note: string}} Why
 */

/** @param {Network} network @param {number} label @returns {Why} */
export function why(network, label) {
  const {layers, cells, output, t} = network, own = cells.at(-1)?.out === output;
  const hidden = cells.at(own ? -2 : -1) ?? null, end = own ? /** @type {Cells} */ (cells.at(-1)).layer : layers.length;
  const first = hidden ? hidden.layer + 1 : 0;
  /** @type {Why} */
  const found = {label, cells: hidden, sent: null, pixels: null, bias: 0, left: 0, note: ""};
  if (hidden && !hidden.spiking) return {...found, note: "The neurons before it send no spikes that could be counted."};
  const bent = notSums(network, first, end);
  if (bent) return {...found, note: `Before it is a layer of ${bent}, which doesn't add up what single neurons send.`};
  found.bias = t * network.silent(first, end)[label];
  if (!hidden) {
    found.pixels = perPixel(network, first, end, (effect) => effect[label]);
    return found;
  }
  const sent = (found.sent = new Float64Array(hidden.size));
  hidden.counts.forEach((count, j) => {
    if (count) sent[j] = count * network.effect(first, end, j)[label];
  });
  const before = notSums(network, 0, hidden.layer);
  if (hidden !== cells[0]) found.note = "Pixels are not marked: more than one layer of neurons lies between.";
  else if (hidden.weight) found.note = "Pixels are not marked: these neurons also hear each other.";
  else if (before) found.note = `Pixels are not marked: between lies a layer of ${before}.`;
  if (found.note) return found;
  const quiet = network.silent(0, hidden.layer), seen = new Float32Array(network.input.length);
  network.shown.forEach((value, pixel) => (seen[network.encoder.input(pixel)] += value));
  // All that came to each neuron, in every step its bias, too.
  const charge = network.through(0, hidden.layer, seen).map((value, j) => value + (t - 1) * quiet[j]);
  const share = sent.map((value, j) => (charge[j] > 0 ? value / charge[j] : 0));
  found.left = sent.reduce((sum, value, j) => (charge[j] > 0 ? sum : sum + value), 0);
  found.pixels = perPixel(network, 0, hidden.layer, (effect) => {
    let sum = 0;
    for (let j = 0; j < effect.length; j++) sum += effect[j] * share[j];
    return sum;
  });
  return found;
}

/** The layer between that is no sum of its inputs, in words. @param {Network} network */
function notSums({layers}, /** @type {number} */ first, /** @type {number} */ end) {
  /** @type {Record<string, string>} */
  const names = {norm: "normalisation by its own values", relu: "ReLU", pool: "max pooling"};
  const found = layers.slice(first, end).find(({kind, run}) => kind in names && !("largest" in run && !run.largest));
  return found ? names[found.kind] : "";
}

/**
 * Of each pixel: what it showed so far times what `of` makes of the effect of its input.
 * @param {Network} network @param {number} first @param {number} end @param {function(Float32Array): number} of
 */
function perPixel(network, first, end, of) {
  const {encoder, shown} = network, known = /** @type {Map<number, number>} */ (new Map());
  return Float64Array.from(shown, (value, pixel) => {
    if (value === 0) return 0;
    const input = encoder.input(pixel);
    if (!known.has(input)) known.set(input, of(network.effect(first, end, input)));
    return value * /** @type {number} */ (known.get(input));
  });
}

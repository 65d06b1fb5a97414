// Runs a trained network step by step, from the description that pages/page.py writes.
//
// Layers without state (linear, conv, pool, ...) are sums, in double precision, rounded once; neurons are the objects
// that the kit generates from their equations, equal to PyTorch to the bit for equal currents. As in Python, what does
// not change from one step to the next is computed once.

import {floats} from "./bytes.js";
import {Generator} from "./random.js";

/**
 * What `describe` in pages/page.py writes; texts are float32 numbers in base64, and pairs [rows, columns].
 *
 * @typedef {{size: [channels: number, rows: number, columns: number], steps: number, labels: string[],
 *   readout: "sum"|"highest"|"first", encoding: Encoding, layers: LayerSpec[]}} Description
 * @typedef {{kind: "repeat"|"columns"|"poisson"|"latency"|"constant_current_lif", gain: number, max_rate: number,
 *   threshold: number, linear: boolean, tau_mem_inv: number, v_th: number, v_leak: number, v_reset: number,
 *   dt: number}} Encoding of these numbers only those of its kind, see snnkit.encode
 * @typedef {[number, number]} Pair
 * @typedef {{weight: string, bias: ?string}} Sums
 * @typedef {{kernel: Pair, stride: Pair, padding: Pair}} Sliding
 * @typedef {{name: string, shape: number[]}} Base class in Python; output, [values] or [channels, rows, columns]
 * @typedef {Base & {kind: "conv", dilation: Pair, groups: number} & Sliding & Sums} ConvSpec
 * @typedef {Base & {kind: "pool", mode: "max"|"average", padded: boolean} & Sliding} PoolSpec
 * @typedef {Base & {kind: "affine", scale: string, shift: string}} AffineSpec
 * @typedef {Base & {kind: "norm", groups: number, eps: number, scale: string, shift: string}} NormSpec
 * @typedef {Base & {kind: "neuron", neuron: number, spiking: boolean, membrane: number, threshold: ?string,
 *   leak: ?string, step: ?number, values: Record<string, string>} & (Sums|{weight?: undefined})} NeuronSpec `neuron`:
 *   which of the equations; `membrane`: which state; `threshold`, `leak`: names of numbers; `step`: dt; `values`: those
 *   that each neuron has for itself; sums: the recurrent ones
 * @typedef {(Base & {kind: "linear"} & Sums)|ConvSpec|PoolSpec|AffineSpec|NormSpec|(Base & {kind: "relu"})|
 *   NeuronSpec} LayerSpec
 */

/**
 * Neurons as engine/js.py generates them: `values` of each of the `parameters`, one for all neurons or one each.
 *
 * @typedef {{states: number, rest: number[], parameters: string[], values: number[][],
 *   forward(T: number, N: number, x: Float32Array, out: Float32Array, state: Float32Array[],
 *     params: Float32Array[]): void}} Equation
 * @typedef {{exact: Equation, adjustable: Equation}} Neurons with the numbers of training in it, or as parameters
 */

/**
 * @typedef {{run(x: Float32Array, out: Float32Array): void}} Stateless
 * @typedef {{kind: string, name: string, shape: number[], cells: ?Cells, run: Stateless|Cells,
 *   out: Float32Array}} Layer
 * @typedef {Array<[neuron: number, weight: number]>} Path
 * @typedef {{index: number, leaders: number[], share: number, over: boolean, sure: boolean, settled: boolean}} Answer
 */

/** A draw of the normal distribution from two uniform ones (Box and Muller). @param {Generator} random */
export function normalDraw(random) {
  return Math.sqrt(-2 * Math.log(1 - random.unit())) * Math.cos(2 * Math.PI * random.unit());
}

export const SURE = 0.99; // the softmax of the votes from which an answer is called sure

/** @param {number[]} shape */
const product = (shape) => shape.reduce((a, b) => a * b, 1);
const round = Math.fround;

/** The whole number nearest to a, the even one of two, as PyTorch rounds. @param {number} a */
function nearestEven(a) {
  const down = Math.floor(a), above = a - down;
  return above < 0.5 || (above === 0.5 && down % 2 === 0) ? down : down + 1;
}

// ---- layers without state: run(x, out) ------------------------------------------------------------------------------

class Linear {
  /** @param {{shape: number[]} & Sums} spec @param {number} inputs */
  constructor({shape, weight, bias}, inputs) {
    this.outputs = product(shape);
    this.inputs = inputs;
    this.weight = floats(weight); // [inputs][outputs]
    this.bias = bias ? floats(bias) : new Float32Array(this.outputs);
    this.sum = new Float64Array(this.outputs);
  }

  /** @param {Float32Array} x @param {Float32Array} out */
  run(x, out) {
    const {sum, weight, outputs} = this;
    sum.set(this.bias);
    for (let i = 0; i < this.inputs; i++) {
      const value = x[i];
      if (value === 0) continue; // a neuron that is silent costs nothing
      for (let j = 0, at = i * outputs; j < outputs; j++, at++) sum[j] += value * weight[at];
    }
    out.set(sum);
  }
}

class Conv {
  /** @param {ConvSpec} spec @param {number} inputs @param {number[]} before */
  constructor({shape, weight, bias, kernel, stride, padding, dilation, groups}, inputs, before) {
    this.shape = shape;
    this.before = before;
    this.kernel = kernel;
    this.stride = stride;
    this.padding = padding;
    this.dilation = dilation;
    this.groups = groups;
    this.weight = floats(weight); // [inputs][rows][columns][outputs of its group]
    this.bias = bias ? floats(bias) : null;
    this.sum = new Float64Array(product(shape)); // [rows][columns][outputs]
  }

  /** @param {Float32Array} x @param {Float32Array} out */
  run(x, out) {
    const {sum, weight} = this, [channels, height, width] = this.shape, [inputs, rows, columns] = this.before;
    const [kernelRows, kernelColumns] = this.kernel, [down, across] = this.stride, [top, left] = this.padding;
    const [tall, wide] = this.dilation, each = channels / this.groups, perGroup = inputs / this.groups;
    if (this.bias) for (let at = 0; at < sum.length; at += channels) sum.set(this.bias, at);
    else sum.fill(0);
    for (let c = 0, from = 0; c < inputs; c++) {
      const first = Math.floor(c / perGroup) * each;
      for (let y = 0; y < rows; y++) {
        for (let xx = 0; xx < columns; xx++, from++) {
          const value = x[from];
          if (value === 0) continue;
          for (let i = 0; i < kernelRows; i++) {
            const row = y + top - i * tall, oy = row / down;
            if (row < 0 || row % down || oy >= height) continue;
            for (let j = 0; j < kernelColumns; j++) {
              const column = xx + left - j * wide, ox = column / across;
              if (column < 0 || column % across || ox >= width) continue;
              let at = ((c * kernelRows + i) * kernelColumns + j) * each, to = (oy * width + ox) * channels + first;
              for (const end = at + each; at < end; at++, to++) sum[to] += value * weight[at];
            }
          }
        }
      }
    }
    const pixels = height * width;
    for (let p = 0, at = 0; p < pixels; p++) for (let c = 0; c < channels; c++, at++) out[c * pixels + p] = sum[at];
  }
}

class Pool {
  /** @param {PoolSpec} spec @param {number} inputs @param {number[]} before */
  constructor({shape, mode, kernel, stride, padding, padded}, inputs, before) {
    this.shape = shape;
    this.before = before;
    this.largest = mode === "max";
    this.kernel = kernel;
    this.stride = stride;
    this.padding = padding;
    this.padded = padded;
  }

  /** @param {Float32Array} x @param {Float32Array} out */
  run(x, out) {
    const [channels, height, width] = this.shape, [, rows, columns] = this.before, {largest} = this;
    let to = 0;
    for (let c = 0; c < channels; c++) {
      for (let oy = 0; oy < height; oy++) {
        for (let ox = 0; ox < width; ox++, to++) {
          const top = oy * this.stride[0] - this.padding[0], left = ox * this.stride[1] - this.padding[1];
          const y1 = Math.min(top + this.kernel[0], rows), x1 = Math.min(left + this.kernel[1], columns);
          const y0 = Math.max(top, 0), x0 = Math.max(left, 0);
          let value = largest ? -Infinity : 0;
          for (let y = y0; y < y1; y++) {
            for (let xx = x0, at = (c * rows + y) * columns + x0; xx < x1; xx++, at++) {
              value = largest ? Math.max(value, x[at]) : value + x[at];
            }
          }
          const count = this.padded ? this.kernel[0] * this.kernel[1] : (y1 - y0) * (x1 - x0);
          out[to] = largest ? value : value / count;
        }
      }
    }
  }
}

/** Batch norm as it is after training: a factor and a shift for each channel. */
class Affine {
  /** @param {AffineSpec} spec @param {number} inputs */
  constructor({scale, shift}, inputs) {
    this.scale = floats(scale);
    this.shift = floats(shift);
    this.each = inputs / this.scale.length;
  }

  /** @param {Float32Array} x @param {Float32Array} out */
  run(x, out) {
    for (let c = 0, at = 0; c < this.scale.length; c++) {
      const scale = this.scale[c], shift = this.shift[c];
      for (let i = 0; i < this.each; i++, at++) out[at] = round(x[at] * scale) + shift;
    }
  }
}

/** Layer norm and group norm: each group to mean 0 and variance 1, then a factor and a shift for each value. */
class Norm {
  /** @param {NormSpec} spec @param {number} inputs */
  constructor({groups, eps, scale, shift}, inputs) {
    this.groups = groups;
    this.eps = eps;
    this.scale = floats(scale);
    this.shift = floats(shift);
    this.each = inputs / groups;
    this.per = inputs / this.scale.length;
  }

  /** @param {Float32Array} x @param {Float32Array} out */
  run(x, out) {
    const {each} = this;
    for (let g = 0; g < this.groups; g++) {
      let mean = 0, square = 0;
      for (let i = g * each; i < (g + 1) * each; i++) mean += x[i] / each;
      for (let i = g * each; i < (g + 1) * each; i++) square += (x[i] - mean) ** 2 / each;
      const by = 1 / Math.sqrt(square + this.eps);
      for (let i = g * each; i < (g + 1) * each; i++) {
        const c = Math.floor(i / this.per);
        out[i] = (x[i] - mean) * by * this.scale[c] + this.shift[c];
      }
    }
  }
}

class Relu {
  /** @param {Float32Array} x @param {Float32Array} out */
  run(x, out) {
    for (let i = 0; i < out.length; i++) out[i] = Math.max(x[i], 0);
  }
}

const STATELESS = /** @type {Record<string, new (spec: LayerSpec, inputs: number, before: number[]) => Stateless>} */ (
  {linear: Linear, conv: Conv, pool: Pool, affine: Affine, norm: Norm, relu: Relu});

// ---- neurons --------------------------------------------------------------------------------------------------------

/**
 * One layer of neurons.
 *
 * `current` is its input in this step, `state` what the neurons carry (the membrane is `membrane`), `out` their spikes,
 * or potentials where `spiking` is false. `silenced[i]` not 0: neuron i fires no more.
 */
export class Cells {
  /** @param {NeuronSpec} spec @param {number} size @param {Neurons} neurons @param {number} layer which of all */
  constructor(spec, size, {exact, adjustable}, layer) {
    this.name = spec.name;
    this.shape = spec.shape;
    this.layer = layer;
    this.exact = exact;
    this.adjustable = adjustable;
    this.spiking = spec.spiking;
    this.size = size;
    this.threshold = spec.threshold;
    this.leak = spec.leak;
    this.dt = spec.step;
    this.own = Object.fromEntries(Object.entries(spec.values ?? {}).map(([name, text]) => [name, floats(text)]));
    this.weight = spec.weight ? new Linear(spec, size) : null; // recurrent
    this.back = new Float32Array(size);
    this.state = exact.rest.map(() => new Float32Array(size));
    this.membraneIndex = spec.membrane;
    this.membrane = this.state[spec.membrane];
    this.current = new Float32Array(size);
    this.out = new Float32Array(size);
    this.counts = new Uint32Array(size);
    this.silenced = new Uint8Array(size);
    this.changed = /** @type {Record<string, number>} */ ({});
    this.equation = exact;
    this.params = /** @type {Float32Array[]} */ ([]);
    this.use({});
  }

  /** Other numbers for all its neurons, {name: value}; {}: those that it was trained with, exactly. */
  use(/** @type {Record<string, number>} */ numbers) {
    const known = Object.entries(numbers).filter(([name]) => this.adjustable.parameters.includes(name));
    this.changed = Object.fromEntries(known);
    this.equation = known.length ? this.adjustable : this.exact;
    this.params = this.equation.parameters.map((name, i) =>
      name in this.changed ? Float32Array.of(this.changed[name])
        : this.own[name] ?? Float32Array.from(this.equation.values[i]));
  }

  /** A number as it was trained: null where the neurons have none of this name, or one each. @param {?string} name */
  number(name) {
    if (name === null) return null;
    const i = this.adjustable.parameters.indexOf(name);
    return i < 0 || this.own[name]?.length > 1 ? null : this.adjustable.values[i][0];
  }

  rest() {
    this.equation.rest.forEach((value, i) => this.state[i].fill(value));
    this.out.fill(0);
    this.counts.fill(0);
    this.current.fill(0);
  }

  /** @param {Float32Array} x */
  run(x) {
    const {current, out, counts, silenced, size} = this;
    current.set(x);
    if (this.weight) {
      this.weight.run(out, this.back);
      for (let i = 0; i < size; i++) current[i] += this.back[i];
    }
    this.equation.forward(1, size, current, out, this.state, this.params);
    if (this.spiking) {
      for (let i = 0; i < size; i++) {
        if (silenced[i]) out[i] = 0;
        else if (out[i] !== 0) counts[i]++;
      }
    } else {
      for (let i = 0; i < size; i++) if (silenced[i]) out[i] = 0;
    }
  }
}

// ---- from pixels to currents ----------------------------------------------------------------------------------------

/**
 * What step t shows of an image, as snnkit.encode does; `still` where all steps show the same. It shows all pixels,
 * or one of the `columns`.
 */
class Encoder {
  /** @param {Encoding} spec @param {[number, number, number]} image @param {number} steps */
  constructor(spec, image, steps) {
    const columns = spec.kind === "columns" ? image[2] : 1, size = product(image) / columns;
    this.kind = spec.kind;
    this.gain = spec.gain;
    this.spec = spec;
    this.columns = columns;
    this.size = size;
    this.steps = steps;
    this.still = spec.kind === "repeat";
    this.random = new Generator(0);
    this.out = new Float32Array(size);
    this.potential = new Float32Array(size);
    this.due = new Int32Array(size);
  }

  /** @param {Float32Array} image @param {number} seed */
  begin(image, seed) {
    this.random = new Generator(seed);
    this.potential.fill(this.spec.v_leak ?? 0);
    if (this.kind === "latency") for (let i = 0; i < this.size; i++) this.due[i] = this.time(image[i]);
  }

  /** The step in which a value spikes; -1: never. @param {number} value */
  time(value) {
    const {threshold, linear} = this.spec, {steps} = this;
    if (value < round(threshold)) return -1;
    const late = linear ? round(1 - value)
      : round(Math.log1p(round(threshold / Math.max(round(value - threshold), round(1e-7)))));
    const longest = linear ? 1 : Math.log1p(threshold / 1e-7);
    return Math.min(Math.max(nearestEven(round(late * round((steps - 1) / longest))), 0), steps - 1);
  }

  /** @param {Float32Array} image @param {number} t */
  run(image, t) {
    const {out, size, kind, gain} = this;
    for (let i = 0; i < size; i++) {
      const pixel = image[this.pixel(i, t)], value = gain === 1 ? pixel : round(pixel * gain);
      if (kind === "repeat" || kind === "columns") out[i] = value;
      else if (kind === "poisson") out[i] = this.random.unit() < round(round(this.spec.max_rate) * value) ? 1 : 0;
      else if (kind === "latency") out[i] = this.due[i] === t ? 1 : 0;
      else out[i] = this.integrate(i, value);
    }
    return out;
  }

  /** Which pixel input i is in step t. @param {number} i @param {number} t */
  pixel(i, t) {
    return this.columns === 1 ? i : i * this.columns + t;
  }

  /** Which input a pixel is. @param {number} pixel */
  input(pixel) {
    return Math.floor(pixel / this.columns);
  }

  /** One step of an integrator for each pixel, driven by its value. @param {number} i @param {number} value */
  integrate(i, value) {
    const {dt, tau_mem_inv, v_leak, v_reset, v_th} = this.spec;
    const drive = round(round(v_leak - this.potential[i]) + value);
    const v = round(this.potential[i] + round(round(dt * tau_mem_inv) * drive));
    const fired = v > round(v_th);
    this.potential[i] = fired ? v_reset : v;
    return fired ? 1 : 0;
  }
}

// ---- the network ----------------------------------------------------------------------------------------------------

/**
 * A network at some step of some image.
 *
 * Attributes: `size` [channels, rows, columns] of images, `steps`, `labels`; `layers` in order, each with `shape` and
 * `out`; `cells`: those that are neurons; `input`: what this step shows of the image; `t`: steps done; `votes`: what
 * the answer is read from, of each label (`vote`).
 */
export class Network {
  /** @param {Description} description @param {Neurons[]} neurons */
  constructor(description, neurons) {
    const {size, steps, labels, readout, encoding, layers} = description;
    this.size = size;
    this.steps = steps;
    this.labels = labels;
    this.seed = 1;
    this.noise = 0;
    this.noisy = false; // whether the last step was
    this.image = new Float32Array(product(size));
    this.encoder = new Encoder(encoding, size, steps);
    this.input = new Float32Array(this.encoder.size);
    this.shown = new Float64Array(this.image.length); // the input of each pixel, summed over the steps so far
    this.layers = /** @type {Layer[]} */ ([]);
    let before = encoding.kind === "columns" ? size.slice(0, 2) : /** @type {number[]} */ (size);
    for (const spec of layers) {
      const count = product(spec.shape), inputs = product(before);
      const cells = spec.kind === "neuron" ? new Cells(spec, count, neurons[spec.neuron], this.layers.length) : null;
      const run = cells ?? new STATELESS[spec.kind](spec, inputs, before);
      this.layers.push({kind: spec.kind, name: spec.name, shape: spec.shape, cells, run,
        out: cells ? cells.out : new Float32Array(count)});
      before = spec.shape;
    }
    this.cells = /** @type {Cells[]} */ (this.layers.filter((layer) => layer.cells).map((layer) => layer.cells));
    this.output = this.layers[this.layers.length - 1].out;
    this.votes = new Float64Array(labels.length);
    this.readout = readout;
    this.rates = readout === "sum" && this.cells.length > 0 && this.cells[this.cells.length - 1].out === this.output
      && this.cells[this.cells.length - 1].spiking; // votes are spikes
    this.paths = /** @type {Map<number, Path>} */ (new Map());
    this.probes = /** @type {Map<Layer, Float32Array>} */ (new Map());
    this.silence = /** @type {Map<number, Float32Array>} */ (new Map());
    this.t = 0;
    this.fresh = true;
    this.random = new Generator(0);
    this.reset();
  }

  /** Another image, values in [0, 1]; it counts from the next step on. @param {Float32Array} image */
  show(image) {
    this.image.set(image);
    this.fresh = true;
  }

  /** All neurons at rest, no votes. */
  reset() {
    this.t = 0;
    this.votes.fill(0);
    this.input.fill(0);
    this.shown.fill(0);
    for (const cells of this.cells) cells.rest();
    this.encoder.begin(this.image, this.seed);
    this.random = new Generator(this.seed + 1);
    this.fresh = true;
    return this;
  }

  /** One time step; `t` counts it. */
  step() {
    if (this.fresh && this.t > 0 && this.encoder.kind === "latency") this.encoder.begin(this.image, this.seed);
    let same = this.encoder.still && !this.fresh && this.noise === 0 && !this.noisy;
    if (!same) {
      this.input.set(this.encoder.run(this.seen(), this.t));
      this.noisy = this.noise > 0;
    }
    this.fresh = false;
    for (let i = 0; i < this.input.length; i++) this.shown[this.encoder.pixel(i, this.t)] += this.input[i];
    let x = /** @type {Float32Array} */ (this.input);
    for (const {run, out, cells} of this.layers) {
      if (cells) {
        cells.run(x);
        same = false;
      } else if (!same) {
        run.run(x, out);
      }
      x = out;
    }
    this.vote(x);
    this.t++;
    return this;
  }

  /**
   * Votes: the sums of the outputs so far, the highest of each, or how many steps before the last the first spike was.
   * @param {Float32Array} out of this step
   */
  vote(out) {
    const {votes, readout, t} = this;
    for (let k = 0; k < votes.length; k++) {
      if (readout === "sum") votes[k] += out[k];
      else if (readout === "highest") votes[k] = t ? Math.max(votes[k], out[k]) : out[k];
      else if (out[k] > 0 && votes[k] === 0) votes[k] = this.steps - 1 - t;
    }
  }

  /** The image as it is in this step, with noise in each pixel. */
  seen() {
    if (this.noise === 0) return this.image;
    const limited = !["repeat", "columns"].includes(this.encoder.kind);
    return this.image.map((value) => {
      const moved = value + this.noise * normalDraw(this.random);
      return limited ? Math.min(Math.max(moved, 0), 1) : moved;
    });
  }

  /** All steps of an image, from rest; the votes. @param {Float32Array} image */
  run(image) {
    this.show(image);
    this.reset();
    while (this.t < this.steps) this.step();
    return this.votes;
  }

  /**
   * Which class leads: {index, leaders, share, sure, settled, over}.
   *
   * `leaders`: the classes with the most votes, several in a tie, none while there are no votes; `index`: the first of
   * them, as snnkit.loss.answers has it, or -1. `share`: the softmax of the votes, the network's own probability if it
   * was trained by their cross-entropy; `sure`: of a single leader that is at least 0.99; `settled`: no spike in the
   * steps to come can change the answer.
   * @returns {Answer}
   */
  answer() {
    const {votes} = this, most = votes.reduce((a, b) => Math.max(a, b), -Infinity), over = this.t >= this.steps;
    const none = this.t === 0 || votes.every((vote) => vote === 0);
    const leaders = none ? [] : [...votes.keys()].filter((k) => votes[k] === most), single = leaders.length === 1;
    const share = 1 / votes.reduce((sum, vote) => sum + Math.exp(vote - most), 0);
    const second = votes.reduce((a, b, k) => (k === leaders[0] ? a : Math.max(a, b)), -Infinity);
    return {index: leaders[0] ?? -1, leaders, share, over, sure: single && this.rates && share >= SURE,
      settled: single && (over || (this.rates && most - second > this.steps - this.t))};
  }

  /** The label with most votes but for one, or -1 where no other has any. @param {number} label */
  next(label) {
    const others = [...this.votes.keys()].filter((k) => k !== label && (this.votes[k] !== 0 || !this.rates));
    return others.reduce((best, k) => (best < 0 || this.votes[k] > this.votes[best] ? k : best), -1);
  }

  /**
   * The strongest connections of value i, of the image (place -1) or of a layer of neurons, to the next layer of
   * neurons: [[neuron, weight], ...] with the largest weights first, at most `most`.
   * @param {number} place @param {number} i
   */
  path(place, i, most = 3) {
    const key = (place + 1) * 2 ** 32 + i;
    if (!this.paths.has(key)) this.paths.set(key, this.strongest(place, i, most));
    return /** @type {Path} */ (this.paths.get(key));
  }

  /**
   * What the layers from `first` up to `end`, all without state, make of values.
   * @param {number} first @param {number} end @param {Float32Array} x
   */
  through(first, end, x) {
    for (const layer of this.layers.slice(first, end)) {
      if (!this.probes.has(layer)) this.probes.set(layer, new Float32Array(layer.out.length));
      const out = /** @type {Float32Array} */ (this.probes.get(layer));
      layer.run.run(x, out);
      x = out;
    }
    return x.slice();
  }

  /** What they make of silence: their bias. @param {number} first @param {number} end */
  silent(first, end) {
    if (!this.silence.has(first)) {
      this.silence.set(first, this.through(first, end, new Float32Array(this.sizeBefore(first))));
    }
    return /** @type {Float32Array} */ (this.silence.get(first));
  }

  /**
   * What they make of a single spike of value i, less what they make of silence.
   * @param {number} first @param {number} end @param {number} i
   */
  effect(first, end, i) {
    const quiet = this.silent(first, end), x = new Float32Array(this.sizeBefore(first));
    x[i] = 1;
    return this.through(first, end, x).map((value, j) => value - quiet[j]);
  }

  /** How many values layer `first` gets. @param {number} first */
  sizeBefore(first) {
    return first === 0 ? this.input.length : this.layers[first - 1].out.length;
  }

  /** @param {number} place @param {number} i @param {number} most @returns {Path} */
  strongest(place, i, most) {
    const first = place < 0 ? 0 : this.cells[place].layer + 1, target = this.cells[place + 1];
    if (!target) return [];
    const effect = this.effect(first, target.layer, i);
    const strongest = /** @type {Path} */ ([]);
    for (let j = 0; j < effect.length; j++) {
      const weight = effect[j];
      if (weight === 0 || (strongest.length === most && Math.abs(weight) <= Math.abs(strongest[most - 1][1]))) continue;
      let at = strongest.length;
      while (at > 0 && Math.abs(strongest[at - 1][1]) < Math.abs(weight)) at--;
      strongest.splice(at, 0, [j, weight]);
      if (strongest.length > most) strongest.pop();
    }
    return strongest;
  }
}

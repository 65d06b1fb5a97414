/** Dense spiking networks that learn by backpropagation through time: float32, time first, as snnkit's in PyTorch.
 *
 * A network is `Linear, neuron, Linear, neuron, …`: the answer is the class whose output neuron fires most often. Its
 * neurons are objects that `snnkit.engine.js` generates, forward and backward, from the same equation as PyTorch's.
 *
 * T time steps, B samples, I inputs, O outputs of a layer; sequences are [T][B][O] in one array.
 */

/**
 * @import {Generator} from "./random.js"
 *
 * @typedef {object} Neuron what `snnkit.engine.js` generates
 * @property {number[]} rest values of a neuron's state before the first step
 * @property {string[]} parameters names of its numbers
 * @property {number[][]} values their values: one for all neurons, or one each
 * @property {function(number, number, Float32Array, Float32Array, Float32Array[], Float32Array[]): void} forward
 *   (T, N, x, out, state, params) writes `out`, and to `state` the last state
 * @property {Backward} backward (T, N, x, first, params, dOut, dState, dX, dParams) starts from the state `first`,
 *   writes dX, and adds to dParams, where they are not null; dState becomes that of the first state
 *
 * @typedef {function(number, number, Float32Array, Float32Array[], Float32Array[], Float32Array, Float32Array[],
 *   Float32Array, Array<?Float32Array>): void} Backward
 */

/** `torch.nn.Linear`, its weights transposed: those from one input are neighbours, and a spike adds a row. */
export class Linear {
  /**
   * Weights [I][O] and biases [O], drawn as PyTorch draws them.
   * @param {number} inputs @param {number} outputs @param {Generator} generator
   */
  constructor(inputs, outputs, generator) {
    this.inputs = inputs;
    this.outputs = outputs;
    // torch.nn.init.kaiming_uniform_ with a = √5, digit by digit.
    const gain = Math.sqrt(2 / (1 + Math.sqrt(5) ** 2)), bound = Math.sqrt(3) * (gain / Math.sqrt(inputs));
    const drawn = generator.uniform(inputs * outputs, -bound, bound);
    this.weight = new Float32Array(inputs * outputs);
    for (let o = 0; o < outputs; o++) {
      for (let i = 0; i < inputs; i++) this.weight[i * outputs + o] = drawn[o * inputs + i];
    }
    this.bias = generator.uniform(outputs, -1 / Math.sqrt(inputs), 1 / Math.sqrt(inputs));
    this.weightGradient = new Float64Array(inputs * outputs);
    this.biasGradient = new Float64Array(outputs);
  }

  /**
   * x [rows][I] to out [rows][O]. Inputs of zero cost nothing.
   * @param {Float32Array} x @param {number} rows @param {Float32Array} out
   */
  forward(x, rows, out) {
    const {inputs: I, outputs: O, weight, bias} = this;
    for (let r = 0; r < rows; r++) {
      const to = r * O;
      for (let o = 0; o < O; o++) out[to + o] = bias[o];
      for (let i = 0; i < I; i++) {
        const value = x[r * I + i], from = i * O;
        if (value === 0) continue;
        if (value === 1) {
          for (let o = 0; o < O; o++) out[to + o] += weight[from + o];
        } else {
          for (let o = 0; o < O; o++) out[to + o] += value * weight[from + o];
        }
      }
    }
  }

  /**
   * Set the gradients of weights and biases from x [rows][I] and that of the output [rows][O].
   * @param {Float32Array} x @param {Float32Array} dOut @param {number} rows
   */
  gradients(x, dOut, rows) {
    const {inputs: I, outputs: O, weightGradient, biasGradient} = this;
    weightGradient.fill(0);
    biasGradient.fill(0);
    for (let r = 0; r < rows; r++) {
      const from = r * O;
      for (let o = 0; o < O; o++) biasGradient[o] += dOut[from + o];
      for (let i = 0; i < I; i++) {
        const value = x[r * I + i], to = i * O;
        if (value === 0) continue;
        for (let o = 0; o < O; o++) weightGradient[to + o] += value * dOut[from + o];
      }
    }
  }

  /**
   * The gradient of x [rows][I] from that of the output [rows][O].
   * @param {Float32Array} dOut @param {number} rows @param {Float32Array} dX
   */
  backward(dOut, rows, dX) {
    const {inputs: I, outputs: O, weight} = this;
    for (let r = 0; r < rows; r++) {
      const from = r * O;
      for (let i = 0; i < I; i++) {
        const row = i * O;
        let sum = 0;
        for (let o = 0; o < O; o++) sum += dOut[from + o] * weight[row + o];
        dX[r * I + i] = sum;
      }
    }
  }
}

/** `torch.optim.Adam` with its default settings. */
export class Adam {
  /** @param {Linear[]} layers */
  constructor(layers) {
    this.steps = 0;
    this.parts = layers.flatMap((layer) => [
      [layer.weight, layer.weightGradient],
      [layer.bias, layer.biasGradient],
    ]).map(([value, gradient]) => ({
      value, gradient, mean: new Float32Array(value.length), square: new Float32Array(value.length),
    }));
  }

  /** @param {number} learningRate */
  step(learningRate) {
    this.steps++;
    const size = learningRate / (1 - 0.9 ** this.steps), scale = Math.sqrt(1 - 0.999 ** this.steps);
    for (const {value, gradient, mean, square} of this.parts) {
      for (let i = 0; i < value.length; i++) {
        const g = Math.fround(gradient[i]);
        mean[i] += (g - mean[i]) * 0.1;
        square[i] = 0.999 * square[i] + 0.001 * g * g;
        value[i] -= (size * mean[i]) / (Math.sqrt(square[i]) / scale + 1e-8);
      }
    }
  }
}

/** One `Linear` and its neurons, with room for T steps of B samples. */
export class Layer {
  /**
   * @param {Linear} linear @param {Neuron} neuron @param {Record<string, number>} settings numbers of the neuron
   * @param {number} steps @param {number} batch
   */
  constructor(linear, neuron, settings, steps, batch) {
    this.linear = linear;
    this.neuron = neuron;
    this.steps = steps;
    this.size = linear.outputs;
    const room = () => new Float32Array(steps * batch * linear.outputs);
    this.current = room();
    this.out = room();
    this.dOut = room();
    this.dCurrent = room();
    /** @param {number[]} values */
    const state = (values) => values.map((value) => new Float32Array(batch * linear.outputs).fill(value));
    this.first = state(neuron.rest);
    this.state = state(neuron.rest);
    this.dState = state(neuron.rest);
    this.sum = new Float32Array(batch * linear.outputs);
    this.parameters = neuron.values.map((value) => Float32Array.from(value));
    this.none = neuron.values.map(() => null);
    this.set(settings);
  }

  /**
   * Put numbers of the neuron in place by their names; those that it does not have do nothing.
   * @param {Record<string, number>} settings
   */
  set(settings) {
    this.neuron.parameters.forEach((name, i) => {
      if (name in settings) this.parameters[i].fill(settings[name]);
    });
  }

  /** @param {Float32Array} x @param {number} samples @param {boolean} isStatic */
  forward(x, samples, isStatic) {
    const {steps, size, linear, neuron, current, state} = this, count = samples * size;
    linear.forward(x, isStatic ? samples : steps * samples, current);
    for (let t = 1; isStatic && t < steps; t++) current.copyWithin(t * count, 0, count);
    state.forEach((part, i) => part.set(this.first[i]));
    neuron.forward(steps, count, current, this.out, state, this.parameters);
  }

  /**
   * From `dOut` to the gradients of the weights, and to dX of the layer before (null: of the data, not needed).
   * @param {Float32Array} x @param {number} samples @param {boolean} isStatic @param {?Float32Array} dX
   */
  backward(x, samples, isStatic, dX) {
    const {steps, size, linear, neuron, current, dCurrent, dState, sum} = this, count = samples * size;
    for (const part of dState) part.fill(0);
    neuron.backward(steps, count, current, this.first, this.parameters, this.dOut, dState, dCurrent, this.none);
    if (isStatic) {
      sum.fill(0);
      for (let t = 0, k = 0; t < steps; t++) for (let j = 0; j < count; j++) sum[j] += dCurrent[k++];
    }
    linear.gradients(x, isStatic ? sum : dCurrent, isStatic ? samples : steps * samples);
    if (dX) linear.backward(dCurrent, steps * samples, dX);
  }
}

export class Network {
  /**
   * @param {number[]} sizes inputs, neurons of each hidden layer, classes
   * @param {Neuron} neuron as `snnkit.engine.js` generates it with `adjustable=True`
   * @param {{settings?: Record<string, number>, steps: number, batch: number, generator: Generator}} options
   *   `settings`: numbers of the neuron by name; `steps`: T; `batch`: the most samples at once; `generator`: draws the
   *   weights
   */
  constructor(sizes, neuron, {settings = {}, steps, batch, generator}) {
    this.sizes = sizes;
    this.steps = steps;
    this.batch = batch;
    this.layers = sizes.slice(1).map((size, i) => {
      return new Layer(new Linear(sizes[i], size, generator), neuron, settings, steps, batch);
    });
    this.classes = sizes[sizes.length - 1];
    this.last = this.layers[this.layers.length - 1];
    this.votes = new Float32Array(batch * this.classes);
    this.optimizer = new Adam(this.layers.map((layer) => layer.linear));
    this.x = new Float32Array(0); // of the last `forward`, as the next two
    this.samples = 0;
    this.isStatic = false;
  }

  /** @param {Record<string, number>} settings */
  set(settings) {
    for (const layer of this.layers) layer.set(settings);
  }

  /**
   * Run x ([B][I], the same at each step, or [T][B][I]) and count the spikes of each output neuron: votes [B][C].
   * @param {Float32Array} x @param {number} samples @param {boolean} isStatic
   */
  forward(x, samples, isStatic) {
    Object.assign(this, {x, samples, isStatic});
    this.layers.forEach((layer, i) => {
      layer.forward(i ? this.layers[i - 1].out : x, samples, isStatic && i === 0);
    });
    const {votes, steps} = this, count = samples * this.classes, {out} = this.last;
    votes.fill(0);
    for (let t = 0, k = 0; t < steps; t++) for (let j = 0; j < count; j++) votes[j] += out[k++];
    return votes;
  }

  /**
   * The class with the most votes of sample b; of equal counts the lowest; -1, no answer, where no output fired.
   * @param {number} b
   */
  answer(b) {
    const {votes, classes} = this;
    let best = 0;
    for (let c = 1; c < classes; c++) if (votes[b * classes + c] > votes[b * classes + best]) best = c;
    return votes[b * classes + best] > 0 ? best : -1;
  }

  /** After `forward`: the loss and all gradients.
   *
   * The loss is `count_cross_entropy`, and `spike_rate_regulariser(layers, target, weight=penalty)` of hidden layers.
   * @param {ArrayLike<number>} labels the class of each sample
   */
  backward(labels, penalty = 0, target = 0.1) {
    const {layers, samples, isStatic} = this;
    let loss = this.voteGradients(labels);
    for (let i = layers.length - 1; i >= 0; i--) {
      if (i < layers.length - 1 && penalty > 0) loss += this.addPenalty(layers[i], penalty, target);
      const x = i ? layers[i - 1].out : this.x;
      layers[i].backward(x, samples, isStatic && i === 0, i ? layers[i - 1].dOut : null);
    }
    return loss;
  }

  /**
   * Cross-entropy of the votes taken as logits, mean over samples; its gradient is the same at every step.
   * @param {ArrayLike<number>} labels
   */
  voteGradients(labels) {
    const {votes, classes, samples, steps} = this, {dOut} = this.last, count = samples * classes;
    let loss = 0;
    for (let b = 0; b < samples; b++) {
      const row = b * classes;
      let highest = votes[row], sum = 0;
      for (let c = 1; c < classes; c++) highest = Math.max(highest, votes[row + c]);
      for (let c = 0; c < classes; c++) sum += Math.exp(votes[row + c] - highest);
      loss += highest + Math.log(sum) - votes[row + labels[b]];
      for (let c = 0; c < classes; c++) {
        dOut[row + c] = (Math.exp(votes[row + c] - highest) / sum - (c === labels[b] ? 1 : 0)) / samples;
      }
    }
    for (let t = 1; t < steps; t++) dOut.copyWithin(t * count, 0, count);
    return loss / samples;
  }

  /**
   * The mean over neurons of (rate - target)², and over layers; adds its gradient to `dOut`.
   * @param {Layer} layer @param {number} penalty @param {number} target
   */
  addPenalty(layer, penalty, target) {
    const {steps, size, out, dOut} = layer, rows = steps * this.samples, hidden = this.layers.length - 1;
    const rates = new Float64Array(size);
    for (let r = 0, k = 0; r < rows; r++) for (let n = 0; n < size; n++) rates[n] += out[k++];
    let sum = 0;
    for (let n = 0; n < size; n++) {
      const away = rates[n] / rows - target;
      sum += away * away;
      rates[n] = (2 * penalty * away) / (hidden * size * rows);
    }
    for (let r = 0, k = 0; r < rows; r++) for (let n = 0; n < size; n++) dOut[k++] += rates[n];
    return (penalty * sum) / (hidden * size);
  }
}

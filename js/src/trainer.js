/** A run of the playground: its data, its network, and what the page shows of them. It needs no page. */

import {Generator} from "./random.js";
import {Network} from "./learning.js";
import {NEURONS} from "./setup.js";
import {PLANE, planeInputs, xorInTime} from "./toys.js";

/**
 * @import {Layer, Neuron} from "./learning.js"
 * @import {Run, Settings} from "./setup.js"
 *
 * @typedef {Record<string, Neuron>} Neurons the generated neurons, by `neuron/reset/surrogate`
 * @typedef {{pixels: string, labels: string}} Letters
 * @typedef {{train: Letters, test: Letters}} Digits as the page holds them
 *
 * @typedef {{x: Float32Array, count: number}} Inputs numbers in [0, 1] for each sample
 * @typedef {Inputs & {labels: Int32Array, points?: Float32Array, pairs?: Int32Array}} Samples
 * @typedef {{inputs: number, classes: number, train: Samples, test: Samples, cells: number, cellOf?: Int32Array,
 *   plane?: Inputs, inTime?: boolean}} DataSet `cells` of the maps; of each the middle in `plane`, or of each sample of
 *   the test set its cell; `inTime`: samples have other `inputs` at each step
 *
 * @typedef {{index: number, point?: undefined}|{point: number[], index?: undefined}} Which a sample of the test set, or
 *   a point of the plane
 *
 * @typedef {object} Probe one sample on its way
 * @property {Float32Array} input [T][I]
 * @property {number} index in the test set
 * @property {?number} label its class
 * @property {number[]} votes of each class
 * @property {number[]} leaders classes with the most votes, if there are any
 * @property {?Float32Array} image its numbers, where they are the same at each step
 * @property {number[]} [point] its place in the plane
 * @property {Uint8Array[]} spikes of each layer [T][N]
 * @property {Decision[][]} decisions of each layer, at each step
 *
 * @typedef {{accuracy: number, answers: Int32Array, rates: Float32Array[], maps?: Float32Array[]}} Tested
 * @typedef {{bins: Float32Array, below: number, above: number}} Membranes shares of them
 * @typedef {{away: Float32Array, threshold: Float32Array}} Decision of neurons in a step, before a reset: how far the
 *   membrane is above its threshold (above 0 where it fires), and where that is
 *
 * @typedef {object} Report
 * @property {"report"} type
 * @property {number} id of the build
 * @property {number} updates
 * @property {number} epoch
 * @property {number} seconds of training
 * @property {Array<{loss: number, accuracy: number}>} batches since the last report
 * @property {Array<{update: number, accuracy: number}>} tests since the last report
 * @property {Float32Array[]} rates of each layer's neurons, in spikes per step
 * @property {?Int32Array} [answers] to the test set; null, as in the next ones: as before
 * @property {?Float32Array[]} [maps] of each layer [N][cells]
 * @property {?Membranes} [membranes]
 * @property {number[]} gradients of each layer's weights, root mean square
 * @property {Probe} probe
 * @property {Float32Array[]} weights of each layer [I][O]
 *
 * @typedef {{type: "build", id: number, settings: Run, which: Which}} Build
 * @typedef {Build|{type: "run", interval: number}|{type: "pause"|"one"|"seen"}|{type: "set", settings: Run}|
 *   {type: "probe", which: Which}} Order of the page; `interval`: ms from one update to the next
 */

const SIDE = 32; // cells of the maps over the plane, in each direction
export const REACH = 1.5; // of the histogram of membranes, below and above the threshold
const BINS = 30;
const CHUNK = 128; // samples at a time where nothing is learned
/** @type {Record<string, number[]>} */
const SIZES = {circles: [1000, 400], spirals: [2000, 600], yinyang: [2000, 600], xor: [1000, 400]}; // training, test

/**
 * The digits as the page holds them: [n, 64] in [0, 1] and labels, from a letter "a" … "q" for each grey level.
 * @param {Letters} split
 */
export function readDigits({pixels, labels}) {
  const x = new Float32Array(pixels.length);
  // The bytes of `data.load("digits")`, 0 … 255, divided as `data.to_unit` does.
  for (let i = 0; i < x.length; i++) x[i] = Math.floor(((pixels.charCodeAt(i) - 97) * 255 + 8) / 16) / 255;
  return {x, labels: Int32Array.from(labels, Number), count: labels.length};
}

/**
 * Training and test set, and the cells of the maps.
 * @param {Settings} settings @param {Digits} digits
 * @returns {DataSet}
 */
export function dataSet(settings, digits) {
  const {data, steps} = settings;
  if (data === "digits") {
    const [train, test] = [digits.train, digits.test].map(readDigits);
    return {inputs: 64, classes: 10, train, test, cells: 10, cellOf: test.labels};
  }
  if (data === "xor") {
    const [train, test] = SIZES.xor.map((count, seed) => {
      const {spikes, labels, pairs} = xorInTime(count, steps, new Generator(seed));
      return {x: spikes, labels, count, pairs};
    });
    return {inputs: 10, classes: 2, train, test, cells: 4, cellOf: test.pairs, inTime: true};
  }
  const generator = new Generator(0);
  const [train, test] = SIZES[data].map((count) => {
    const {points, labels} = PLANE[data].draw(count, generator);
    return {x: planeInputs(points), labels, count, points};
  });
  const points = new Float32Array(2 * SIDE * SIDE);
  for (let cell = 0; cell < SIDE * SIDE; cell++) {
    points.set([((cell % SIDE) + 0.5) / SIDE, 1 - (Math.floor(cell / SIDE) + 0.5) / SIDE], 2 * cell);
  }
  const plane = {x: planeInputs(points), count: SIDE * SIDE};
  return {inputs: 4, classes: PLANE[data].classes.length, train, test, plane, cells: SIDE * SIDE};
}

export class Trainer {
  /**
   * @param {Run} settings as `setup.js` reads them
   * @param {Neurons} neurons
   * @param {Digits} digits
   */
  constructor(settings, neurons, digits) {
    this.settings = settings;
    this.data = dataSet(settings, digits);
    const {inputs, classes} = this.data, {hidden, steps, batch, seed, numbers} = settings;
    const kind = `${settings.neuron}/${settings.reset}`, neuron = neurons[`${kind}/${settings.surrogate}`];
    this.meters = [neurons[`${kind}/Triangle`], neurons[`${kind}/StraightThrough`]];
    this.generator = new Generator(seed);
    this.network = new Network([inputs, ...hidden, classes], neuron, {
      settings: numbers, steps, batch: Math.max(batch, CHUNK), generator: this.generator,
    });
    this.isStatic = settings.encoding === "current" && !this.data.inTime;
    this.room = new Float32Array((this.isStatic ? 1 : steps) * Math.max(batch, CHUNK) * inputs);
    this.updates = 0;
    this.epoch = 0;
    this.next = this.data.train.count; // the first update begins an epoch
    this.order = new Int32Array(0);
  }

  /** Numbers of the neuron, learning rate and penalty, from the next update on. @param {Run} settings */
  set(settings) {
    this.settings = settings;
    this.network.set(settings.numbers);
  }

  /**
   * What the network sees of some samples: [B][I] where it is the same at every step, else [T][B][I].
   * @param {Inputs} set @param {ArrayLike<number>} indices @param {Generator} generator
   */
  encoded(set, indices, generator) {
    const {inputs, inTime} = this.data, {steps, encoding} = this.settings, {room} = this, count = indices.length;
    if (inTime) {
      for (let t = 0; t < steps; t++) {
        for (let b = 0; b < count; b++) {
          const from = (t * set.count + indices[b]) * inputs;
          room.set(set.x.subarray(from, from + inputs), (t * count + b) * inputs);
        }
      }
      return room;
    }
    const size = count * inputs;
    for (let b = 0; b < count; b++) {
      room.set(set.x.subarray(indices[b] * inputs, (indices[b] + 1) * inputs), b * inputs);
    }
    if (encoding === "current") return room;
    const values = room.slice(0, size);
    if (encoding === "poisson") {
      for (let t = 0, k = 0; t < steps; t++) {
        for (let j = 0; j < size; j++) room[k++] = generator.unit() < values[j] ? 1 : 0;
      }
    } else { // `encode.latency(x, steps, linear=True)`
      room.fill(0, 0, steps * size);
      for (let j = 0; j < size; j++) {
        const late = Math.fround(Math.fround(1 - values[j]) * (steps - 1)), down = Math.floor(late);
        const step = late - down > 0.5 || (late - down === 0.5 && down % 2) ? down + 1 : down;
        if (values[j] >= Math.fround(0.01)) room[step * size + j] = 1;
      }
    }
    return room;
  }

  /** One update of the weights: {loss, accuracy} on its batch. */
  update() {
    const {network, settings, data, generator} = this, {train} = data;
    if (this.next >= train.count) {
      this.order = generator.permutation(train.count);
      this.next = 0;
      this.epoch++;
    }
    const indices = this.order.subarray(this.next, Math.min(this.next + settings.batch, train.count));
    this.next += settings.batch;
    const labels = Array.from(indices, (i) => train.labels[i]);
    network.forward(this.encoded(train, indices, generator), indices.length, this.isStatic);
    const right = labels.filter((label, b) => network.answer(b) === label).length;
    const loss = network.backward(labels, settings.penalty);
    network.optimizer.step(settings.lr);
    this.updates++;
    return {loss, accuracy: right / indices.length};
  }

  /**
   * Forward runs of a whole set: `each(first sample, how many)` is called after each part.
   * @param {Inputs} set @param {function(number, number): void} each
   */
  run(set, each) {
    const generator = new Generator(1); // of encodings: the same spikes at each look
    for (let start = 0; start < set.count; start += CHUNK) {
      const indices = Int32Array.from({length: Math.min(CHUNK, set.count - start)}, (_, b) => start + b);
      this.network.forward(this.encoded(set, indices, generator), indices.length, this.isStatic);
      each(start, indices.length);
    }
  }

  /**
   * On the test set: accuracy, answers, each neuron's rate, and (without a plane) its rate in each cell of the map.
   * @returns {Tested}
   */
  test() {
    const {network, data, settings} = this, {test, cells, cellOf} = data, {steps} = settings;
    const answers = new Int32Array(test.count);
    const rates = network.layers.map((layer) => new Float32Array(layer.size));
    const maps = cellOf && network.layers.map((layer) => new Float32Array(layer.size * cells));
    const members = new Int32Array(cells);
    if (cellOf) for (const cell of cellOf) members[cell]++;
    let right = 0;
    this.run(test, (start, count) => {
      for (let b = 0; b < count; b++) {
        answers[start + b] = network.answer(b);
        if (answers[start + b] === test.labels[start + b]) right++;
      }
      network.layers.forEach(({out, size}, i) => {
        for (let t = 0, k = 0; t < steps; t++) {
          for (let b = 0; b < count; b++) {
            const cell = cellOf ? cellOf[start + b] : 0;
            for (let n = 0; n < size; n++, k++) {
              if (out[k] === 0) continue;
              rates[i][n] += 1 / (steps * test.count);
              if (cellOf) /** @type {Float32Array[]} */ (maps)[i][n * cells + cell] += 1 / (steps * members[cell]);
            }
          }
        }
      });
    });
    return {accuracy: right / test.count, answers, rates, maps};
  }

  /** Over the plane: each neuron's rate in each cell [N][cells], row by row from the top. */
  plane() {
    const {network, data, settings} = this, {steps} = settings, {cells, plane} = data;
    const maps = network.layers.map((layer) => new Float32Array(layer.size * cells));
    this.run(/** @type {Inputs} */ (plane), (start, count) => {
      network.layers.forEach(({out, size}, i) => {
        for (let t = 0, k = 0; t < steps; t++) {
          for (let b = 0; b < count; b++) {
            for (let n = 0; n < size; n++) maps[i][n * cells + start + b] += out[k++];
          }
        }
        for (let n = 0; n < size; n++) for (let b = 0; b < count; b++) maps[i][n * cells + start + b] /= steps;
      });
    });
    return maps;
  }

  /**
   * One sample on its way: input and spikes of each layer, its class, votes, and what leads.
   * @param {Which} which
   * @returns {Probe}
   */
  probe(which) {
    const {network, data, settings} = this, {steps} = settings, {inputs, inTime, test} = data;
    const {point} = which, index = point ? 0 : which.index % test.count;
    const set = point ? {x: planeInputs(point), count: 1} : test;
    const x = this.encoded(set, [index], new Generator(1));
    const input = new Float32Array(steps * inputs);
    for (let t = 0; t < steps; t++) {
      const from = this.isStatic ? 0 : t * inputs;
      input.set(x.subarray(from, from + inputs), t * inputs);
    }
    network.forward(x, 1, this.isStatic);
    const votes = Array.from(network.votes.subarray(0, network.classes)), most = Math.max(...votes);
    return {
      input, index, label: point ? null : test.labels[index],
      votes, leaders: [...votes.keys()].filter((k) => most > 0 && votes[k] === most),
      image: inTime ? null : Float32Array.from(set.x.subarray(index * inputs, (index + 1) * inputs)),
      point: point ?? (test.points && Array.from(test.points.subarray(2 * index, 2 * index + 2))),
      spikes: network.layers.map(({out, size}) => Uint8Array.from(out.subarray(0, steps * size))),
      decisions: network.layers.map((layer) => [...this.decisions(layer, 1)]),
    };
  }

  /** How far the membranes of hidden neurons are from their thresholds, in shares: {bins, below, above}. */
  membranes() {
    const {network, data: {test}, settings: {steps}} = this, samples = Math.min(32, test.count);
    const bins = new Float32Array(BINS), shares = {bins, below: 0, above: 0};
    const indices = Int32Array.from({length: samples}, (_, b) => b);
    network.forward(this.encoded(test, indices, new Generator(1)), samples, this.isStatic);
    const hidden = network.layers.slice(0, -1);
    const all = hidden.reduce((sum, layer) => sum + layer.size * samples * steps, 0);
    for (const layer of hidden) {
      for (const {away} of this.decisions(layer, samples)) {
        for (let n = 0; n < away.length; n++) {
          const bin = Math.floor(((away[n] + REACH) * BINS) / (2 * REACH));
          if (bin < 0) shares.below += 1 / all;
          else if (bin >= BINS) shares.above += 1 / all;
          else bins[bin] += 1 / all;
        }
      }
    }
    return shares;
  }

  /** After a run of some samples: step by step what decides on the spikes of a layer, for each sample and neuron.
   *
   * The gradient that passes a neuron with a triangle of width 1000 in place of a spike tells it: it falls by a
   * thousandth for each 1 that the membrane is away from the threshold. Straight through, nothing falls.
   * @param {Layer} layer @param {number} samples
   * @returns {Iterable<Decision>}
   */
  *decisions({neuron, parameters, current, size}, samples) {
    const {meters, settings: {steps, numbers, neuron: kind}} = this, {threshold: base, raised} = NEURONS[kind];
    const wide = 1000, count = size * samples, room = () => new Float32Array(count);
    const state = neuron.rest.map((value) => room().fill(value)), none = state.map(room), one = room().fill(1);
    const out = room(), passed = [room(), room()];
    const given = meters.map((meter) => meter.parameters.map((name, i) => {
      return Float32Array.of(name.startsWith("surrogate.") ? 1 / wide : numbers[name] ?? meter.values[i][0]);
    }));
    for (let t = 0; t < steps; t++) {
      const x = current.subarray(t * count, (t + 1) * count);
      const threshold = room().map((_, n) => numbers[base] + (raised ? numbers[raised] * state[1][n] : 0));
      meters.forEach((meter, i) => {
        for (const part of none) part.fill(0);
        meter.backward(1, count, x, state, given[i], one, none, passed[i], given[i].map(() => null));
      });
      neuron.forward(1, count, x, out, state, parameters);
      yield {threshold, away: out.map((spike, n) => (
        Math.max(1e-6, wide * (1 - (wide * passed[0][n]) / passed[1][n])) * (spike ? 1 : -1)))};
    }
  }

  /** Root mean square of the last gradients of each layer's weights. */
  gradients() {
    return this.network.layers.map(({linear: {weightGradient}}) => {
      return Math.sqrt(weightGradient.reduce((sum, g) => sum + g * g, 0) / weightGradient.length);
    });
  }
}

const SLICE = 24; // ms of training before messages are read again
const TEST_SHARE = 0.1, MAP_SHARE = 0.15; // of the time, for looking at what was learned
const PICTURES = 60; // ms from one report to the next, so that the page has time for its animation

/** Runs a Trainer at the page's orders; in a worker, or in the page itself. */
export class Runner {
  /** @param {Neurons} neurons @param {Digits} digits @param {function(Report): void} post takes reports */
  constructor(neurons, digits, post) {
    this.neurons = neurons;
    this.digits = digits;
    this.post = post;
    const later = /** @type {any} */ (null); // of the first build, and of its first test
    /** @type {Trainer} */ this.trainer = later;
    /** @type {Tested} */ this.result = later;
    /** @type {Probe} */ this.probed = later;
    /** @type {?Float32Array[]} */ this.maps = null;
    /** @type {Which} */ this.which = {index: 0};
    this.running = this.unseen = this.missed = this.all = this.news = this.elsewhere = false;
    this.id = this.interval = this.due = this.seconds = this.testCost = this.mapCost = 0;
    this.lastTest = this.lastMap = this.lastReport = -Infinity;
    /** @type {Report["batches"]} */ this.fresh = [];
    /** @type {Report["tests"]} */ this.tests = [];
  }

  /** An order of the page. @param {Order} message */
  receive(message) {
    const {type} = message;
    if (type === "build") this.build(message);
    else if (type === "run") Object.assign(this, {running: true, interval: message.interval, due: 0});
    else if (type === "pause") this.running = false;
    else if (type === "one") this.one();
    else if (type === "set") this.trainer?.set(message.settings);
    else if (type === "probe") Object.assign(this, {which: message.which, elsewhere: true});
    else if (type === "seen") this.unseen = false;
    if (this.running || !this.trainer) return;
    if (type === "seen" ? this.missed : type !== "run") this.look(type !== "probe" && type !== "seen");
  }

  /** @param {Build} message */
  build({settings, id, which}) {
    Object.assign(this, {id, which, running: false, unseen: false, missed: false, all: false});
    Object.assign(this, {seconds: 0, fresh: [], tests: []});
    Object.assign(this, {lastTest: -Infinity, lastMap: -Infinity, lastReport: -Infinity, testCost: 0, mapCost: 0});
    Object.assign(this, {result: null, maps: null});
    this.trainer = new Trainer(settings, this.neurons, this.digits);
  }

  one() {
    this.running = false;
    this.fresh.push(this.trainer.update());
  }

  /** Train for a while; ms until it wants to go on. */
  slice(now = performance.now(), most = SLICE) {
    if (!this.running) return null;
    const wait = this.due - now;
    if (wait > 0) return wait;
    this.due = now + this.interval;
    const end = now + most;
    do this.fresh.push(this.trainer.update());
    while (!this.interval && performance.now() < end);
    this.seconds += (performance.now() - now) / 1000;
    this.look(false);
    return this.interval;
  }

  /**
   * Test and draw maps where it is time (`everything`: now), and report, once the page has seen the last report.
   * @param {boolean} everything
   */
  look(everything) {
    const start = performance.now(), {trainer, running} = this;
    this.all ||= everything;
    const tests = running && (this.elsewhere || start - this.lastTest > Math.max(200, this.testCost / TEST_SHARE));
    if (tests) this.test();
    this.missed = this.unseen;
    if (this.unseen || (running && !this.all && start - this.lastReport < PICTURES)) return;
    if (this.all && this.lastTest < start) this.test();
    const before = performance.now(), due = running && before - this.lastMap > Math.max(150, this.mapCost / MAP_SHARE);
    if (trainer.data.plane && (this.all || due)) {
      this.maps = trainer.plane();
      this.lastMap = performance.now();
      this.mapCost = this.lastMap - before;
      this.news = true;
    }
    if (this.elsewhere) this.probed = trainer.probe(this.which); // as it rests: of the tested weights, too
    this.elsewhere = false;
    const {result, news} = this;
    Object.assign(this, {unseen: true, all: false, news: false, lastReport: before});
    this.seconds += running ? (performance.now() - start) / 1000 : 0;
    this.post({
      type: "report", id: this.id, updates: trainer.updates, epoch: trainer.epoch, seconds: this.seconds,
      batches: this.fresh.splice(0), tests: this.tests.splice(0),
      rates: result.rates, answers: news ? result.answers : null, maps: news ? (this.maps ?? result.maps) : null,
      gradients: trainer.gradients(), membranes: news ? trainer.membranes() : null, probe: this.probed,
      weights: trainer.network.layers.map(({linear}) => Float32Array.from(linear.weight)),
    });
  }

  test() {
    const start = performance.now();
    this.result = this.trainer.test();
    this.probed = this.trainer.probe(this.which); // of the same weights, or its spikes contradict the rates
    this.elsewhere = false;
    this.tests.push({update: this.trainer.updates, accuracy: this.result.accuracy});
    this.lastTest = performance.now();
    this.testCost = this.lastTest - start;
    this.news = true;
  }
}

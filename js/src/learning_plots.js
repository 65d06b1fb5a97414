/** What was learned: the decision surface or a table of answers, curves over updates, the spikes of a sample. */

import {drag} from "./controls.js";
import {faint, surface} from "./canvas.js";
import {cellsPicture, channels} from "./network_view.js";

/**
 * @import {Colours} from "./canvas.js"
 * @import {Model, Place, Plane, Table} from "./commentary.js"
 * @import {Membranes, Probe} from "./trainer.js"
 *
 * @typedef {function(CanvasRenderingContext2D, number, number): void} Paint on a width × height area
 * @typedef {{points: number[][], colour: string, thick: number, alpha?: number}} Curve through [update, value], with
 *   the name of its colour
 * @typedef {{lines: Curve[], updates: number, top: number, percent?: boolean, level?: {value: number, name: string}}}
 *   Curves of a plot
 * @typedef {[spikes: Float32Array|Uint8Array, size: number]} Layer [T][N], and N
 * @typedef {{membrane: number[], threshold: number[], fired: boolean[]}} Trace of a neuron, at each step
 */

const FONT = "12px system-ui, sans-serif";
const LEFT = 74, RIGHT = 44; // of the time steps of a sample, room for names and votes

/** A canvas that is drawn again when its size, colours or data change; subclasses define `paint`. */
class Plot {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.width = this.height = 0;
    const later = /** @type {any} */ (null); // of the first size and colours
    /** @type {CanvasRenderingContext2D} */ this.context = later;
    /** @type {Colours} */ this.colours = later;
    surface(canvas, (context, width, height) => {
      Object.assign(this, {context, width, height});
      this.draw();
    });
  }

  /** @param {Colours} colours */
  recolour(colours) {
    this.colours = colours;
    this.draw();
  }

  draw() {
    if (!this.context || !this.colours) return;
    this.context.clearRect(0, 0, this.width, this.height);
    /** @type {{paint: Paint}} */ (/** @type {unknown} */ (this)).paint(this.context, this.width, this.height);
  }
}

/**
 * A mark for a class: colours alone do not tell classes apart.
 * @param {CanvasRenderingContext2D} context @param {number} kind @param {number} x @param {number} y
 * @param {number} size
 */
function mark(context, kind, x, y, size) {
  context.beginPath();
  if (kind === 0) context.arc(x, y, size, 0, 7);
  else if (kind === 1) context.rect(x - 0.9 * size, y - 0.9 * size, 1.8 * size, 1.8 * size);
  else {
    context.moveTo(x, y - 1.25 * size);
    context.lineTo(x + 1.15 * size, y + 0.85 * size);
    context.lineTo(x - 1.15 * size, y + 0.85 * size);
    context.closePath();
  }
}

/** The answer over the plane, and samples of the test set; pointing at it chooses the point whose spikes are shown. */
export class DecisionPlot extends Plot {
  /** @param {HTMLCanvasElement} canvas @param {function(number[]): void} chosen takes the point */
  constructor(canvas, chosen) {
    super(canvas);
    this.chosen = chosen;
    /** @type {Plane} */ this.data = /** @type {any} */ (null); // to be shown
    /** @type {?Float32Array} */ this.rates = null; // of each class [classes][cells]
    /** @type {?Float32Array} */ this.single = null;
    /** @type {?HTMLCanvasElement} */ this.picture = null;
    /** @type {HTMLCanvasElement|undefined} */ this.cells = undefined;
    /** @type {?Int32Array} */ this.answers = null;
    /** @type {number[]|undefined} */ this.point = undefined;
    /** @param {number} x @param {number} y */
    const choose = (x, y) => {
      /** @param {number} value */
      const clip = (value) => Math.max(0, Math.min(1, value));
      this.point = [clip(x / this.width), clip(1 - y / this.height)];
      this.draw();
      chosen(this.point);
    };
    drag(canvas, {frame: canvas, start: choose, move: choose});
    canvas.addEventListener("keydown", (event) => {
      const way = /** @type {Record<string, number[]|undefined>} */ (
        {ArrowUp: [0, 1], ArrowDown: [0, -1], ArrowLeft: [-1, 0], ArrowRight: [1, 0]})[event.key];
      if (!way || !this.point) return;
      event.preventDefault();
      const step = event.shiftKey ? 0.1 : 0.02;
      choose((this.point[0] + step * way[0]) * this.width, (1 - this.point[1] - step * way[1]) * this.height);
    });
  }

  /** @param {Plane} data */
  show(data) {
    Object.assign(this, {data, rates: null, answers: null, point: undefined, picture: null, single: null});
    this.draw();
  }

  /** @param {{rates?: ?Float32Array, answers?: ?Int32Array, point?: number[]}} news rates and answers left out stay */
  update({rates, answers, point}) {
    if (rates) this.rates = rates;
    if (answers) this.answers = answers;
    this.point = point;
    this.picture = null;
    this.draw();
  }

  /** The map of one neuron in place of the decision; null: the decision again. @param {?Float32Array} map */
  alone(map) {
    this.single = map;
    this.picture = null;
    this.draw();
  }

  surfacePicture() {
    const {side, classColours} = this.data, cells = side * side;
    const {single, rates} = /** @type {DecisionPlot & {rates: Float32Array}} */ (this);
    if (single) {
      const orange = channels(this.colours.orange).slice(0, 3);
      return cellsPicture(side, side, (cell) => [...orange, Math.sqrt(single[cell])], this.cells);
    }
    const colours = classColours(this.colours).map(channels), classes = rates.length / cells;
    return cellsPicture(side, side, (cell) => {
      let best = 0, second = -1;
      for (let c = 1; c < classes; c++) {
        const rate = rates[c * cells + cell];
        if (rate > rates[best * cells + cell]) [best, second] = [c, rates[best * cells + cell]];
        else second = Math.max(second, rate);
      }
      if (second < 0) second = rates[(best === 0 ? 1 : 0) * cells + cell];
      const lead = rates[best * cells + cell] - second;
      // A lead of no vote is no answer: paper.
      return [...colours[best].slice(0, 3), lead > 0 ? Math.min(0.75, 0.18 + 1.2 * lead) : 0];
    }, this.cells);
  }

  /** @type {Paint} */
  paint(context, width, height) {
    const {data, colours, rates, answers, point} = this;
    context.fillStyle = colours.raised;
    context.fillRect(0, 0, width, height);
    if (!data) return;
    if (rates) {
      this.picture ??= this.cells = this.surfacePicture();
      context.imageSmoothingEnabled = true;
      context.drawImage(this.picture, 0, 0, width, height);
    }
    const {points, labels} = data.test, inks = data.classColours(colours), count = Math.min(labels.length, 300);
    for (let i = 0; i < count && !this.single; i++) {
      const wrong = answers && answers[i] !== labels[i];
      mark(context, labels[i], points[2 * i] * width, (1 - points[2 * i + 1]) * height, wrong ? 3.6 : 2.6);
      context.fillStyle = inks[labels[i]];
      context.strokeStyle = wrong ? colours.ink : colours.page;
      context.lineWidth = wrong ? 1.6 : 0.8;
      context.fill();
      context.stroke();
    }
    if (point) {
      context.strokeStyle = colours.ink;
      context.lineWidth = 2;
      context.beginPath();
      context.arc(point[0] * width, (1 - point[1]) * height, 8, 0, 7);
      context.moveTo(point[0] * width - 13, (1 - point[1]) * height);
      context.lineTo(point[0] * width - 5, (1 - point[1]) * height);
      context.moveTo(point[0] * width + 5, (1 - point[1]) * height);
      context.lineTo(point[0] * width + 13, (1 - point[1]) * height);
      context.stroke();
    }
  }
}

/** How often each class (or pair of cues) got each answer; a press on a cell chooses the next sample of it. */
export class AnswersPlot extends Plot {
  /** @param {HTMLCanvasElement} canvas @param {function(number): void} chosen takes the index of the sample */
  constructor(canvas, chosen) {
    super(canvas);
    /** @type {Table} */ this.data = /** @type {any} */ (null); // to be shown
    /** @type {?number[][][]} */ this.members = null; // indices of samples, by row and column
    this.frame = {left: 0, top: 0, cell: 0};
    this.shown = -1;
    canvas.addEventListener("click", (event) => {
      const box = canvas.getBoundingClientRect(), {left, top, cell} = this.frame;
      const column = Math.floor((event.clientX - box.left - left) / cell);
      const row = Math.floor((event.clientY - box.top - top) / cell);
      const index = this.members?.[row]?.[column];
      if (index?.length) chosen(index[(index.indexOf(this.shown) + 1) % index.length]);
    });
  }

  /** @param {Table} data */
  show(data) {
    const columns = [...data.columns, data.columns.length > 4 ? "–" : "none"];
    Object.assign(this, {data: {...data, columns}, members: null});
    this.draw();
  }

  /** @param {{answers?: ?Int32Array, index: number}} news without answers those stay */
  update({answers, index}) {
    this.shown = index;
    if (answers) {
      const {rows, columns, groups} = this.data;
      const members = rows.map(() => columns.map(() => /** @type {number[]} */ ([])));
      // -1, no answer: the last column
      answers.forEach((answer, i) => /** @type {number[]} */ (members[groups[i]].at(answer)).push(i));
      this.members = members;
    }
    this.draw();
  }

  /** @type {Paint} */
  paint(context, width, height) {
    const {data, colours, members} = this;
    if (!data) return;
    const {rows, columns, right} = data, left = rows.length > 4 ? 34 : 84, top = 38;
    const cell = Math.min((width - left) / columns.length, (height - top) / rows.length);
    this.frame = {left, top, cell};
    context.font = FONT;
    context.fillStyle = colours.muted;
    context.textAlign = "left";
    context.fillText(data.across, left, 12);
    context.textAlign = "center";
    columns.forEach((name, c) => context.fillText(name, left + (c + 0.5) * cell, top - 8));
    context.textAlign = "right";
    rows.forEach((name, r) => context.fillText(name, left - 8, top + (r + 0.5) * cell + 4));
    rows.forEach((_, r) => {
      const all = members ? members[r].reduce((sum, some) => sum + some.length, 0) || 1 : 1;
      columns.forEach((__, c) => {
        const count = members?.[r][c].length ?? 0, x = left + c * cell, y = top + r * cell, good = right(r) === c;
        context.fillStyle = colours.panel;
        context.fillRect(x, y, cell - 2, cell - 2);
        if (count) {
          const strength = good ? 0.06 + 0.24 * (count / all) : 0.2 + 0.35 * Math.sqrt(count / all); // text stays readable
          context.fillStyle = faint(good ? colours.ink : colours.error, strength);
          context.fillRect(x, y, cell - 2, cell - 2);
          context.fillStyle = colours.ink;
          context.textAlign = "center";
          context.fillText(String(count), x + cell / 2 - 1, y + cell / 2 + 4);
        }
        if (members?.[r][c].includes(this.shown)) {
          context.strokeStyle = colours.ink;
          context.lineWidth = 2;
          context.strokeRect(x, y, cell - 2, cell - 2);
        }
      });
    });
  }
}

const POINTS = 1024;

/** A number for each update, however many: means of bins that grow as updates do. */
export class Series {
  constructor() {
    this.width = 1;
    this.sums = new Float64Array(POINTS);
    this.count = 0;
  }

  /** @param {number} value */
  add(value) {
    if (this.count === this.width * POINTS) {
      for (let bin = 0; bin < POINTS / 2; bin++) this.sums[bin] = this.sums[2 * bin] + this.sums[2 * bin + 1];
      this.sums.fill(0, POINTS / 2);
      this.width *= 2;
    }
    this.sums[Math.floor(this.count++ / this.width)] += value;
  }

  /** [[update, mean], …], about `most` of them. @param {number} most */
  points(most) {
    const bins = Math.ceil(this.count / this.width), join = Math.max(1, Math.ceil(bins / most)), means = [];
    for (let bin = 0; bin < bins; bin += join) {
      const first = bin * this.width, end = Math.min(this.count, (bin + join) * this.width);
      let sum = 0;
      for (let i = bin; i < Math.min(bins, bin + join); i++) sum += this.sums[i];
      means.push([(first + end) / 2, sum / (end - first)]);
    }
    return means;
  }
}

/** Lines over updates: [{points, colour, width}], y from 0 to `top`, dashed levels with a name. */
export class CurvePlot extends Plot {
  /** @type {?Curves} */ curves = null;

  /** @param {Curves} curves */
  show(curves) {
    this.curves = curves;
    this.draw();
  }

  /** @type {Paint} */
  paint(context, width, height) {
    const {colours, curves} = this, left = 46, bottom = height - 22, right = width - 8, above = 8;
    if (!curves) return;
    const {lines, top, updates, percent, level} = curves, last = Math.max(updates, 10);
    /** @param {number} update */
    const x = (update) => left + ((right - left) * update) / last;
    /** @param {number} value */
    const y = (value) => bottom - ((bottom - above) * Math.min(value, 1.05 * top)) / (1.05 * top);
    context.font = FONT;
    context.lineWidth = 1;
    const tick = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50].find((one) => top / one <= 4.1) ?? top;
    for (let value = 0; value <= 1.05 * top; value += tick) {
      context.strokeStyle = colours.line;
      context.beginPath();
      context.moveTo(left, y(value));
      context.lineTo(right, y(value));
      context.stroke();
      context.fillStyle = colours.muted;
      context.textAlign = "right";
      const name = percent ? `${Math.round(100 * value)} %` : String(Number(value.toFixed(1)));
      context.fillText(name, left - 5, y(value) + 4);
    }
    context.textAlign = "left";
    context.fillText("0", left, height - 6);
    context.textAlign = "right";
    context.fillText(`${last} updates`, right, height - 6);
    if (level) {
      context.setLineDash([4, 4]);
      context.strokeStyle = colours.strongLine;
      context.beginPath();
      context.moveTo(left, y(level.value));
      context.lineTo(right, y(level.value));
      context.stroke();
      context.setLineDash([]);
    }
    for (const {points, colour, thick, alpha = 1} of lines) {
      if (!points.length) continue;
      context.strokeStyle = context.fillStyle = faint(colours[colour], alpha);
      context.lineWidth = thick;
      context.lineJoin = "round";
      context.beginPath();
      for (const [update, value] of points) context.lineTo(x(update), y(value)); // the first one only moves there
      if (points.length > 1) context.stroke();
      else {
        mark(context, 0, x(points[0][0]), y(points[0][1]), 2.5);
        context.fill();
      }
    }
    if (!level) return;
    context.strokeStyle = colours.panel; // a curve may pass behind the name
    context.lineWidth = 4;
    context.strokeText(level.name, right, y(level.value) - 4);
    context.fillStyle = colours.muted;
    context.fillText(level.name, right, y(level.value) - 4);
  }
}

/**
 * A line at a time of the sample.
 * @param {CanvasRenderingContext2D} context @param {number} x @param {number} bottom @param {string} colour
 */
function cursor(context, x, bottom, colour) {
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(x, 0);
  context.lineTo(x, bottom);
  context.stroke();
}

/** The hidden neuron that fires most in a sample, of several the first. @param {Probe} probe @returns {Place} */
export function busiest({decisions}) {
  let best = {layer: 0, unit: 0}, most = 0;
  decisions.slice(0, -1).forEach((steps, layer) => steps[0].away.forEach((_, unit) => {
    const count = steps.filter(({away}) => away[unit] > 0).length;
    if (count > most) [best, most] = [{layer, unit}, count];
  }));
  return best;
}

/** What a sample does to a neuron. @param {Probe} probe @param {Place} place @returns {Trace} */
export function trace({decisions}, {layer, unit}) {
  const steps = decisions[layer];
  return {
    membrane: steps.map(({away, threshold}) => threshold[unit] + away[unit]),
    threshold: steps.map(({threshold}) => threshold[unit]),
    fired: steps.map(({away}) => away[unit] > 0),
  };
}

/** The spikes of one sample: time to the right, a row for each neuron, layer under layer. */
export class RasterPlot extends Plot {
  /** @type {Array<{top: number, row: number}>} */ rows = []; // of each layer but the input
  /** @type {?Place} */ place = null;
  /** @type {Model} */ network = /** @type {any} */ (null); // to be shown
  /** @type {?Probe} */ probe = null;
  /** @type {HTMLCanvasElement|undefined} */ picture = undefined;
  /** @type {?Colours} */ inked = null;
  stale = true;
  position = -1;

  /** @param {HTMLCanvasElement} canvas @param {function(Place): void} chosen takes the neuron of a row */
  constructor(canvas, chosen) {
    super(canvas);
    canvas.addEventListener("click", (event) => {
      const y = event.clientY - canvas.getBoundingClientRect().top, {rows, network} = this;
      const layer = rows.findLastIndex(({top}) => y >= top - 4);
      if (layer < 0) return;
      const unit = Math.floor((y - rows[layer].top) / rows[layer].row);
      chosen({layer, unit: Math.max(0, Math.min(unit, network.sizes[layer + 1] - 1))});
    });
    canvas.addEventListener("keydown", (event) => {
      const way = /** @type {Record<string, number|undefined>} */ ({ArrowUp: -1, ArrowDown: 1})[event.key];
      if (!way || !this.place) return;
      event.preventDefault();
      const {place: {layer, unit}, network: {sizes}} = this, isEnd = way > 0 ? unit + 1 === sizes[layer + 1] : !unit;
      const next = isEnd ? {layer: layer + way, unit: way > 0 ? 0 : sizes[layer] - 1} : {layer, unit: unit + way};
      if (this.rows[next.layer]) chosen(next);
    });
  }

  /** @param {Model} network */
  show(network) {
    Object.assign(this, {network, probe: null, place: null, position: -1, stale: true});
    this.draw();
  }

  /** @param {Probe} probe @param {Place} place of the neuron whose row is marked */
  update(probe, place) {
    Object.assign(this, {probe, place, stale: true});
    this.draw();
  }

  /** @param {number} position in steps; -1: none */
  frame(position) {
    this.position = position;
    this.draw();
  }

  draw() {
    if (!this.context || !this.colours) return;
    const {canvas, width, height, network, probe} = this, {context} = this;
    this.picture ??= document.createElement("canvas");
    const {picture} = this, isSize = picture.width === canvas.width && picture.height === canvas.height;
    if (!isSize || this.stale || this.inked !== this.colours) {
      Object.assign(picture, {width: canvas.width, height: canvas.height}); // which clears it
      const still = /** @type {CanvasRenderingContext2D} */ (picture.getContext("2d"));
      still.setTransform(canvas.width / width, 0, 0, canvas.height / height, 0, 0);
      Object.assign(this, {inked: this.colours, stale: false});
      if (network && probe) this.paintSpikes(still, width, height);
    }
    context.clearRect(0, 0, width, height);
    context.drawImage(this.picture, 0, 0, width, height);
    if (!network || !probe) return;
    const {place, rows, position, colours} = this, inner = width - LEFT - RIGHT;
    if (place) {
      const {top, row} = rows[place.layer];
      context.strokeStyle = colours.accent;
      context.lineWidth = 2;
      context.strokeRect(LEFT - 2, top + place.unit * row - 2, inner + 4, row + 4);
    }
    if (position < 0) return;
    cursor(context, LEFT + (inner * position) / probe.decisions[0].length, height - 20, colours.ink);
  }

  /** @type {Paint} */
  paintSpikes(context, width, height) {
    const {network, probe, colours} = /** @type {RasterPlot & {probe: Probe}} */ (this), {sizes, classNames} = network;
    const steps = probe.input.length / sizes[0];
    /** @type {Layer[]} */
    const layers = [[probe.input, sizes[0]],
      ...probe.spikes.map((spikes, i) => /** @type {Layer} */ ([spikes, sizes[i + 1]]))];
    const left = LEFT, right = width - RIGHT, pitch = (right - left) / steps;
    // Few neurons get taller rows than many, and no layer less than some lines.
    const shares = layers.map(([, size]) => Math.sqrt(size)), all = shares.reduce((sum, one) => sum + one, 0);
    const room = height - 26 - 8 * (layers.length - 1), inks = network.classColours(colours);
    let top = 2;
    this.rows = [];
    context.font = FONT;
    layers.forEach(([spikes, size], layer) => {
      const tall = (room * shares[layer]) / all, row = tall / size, last = layer === layers.length - 1;
      if (layer) this.rows.push({top, row});
      context.fillStyle = colours.panel;
      context.fillRect(left, top, right - left, tall);
      context.fillStyle = colours.muted;
      context.textAlign = "right";
      context.fillText(layer === 0 ? "input" : last ? "output" : `hidden ${layer}`, left - 8, top + tall / 2 + 4);
      for (let n = 0; n < size; n++) {
        const isCurrent = layer === 0 && !network.spikingInput, ink = isCurrent ? colours.ink : colours.orange;
        const wide = isCurrent ? pitch : Math.max(1.5, Math.min(3, 0.4 * pitch)), high = Math.max(0.8, 0.8 * row);
        let count = 0;
        for (let t = 0; t < steps; t++) {
          const value = spikes[t * size + n];
          if (!value) continue;
          count++;
          context.fillStyle = isCurrent ? faint(ink, 0.75 * value) : ink;
          context.fillRect(left + (t + 0.5) * pitch - wide / 2, top + n * row + 0.1 * row, wide, high);
        }
        if (last) {
          const leads = probe.leaders.includes(n), y = top + (n + 0.5) * row;
          if (inks[n]) {
            context.fillStyle = inks[n];
            mark(context, n, right + 10, y, 3.6);
            context.fill();
          }
          context.fillStyle = leads ? colours.ink : colours.muted;
          context.font = leads ? "600 12px system-ui, sans-serif" : FONT;
          context.textAlign = "left";
          const votes = /** @type {string} */ (size > 4 ? `${classNames[n]}: ${count}` : count);
          if (row >= 9 || leads) context.fillText(votes, right + (inks[n] ? 18 : 6), y + 4);
        }
      }
      top += tall + 8;
    });
    context.font = FONT;
    context.fillStyle = colours.muted;
    context.textAlign = "left";
    context.fillText("step 0", left, height - 5);
    context.textAlign = "right";
    context.fillText(`step ${steps - 1}`, right, height - 5);
    context.textAlign = "left";
    context.fillText("votes", right + 6, height - 5);
  }
}

/** The membrane of a neuron at each step of a sample, its threshold dashed, a disc where it fires. */
export class MembranePlot extends Plot {
  /** @type {?Trace} */ trace = null;
  position = -1;

  /** @param {{trace?: ?Trace, position?: number}} news what is left out stays */
  show(news) {
    Object.assign(this, news);
    this.draw();
  }

  /** @type {Paint} */
  paint(context, width, height) {
    if (!this.trace) return;
    const {colours, position, trace: {membrane, threshold, fired}} = this, all = [0, ...membrane, ...threshold];
    const low = Math.min(...all), high = Math.max(...all), right = width - RIGHT, pitch = (right - LEFT) / fired.length;
    /** @param {number} t */
    const x = (t) => LEFT + (t + 0.5) * pitch;
    /** @param {number} value */
    const y = (value) => height - 8 - ((height - 16) * (value - low)) / (high - low);
    context.fillStyle = colours.panel;
    context.fillRect(LEFT, 0, right - LEFT, height);
    context.font = FONT;
    context.fillStyle = colours.muted;
    context.textAlign = "right";
    /** @type {number[]} */
    const taken = [];
    for (const value of [threshold[0], 0, high, low]) { // as far as there is room for them
      if (taken.some((other) => Math.abs(other - y(value)) < 14)) continue;
      const text = (taken.length ? "" : "θ ") + String(Number(value.toFixed(2))).replace("-", "−");
      taken.push(y(value));
      context.fillText(text, LEFT - 8, y(value) + 4);
    }
    context.strokeStyle = colours.line;
    context.lineWidth = 1;
    context.strokeRect(LEFT, y(0), right - LEFT, 0);
    context.strokeStyle = colours.muted;
    context.lineWidth = 1.5;
    context.setLineDash([5, 4]);
    context.beginPath();
    context.moveTo(LEFT, y(threshold[0]));
    threshold.forEach((value, t) => context.lineTo(x(t), y(value)));
    context.lineTo(right, y(/** @type {number} */ (threshold.at(-1))));
    context.stroke();
    context.setLineDash([]);
    context.strokeStyle = colours.ink;
    context.lineJoin = "round";
    context.beginPath();
    membrane.forEach((value, t) => context.lineTo(x(t), y(value))); // the first one only moves there
    context.stroke();
    context.fillStyle = colours.orange;
    fired.forEach((is, t) => {
      if (!is) return;
      mark(context, 0, x(t), y(membrane[t]), 4);
      context.fill();
    });
    if (position >= 0) cursor(context, LEFT + position * pitch, height, colours.ink);
  }
}

/** The surrogate: how much gradient passes a neuron so far from its threshold; and how far the neurons are. */
export class SurrogatePlot extends Plot {
  /** @type {?function(number): number} */ derivative = null;
  reach = 0;
  /** @type {?Membranes} */ shares = null;

  /**
   * @param {function(number): number} derivative of the distance from the threshold
   * @param {number} reach distance at the left and the right end
   */
  show(derivative, reach) {
    Object.assign(this, {derivative, reach, shares: null});
    this.draw();
  }

  /** @param {Membranes} shares */
  update(shares) {
    this.shares = shares;
    this.draw();
  }

  /** @type {Paint} */
  paint(context, width, height) {
    const {colours, derivative, reach, shares} = this;
    if (!derivative) return;
    const above = 18, bottom = height - 18, middle = width / 2, ends = [];
    // From the middle outwards, so that a peak of no width is not passed over.
    for (let away = -Math.floor(middle); away <= middle; away++) {
      ends.push([middle + away, derivative((away / middle) * reach)]);
    }
    const top = Math.max(...ends.map(([, value]) => value), 1e-9);
    /** @param {number} share */
    const y = (share) => bottom - (bottom - above) * share;
    context.font = "11px system-ui, sans-serif";
    if (shares) {
      const most = Math.max(...shares.bins, 0.02), wide = width / shares.bins.length;
      context.fillStyle = faint(colours.muted, 0.55);
      shares.bins.forEach((share, bin) => {
        context.fillRect(bin * wide + 0.5, y(share / most), wide - 1, bottom - y(share / most));
      });
      context.fillStyle = colours.muted;
      context.textAlign = "left";
      if (shares.below >= 0.005) context.fillText(`← ${Math.round(100 * shares.below)} %`, 0, 11);
      context.textAlign = "right";
      if (shares.above >= 0.005) context.fillText(`${Math.round(100 * shares.above)} % →`, width, 11);
    }
    context.strokeStyle = colours.line;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(0, bottom);
    context.lineTo(width, bottom);
    context.moveTo(middle, above);
    context.lineTo(middle, bottom);
    context.stroke();
    context.beginPath();
    for (const [x, value] of ends) context.lineTo(x, y(value / top));
    context.strokeStyle = colours.ink;
    context.lineWidth = 2;
    context.stroke();
    context.fillStyle = colours.muted;
    context.textAlign = "center";
    context.fillText(`peak ${Number(top.toPrecision(3))}`, middle, 11);
    context.fillText("threshold", middle, height - 4);
    context.textAlign = "left";
    context.fillText(`−${reach}`, 0, height - 4);
    context.textAlign = "right";
    context.fillText(`+${reach}`, width, height - 4);
  }
}

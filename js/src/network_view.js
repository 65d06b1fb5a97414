/** The network of the playground: neurons as maps of their rates, weights as lines, spikes as dots on their way. */

import {BELOW_ZERO, faint, surface} from "./canvas.js";

/**
 * @import {Colours} from "./canvas.js"
 * @import {Model, Place} from "./commentary.js"
 * @import {Report} from "./trainer.js"
 *
 * @typedef {{x: number, y: number}} Middle of a unit
 * @typedef {{across: number, size: number, gap: number}} Block of units, `across` in a row, each `size` wide
 * @typedef {{units: Middle[], size: number, across: number, left: number, right: number, top: number}} Column
 * @typedef {{from: number, to: number, weight: number, rank?: number}} Line between two units: its weight as a share of
 *   the largest, and how thick it is from 0 to 1
 */

const HEAD = 40, GAP = 3, LARGEST = 46, READABLE = 21, STRONGEST = 140;

/** Red, green, blue and opacity of a CSS colour. @param {string} colour */
export function channels(colour) {
  const [r, g, b, a = 1] = /** @type {string[]} */ (colour.match(/[\d.]+/g)).map(Number);
  return [r, g, b, a];
}

/** A picture of width × height cells; `paint(cell)` gives [r, g, b, opacity from 0 to 1].
 *
 * @param {number} width @param {number} height @param {function(number): number[]} paint
 * @param {HTMLCanvasElement} [canvas] of that size to paint on: hundreds of new ones in a second would fill the memory
 */
export function cellsPicture(width, height, paint, canvas) {
  canvas ??= Object.assign(document.createElement("canvas"), {width, height});
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const image = context.createImageData(width, height);
  for (let cell = 0; cell < width * height; cell++) {
    const [r, g, b, a] = paint(cell);
    image.data.set([r, g, b, 255 * a], 4 * cell);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/**
 * Units of each column on a width × height area: [{units: [{x, y}], size, left, right}], x and y of the middle.
 * @param {number[]} sizes @param {number} width @param {number} height @param {boolean} [isImage]
 * @returns {Column[]}
 */
export function places(sizes, width, height, isImage) {
  const columns = sizes.length;
  // Room for names beside many inputs and outputs.
  const before = !isImage && sizes[0] > 4 ? 16 : 0, named = before + (sizes[columns - 1] > 4 ? 16 : 0);
  const between = Math.min(Math.max(28, Math.min(110, (0.42 * width) / columns)), (width - 24 - named) / (2 * columns));
  const most = (width - 24 - named - between * (columns - 1)) / columns, free = height - HEAD - 26;
  const blocks = sizes.map((count, column) => {
    if (column === 0 && isImage) {
      const size = Math.min(most, 120) / 8;
      return {across: 8, size, gap: 0};
    }
    const outer = column === 0 || column === sizes.length - 1;
    const gap = !outer ? GAP : count > 4 ? 7 : 22; // room for a name under each
    let best = /** @type {Block} */ ({size: 0});
    for (let across = 1; across <= (outer ? 1 : count) && best.size < READABLE; across++) {
      const size = Math.min(LARGEST, most / across - gap, free / Math.ceil(count / across) - gap);
      if (size > best.size) best = {across, size, gap};
    }
    if (best.size > 0) return best;
    // No room for the gaps: they get narrower, too.
    const across = outer ? 1 : Math.ceil(Math.sqrt(count)), pitch = Math.min(most / across, free / Math.ceil(count / across));
    return {across, size: 0.8 * pitch, gap: 0.2 * pitch};
  });
  const taken = blocks.map(({across, size, gap}) => across * (size + gap) - gap);
  const space = (width - 24 - named - taken.reduce((sum, one) => sum + one, 0)) / Math.max(1, columns - 1);
  let left = 12 + before;
  return sizes.map((count, column) => {
    const {across, size, gap} = blocks[column], down = Math.ceil(count / across), pitch = size + gap;
    const top = HEAD + (free - down * pitch + gap) / 2;
    const units = Array.from({length: count}, (_, i) => ({
      x: left + (i % across) * pitch + size / 2, y: top + Math.floor(i / across) * pitch + size / 2,
    }));
    const block = {units, size, across, left, right: left + taken[column], top};
    left += taken[column] + space;
    return block;
  });
}

export class NetworkView {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {function(?Place): void} chosen is called when the reader points at a neuron, and when it is `pinned`
   */
  constructor(canvas, chosen) {
    this.canvas = canvas;
    this.chosen = chosen;
    this.pinned = false;
    this.position = -1;
    this.width = this.height = 0;
    /** @type {?Report} */ this.report = null;
    /** @type {?Place} */ this.selected = null;
    /** @type {?Float32Array[]} */ this.lastMaps = null;
    /** @type {HTMLCanvasElement[][]|null|undefined} */ this.maps = null;
    /** @type {?HTMLCanvasElement[]} */ this.fields = null;
    /** @type {?Array<Array<Required<Line>>>} */ this.lines = null;
    const later = /** @type {any} */ (null); // of the first size, network and colours
    /** @type {CanvasRenderingContext2D} */ this.context = later;
    /** @type {Model} */ this.network = later;
    /** @type {Column[]} */ this.columns = later;
    /** @type {Colours} */ this.colours = later;
    this.base = document.createElement("canvas");
    surface(canvas, (context, width, height) => {
      Object.assign(this, {context, width, height});
      this.base.width = canvas.width;
      this.base.height = canvas.height;
      this.arrange();
    });
    canvas.addEventListener("pointermove", (event) => this.pinned || this.select(this.at(event)));
    canvas.addEventListener("pointerleave", () => this.pinned || this.select(null));
    canvas.addEventListener("click", (event) => {
      const place = this.at(event);
      this.pinned = place !== null;
      this.select(place);
      if (place) this.chosen(place); // also one that was pointed at before
    });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  /** Another network. @param {Model} network */
  show(network) {
    Object.assign(this, {network, report: null, selected: null, pinned: false});
    Object.assign(this, {maps: null, lastMaps: null, fields: null, lines: null});
    this.arrange();
  }

  arrange() {
    if (!this.context || !this.network) return;
    this.columns = places(this.network.sizes, this.width, this.height, this.network.isImage);
    this.strongest();
    this.paintBase();
  }

  /** What a report says of weights, rates and maps. @param {Report} report */
  update(report) {
    this.report = report;
    if (report.maps) {
      this.lastMaps = report.maps;
      this.maps = report.maps.map((map, layer) => this.pictures(map, layer));
    }
    if (this.network.isImage) this.fields = this.receptiveFields(report.weights[0]);
    this.strongest();
    this.paintBase();
  }

  /** @param {Colours} colours */
  recolour(colours) {
    this.colours = colours;
    this.maps = this.lastMaps?.map((map, layer) => this.pictures(map, layer));
    if (this.report && this.network.isImage) this.fields = this.receptiveFields(this.report.weights[0]);
    this.paintBase();
  }

  /**
   * A picture for each neuron of a layer: where it fires, and how often.
   * @param {Float32Array} map [N][cells] @param {number} layer
   */
  pictures(map, layer) {
    const {side} = this.network, size = this.network.sizes[layer + 1], cells = map.length / size;
    const [r, g, b] = channels(this.colours.orange);
    return Array.from({length: size}, (_, n) => {
      /** @param {number} cell */
      const paint = (cell) => [r, g, b, Math.min(1, Math.sqrt(map[n * cells + cell]))];
      return cellsPicture(side, cells / side, paint, this.maps?.[layer]?.[n]);
    });
  }

  /**
   * Of the first hidden layer before an image: its weights, as an image.
   * @param {Float32Array} weight [64][N]
   * @returns {HTMLCanvasElement[]}
   */
  receptiveFields(weight) {
    const size = this.network.sizes[1], more = channels(this.colours.blue), less = channels(this.colours.crimson);
    return Array.from({length: size}, (_, n) => {
      let most = 1e-9;
      for (let i = 0; i < 64; i++) most = Math.max(most, Math.abs(weight[i * size + n]));
      return cellsPicture(8, 8, (i) => {
        const w = weight[i * size + n] / most, [r, g, b] = w > 0 ? more : less;
        return [r, g, b, Math.abs(w)];
      }, this.fields?.[n]);
    });
  }

  /** The lines worth drawing: between each two layers the largest weights. */
  strongest() {
    if (!this.report || !this.columns) return;
    const {sizes} = this.network;
    this.lines = this.report.weights.map((weight, gap) => {
      const outputs = sizes[gap + 1], sample = weight.length > 4096 ? Math.floor(weight.length / 2048) : 1, sorted = [];
      for (let k = 0; k < weight.length; k += sample) sorted.push(Math.abs(weight[k]));
      sorted.sort((a, b) => b - a);
      const count = Math.min(sorted.length - 1, Math.floor((STRONGEST * sorted.length) / weight.length));
      const floor = sorted[count], most = sorted[0] || 1, span = most - Math.min(floor, 0.9 * most), lines = [];
      for (let k = 0; k < weight.length && lines.length < 2 * STRONGEST; k++) {
        if (Math.abs(weight[k]) >= floor && weight[k] !== 0) {
          const rank = Math.max(0, Math.min(1, (Math.abs(weight[k]) - most) / span + 1));
          lines.push({from: Math.floor(k / outputs), to: k % outputs, weight: weight[k] / most, rank});
        }
      }
      return lines;
    });
  }

  /** Where a line behind the column `gap` starts and ends. @param {number} gap @param {Line} line */
  ends(gap, {from, to}) {
    const a = this.columns[gap], b = this.columns[gap + 1], start = a.units[from], end = b.units[to];
    return [start.x + a.size / 2, start.y, end.x - b.size / 2, end.y];
  }

  /** How far a line goes straight on from either end, about. @param {number} gap */
  bend(gap) {
    return Math.max(20, (this.columns[gap + 1].left - this.columns[gap].right) / 2);
  }

  /** @param {CanvasRenderingContext2D} context @param {number} gap @param {Line} line @param {number} strength */
  line(context, gap, line, strength) {
    const [x0, y0, x1, y1] = this.ends(gap, line), bend = this.bend(gap);
    context.strokeStyle = faint(line.weight > 0 ? this.colours.blue : this.colours.crimson, strength);
    context.lineWidth = 0.5 + 2 * (line.rank ?? Math.abs(line.weight));
    context.setLineDash(line.weight > 0 ? [] : BELOW_ZERO);
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
    context.stroke();
    context.setLineDash([]);
  }

  /** All that does not move, once for many frames. */
  paintBase() {
    const {context: screen, columns, colours, network, report} = this;
    if (!screen || !columns || !colours) return;
    const context = /** @type {CanvasRenderingContext2D} */ (this.base.getContext("2d"));
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.base.width, this.base.height);
    context.setTransform(this.base.width / this.width, 0, 0, this.base.height / this.height, 0, 0);
    const {selected} = this;
    this.lines?.forEach((lines, gap) => {
      for (const line of lines) this.line(context, gap, line, selected ? 0.06 : 0.12 + 0.6 * line.rank);
    });
    if (selected && report) this.ownLines(context, selected);
    columns.forEach((column, index) => this.paintColumn(context, column, index));
    context.font = "600 13px system-ui, sans-serif";
    context.fillStyle = colours.ink;
    columns.forEach(({left, right}, index) => {
      const last = index === columns.length - 1, middle = (left + right) / 2;
      context.textAlign = index === 0 ? "left" : last ? "right" : "center";
      const x = index === 0 ? left : last ? this.width - 12 : middle;
      const name = index === 0 ? "input" : last ? "output" : this.width < 480 ? `h${index}` : `hidden ${index}`;
      context.fillText(name, x, 15);
      context.font = "12px system-ui, sans-serif";
      context.fillStyle = colours.muted;
      const silent = index > 0 && report ? report.rates[index - 1].filter((rate) => rate === 0).length : 0;
      const unit = index === 0 ? network.inputUnit : "neurons";
      const what = /** @type {string} */ (this.width < 480 ? network.sizes[index] : `${network.sizes[index]} ${unit}`);
      const all = `${what}, ${silent} silent`, share = (this.width - 24) / columns.length - 8;
      context.fillText(silent && this.width >= 480 && context.measureText(all).width <= share ? all : what, x, 31);
      context.font = "600 13px system-ui, sans-serif";
      context.fillStyle = colours.ink;
    });
    this.frame(this.position);
  }

  /** @param {CanvasRenderingContext2D} context @param {Place} place */
  ownLines(context, {layer, unit}) {
    const {weights} = /** @type {Report} */ (this.report), {sizes} = this.network;
    /** @param {number} gap @param {number} from @param {number} to */
    const draw = (gap, from, to) => {
      const most = weights[gap].reduce((a, w) => Math.max(a, Math.abs(w)), 1e-9);
      const weight = weights[gap][from * sizes[gap + 1] + to] / most;
      if (Math.abs(weight) > 0.05) this.line(context, gap, {from, to, weight}, 0.2 + 0.7 * Math.abs(weight));
    };
    for (let from = 0; from < sizes[layer]; from++) draw(layer, from, unit);
    for (let to = 0; weights[layer + 1] && to < sizes[layer + 2]; to++) draw(layer + 1, unit, to);
  }

  /** @param {CanvasRenderingContext2D} context @param {Column} column @param {number} index */
  paintColumn(context, {units, size}, index) {
    const {colours, network, report, selected} = this, half = size / 2, last = index === network.sizes.length - 1;
    units.forEach(({x, y}, i) => {
      context.fillStyle = index === 0 && network.isImage ? colours.panel : colours.raised;
      context.fillRect(x - half, y - half, size, size);
      if (index === 0) return this.paintInput(context, x, y, size, i);
      const layer = index - 1, picture = index === 1 && this.fields && !last ? this.fields[i] : this.maps?.[layer]?.[i];
      if (picture) {
        context.imageSmoothingEnabled = network.smooth;
        context.drawImage(picture, x - half, y - half, size, size);
      }
      const chosen = selected && selected.layer === layer && selected.unit === i;
      const border = last ? network.classColours(colours)[i] ?? colours.strongLine : colours.line;
      context.strokeStyle = chosen ? colours.accent : border;
      context.lineWidth = chosen ? 3 : last ? 2 : 1;
      context.strokeRect(x - half, y - half, size, size);
      if (report && report.rates[layer][i] === 0) this.cross(context, x, y, half);
    });
    if (index === 0 && network.isImage) {
      const first = units[0], lastUnit = units[63];
      context.strokeStyle = colours.strongLine;
      context.lineWidth = 1;
      context.strokeRect(first.x - half, first.y - half, lastUnit.x - first.x + size, lastUnit.y - first.y + size);
    }
    if (last || (index === 0 && !network.isImage)) this.names(context, units, size, index);
  }

  /**
   * @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {number} size
   * @param {number} unit
   */
  paintInput(context, x, y, size, unit) {
    const {network, report, colours} = this, image = report?.probe.image, half = size / 2;
    if (network.isImage) {
      if (image) {
        context.fillStyle = faint(colours.ink, image[unit]);
        context.fillRect(x - half, y - half, size + 0.3, size + 0.3);
      }
      return;
    }
    if (network.inputPictures) {
      network.inputPictures[unit] ??= cellsPicture(32, 32, (cell) => {
        return [.../** @type {Required<Model>} */ (network).inputShade(unit, cell), 1];
      });
      context.globalAlpha = 0.55;
      context.drawImage(network.inputPictures[unit], x - half, y - half, size, size);
      context.globalAlpha = 1;
    }
    context.strokeStyle = colours.strongLine;
    context.lineWidth = 1;
    context.strokeRect(x - half, y - half, size, size);
  }

  /** @param {CanvasRenderingContext2D} context @param {Middle[]} units @param {number} size @param {number} index */
  names(context, units, size, index) {
    const {network, colours} = this;
    const names = /** @type {string[]} */ (index === 0 ? network.inputNames : network.classNames);
    context.font = `${size < 26 ? 11 : 12}px system-ui, sans-serif`;
    context.fillStyle = colours.muted;
    context.textAlign = "center";
    if (network.sizes[index] > 4) {
      const way = index ? 1 : -1;
      context.textAlign = index ? "left" : "right";
      units.forEach(({x, y}, i) => context.fillText(names[i], x + way * (size / 2 + 6), y + 4));
    } else if (size > 30) {
      units.forEach(({x, y}, i) => context.fillText(names[i], x, y + size / 2 + 13));
    }
  }

  /**
   * A neuron that fired for no sample of the test set.
   * @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {number} half of its size
   */
  cross(context, x, y, half) {
    const reach = Math.max(2, half - 3);
    context.strokeStyle = this.colours.ink;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x - reach, y - reach);
    context.lineTo(x + reach, y + reach);
    context.moveTo(x + reach, y - reach);
    context.lineTo(x - reach, y + reach);
    context.stroke();
  }

  /**
   * The spikes at a time of the sample: of 3.25 those of step 3, a quarter of their way along (-1: none).
   * @param {number} position
   */
  frame(position) {
    this.position = position;
    const {context, columns, report, network, colours} = this;
    if (!context || !columns) return;
    context.clearRect(0, 0, this.width, this.height);
    context.drawImage(this.base, 0, 0, this.width, this.height);
    if (!report || position < 0) return;
    const {probe} = report, step = Math.floor(position), phase = position - step;
    /** @param {number} column @param {number} unit */
    const fired = (column, unit) => {
      const size = network.sizes[column];
      return column === 0 ? probe.input[step * size + unit] : probe.spikes[column - 1][step * size + unit];
    };
    this.lines?.forEach((lines, gap) => {
      context.fillStyle = gap || network.spikingInput ? colours.orange : colours.muted; // a current is no spike
      const bend = this.bend(gap);
      for (const line of lines) {
        const value = fired(gap, line.from);
        if (!value) continue;
        const [x0, y0, x1, y1] = this.ends(gap, line), s = phase, r = 1 - s;
        const weights = [r * r * r, 3 * r * r * s, 3 * r * s * s, s * s * s];
        const x = weights[0] * x0 + weights[1] * (x0 + bend) + weights[2] * (x1 - bend) + weights[3] * x1;
        const y = (weights[0] + weights[1]) * y0 + (weights[2] + weights[3]) * y1;
        context.globalAlpha = Math.min(1, value) * Math.min(1, 0.35 + Math.abs(line.weight));
        context.beginPath();
        context.arc(x, y, 1 + 1.6 * Math.min(1, Math.abs(line.weight)), 0, 7);
        context.fill();
      }
    });
    context.strokeStyle = colours.orange;
    columns.forEach(({units, size}, column) => {
      if (column === 0 && !network.spikingInput) return;
      units.forEach(({x, y}, i) => {
        if (!fired(column, i)) return;
        const reach = size / 2 + 1 + 3 * phase;
        context.globalAlpha = 1 - phase;
        context.lineWidth = 3;
        context.strokeRect(x - reach, y - reach, 2 * reach, 2 * reach);
      });
    });
    context.globalAlpha = 1;
  }

  /** The neuron under a pointer. @param {MouseEvent} event @returns {?Place} */
  at(event) {
    if (!this.columns) return null;
    const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    for (let column = 1; column < this.columns.length; column++) {
      const {units, size} = this.columns[column], reach = size / 2 + GAP / 2;
      const unit = units.findIndex((one) => Math.abs(one.x - x) <= reach && Math.abs(one.y - y) <= reach);
      if (unit >= 0) return {layer: column - 1, unit};
    }
    return null;
  }

  /** @param {?Place} place */
  select(place) {
    if (JSON.stringify(place) === JSON.stringify(this.selected)) return;
    this.selected = place;
    this.canvas.style.cursor = place ? "pointer" : "";
    this.paintBase();
    this.chosen(place);
  }

  /** Arrow keys walk from neuron to neuron, Escape lets go. @param {KeyboardEvent} event */
  key(event) {
    /** @type {Record<string, number[]>} */
    const moves = {ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0]};
    if (event.key === "Escape") {
      this.pinned = false;
      this.select(null);
    } else if (moves[event.key] && this.columns) {
      event.preventDefault();
      this.pinned = true;
      const [across, down] = moves[event.key], {layer, unit} = this.selected ?? {layer: 0, unit: -down};
      const to = Math.max(0, Math.min(this.columns.length - 2, layer + across)), {units} = this.columns[to + 1];
      this.select({layer: to, unit: Math.max(0, Math.min(units.length - 1, unit + down))});
    }
  }
}

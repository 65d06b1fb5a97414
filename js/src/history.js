// The spikes of a run, one mark each: time from left to right, neurons from top to bottom.

import {surface} from "./canvas.js";

/** @import {Colours} from "./canvas.js" */
/** @import {Cells, Network} from "./network.js" */

const LEFT = 62, RIGHT = 8, BOTTOM = 24, GAP = 10;

/** @typedef {{cells: Cells, top: number, tall: number, row: number, last: boolean|0}} Band `row`: height of a neuron */

/** A firing raster of all layers of neurons, with the outputs by name. */
export class History {
  /** @param {HTMLCanvasElement} canvas @param {Network} network @param {{colours: Colours}} options */
  constructor(canvas, network, {colours}) {
    this.network = network;
    this.colours = colours;
    this.steps = /** @type {number[][][]} */ ([]); // [step, band]: the neurons that fired
    this.column = 0;
    this.bands = /** @type {Band[]} */ ([]);
    surface(canvas, (context, width, height) => {
      this.context = context;
      this.width = width;
      this.height = height;
      this.layout();
      this.draw();
    });
  }

  layout() {
    const layers = this.network.cells.filter((cells) => cells.spiking), height = this.height - BOTTOM;
    const outputs = this.network.rates ? Math.min(0.42 * height, 14 * this.network.labels.length) : 0;
    const others = layers.length - (outputs ? 1 : 0);
    const each = others ? (height - outputs - GAP * (layers.length - 1)) / others : 0;
    let top = 0;
    this.bands = layers.map((cells) => {
      const last = outputs && cells === layers[layers.length - 1], tall = last ? outputs : each;
      const band = {cells, top, tall, row: tall / cells.size, last};
      top += tall + GAP;
      return band;
    });
    this.column = (this.width - LEFT - RIGHT) / this.network.steps;
  }

  clear() {
    this.steps = [];
    this.draw();
  }

  /** Notes the step that the network has just done. */
  add() {
    const spikes = this.bands.map(({cells}) => {
      const fired = [];
      for (let i = 0; i < cells.size; i++) if (cells.out[i] !== 0) fired.push(i);
      return fired;
    });
    this.steps.push(spikes);
    if (this.context) {
      this.mark(this.steps.length - 1);
      this.clock();
    }
  }

  draw() {
    const {context, colours, width, height} = this;
    if (!context) return;
    context.clearRect(0, 0, width, height);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    for (const {cells, top, tall, row, last} of this.bands) {
      context.fillStyle = colours.faint;
      context.fillRect(LEFT, top, width - LEFT - RIGHT, tall);
      context.fillStyle = colours.muted;
      context.textAlign = "right";
      if (last && row >= 8) {
        context.font = `${Math.min(12, row)}px system-ui, sans-serif`;
        this.network.labels.forEach((label, k) => context.fillText(label, LEFT - 8, top + (k + 0.5) * row, LEFT - 12));
        context.font = "12px system-ui, sans-serif";
      } else {
        context.fillText(cells.size.toLocaleString("en"), LEFT - 8, top + tall / 2 - 7, LEFT - 12);
        context.fillText("neurons", LEFT - 8, top + tall / 2 + 7, LEFT - 12);
      }
    }
    context.textAlign = "center";
    context.fillStyle = colours.muted;
    const every = [1, 2, 5, 10, 20, 50, 100, 200].find((n) => n * this.column >= 34) ?? 500;
    for (let t = 0; t < this.network.steps; t += every) { // from 0, as in x[0]
      context.fillText(String(t), LEFT + (t + 0.5) * this.column, height - BOTTOM / 2);
    }
    context.textAlign = "right";
    context.fillText("step", LEFT - 8, height - BOTTOM / 2);
    for (let t = 0; t < this.steps.length; t++) this.mark(t);
    this.clock();
  }

  /** The spikes of one step. @param {number} t */
  mark(t) {
    const {context, colours, column} = this, x = LEFT + t * column;
    this.steps[t].forEach((fired, band) => {
      const {top, row, last} = this.bands[band];
      context.fillStyle = colours.orange;
      const tall = Math.max(row * (last ? 0.7 : 0.8), 1.2), wide = Math.max(Math.min(column * 0.6, 7), 1.2);
      for (const i of fired) context.fillRect(x + (column - wide) / 2, top + (i + 0.5) * row - tall / 2, wide, tall);
    });
  }

  /** How far the run is, as a line along the time axis. */
  clock() {
    const {context, colours, column, height} = this;
    context.clearRect(LEFT - 1, height - BOTTOM, this.width - LEFT, 4);
    context.fillStyle = colours.accent;
    context.fillRect(LEFT, height - BOTTOM + 1, this.steps.length * column, 2);
  }
}

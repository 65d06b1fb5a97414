// The event player: a digit before a synthetic event camera, step by step and as a cloud in space and time. The camera
// is that of snnkit.data.events.

import {follow} from "../canvas.js";
import {CONCEPTS} from "../concepts.js";
import {button, drag, make, slider} from "../controls.js";
import {Plot} from "../plot.js";
import {explorer, uniform} from "./explorer.js";

/**
 * @typedef {[x: number, y: number]} Point
 * @typedef {[column: number, step: number, row: number, on: boolean]} Sighting an event
 * @typedef {{digit: number, amplitude: number, threshold: number, noise: number, step: number}} Settings
 */

const f = Math.fround, SIZE = 16, STEPS = 24, DARK = 0.1; // DARK: the light below which the camera is blind

/**
 * The path of the gaze, [[x, y], …] in pixels: once round a triangle of that height, at even speed.
 * @param {number} steps @param {number} amplitude
 */
export function saccades(steps, amplitude) {
  const corners = [[0, 0], [0.5, 1], [1, 0], [0, 0]];
  return Array.from({length: steps + 1}, (_, i) => {
    const at = (3 * i) / steps, side = Math.min(2, Math.floor(at)), part = at - side;
    return [0, 1].map((axis) => amplitude * (corners[side][axis] * (1 - part) + corners[side + 1][axis] * part));
  });
}

/**
 * A picture [size * size] seen with the gaze at (x, y): bilinear, 0 outside.
 * @param {ArrayLike<number>} image @param {number} size @param {number[]} gaze
 */
export function lookedAt(image, size, [x, y]) {
  const left = Math.floor(x), top = Math.floor(y), partX = x - left, partY = y - top;
  /** @param {number} column @param {number} row */
  const at = (column, row) => (column < 0 || row < 0 || column >= size || row >= size ? 0 : image[row * size + column]);
  return Float64Array.from({length: size * size}, (_, i) => {
    const column = (i % size) + left, row = Math.floor(i / size) + top;
    const upper = at(column, row) * (1 - partX) + at(column + 1, row) * partX;
    const lower = at(column, row + 1) * (1 - partX) + at(column + 1, row + 1) * partX;
    return upper * (1 - partY) + lower * partY;
  });
}

/**
 * What the camera sees while its gaze moves along a path.
 * @param {ArrayLike<number>} image @param {number} size @param {number[][]} path
 * @param {{threshold: number, noise?: number, draw?: function(): number}} options
 * @returns {Array<Array<Uint8Array>>} of each step OFF and ON, [size * size] each, 0 or 1
 */
export function eventsOf(image, size, path, {threshold, noise = 0, draw = () => 1}) {
  const light = (/** @type {number[]} */ place) =>
    Float32Array.from(lookedAt(image, size, place), (value) => Math.log(f(f(value) + f(DARK))));
  const memory = light(path[0]), limit = f(threshold);
  return path.slice(1).map((place) => {
    const on = new Uint8Array(size * size), off = new Uint8Array(size * size);
    light(place).forEach((now, i) => {
      const change = f(now - memory[i]); // in float32, as the kit's, for the gaze comes back to where it began: ties
      // How often the change holds the threshold: a change of 2.5 thresholds is two events, of which one is reported.
      const rises = Math.max(0, Math.floor(f(change / limit))), falls = Math.max(0, Math.floor(f(-change / limit)));
      memory[i] = f(memory[i] + f(rises * limit)) - f(falls * limit);
      on[i] = Number(rises > 0 || (noise > 0 && draw() < noise));
      off[i] = Number(falls > 0 || (noise > 0 && draw() < noise));
    });
    return [off, on];
  });
}

/** All events in space and time, turned by the pointer or the arrow keys. */
class Cloud {
  /** @param {number} height */
  constructor(height) {
    this.canvas = make("canvas", {role: "img", tabIndex: 0,
      "aria-label": "all events in space and time; turn it with the arrow keys"});
    this.canvas.style.cssText = `height: ${height}px; cursor: grab`;
    this.element = make("div", {className: "plot"}, this.canvas);
    this.yaw = -0.62;
    this.pitch = 0.36;
    this.events = /** @type {Sighting[]} */ ([]);
    this.now = 0;
    this.colours = /** @type {import("../canvas.js").Colours} */ ({});
    this.context = /** @type {?CanvasRenderingContext2D} */ (null);
    this.width = this.height = this.letters = 0;
    this.end = () => {};
    /** @type {Point} */
    let from;
    drag(this.canvas, {
      frame: this.canvas,
      start: (x, y) => (from = [x - 200 * this.yaw, y - 200 * this.pitch], undefined),
      move: (x, y) => this.turn((x - from[0]) / 200, (y - from[1]) / 200),
    });
    this.canvas.addEventListener("keydown", (event) => {
      const way = /** @type {Record<string, number[]|undefined>} */ (
        {ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, 0.1], ArrowDown: [0, -0.1]})[event.key];
      if (!way) return;
      event.preventDefault();
      event.stopPropagation();
      this.turn(this.yaw + way[0], this.pitch + way[1]);
    });
  }

  start() {
    this.end = follow(this);
  }

  /** @param {number} yaw @param {number} pitch */
  turn(yaw, pitch) {
    [this.yaw, this.pitch] = [yaw, Math.min(1.4, Math.max(-1.4, pitch))];
    this.draw();
  }

  /**
   * Pixels of a place, and how near it is.
   * @param {number} column @param {number} step @param {number} row
   * @returns {[x: number, y: number, near: number]}
   */
  seen(column, step, row) {
    const x = column / SIZE - 0.5, y = (1.5 * step) / STEPS - 0.75, z = 0.5 - row / SIZE;
    const across = x * Math.cos(this.yaw) - y * Math.sin(this.yaw);
    const deep = x * Math.sin(this.yaw) + y * Math.cos(this.yaw);
    const up = z * Math.cos(this.pitch) + deep * Math.sin(this.pitch);
    const near = z * Math.sin(this.pitch) - deep * Math.cos(this.pitch);
    const unit = Math.min(this.width / 2, this.height / 1.7), far = 1 - 0.18 * near;
    return [this.width / 2 + (unit * across) / far, this.height / 2 - (unit * up) / far, near];
  }

  draw() {
    const {context, colours: ink} = this;
    if (!context) return;
    context.clearRect(0, 0, this.width, this.height);
    /** @param {string} colour @param {number} width @param {...Point} places */
    const line = (colour, width, ...places) => {
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.beginPath();
      places.forEach((place, i) => (i ? context.lineTo(...place) : context.moveTo(...place)));
      context.stroke();
    };
    /** @param {number} x @param {number} t @param {number} y */
    const corner = (x, t, y) =>
      /** @type {Point} */ (this.seen(x * SIZE - 0.5, t * STEPS, y * SIZE - 0.5).slice(0, 2));
    for (const a of [0, 1]) for (const b of [0, 1]) {
      line(ink.line, 1, corner(0, a, b), corner(1, a, b));
      line(ink.line, 1, corner(a, 0, b), corner(a, 1, b));
      line(ink.line, 1, corner(a, b, 0), corner(a, b, 1));
    }
    const t = (this.now + 0.5) / STEPS;
    line(ink.accent, 1.5, corner(0, t, 0), corner(1, t, 0), corner(1, t, 1), corner(0, t, 1), corner(0, t, 0));
    context.font = `${this.letters}px system-ui, sans-serif`;
    context.fillStyle = ink.ink;
    context.textAlign = "center";
    /** @type {function(string, number, number, number): void} */
    const label = (text, ...place) => {
      const [x, y] = corner(...place), half = context.measureText(text).width / 2;
      context.fillText(text, Math.min(this.width - half, Math.max(half, x)), y);
    };
    label("column", 0.5, -0.06, 1.1);
    label("time step", 1.12, 0.5, 1.12);
    label("row", -0.1, -0.04, 0.5);
    const placed = this.events.map(
      /** @returns {[x: number, y: number, near: number, on: boolean, step: number]} */
      ([column, step, row, on]) => [...this.seen(column, step + 0.5, row), on, step]);
    placed.sort((a, b) => a[2] - b[2]);
    for (const [x, y, near, on, step] of placed) {
      const size = (step === this.now ? 6 : 4) * (1 + 0.25 * near);
      context.fillStyle = ink[on ? CONCEPTS.events.on : CONCEPTS.events.off];
      context.globalAlpha = step === this.now ? 1 : 0.5 + 0.3 * Math.min(1, near + 0.5);
      if (on) {
        context.beginPath();
        context.arc(x, y, size / 2, 0, 2 * Math.PI);
        context.fill();
      } else context.fillRect(x - size / 2, y - size / 2, size, size);
    }
    context.globalAlpha = 1;
  }
}

/**
 * @param {HTMLElement} place
 * @param {{images: Array<Array<number>>}} data ten pictures of 16 × 16, 0 to 255
 * @param {Partial<Settings>} saved @param {function(Settings): void} report
 */
export function eventsExplorer(place, data, saved, report) {
  const controls = {
    digit: slider({label: "digit", min: 0, max: 9, step: 1, value: 3, hint: "which digit the camera looks at"}),
    amplitude: slider({label: "amplitude", unit: "px", min: 0.5, max: 4, step: 0.25, value: 2,
      hint: "of the eye movements"}),
    threshold: slider({label: "threshold", min: 0.05, max: 1, step: 0.05, value: 0.2,
      hint: "change of the logarithm of brightness per event"}),
    noise: slider({label: "noise", min: 0, max: 0.05, step: 0.005, value: 0,
      hint: "share of pixels that report without reason, per step and polarity"}),
    step: slider({label: "step", min: 0, max: STEPS - 1, step: 1, value: STEPS / 4,
      hint: "which time step the left picture shows"}),
  };
  const now = {events: /** @type {Uint8Array[][]} */ ([]), path: /** @type {number[][]} */ ([])};
  const view = new Plot({label: "what the camera sees, and the events of one step; drag to move the camera",
    height: 330, equal: true, left: 46,
    x: {title: "column (pixel)", min: -0.5, max: SIZE - 0.5}, y: {title: "row (pixel)", min: SIZE - 0.5, max: -0.5}});
  const cloud = new Cloud(330);
  let byHand = /** @type {?number[][]} */ (null);

  /** @param {Settings} settings @param {Set<keyof Settings>} changed */
  function draw({step, digit, amplitude, threshold, noise}, changed) {
    const image = data.images[digit].map((level) => level / 255);
    if (changed.has("amplitude")) byHand = null;
    if (changed.size > 1 || !changed.has("step")) {
      now.path = byHand ?? saccades(STEPS, amplitude);
      now.events = eventsOf(image, SIZE, now.path, {threshold, noise, draw: uniform(5)});
      cloud.events = now.events.flatMap((both, t) => both.flatMap((one, on) => [...one.keys()].filter((i) => one[i])
        .map(/** @returns {Sighting} */ (i) => [i % SIZE, t, Math.floor(i / SIZE), on === 1])));
    }
    const [off, on] = now.events[step], places = (/** @type {Uint8Array} */ one) =>
      [...one.keys()].filter((i) => one[i]);
    const dots = (/** @type {number[]} */ found) =>
      [found.map((i) => i % SIZE), found.map((i) => Math.floor(i / SIZE))];
    const [x, y] = now.path[step + 1], rises = places(on), falls = places(off), middle = SIZE / 2;
    view.show([
      {pixels: image, rows: SIZE, columns: SIZE, x: -x, y: -y, colour: "muted", opacity: 0.5},
      {line: [now.path.map((one) => middle + one[0]), now.path.map((one) => middle + one[1])], colour: "muted",
        width: 1},
      {dots: [[middle + x], [middle + y]], colour: "ink", shape: "diamond", size: 9},
      {dots: dots(rises), colour: CONCEPTS.events.on, size: 9}, {dots: dots(falls), colour: CONCEPTS.events.off, shape: "square", size: 8},
    ]);
    cloud.now = step;
    cloud.draw();
    const sum = (/** @type {number} */ index) =>
      now.events.reduce((total, both) => total + places(both[index]).length, 0);
    return `Step ${step}: ${rises.length} on, ${falls.length} off. All steps: ${sum(1)} on, ${sum(0)} off`;
  }

  const play = button({label: "▶ Play", hint: "once through all steps, again and again", press: () => playing(!timer)});
  let timer = /** @type {ReturnType<typeof setInterval>|number} */ (0);
  /** @param {boolean} wanted */
  function playing(wanted) {
    clearInterval(timer);
    timer = 0;
    if (wanted) timer = setInterval(() => {
      if (!place.isConnected) playing(false);
      else if (!document.hidden) ui.use("step", (ui.values().step + 1) % STEPS);
    }, 125);
    play.textContent = wanted ? "❚❚ Pause" : "▶ Play";
  }
  const note = make("span", {className: "small muted",
    textContent: "Blue dots: ON, crimson squares: OFF. Drag the left picture to move the camera; turn the cloud."});
  const ui = explorer(place, {label: "Event player", controls, plots: [view, cloud], saved, report, draw, body: [
    make("div", {className: "inline"}, play, note), make("div", {className: "halves"}, view.element, cloud.element),
  ]});
  // A path by hand: what was dragged, at even steps. The gaze goes with the pointer, so the picture goes the other way.
  let points = /** @type {number[][]} */ ([]);
  view.canvas.style.cursor = "crosshair";
  drag(view.canvas, {frame: view.canvas,
    start: (x, y) => (points = [view.at(x, y)], undefined),
    move: (x, y) => {
      points.push(view.at(x, y));
      const [left, top] = points[0], last = points.length - 1;
      byHand = Array.from({length: STEPS + 1}, (_, i) => {
        const at = (last * i) / STEPS, from = Math.floor(at), to = Math.min(last, from + 1), part = at - from;
        return [0, 1].map((axis) => points[from][axis] * (1 - part) + points[to][axis] * part - [left, top][axis]);
      });
      ui.use("threshold", ui.values().threshold);
    }});
  const end = ui.end;
  ui.end = () => {
    playing(false);
    end();
  };
  return ui;
}

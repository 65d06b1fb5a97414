// A panel with axes on a canvas: lines, marks, bars and images, a read-out under the pointer, and handles to drag.

import {follow} from "./canvas.js";
import {drag, framed, make} from "./controls.js";
import {labelled, ticksOf} from "./ticks.js";

const TOP = 8, RIGHT = 10, BELOW = 36, LEFT = 60;
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
const USUAL = 12; // px of letters, for which margins are given
/** @type {Record<string, number[]>} */
const DASHES = {solid: [], dash: [6, 4], dot: [2, 3]};

/**
 * @import {Colours} from "./canvas.js"
 * @typedef {[value: number, text: string]} Tick
 * @typedef {{title?: string, min?: number, max?: number, log?: boolean, ticks?: Array<number|Tick>, bare?: boolean,
 *   grid?: boolean}} AxisOptions
 * @typedef {Array<ArrayLike<number>>} Points [xs, ys]
 * @typedef {{colour?: string, opacity?: number, width?: number, dash?: string, name?: string}} Paint `colour`: by its
 *   name in style.css, or as CSS has it; `dash`: "solid", "dash" or "dot"; `name`: what a text calls it
 * @typedef {"line"|"dots"|"bars"|"boxes"|"rule"|"pixels"|"text"} Kind of a mark: the key that it has
 */
/** @template T @typedef {Paint & T & {[K in Exclude<Kind, keyof T>]?: undefined}} Marked */
/**
 * @typedef {Marked<{line: Array<?ArrayLike<number>>, step?: boolean, fill?: number}>} Line
 * @typedef {Line & {line: [xs: ?ArrayLike<number>, ys: ArrayLike<number>]}} Curve
 * @typedef {Marked<{dots: Points, shape?: string, size?: number}>} Dots
 * @typedef {Marked<{bars: Points, width: number}>} Bars
 * @typedef {Marked<{boxes: number[][]}>} Boxes each [left, right, bottom, top]
 * @typedef {Marked<{rule: string, at: number}>} Rule
 * @typedef {Marked<{pixels: ArrayLike<number>, rows: number, columns: number, x?: number, y?: number,
 *   gap?: number}>} Pixels
 * @typedef {Marked<{text: string, x: number, y: number}>} Words
 * @typedef {Line|Dots|Bars|Boxes|Rule|Pixels|Words} Mark
 *
 * @typedef {{label: string, ways: "x"|"y"|"xy", line?: boolean, colour?: string, at: function(): ?number[],
 *   step: number, move: function(number, number): void, words: function(): string, back?: function(): void,
 *   rest?: function(): void}} HandleOptions `at` gives its place (null hides it), `move` is called with another, and
 *   `rest` when it is let go; a double click or Backspace calls `back`
 * @typedef {{element: HTMLElement, place: function(): void}} Handle
 */

/**
 * An axis: `title`, `min` and `max`, `log`, and `ticks` ([value or [value, text], …]) where they are given; `grid`: with
 * a line across the panel at each of them.
 */
export class Axis {
  /** @param {AxisOptions} options */
  constructor({title = "", min = 0, max = 1, log = false, ticks, bare = false, grid = true} = {}) {
    this.title = title;
    this.min = log && min <= 0 ? max / 10 : min;
    this.max = max;
    this.log = log;
    this.ticks = ticks;
    this.bare = bare;
    this.grid = grid;
  }

  /** Where a value is, 0 at the low end and 1 at the high end. @param {number} value */
  share(value) {
    const {min, max, log} = this;
    return log ? Math.log(value / min) / Math.log(max / min) : (value - min) / (max - min);
  }

  /** @param {number} share */
  value(share) {
    const {min, max, log} = this;
    return log ? min * (max / min) ** share : min + share * (max - min);
  }

  /** @param {number} room for so many ticks @returns {Tick[]} */
  shown(room) {
    if (!Number.isFinite(this.max - this.min) || this.max === this.min) return [];
    if (this.ticks) {
      const texts = new Map(labelled(this.ticks.filter((one) => typeof one === "number"), this.log));
      return this.ticks.map((one) => (Array.isArray(one) ? one : [one, texts.get(one) ?? ""]));
    }
    if (!this.log) {
      const low = Math.min(this.min, this.max), high = Math.max(this.min, this.max); // rows of images count downwards
      return labelled(ticksOf(low, high, room), false);
    }
    const low = Math.ceil(Math.log10(this.min) - 1e-9), high = Math.floor(Math.log10(this.max) + 1e-9);
    const every = Math.max(1, Math.ceil((high - low + 1) / room)), powers = [];
    for (let power = low; power <= high; power++) if (power % every === 0) powers.push(10 ** power);
    return labelled(powers, true);
  }
}

/**
 * A mark among those that a text names, or beside them. @param {Mark} mark @param {boolean} named @returns {Mark}
 */
function emphasised(mark, named) {
  if (!named) return {...mark, opacity: 0.2 * (mark.opacity ?? 1)};
  return {...mark, opacity: 1, ...(mark.line && {width: (mark.width ?? 2) + 1.5})};
}

/**
 * A panel. `show(marks)` draws; marks are, in the order in which they are painted:
 *
 *     {line: [xs, ys], colour, width, dash: "dash", step: true, fill: 0.15}   // xs null: 0, 1, 2, …; NaN is a gap
 *     {dots: [xs, ys], colour, shape: "dot" | "tick" | "triangle" | "diamond" | "square", size}
 *     {bars: [lefts, heights], width, colour, opacity}
 *     {boxes: [[left, right, bottom, top], …], colour}                        // in units of the axes
 *     {rule: "x" | "y", at, colour, dash}
 *     {pixels: values, rows, columns, x, y, gap, colour, opacity}             // values 0 to 1 as opacity, from the top
 *     {text, x, y, colour}
 *
 * Each may have a `name`, for the words of a text that name it.
 */
export class Plot {
  /**
   * @param {{label: string, x?: AxisOptions, y?: AxisOptions, height?: number, left?: number, equal?: boolean,
   *   read?: ?function(number, number): ?string}} options with `equal`, a unit is as long on both axes; `read` gives
   *   the words for a place under the pointer, in units of the axes, or null
   */
  constructor({label, x = {}, y = {}, height = 150, left = LEFT, equal = false, read = null}) {
    this.equal = equal;
    this.x = new Axis(x);
    this.y = new Axis(y);
    this.read = read;
    this.margins = {left, right: RIGHT, top: TOP, below: this.x.bare ? 8 : this.x.title ? BELOW + 4 : BELOW - 14};
    this.canvas = make("canvas", {role: "img", "aria-label": label});
    this.tip = make("div", {className: "tip", hidden: true});
    this.element = make("div", {className: "plot"}, this.canvas, this.tip);
    this.canvas.style.height = `${height}px`;
    this.marks = /** @type {Mark[]} */ ([]);
    this.lit = /** @type {?string} */ (null); // the name of the marks that stand out
    this.handles = /** @type {Handle[]} */ ([]);
    this.dragging = false;
    this.pointed = /** @type {?number[]} */ (null); // in pixels
    this.narrow = /** @type {?typeof this.margins} */ (null);
    // These are known once it is in the page.
    this.context = /** @type {?CanvasRenderingContext2D} */ (null);
    this.width = this.height = 0;
    this.letters = USUAL; // px
    this.colours = /** @type {Colours} */ ({});
    this.end = () => {};
    this.ask = framed(() => this.draw());
    this.canvas.addEventListener("pointermove", (event) => event.pointerType !== "touch" && this.point(event));
    this.canvas.addEventListener("pointerleave", () => this.point(null));
  }

  /** Once `element` is in the page. */
  start() {
    this.end = follow(this);
    return this;
  }

  /**
   * The y axis from `low` to `high`; while a handle is dragged it only grows, or the handle would leave the hand.
   * @param {number} low @param {number} high
   */
  reach(low, high) {
    const {y} = this;
    Object.assign(y, this.dragging ? {min: Math.min(y.min, low), max: Math.max(y.max, high)} : {min: low, max: high});
  }

  /** Margins for the letters of the page; with `equal`, more at the right or below, so that pixels are square. */
  fit() {
    this.narrow ??= {...this.margins};
    this.margins = {...this.narrow, left: this.scaled(this.narrow.left), below: this.scaled(this.narrow.below)};
    if (!this.equal) return;
    const {left, right, top, below} = this.margins, {x, y} = this;
    const unit = Math.min((this.width - left - right) / Math.abs(x.max - x.min),
      (this.height - top - below) / Math.abs(y.max - y.min));
    this.margins.right = this.width - left - unit * Math.abs(x.max - x.min);
    this.margins.below = this.height - top - unit * Math.abs(y.max - y.min);
  }

  /** A length that grows with the letters. @param {number} pixels */
  scaled(pixels) {
    return (pixels * this.letters) / USUAL;
  }

  /** @param {Mark[]} marks */
  show(marks) {
    this.marks = marks;
    this.draw();
  }

  /** @param {string} name */
  knows(name) {
    return this.marks.some((mark) => mark.name === name);
  }

  /** Marks of that name stand out; null: all are as they were. @param {?string} name */
  light(name) {
    if (name === this.lit) return;
    this.lit = name;
    this.ask();
  }

  /** Pixels from the left edge. @param {number} value */
  across(value) {
    const {left, right} = this.margins;
    return left + this.x.share(value) * (this.width - left - right);
  }

  /** Pixels from the top. @param {number} value */
  down(value) {
    const {top, below} = this.margins;
    return this.height - below - this.y.share(value) * (this.height - top - below);
  }

  /**
   * The values at a place in pixels, held between the ends of the axes.
   * @param {number} pixelX @param {number} pixelY
   * @returns {[x: number, y: number]}
   */
  at(pixelX, pixelY) {
    const {left, right, top, below} = this.margins;
    /** @param {number} share */
    const held = (share) => Math.min(1, Math.max(0, share));
    return [
      this.x.value(held((pixelX - left) / (this.width - left - right))),
      this.y.value(held((this.height - below - pixelY) / (this.height - top - below))),
    ];
  }

  draw() {
    const {context, width, height} = this;
    if (!context) return;
    const {left, right, top, below} = this.margins;
    context.clearRect(0, 0, width, height);
    context.font = `${this.letters}px ${FONT}`;
    this.drawAxes(context);
    context.save();
    context.beginPath();
    const over = this.equal ? 0 : 6; // marks on the upper edge
    context.rect(left, top - over, width - left - right + 1, height - top - below + over + 1);
    context.clip();
    const lit = this.lit !== null && this.marks.some(({name}) => name === this.lit) ? this.lit : undefined;
    for (const mark of this.marks) this.paint(context, lit === undefined ? mark : emphasised(mark, mark.name === lit));
    if (this.pointed) {
      context.strokeStyle = this.colours.muted;
      context.lineWidth = 1;
      context.setLineDash(DASHES.dot);
      context.beginPath();
      const x = Math.round(this.pointed[0]) + 0.5;
      context.moveTo(x, top);
      context.lineTo(x, height - below);
      context.stroke();
    }
    context.restore();
    for (const handle of this.handles) handle.place();
  }

  /** @param {CanvasRenderingContext2D} context */
  drawAxes(context) {
    const {width, height, colours: ink} = this, {left, right, top, below} = this.margins;
    const bottom = Math.round(height - below) + 0.5;
    context.lineWidth = 1;
    context.setLineDash([]);
    context.fillStyle = ink.muted;
    context.textBaseline = "middle";
    context.textAlign = "right";
    let widest = 0;
    for (const [value, text] of this.y.shown(Math.max(2, Math.floor((height - top - below) / this.scaled(24))))) {
      const at = Math.round(this.down(value)) + 0.5;
      if (at < top - 4 || at > bottom + 1) continue;
      context.strokeStyle = this.y.grid ? ink.faint : "transparent";
      context.beginPath();
      context.moveTo(left, at);
      context.lineTo(width - right, at);
      context.stroke();
      context.fillText(text, left - 6, at);
      widest = Math.max(widest, context.measureText(text).width);
    }
    context.textAlign = "center";
    context.textBaseline = "top";
    let free = -Infinity;
    for (const [value, text] of this.x.shown(Math.max(2, Math.floor((width - left - right) / this.scaled(70))))) {
      const at = Math.round(this.across(value)) + 0.5;
      if (at < left - 1 || at > width - right + 1) continue;
      context.strokeStyle = this.x.grid ? ink.faint : "transparent";
      context.beginPath();
      context.moveTo(at, top);
      context.lineTo(at, bottom);
      context.stroke();
      const half = context.measureText(text).width / 2;
      const middle = Math.min(at, width - half - 1);
      if (!this.x.bare && middle - half > free) {
        context.fillText(text, middle, bottom + 6);
        free = middle + half + 6;
      }
    }
    context.strokeStyle = ink.strongLine;
    context.beginPath();
    context.moveTo(left + 0.5, top);
    context.lineTo(left + 0.5, bottom);
    context.lineTo(width - right, bottom);
    context.stroke();
    context.fillStyle = ink.ink;
    const under = bottom + (this.x.ticks?.length === 0 ? 6 : this.scaled(22));
    if (this.x.title) context.fillText(this.x.title, left + (width - left - right) / 2, under);
    if (this.y.title) {
      context.save();
      context.translate(Math.max(1, left - widest - this.scaled(22)), top + (height - top - below) / 2);
      context.rotate(-Math.PI / 2);
      context.textBaseline = "top";
      context.fillText(this.y.title, 0, 0, height - 4);
      context.restore();
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {Mark} mark */
  paint(context, mark) {
    const colour = this.colours[/** @type {string} */ (mark.colour)] ?? mark.colour ?? this.colours.ink;
    context.strokeStyle = context.fillStyle = colour;
    context.globalAlpha = mark.opacity ?? 1;
    context.lineWidth = mark.width ?? 2;
    context.lineJoin = "round";
    context.setLineDash(DASHES[mark.dash ?? "solid"]);
    if (mark.line) this.paintLine(context, /** @type {Curve} */ (mark));
    else if (mark.dots) this.paintDots(context, mark);
    else if (mark.bars) this.paintBars(context, mark);
    else if (mark.boxes) this.paintBoxes(context, mark);
    else if (mark.rule) this.paintRule(context, mark);
    else if (mark.pixels) this.paintPixels(context, mark);
    else if (mark.text) {
      context.textAlign = "left";
      context.textBaseline = "middle";
      context.fillText(mark.text, this.across(mark.x), this.down(mark.y));
    }
    context.globalAlpha = 1;
    context.setLineDash([]);
  }

  /** @param {CanvasRenderingContext2D} context @param {Curve} mark */
  paintLine(context, {line: [xs, ys], step, fill, opacity = 1}) {
    context.beginPath();
    let pen = false, last = 0;
    for (let i = 0; i < ys.length; i++) {
      const x = this.across(xs ? xs[i] : i), y = this.down(ys[i]);
      if (Number.isNaN(y) || Number.isNaN(x) || !Number.isFinite(x)) {
        pen = false;
        continue;
      }
      const held = Math.min(1e5, Math.max(-1e5, y));
      if (!pen) context.moveTo(x, held);
      else {
        if (step) context.lineTo(x, last);
        context.lineTo(x, held);
      }
      pen = true;
      last = held;
    }
    context.stroke();
    if (fill && ys.length) {
      const floor = this.down(Math.max(this.y.min, 0));
      context.lineTo(this.across(xs ? xs[xs.length - 1] : ys.length - 1), floor);
      context.lineTo(this.across(xs ? xs[0] : 0), floor);
      context.globalAlpha = fill * opacity;
      context.fill();
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {Dots} mark */
  paintDots(context, {dots: [xs, ys], shape = "dot", size = 6}) {
    const half = size / 2;
    context.beginPath();
    for (let i = 0; i < xs.length; i++) {
      const x = this.across(xs[i]), y = this.down(ys[i]);
      if (Number.isNaN(x) || Number.isNaN(y)) continue;
      if (shape === "tick") context.rect(x - 0.75, y - half, 1.5, size);
      else if (shape === "square") context.rect(x - half, y - half, size, size);
      else if (shape === "dot") {
        context.moveTo(x + half, y);
        context.arc(x, y, half, 0, 2 * Math.PI);
      } else {
        const diamond = [[0, -half], [half, 0], [0, half], [-half, 0]];
        const triangle = [[-half, -half], [half, -half], [0, half]];
        const [first, ...points] = shape === "diamond" ? diamond : triangle;
        context.moveTo(x + first[0], y + first[1]);
        for (const [right, down] of points) context.lineTo(x + right, y + down);
        context.closePath();
      }
    }
    context.fill();
  }

  /** @param {CanvasRenderingContext2D} context @param {Bars} mark */
  paintBars(context, {bars: [lefts, heights], width}) {
    const floor = this.down(Math.max(this.y.min, 0));
    context.beginPath();
    for (let i = 0; i < lefts.length; i++) {
      const x = this.across(lefts[i]), y = this.down(heights[i]);
      context.rect(x, Math.min(y, floor), Math.max(1, this.across(lefts[i] + width) - x - 0.5), Math.abs(floor - y));
    }
    context.fill();
  }

  /** @param {CanvasRenderingContext2D} context @param {Boxes} mark */
  paintBoxes(context, {boxes}) {
    for (const [left, right, bottom, top] of boxes) {
      const x = this.across(left), y = this.down(top);
      context.fillRect(x, y, this.across(right) - x, this.down(bottom) - y);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {Rule} mark */
  paintRule(context, {rule, at}) {
    const {left, right, top, below} = this.margins;
    context.beginPath();
    if (rule === "x") {
      context.moveTo(this.across(at), top);
      context.lineTo(this.across(at), this.height - below);
    } else {
      context.moveTo(left, this.down(at));
      context.lineTo(this.width - right, this.down(at));
    }
    context.stroke();
  }

  /**
   * Cells of one unit each, the first with its middle at (x, y).
   * @param {CanvasRenderingContext2D} context @param {Pixels} mark
   */
  paintPixels(context, {pixels, rows, columns, x = 0, y = 0, opacity = 1, gap = -0.3}) {
    for (let row = 0; row < rows; row++) {
      const upper = this.down(y + row - 0.5), lower = this.down(y + row + 0.5);
      for (let column = 0; column < columns; column++) {
        const value = pixels[row * columns + column];
        if (!value) continue;
        const from = this.across(x + column - 0.5), to = this.across(x + column + 0.5);
        context.globalAlpha = opacity * Math.min(1, Math.abs(value));
        const wide = Math.abs(to - from) - gap, high = Math.abs(lower - upper) + 0.3;
        context.fillRect(Math.min(from, to), Math.min(upper, lower), wide, high);
      }
    }
  }

  /** @param {?PointerEvent} event */
  point(event) {
    const text = event && this.read ? this.words(event) : null;
    this.tip.hidden = !text;
    if (text || this.pointed) this.ask();
    this.pointed = event && text ? [event.offsetX, event.offsetY] : null;
    if (!event || !text) return;
    this.tip.textContent = text;
    const beyond = event.offsetX > this.width - 150;
    const [x, y] = [event.offsetX + (beyond ? -10 : 12), Math.max(0, event.offsetY - 34)];
    this.tip.style.transform = `translate(${x}px, ${y}px)`
      + (beyond ? " translateX(-100%)" : "");
  }

  /** @param {PointerEvent} event */
  words({offsetX, offsetY}) {
    const {left, right, top, below} = this.margins;
    const inside = offsetX >= left && offsetX <= this.width - right && offsetY >= top && offsetY <= this.height - below;
    return inside && this.read ? this.read(...this.at(offsetX, offsetY)) : null;
  }

  /**
   * Something to drag, by mouse, finger or arrow keys: a knob at a point ("xy", "x" or "y" says which ways it goes), or
   * a whole line (`line`), across the panel for "y" and from top to bottom for "x".
   * @param {HandleOptions} options
   * @returns {Handle}
   */
  handle({label, ways, line = false, colour = "accent", at, step, move, words, back = () => {}, rest = () => {}}) {
    const element = make("div", {className: `handle ${line ? `line-${ways}` : "knob"}`, role: "slider", tabIndex: 0,
      "aria-label": label, title: `${label}: drag, or use the arrow keys`});
    element.style.setProperty("--handle", `var(--${colour})`);
    const axis = ways === "y" ? this.y : this.x;
    const place = () => {
      const found = at();
      element.hidden = !found || !this.context;
      if (!found || element.hidden) return;
      const {left, right, top, below} = this.margins;
      const x = line && ways === "y" ? left : this.across(found[0]);
      const y = line && ways === "x" ? top : this.down(found[1]);
      element.style.transform = `translate(${x}px, ${y}px)`;
      if (line) {
        element.style.width = ways === "y" ? `${this.width - left - right}px` : "";
        element.style.height = ways === "x" ? `${this.height - top - below}px` : "";
      }
      element.setAttribute("aria-valuemin", axis.min);
      element.setAttribute("aria-valuemax", axis.max);
      element.setAttribute("aria-valuenow", Number(found[ways === "y" ? 1 : 0].toPrecision(4)));
      element.setAttribute("aria-valuetext", words());
    };
    let apart = [0, 0];
    drag(element, {
      frame: this.canvas,
      touch: ways === "x" ? "pan-y" : "none",
      start: (x, y) => {
        element.focus(/** @type {FocusOptions} */ ({preventScroll: true, focusVisible: false}));
        this.dragging = true;
        const [left, top] = /** @type {number[]} */ (at());
        apart = [this.across(left) - x, this.down(top) - y];
      },
      move: (x, y) => move(...this.at(x + apart[0], y + apart[1])),
      end: () => {
        this.dragging = false;
        rest();
      },
    });
    element.addEventListener("dblclick", back);
    element.addEventListener("keydown", (event) => {
      const far = event.shiftKey ? 10 * step : step, [x, y] = /** @type {number[]} */ (at());
      /** @type {Record<string, number[]>} */
      const moves = {ArrowLeft: [-far, 0], ArrowRight: [far, 0], ArrowUp: [0, far], ArrowDown: [0, -far]};
      if (event.key === "Backspace" || event.key === "Delete") back();
      else if (moves[event.key]) {
        const [right, up] = moves[event.key];
        if (ways === "xy") move(x + right, y + up);
        else if (ways === "x") move(x + right + up, y);
        else move(x, y + up + right);
      } else return;
      event.preventDefault();
      event.stopPropagation();
    });
    this.element.append(element);
    const handle = {element, place};
    this.handles.push(handle);
    return handle;
  }
}

// A field to draw on: by mouse, finger or pen, or with the keyboard.

import {surface} from "./canvas.js";

/** @import {Colours} from "./canvas.js" */
/** @import {Point, Stroke} from "./strokes.js" */

const MOST_POINTS = 4000; // of one drawing: more would only make it slow
const CLOSE = 0.004; // points nearer to the last one than this part of the side are left out

/** @typedef {{image: Float32Array, rows: number, columns: number}} Picture */

/**
 * Strokes as arrays of points [x, y], in [0, 1] of the field's sides. With the keyboard: arrows move the pen (with
 * Shift less far), the space bar sets it down or lifts it, Backspace takes the last stroke away, Delete all.
 */
export class Pad {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {{colours: Colours, changed: function(boolean): void}} options `changed(drawing)`: the strokes are others;
   *   `drawing`: the pen is still down
   */
  constructor(canvas, {colours, changed}) {
    this.canvas = canvas;
    this.colours = colours;
    this.changed = changed;
    this.strokes = /** @type {Stroke[]} */ ([]);
    this.picture = /** @type {?Picture} */ (null);
    this.pen = /** @type {?(number|"keys")} */ (null); // the pointer that is down
    /** @type {?Point} */
    this.cursor = null;
    surface(canvas, (context, width, height) => {
      this.context = context;
      this.width = width;
      this.height = height;
      this.draw();
    });
    canvas.addEventListener("pointerdown", (event) => this.start(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const end of /** @type {const} */ (["pointerup", "pointercancel", "lostpointercapture"])) {
      canvas.addEventListener(end, (event) => this.lift(event));
    }
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("focus", () => this.draw());
    canvas.addEventListener("blur", () => {
      if (this.pen === "keys") this.lift();
      this.draw();
    });
  }

  /**
   * Shows an image [rows][columns] instead of strokes, until something is drawn.
   * @param {Float32Array} image @param {number} rows @param {number} columns
   */
  show(image, rows, columns) {
    this.strokes = [];
    this.pen = null;
    this.picture = {image, rows, columns};
    this.draw();
  }

  clear() {
    this.strokes = [];
    this.pen = null;
    this.picture = null;
    this.draw();
    this.changed(false);
  }

  undo() {
    this.strokes.pop();
    this.pen = null;
    this.draw();
    this.changed(false);
  }

  /** @param {PointerEvent} event */
  start(event) {
    if (this.pen !== null || event.button !== 0) return; // one pen at a time: no second finger
    event.preventDefault();
    this.canvas.focus({preventScroll: true});
    this.canvas.setPointerCapture(event.pointerId);
    this.cursor = null;
    this.begin(event.pointerId, this.place(event));
  }

  /** @param {number|"keys"} pen @param {Point} point */
  begin(pen, point) {
    this.pen = pen;
    this.picture = null;
    this.strokes.push([point]);
    this.draw();
    this.changed(true);
  }

  /** @param {PointerEvent} event */
  move(event) {
    if (event.pointerId !== this.pen) return;
    const events = event.getCoalescedEvents?.() ?? [];
    for (const one of events.length ? events : [event]) this.add(this.place(one));
    this.draw();
    this.changed(true);
  }

  /** @param {Point} point */
  add([x, y]) {
    const stroke = this.strokes[this.strokes.length - 1], [lastX, lastY] = stroke[stroke.length - 1];
    if (Math.hypot(x - lastX, y - lastY) < CLOSE) return;
    if (this.strokes.reduce((sum, one) => sum + one.length, 0) < MOST_POINTS) stroke.push([x, y]);
  }

  /** @param {PointerEvent} [event] none from the keyboard */
  lift(event) {
    if (this.pen === null || (event && event.pointerId !== this.pen)) return;
    this.pen = null;
    this.draw();
    this.changed(false);
  }

  /**
   * Where a pointer is; outside of the field: the nearest place on its edge.
   * @param {PointerEvent} event @returns {Point}
   */
  place({clientX, clientY}) {
    const {left, top, width, height} = this.canvas.getBoundingClientRect();
    const inside = (/** @type {number} */ value) => Math.min(Math.max(value, 0), 1);
    return [inside((clientX - left) / width), inside((clientY - top) / height)];
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const way = /** @type {Record<string, Point|undefined>} */ (
      {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]})[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (way) {
      const by = event.shiftKey ? 1 / 60 : 1 / 20, [x, y] = this.cursor ?? [0.5, 0.2];
      this.cursor = [Math.min(Math.max(x + by * way[0], 0), 1), Math.min(Math.max(y + by * way[1], 0), 1)];
      if (this.pen === "keys") {
        this.add(this.cursor);
        this.changed(true);
      }
    } else if (event.key === " " || event.key === "Enter") {
      this.cursor ??= [0.5, 0.2];
      if (this.pen === "keys") this.lift();
      else if (this.pen === null) this.begin("keys", this.cursor);
    } else if (event.key === "Backspace") {
      this.undo();
    } else if (event.key === "Delete") {
      this.clear();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    this.draw();
  }

  draw() {
    const {context, width, height, colours} = this;
    if (!context) return;
    context.clearRect(0, 0, width, height);
    if (this.picture) this.drawPicture(this.picture);
    context.lineWidth = width * 0.07;
    context.lineCap = context.lineJoin = "round";
    context.strokeStyle = colours.ink;
    for (const stroke of this.strokes) {
      context.beginPath();
      context.moveTo(stroke[0][0] * width, stroke[0][1] * height);
      for (const [x, y] of stroke) context.lineTo(x * width, y * height);
      context.stroke();
    }
    if (this.cursor && document.activeElement === this.canvas) {
      context.beginPath();
      context.arc(this.cursor[0] * width, this.cursor[1] * height, width * 0.045, 0, 7);
      context.lineWidth = 2;
      context.strokeStyle = colours.accent;
      context.fillStyle = this.pen === "keys" ? colours.accent : "transparent";
      context.fill();
      context.stroke();
    }
  }

  /** @param {Picture} picture */
  drawPicture({image, rows, columns}) {
    const {context, width, height, colours} = this;
    context.fillStyle = colours.ink;
    for (let y = 0, at = 0; y < rows; y++) {
      for (let x = 0; x < columns; x++, at++) {
        if (image[at] <= 0) continue;
        context.globalAlpha = Math.min(image[at], 1);
        context.fillRect((x * width) / columns, (y * height) / rows, width / columns + 0.5, height / rows + 0.5);
      }
    }
    context.globalAlpha = 1;
  }
}

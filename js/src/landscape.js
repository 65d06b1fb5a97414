// The loss over two weights as a landscape of terraces: turn it, and drop balls that follow a gradient downhill.
import {calm, colours, Loop, surface, watchColours} from "./canvas.js";
import {button, choice, drag, make, slider} from "./controls.js";

const LONGEST = 400; // updates of one ball
const TRAILS = 12; // balls that stay on the picture
const LIFT = 1.25; // how high the landscape is, in halves of its width

/**
 * @typedef {[x: number, y: number]} Point on the canvas, or two weights
 * @typedef {{path: Point[], done: boolean, surrogate: boolean}} Ball with the weights after each update
 * @typedef {{points: Point[], weights?: Point, z: number}} Face a terrace, or a wall, which has the weights above it
 * @typedef {{x: number, y: number, moved: number, turn: number, tilt: number}} Held where a drag began, and the view
 *   then; `moved` in CSS pixels
 */

/**
 * @param {HTMLElement} root
 * @param {{low: number, high: number, loss: number[][], gradient: number[][][], target: Point,
 *   axes: string[]}} data loss[i][j] at the i-th value of the first weight and the j-th of the second, of as many
 *   evenly from `low` to `high`; gradient[k] is the surrogate gradient by weight k at the same places
 */
export function landscape(root, {low, high, loss, gradient, target, axes}) {
  const count = loss.length, last = count - 1, span = high - low;
  const highest = Math.max(...loss.map((row) => Math.max(...row)));
  const view = {turn: 0.7, tilt: 0.66};
  let palette = colours(root), /** @type {CanvasRenderingContext2D} */ pen, width = 0, height = 0, scale = 1;
  let middle = {x: 0, y: 0};
  let balls = /** @type {Ball[]} */ ([]), faces = /** @type {Face[]} */ ([]);
  let picture = /** @type {?HTMLCanvasElement} */ (null); // of the landscape without balls, until it is turned

  const canvas = make("canvas", {tabIndex: 0, role: "img", "aria-label": `Loss over ${axes[0]} and ${axes[1]}: ` +
    "terraces that descend towards the teacher. Arrow keys turn it, Enter drops a ball."});
  canvas.style.cssText = "width:100%;height:min(70vw,450px);cursor:grab";
  const way = choice({label: "the ball follows", options: [
    {value: "surrogate", label: "the surrogate", hint: "the gradient that training uses"},
    {value: "true", label: "the true slope", hint: "what the terraces themselves say"},
  ], change: () => again()});
  const rate = slider({label: "learning rate", min: 0.0005, max: 0.02, step: 0.0001, value: 0.008, log: true,
    hint: "how far one update moves the weights", change: () => again()});
  const anywhere = () => low + span * Math.random();
  const one = button({label: "Drop a ball", primary: true, hint: "from a random place; or click where you want it",
    press: () => drop(anywhere(), anywhere())});
  const many = button({label: "Drop ten", hint: "from ten random places",
    press: () => { for (let i = 0; i < 10; i += 1) drop(anywhere(), anywhere()); }});
  const clear = button({label: "Clear", press: () => { balls = []; say(); loop.wake(); }});
  const words = make("p", {className: "small", role: "status"});
  const side = make("div", {}, way.element, rate.element, one, many, clear);
  side.style.cssText = "display:flex;flex-wrap:wrap;align-items:end;gap:10px 16px";
  const box = make("div", {className: "panel stack"}, side, canvas, words);
  root.append(box);

  /** @param {number} value */
  const cell = (value) => Math.min(last, Math.max(0, Math.round(((value - low) / span) * last)));
  /** @param {number} x @param {number} y */
  const heightAt = (x, y) => loss[cell(x)][cell(y)];

  /** What makes the whole landscape and its labels fit, however it is turned. */
  function fit() {
    const deep = 1.42 * Math.sin(view.tilt), high_ = LIFT * Math.cos(view.tilt);
    scale = Math.min(width / 3.5, (height - 50) / (2 * deep + high_));
    middle = {x: width / 2, y: 8 + scale * (deep + high_)};
  }

  /**
   * Place on the canvas of weights x and y at a height.
   * @param {number} x @param {number} y @param {number} z
   * @returns {Point}
   */
  function place(x, y, z) {
    const right = (2 * (x - low)) / span - 1, back = (2 * (y - low)) / span - 1, up = z / highest;
    const sine = Math.sin(view.turn), cosine = Math.cos(view.turn), near = right * sine + back * cosine;
    return [middle.x + scale * (right * cosine - back * sine),
      middle.y + scale * (near * Math.sin(view.tilt) - LIFT * up * Math.cos(view.tilt))];
  }

  /** @param {number} x @param {number} y */
  function drop(x, y) {
    balls.push({path: [[x, y]], done: false, surrogate: way.value === "surrogate"});
    balls = balls.slice(-TRAILS);
    if (calm()) while (!/** @type {Ball} */ (balls.at(-1)).done) roll(/** @type {Ball} */ (balls.at(-1)));
    say();
    loop.wake();
  }

  /** The same starts with another rule. */
  function again() {
    const starts = balls.map((ball) => ball.path[0]);
    balls = [];
    for (const [x, y] of starts) drop(x, y);
  }

  /** @param {Ball} ball */
  function roll(ball) {
    const [x, y] = /** @type {Point} */ (ball.path.at(-1)), i = cell(x), j = cell(y);
    const slope = ball.surrogate ? gradient.map((one) => one[i][j]) : [0, 0];
    const next = /** @type {Point} */ (
      [x, y].map((value, k) => Math.min(high, Math.max(low, value - rate.value * slope[k]))));
    ball.path.push(next);
    const still = Math.hypot(next[0] - x, next[1] - y) < 1e-6 * span;
    if (ball.path.length > LONGEST || loss[i][j] === 0 || (still && ball.path.length > 40)) ball.done = true;
  }

  function say() {
    const ball = balls.at(-1);
    if (!ball) {
      words.textContent = "Drag to turn the landscape. Click on it to drop a ball.";
      return;
    }
    const [start, now] = [ball.path[0], /** @type {Point} */ (ball.path.at(-1))]
      .map(([x, y]) => heightAt(x, y).toFixed(2));
    const at = /** @type {Point} */ (ball.path.at(-1)).map((value) => value.toFixed(2)).join(", ");
    const end = !ball.done ? "" : !ball.surrogate ? " The terrace is flat: the true slope is 0, and nothing moves."
      : Number(now) === 0 ? " It has the teacher’s spikes." : "";
    words.textContent = `update ${ball.path.length - 1}: weights ${at}, loss ${start} → ${now}.${end}`;
  }

  /** @param {number} share of the highest loss @param {number} shade 1 in full light */
  function mix(share, shade) {
    const [from, to] = [palette.panel, palette.blue]
      .map((colour) => /** @type {string[]} */ (colour.match(/[\d.]+/g)).map(Number));
    const part = 0.12 + 0.83 * Math.sqrt(share);
    return `rgb(${[0, 1, 2].map((k) => Math.round((from[k] + (to[k] - from[k]) * part) * shade)).join(",")})`;
  }

  /** @param {Point[]} points @param {string} colour */
  function shape(points, colour) {
    pen.beginPath();
    points.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.closePath();
    pen.fillStyle = colour;
    pen.strokeStyle = colour; // else the page would shine through between neighbours
    pen.fill();
    pen.stroke();
  }

  /** From far to near. Neighbours along the second weight that are equally high are one terrace: one shape. */
  function terraces() {
    const half = span / last / 2;
    const stepX = Math.sin(view.turn) >= 0 ? 1 : -1, stepY = Math.cos(view.turn) >= 0 ? 1 : -1;
    /** @param {number} index */
    const at = (index) => low + (span * index) / last;
    /** @param {number} b */
    const through = (b) => (stepY > 0 ? b : last - b);
    faces = [];
    pen.lineWidth = 0.7;
    for (let a = 0; a < count; a += 1) {
      const i = stepX > 0 ? a : last - a, x = at(i), row = loss[i], before = loss[i + stepX];
      for (let b = 0, /** @type {number} */ next; b < count; b = next) {
        const z = row[through(b)];
        for (next = b + 1; next < count && row[through(next)] === z; next += 1);
        const far = at(through(b)) - stepY * half, near = at(through(next - 1)) + stepY * half;
        /** @param {Point[]} points @param {number} shade @param {Point} [weights] */
        const side = (points, shade, weights) => {
          shape(points, mix(z / highest, shade));
          faces.push({points, weights, z});
        };
        side([place(x - half, far, z), place(x + half, far, z), place(x + half, near, z), place(x - half, near, z)], 1);
        for (let c = b, /** @type {number} */ end; c < next; c = end) {
          const below = before?.[through(c)] ?? 0;
          for (end = c + 1; end < next && (before?.[through(end)] ?? 0) === below; end += 1);
          if (below >= z) continue;
          const edge = x + stepX * half, y0 = at(through(c)) - stepY * half, y1 = at(through(end - 1)) + stepY * half;
          side([place(edge, y0, z), place(edge, y1, z), place(edge, y1, below), place(edge, y0, below)], 0.72,
            [x, (y0 + y1) / 2]);
        }
        const below = next < count ? row[through(next)] : 0;
        if (below < z) {
          side([place(x - half, near, z), place(x + half, near, z), place(x + half, near, below),
            place(x - half, near, below)], 0.86, [x, near - stepY * half]);
        }
      }
    }
  }

  /** @param {Point[]} points @param {number} x @param {number} y */
  function within(points, x, y) {
    let inside = false;
    points.forEach(([ax, ay], i) => {
      const [bx, by] = /** @type {Point} */ (points.at(i - 1));
      if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) inside = !inside;
    });
    return inside;
  }

  /**
   * Weights at a point of the canvas, on the nearest terrace there or above the nearest wall; or undefined.
   * @param {number} left @param {number} down
   */
  function weightsAt(left, down) {
    const face = faces.findLast(({points}) => within(points, left, down));
    if (!face || face.weights) return face?.weights;
    const sine = Math.sin(view.turn), cosine = Math.cos(view.turn), across = (left - middle.x) / scale;
    const up = (LIFT * face.z * Math.cos(view.tilt)) / highest;
    const along = ((down - middle.y) / scale + up) / Math.sin(view.tilt);
    return /** @type {Point} */ (
      [across * cosine + along * sine, along * cosine - across * sine].map((one) => low + ((one + 1) * span) / 2));
  }

  function scales() {
    const x = Math.cos(view.turn) >= 0 ? high : low, y = Math.sin(view.turn) >= 0 ? high : low;
    const out = 0.09 * span;
    pen.font = `13px ${getComputedStyle(root).fontFamily}`;
    pen.textAlign = "center";
    pen.fillStyle = palette.muted;
    for (let value = low; value <= high + 1e-9; value += span > 1.2 ? 0.5 : 0.25) {
      const text = String(Number(value.toFixed(2))), [left, down] = place(value, x + (x === high ? out : -out), 0);
      pen.fillText(text, left, down + 5);
      const [other, lower] = place(y + (y === high ? out : -out), value, 0);
      pen.fillText(text, other, lower + 5);
    }
    pen.fillStyle = palette.ink;
    const half = (low + high) / 2, far = 3.1 * out;
    const [left, down] = place(half, x + (x === high ? far : -far), 0);
    pen.fillText(axes[0], left, down + 5);
    const [other, lower] = place(y + (y === high ? far : -far), half, 0);
    pen.fillText(axes[1], other, lower + 5);
  }

  function flag() {
    const [x, foot] = place(target[0], target[1], heightAt(...target)), top = foot - 46;
    pen.strokeStyle = palette.ink;
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(x, foot);
    pen.lineTo(x, top);
    pen.stroke();
    pen.fillStyle = palette.green;
    pen.beginPath();
    pen.moveTo(x, top);
    pen.lineTo(x + 16, top + 6);
    pen.lineTo(x, top + 12);
    pen.fill();
    pen.fillStyle = palette.ink;
    pen.textAlign = "left";
    pen.fillText("teacher", x + 20, top + 11);
  }

  /** @param {Ball} ball @param {boolean} newest */
  function ballPicture(ball, newest) {
    const points = ball.path.map(([x, y]) => place(x, y, heightAt(x, y) + 0.012 * highest));
    pen.globalAlpha = newest ? 1 : 0.75;
    pen.strokeStyle = palette.vermilion;
    pen.lineWidth = newest ? 2.5 : 1.5;
    pen.lineJoin = "round";
    pen.beginPath();
    points.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.stroke();
    const [x, y] = /** @type {Point} */ (points.at(-1)), radius = newest ? 8 : 6;
    pen.fillStyle = palette.vermilion;
    pen.strokeStyle = palette.page;
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.arc(x, y - radius + 2, radius, 0, 2 * Math.PI);
    pen.fill();
    pen.stroke();
    pen.globalAlpha = 1;
  }

  const loop = new Loop(() => {
    if (!pen) return false;
    const rolling = balls.filter((ball) => !ball.done);
    for (const ball of [...rolling, ...rolling]) if (!ball.done) roll(ball);
    pen.clearRect(0, 0, width, height);
    if (!picture) {
      fit();
      scales();
      terraces();
      flag();
      picture = document.createElement("canvas");
      [picture.width, picture.height] = [canvas.width, canvas.height];
      /** @type {CanvasRenderingContext2D} */ (picture.getContext("2d")).drawImage(canvas, 0, 0);
    } else {
      pen.drawImage(picture, 0, 0, width, height);
    }
    balls.forEach((ball, i) => ballPicture(ball, i === balls.length - 1));
    if (rolling.length) say();
    return rolling.length > 0;
  });

  function redraw() {
    picture = null;
    loop.wake();
  }

  let held = /** @type {Held} */ (/** @type {?Held} */ (null)); // from the start of a drag on
  drag(canvas, {
    frame: canvas,
    touch: "pan-y",
    start: (x, y) => { held = {x, y, moved: 0, ...view}; },
    move: (x, y) => {
      held.moved = Math.max(held.moved, Math.hypot(x - held.x, y - held.y));
      view.turn = held.turn - (x - held.x) / 160;
      view.tilt = Math.min(1.35, Math.max(0.2, held.tilt + (y - held.y) / 200));
      redraw();
    },
    end: (cancelled) => {
      const weights = !cancelled && held.moved < 4 && weightsAt(held.x, held.y);
      if (weights) drop(...weights);
    },
  });
  canvas.addEventListener("keydown", (event) => {
    const turns = /** @type {Record<string, number[]|undefined>} */ (
      {ArrowLeft: [0.1, 0], ArrowRight: [-0.1, 0], ArrowUp: [0, -0.07], ArrowDown: [0, 0.07]})[event.key];
    if (turns) {
      view.turn += turns[0];
      view.tilt = Math.min(1.35, Math.max(0.2, view.tilt + turns[1]));
      redraw();
    } else if (event.key === "Enter") {
      drop(anywhere(), anywhere());
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation(); // a notebook has shortcuts of its own
  });
  watchColours(root, (now) => { palette = now; redraw(); });
  surface(canvas, (context, wide, tall) => {
    [pen, width, height] = [context, wide, tall];
    redraw();
  });
  say();
}

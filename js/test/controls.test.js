import assert from "node:assert/strict";
import test from "node:test";
import {choice, drag, framed, panel, slider, toggle, written} from "../src/controls.js";

/** As much of an element as controls need. */
class Element {
  style = {setProperty() {}};
  classList = {toggle() {}};
  value = "";
  children = /** @type {Element[]} */ ([]);
  listeners = /** @type {Object<string, function(): void>} */ ({});
  append = (/** @type {Element[]} */ ...children) => this.children.push(...children);
  addEventListener = (/** @type {string} */ kind, /** @type {function(): void} */ act) => (this.listeners[kind] = act);
  setAttribute() {}
}

Object.assign(globalThis, {document: {createElement: () => new Element()}});

test("numbers have the digits of their step, or three, and a proper minus sign", () => {
  assert.deepEqual([written(-2, 1), written(0.5, 0.01), written(70, 10)], ["−2", "0.50", "70"]);
  assert.deepEqual([written(2.25, 0.25), written(1, 0.05), written(3, 2.5)], ["2.25", "1.00", "3.0"]);
  assert.deepEqual([1234.5, -0.0012345, 2.5e-7, 0].map((one) => written(one)), ["1230", "−0.00123", "2.5e−7", "0"]);
});

test("a slider takes what is typed, at its steps and between its ends", () => {
  const seen = /** @type {number[]} */ ([]);
  const control = slider({label: "x", min: -1, max: 2, step: 0.2, value: 0, change: (value) => seen.push(value)});
  const box = /** @type {Element} */ (/** @type {unknown} */ (control.element)).children[1].children[1];
  for (const text of ["0.67", "−0,4", "7", "nonsense", "", "2"]) {
    box.value = text;
    box.listeners.change();
  }
  assert.deepEqual([seen, control.value, box.value], [[0.6, -0.4, 2], 2, "2.0"]);
});

test("a choice refuses what is not among its options", () => {
  const options = ["up", {value: "down", label: "downwards"}], control = choice({label: "way", options});
  control.set("down");
  assert.throws(() => control.set("downwards"), /way must be one of up, downwards, but it is downwards/);
  assert.equal(control.value, "down");
});

test("a panel tells which control the reader has moved, and nothing of what a program sets", () => {
  const seen = /** @type {unknown[]} */ ([]);
  const controls = {x: slider({label: "x", min: 0, max: 9, step: 1, value: 4}), on: toggle({label: "on", value: true})};
  const all = panel(controls, (name, value) => seen.push([name, value]));
  all.set({x: 7, on: false});
  assert.deepEqual([all.values(), seen], [{x: 7, on: false}, []]);
  all.reset();
  assert.deepEqual([all.values(), seen], [{x: 4, on: true}, [["x", 4], ["on", true]]]);
});

test("many requests for a picture make one in each frame", () => {
  const frames = /** @type {Array<function(number): void>} */ ([]);
  globalThis.requestAnimationFrame = (frame) => frames.push(frame);
  let drawn = 0;
  const ask = framed(() => drawn++ || ask()); // the first picture asks for another
  ask();
  ask();
  while (frames.length) frames.shift()?.(0);
  assert.equal(drawn, 2);
});

test("a drag ends once, and says whether the browser took the finger to scroll", () => {
  for (const how of ["pointerup", "pointercancel"]) {
    const element = new EventTarget(), ends = /** @type {boolean[]} */ ([]), moves = /** @type {number[][]} */ ([]);
    Object.assign(element, {style: {}, setPointerCapture() {}, getBoundingClientRect: () => ({left: 10, top: 20})});
    const held = /** @type {HTMLElement} */ (/** @type {unknown} */ (element));
    drag(held, {frame: held, touch: "pan-y", move: (x, y) => moves.push([x, y]), end: (cancelled) => ends.push(cancelled)});
    const send = (/** @type {string} */ kind) =>
      element.dispatchEvent(Object.assign(new Event(kind), {button: 0, pointerId: 1, clientX: 15, clientY: 26}));
    for (const kind of ["pointermove", "pointerdown", "pointermove", how, "lostpointercapture", "pointermove"]) send(kind);
    assert.deepEqual([moves, ends, held.style.touchAction], [[[5, 6]], [how === "pointercancel"], "pan-y"]);
  }
});

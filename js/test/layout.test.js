import assert from "node:assert/strict";
import test from "node:test";
import {places} from "../src/network_view.js";
import {Stage} from "../src/stage.js";

test("in the playground every unit has a place and a size, however little room there is", () => {
  for (const [sizes, width, height] of /** @type {Array<[number[], number, number]>} */ ([
    [[2, 8, 3], 700, 400], [[64, 8, 8, 8, 8, 8, 8, 10], 320, 300], [Array(20).fill(12), 360, 200], [[300, 400, 100], 300, 160],
  ])) {
    const columns = places(sizes, width, height, false);
    assert.deepEqual(columns.map((column) => column.units.length), sizes);
    for (const {size, units} of columns) {
      assert.ok(size > 0);
      for (const {x, y} of units) assert.ok(x > 0 && x < width && y > 0 && y < height, `${sizes}: ${x}, ${y}`);
    }
  }
});

test("on the stage every layer is drawn within the picture, however many there are", () => {
  for (const [layers, width, height] of [[2, 900, 500], [3, 360, 560], [12, 360, 380], [15, 1000, 500]]) {
    const groups = Array.from({length: layers + 1}, (_, i) => ({kind: i ? "cells" : "pixels", shape: [100], count: 100,
      x: new Float32Array(100), y: new Float32Array(100), size: 0}));
    Object.assign(groups[layers], {kind: "votes", shape: [10], count: 10});
    const stage = Object.assign(Object.create(Stage.prototype), {groups, width, height, hops: layers});
    stage.layout();
    for (const {x, y, size} of groups.slice(0, -1)) {
      assert.ok(size > 0, `${layers} layers`);
      for (let i = 0; i < 100; i++) assert.ok(x[i] > 0 && x[i] < width && y[i] > 0 && y[i] < height);
    }
  }
});

test("on the stage no title reaches into the next one", () => {
  for (const width of [550, 700, 900]) {
    const groups = [[1, 8, 8], [16, 8, 8], [16, 4, 4], [256], [10]].map((shape, i) => {
      const count = shape.reduce((a, b) => a * b), kind = ["pixels", "cells", "cells", "cells", "votes"][i];
      return {kind, shape, count, x: new Float32Array(count), y: new Float32Array(count), size: 0};
    });
    const measured = (/** @type {string} */ text) => 6.5 * text.length;
    const drawn = /** @type {Array<{from: number, to: number, text: string}>} */ ([]);
    const context = {
      measureText: (/** @type {string} */ text) => ({width: measured(text)}),
      fillText: (/** @type {string} */ text, /** @type {number} */ x) =>
        drawn.push({from: x, to: x + measured(text), text}),
    };
    const fields = {groups, width, height: 500, hops: 4, context, colours: {}};
    const stage = Object.assign(Object.create(Stage.prototype), fields);
    stage.layout();
    for (const group of groups) stage.drawTitle(group);
    assert.equal(drawn.length, 5);
    drawn.slice(1).forEach(({from}, i) => assert.ok(drawn[i].to < from, `${width}: ${drawn[i].text}`));
  }
});

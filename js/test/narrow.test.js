import assert from "node:assert/strict";
import test from "node:test";
import {isGrid, narrow, wrapped} from "../src/narrow.js";

/** @param {string} name @param {object} place */
const label = (name, place = {}) => ({text: `<span style="color:#111">●</span> ${name}`, xref: "x domain", x: 1, ...place});

test("names beside lines become a legend below, in each frame, and the figure grows by its rows", () => {
  const data = [{name: "one line"}, {name: "two lines of words"}, {name: "helper"}];
  const level = {text: "a level", xref: "paper"};
  const layout = /** @type {any} */ ({height: 360, margin: {r: 150}, showlegend: false,
    annotations: [label("one line"), label("two lines<br>of words"), level]});
  const frame = {height: 360, annotations: [label("one line")]};
  narrow({data, layout, frames: [{layout: frame}]}, 368);
  assert.deepEqual(data.map((trace) => /** @type {any} */ (trace).showlegend), [true, true, false]);
  assert.deepEqual([layout.annotations, frame.annotations], [[level], []]);
  assert.ok(layout.showlegend && layout.margin.r < 20 && layout.legend.orientation === "h");
  assert.ok(layout.height > 360 && frame.height === layout.height);
  const plot = layout.height - layout.margin.t - layout.margin.b;
  assert.equal(plot, 360 - 52 - 54); // as high as before
  assert.ok(Math.abs(layout.legend.y * plot + 54) < 1e-9); // below the axis
});

test("panels come one below the other, by rows, each with its title and the height it had", () => {
  const axes = {x: [[0, 0.45], [0.55, 1], [0, 0.45], [0.55, 1]], y: [[0.6, 1], [0.6, 1], [0, 0.4], [0, 0.4]]};
  const layout = /** @type {any} */ ({height: 500, margin: {t: 50, b: 50}, annotations: []});
  for (const k of [0, 1, 2, 3]) {
    const number = k ? k + 1 : "";
    layout[`xaxis${number}`] = {domain: axes.x[k], anchor: `y${number}`};
    layout[`yaxis${number}`] = {domain: axes.y[k], anchor: `x${number}`, showticklabels: k % 2 === 0};
    const x = (axes.x[k][0] + axes.x[k][1]) / 2;
    layout.annotations.push({text: `${k}`, x, y: axes.y[k][1], xref: "paper", yref: "paper"});
  }
  narrow({data: [{}], layout}, 368);
  const tops = layout.annotations.map((/** @type {any} */ one) => one.y);
  assert.deepEqual(tops, [...tops].sort((a, b) => b - a));
  assert.ok(tops[0] === 1 && layout.annotations.every((/** @type {any} */ one) => one.x === 0.5));
  const plot = layout.height - 100;
  for (const y of ["yaxis", "yaxis2", "yaxis3", "yaxis4"]) {
    const [from, to] = layout[y].domain;
    assert.ok(Math.abs((to - from) * plot - 160) < 1 && layout[y].showticklabels);
  }
  assert.deepEqual(layout.xaxis4.domain, [0, 1]);
  assert.ok(Math.abs(layout.yaxis4.domain[0]) < 1e-9);
});

test("rows with long names, and numbers at their ends, have room", () => {
  const bars = {type: "bar", orientation: "h", y: ["a network that is conventional", "b"]};
  const data = [{...bars, name: "x"}, {...bars, name: "y"}];
  const layout = /** @type {any} */ ({height: 250, annotations: [{text: "43.6 nJ", xanchor: "left"}]});
  narrow({data, layout}, 368);
  assert.deepEqual(layout.yaxis.ticktext, ["a network that is<br>conventional", "b"]);
  assert.ok(layout.margin.r > 40);
  assert.equal(wrapped("<b>bold words</b> and<br>more", 10), "<b>bold words</b><br>and<br>more");
});

test("a square picture is as high as it is wide; grids of pictures are known", () => {
  const layout = /** @type {any} */ ({height: 800, margin: {l: 12, r: 12, t: 40, b: 12}, yaxis: {scaleanchor: "x"}});
  assert.ok(!isGrid(layout));
  narrow({data: [{type: "heatmap", name: "image"}], layout}, 368);
  assert.ok(layout.height < 450 && layout.legend === undefined);
  assert.ok(isGrid({...layout, annotations: [1, 2, 3, 4, 5]}));
});

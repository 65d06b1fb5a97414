// A network at work: pixels, layers of neurons and votes, and the spikes on their way between them.
//
// One step is a wave from the pixels to the votes. Its phase runs from 0 to 1: in part h of the way the spikes of
// group h travel to group h + 1, whose membranes charge meanwhile and fire at the end of it.

import {BELOW_ZERO, calm, faint, surface} from "./canvas.js";

/** @import {Colours} from "./canvas.js" */
/** @import {Cells, Network} from "./network.js" */

const NARROW = 430; // px of width under which layers lie below each other
const MOST_LINES = 260; // between two groups in one step
const MOST_SENDERS = 24; // to a label in question
const LEVELS = 10; // shades of a membrane: cells of one shade are drawn at once
const FONT = "system-ui, -apple-system, \"Segoe UI\", Roboto, sans-serif";

/**
 * What is drawn of a layer: `x`, `y` of each neuron's middle, in CSS pixels; `level`: the charge that is seen, from 0
 * to 1, on the way from that `before` the step to that `after` it, of which a spike leaves `left`; `due`: the spikes of
 * the step have yet to arrive; `across`: how many neurons a row has.
 *
 * @typedef {{x: number, y: number, w: number, h: number}} Box
 * @typedef {[x0: number, y0: number, x1: number, y1: number, strong: number, excites: boolean]} Line
 * @typedef {{kind: "pixels"|"cells"|"votes", shape: number[], count: number, x: Float32Array, y: Float32Array,
 *   level: Float32Array, before: Float32Array, after: Float32Array, left: Float32Array, flash: Float32Array,
 *   lines: Line[], due: boolean, box: Box, size: number, across: number, top: number, each: number}} Dots
 * @typedef {Dots & {cells: Cells}} CellDots
 * @typedef {CellDots|(Dots & {cells?: undefined})} Group
 * @typedef {{group: CellDots, cells: Cells, index: number, x: number, y: number}} Neuron
 * @typedef {{label: number, cells: ?Cells, sent: ?Float64Array, pixels: ?Float64Array}} Votes what brought a label its
 *   votes, see why.js
 */

export class Stage {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {Network} network
   * @param {{colours: Colours, picked: function(Cells, number): void, asked: function(number): void,
   *   pointed: function(?Neuron): void, wake: function(): void}} options `picked`: a neuron was pressed; `asked`: the
   *   bar of a label; `pointed`: a neuron is under the pointer or chosen by keys: {cells, index, x, y}, or null; `wake`:
   *   something is to be drawn
   */
  constructor(canvas, network, {colours, picked, asked, pointed, wake}) {
    this.canvas = canvas;
    this.network = network;
    this.colours = colours;
    this.picked = picked;
    this.pointed = pointed;
    this.wake = wake;
    /** @type {Array<{kind: string, shape: number[], count: number, cells?: Cells}>} */
    const groups = [{kind: "pixels", shape: network.size, count: network.image.length}];
    for (const cells of network.cells) groups.push({kind: "cells", cells, shape: cells.shape, count: cells.size});
    const last = groups[groups.length - 1];
    if (network.rates || last.cells?.out === network.output) last.kind = "votes";
    else groups.push({kind: "votes", shape: [network.labels.length], count: network.labels.length});
    this.groups = /** @type {Group[]} */ (groups);
    for (const group of this.groups) {
      group.x = new Float32Array(group.count);
      group.y = new Float32Array(group.count);
      group.level = new Float32Array(group.count); // charge that is seen, from 0 to 1
      group.before = new Float32Array(group.count);
      group.after = new Float32Array(group.count);
      group.left = new Float32Array(group.count);
      group.flash = new Float32Array(group.count);
      group.lines = [];
    }
    this.hops = this.groups.length - 1;
    this.bars = new Float32Array(network.labels.length);
    this.phase = 1;
    this.pointer = /** @type {?Neuron} */ (null);
    this.why = /** @type {?Votes} */ (null); // shown in place of membranes and spikes
    this.upright = false;
    this.letters = 12;
    surface(canvas, (context, width, height, letters) => {
      this.letters = letters;
      this.context = context;
      this.width = width;
      this.height = height;
      this.layout();
      this.draw();
      this.wake();
    });
    canvas.addEventListener("pointermove", (event) => {
      this.point(this.at(event));
      if (!this.pointer) canvas.style.cursor = this.barAt(event) < 0 ? "" : "pointer";
    });
    canvas.addEventListener("pointerleave", () => this.point(null));
    canvas.addEventListener("click", (event) => {
      const neuron = this.at(event), label = this.barAt(event);
      if (neuron) this.picked(neuron.cells, neuron.index);
      else if (label >= 0) asked(label);
    });
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => this.point(null));
  }

  // ---- where things are -----------------------------------------------------------------------------------------

  layout() {
    const {groups, width, height} = this, upright = width < NARROW;
    this.upright = upright;
    const hidden = groups.slice(0, -1);
    /** @param {Group} group */
    const room = (group) => Math.max(Math.sqrt(group.count), 8) + (group.kind === "pixels" ? 0 : 3);
    const total = hidden.reduce((sum, group) => sum + room(group), 0);
    const votes = upright ? Math.max(90, height * 0.2) : Math.min(Math.max(130, width * 0.2), 200);
    // What is between many layers gets narrower, so that these have at least half of the room.
    const length = (upright ? height : width) - votes, between = (upright ? 56 : Math.min(90, width * 0.08)) * this.hops;
    const scale = Math.min(1, length / 2 / between), free = length - between * scale;
    const title = upright ? 22 * scale : 22, gap = (between * scale) / this.hops - (upright ? title : 0);
    let from = 0;
    for (const group of hidden) {
      const part = (free * room(group)) / total;
      const across = {x: from, y: title, w: part, h: height - title};
      this.grid(group, upright ? {x: 0, y: from + title, w: width, h: part} : across);
      from += part + gap + (upright ? title : 0);
    }
    const last = groups[groups.length - 1];
    const across = {x: width - votes, y: title, w: votes, h: height - title};
    last.box = upright ? {x: 0, y: height - votes, w: width, h: votes} : across;
    this.voteRows(last);
  }

  /** Squares as large as the box allows: one grid, or one for each channel. @param {Group} group @param {Box} box */
  grid(group, box) {
    const [channels, rows, columns] = group.shape.length === 3 ? group.shape : [1, 0, 0];
    const count = group.shape.length === 3 ? channels : group.count;
    const [tall, wide] = rows ? [rows + (channels > 1 ? 1 : 0), columns + (channels > 1 ? 1 : 0)] : [1, 1];
    let best = /** @type {{size: number, across: number, down: number}} */ ({size: 0});
    for (let across = 1; across <= count; across++) {
      const down = Math.ceil(count / across);
      const size = Math.min(box.w / (across * wide), box.h / (down * tall), group.kind === "pixels" ? 44 : 26);
      if (size > best.size) best = {size, across, down};
    }
    const {size, across, down} = best;
    const left = box.x + (box.w - across * wide * size) / 2, top = box.y + (box.h - down * tall * size) / 2;
    for (let i = 0; i < group.count; i++) {
      const one = rows ? Math.floor(i / (rows * columns)) : i, within = rows ? i % (rows * columns) : 0;
      group.x[i] = left + ((one % across) * wide + (rows ? within % columns : 0) + 0.5) * size;
      group.y[i] = top + (Math.floor(one / across) * tall + (rows ? Math.floor(within / columns) : 0) + 0.5) * size;
    }
    Object.assign(group, {box, size, across: rows ? columns : across, top});
  }

  /** @param {Group} group */
  voteRows(group) {
    const {box} = group, count = group.count;
    group.across = this.upright ? count : 1;
    const each = this.upright ? Math.min(box.w / count, 60) : Math.min(box.h / count, 46);
    group.each = each;
    group.size = Math.min(each * 0.62, 24);
    group.top = box.y;
    const start = this.upright ? (box.w - each * count) / 2 : box.y + (box.h - each * count) / 2;
    for (let k = 0; k < count; k++) {
      group.x[k] = this.upright ? start + (k + 0.5) * each : box.x + group.size / 2 + 2;
      group.y[k] = this.upright ? box.y + group.size / 2 + 2 : start + (k + 0.5) * each;
    }
    if (!this.upright) group.top = start - 4;
  }

  // ---- one step ---------------------------------------------------------------------------------------------------

  /** Back to rest. */
  clear() {
    for (const group of this.groups) {
      for (const name of /** @type {const} */ (["level", "before", "after", "left", "flash"])) group[name].fill(0);
      group.lines = [];
    }
    this.bars.fill(0);
    this.phase = 1;
  }

  /** Takes over what the network did in a step, to be shown while `phase` goes from 0 to 1. */
  begin() {
    this.phase = 0;
    for (const group of this.groups) {
      if (!group.cells) continue;
      group.before.set(group.after);
      this.charge(group);
      group.due = true;
    }
    this.groups.forEach((group, place) => {
      group.lines = place < this.hops ? this.lines(group, place) : [];
    });
  }

  /** How far the membranes are on the way from rest to threshold. @param {CellDots} group */
  charge({cells, after, left}) {
    const {membrane, out, spiking} = cells;
    let low = 0, high = 1;
    if (spiking) {
      low = cells.equation.rest[cells.membraneIndex];
      high = cells.changed[/** @type {string} */ (cells.threshold)] ?? cells.number(cells.threshold) ?? 1;
    } else {
      for (const value of membrane) high = Math.max(high, Math.abs(value));
    }
    const part = (/** @type {number} */ value) => Math.min(Math.max((value - low) / (high - low), 0), 1);
    for (let i = 0; i < after.length; i++) {
      const fired = out[i] !== 0 && spiking;
      after[i] = fired ? 1 : part(membrane[i]);
      // What a spike leaves; some neurons are reset in the next step only.
      left[i] = fired ? part(membrane[i] >= high ? membrane[i] - high + low : membrane[i]) : after[i];
    }
  }

  /**
   * The connections that carry most in this step: [x0, y0, x1, y1, how strong from 0 to 1, whether it excites].
   * @param {Group} group @param {number} place @returns {Line[]}
   */
  lines(group, place) {
    const {network, groups} = this, next = groups[place + 1];
    const sources = group.cells ? group.cells.out : network.input, paths = [];
    if (!next.cells) return [];
    let active = 0;
    for (const value of sources) if (value !== 0) active++;
    const most = Math.min(Math.max(Math.floor(MOST_LINES / Math.max(active, 1)), 1), 3);
    for (let i = 0; i < sources.length; i++) {
      if (sources[i] === 0 || (group.kind === "pixels" && Math.abs(sources[i]) < 0.2)) continue;
      for (const [j, weight] of network.path(place - 1, i, 3).slice(0, most)) paths.push([i, j, weight * sources[i]]);
    }
    paths.sort((a, b) => Math.abs(b[2]) - Math.abs(a[2]));
    const chosen = paths.slice(0, MOST_LINES), largest = Math.abs(chosen[0]?.[2] ?? 1);
    const at = (/** @type {number} */ i) => (group.cells ? i : network.encoder.pixel(i, network.t - 1));
    return chosen.map(([i, j, weight]) =>
      [group.x[at(i)], group.y[at(i)], next.x[j], next.y[j], Math.abs(weight) / largest, weight > 0]);
  }

  /**
   * Goes on by so many seconds, at so many steps a second; false where nothing moves any more.
   * @param {number} passed @param {number} speed
   */
  advance(passed, speed) {
    let moves = false;
    this.groups.forEach((group, place) => {
      const {flash} = group, fade = Math.exp(-passed * Math.max(3, Math.min(speed, 12)));
      for (let i = 0; i < flash.length; i++) {
        if (flash[i] === 0) continue;
        flash[i] = flash[i] < 0.02 ? 0 : flash[i] * fade;
        moves = true;
      }
      if (!group.cells) return;
      const arrived = place / this.hops, way = Math.min(Math.max(this.phase * this.hops - place + 1, 0), 1);
      for (let i = 0; i < group.count; i++) group.level[i] = group.before[i] + (group.after[i] - group.before[i]) * way;
      if (group.due && this.phase >= arrived - 1e-9) {
        group.due = false;
        moves = true;
        if (group.cells.spiking) group.cells.out.forEach((spike, i) => (flash[i] = spike ? 1 : flash[i]));
        group.after.set(group.left);
      }
    });
    const votes = this.shownVotes(), quick = calm() ? 1 : 1 - Math.exp(-passed * 14);
    for (let k = 0; k < this.bars.length; k++) {
      const rest = votes[k] - this.bars[k];
      if (Math.abs(rest) > 1e-3) moves = true;
      this.bars[k] = Math.abs(rest) > 1e-3 ? this.bars[k] + rest * quick : votes[k];
    }
    return moves || this.phase < 1;
  }

  /** Votes as far as their spikes have arrived, by the largest that there could be. */
  shownVotes() {
    const {network} = this, {votes, output, rates} = network, arrived = this.phase >= 1 || network.readout !== "sum";
    const counted = Array.from(votes, (value, k) => (arrived ? value : value - output[k]));
    if (rates) return counted.map((value) => value / Math.max(network.steps * 0.6, Math.max(...votes)));
    const size = Math.max(1e-9, ...counted.map(Math.abs));
    return counted.map((value) => Math.max(value, 0) / size);
  }

  // ---- drawing ------------------------------------------------------------------------------------------------------

  draw() {
    const {context, width, height} = this;
    if (!context) return;
    context.clearRect(0, 0, width, height);
    if (this.why) this.drawSent(this.why);
    else if (!calm()) this.groups.forEach((group, place) => this.drawLines(group, place));
    for (const group of this.groups) {
      if (this.why && group.kind !== "votes") this.drawShares(group, this.why);
      else if (group.kind === "pixels") this.drawPixels(group);
      else this.drawCells(group);
      this.drawTitle(group);
    }
    if (this.pointer) this.drawRing(this.pointer);
  }

  /** Above it. Without its last word, if that would reach into what is right of it. @param {Group} group */
  drawTitle(group) {
    const {context, colours} = this, {kind} = group;
    if (kind === "votes" && this.upright) return;
    context.font = `${this.letters}px ${FONT}`;
    context.fillStyle = colours.muted;
    context.textAlign = "left";
    context.textBaseline = "alphabetic";
    const shape = group.shape.length === 3 && group.shape[0] === 1 ? group.shape.slice(1) : group.shape;
    const size = shape.map((n) => n.toLocaleString("en")).join(" × ");
    const text = kind === "votes" ? "votes" : kind === "pixels" ? `${size} pixels` : `${size} neurons`;
    const left = this.leftOf(group), next = this.groups[this.groups.indexOf(group) + 1];
    const fits = this.upright || !next || left + context.measureText(text).width + 8 < this.leftOf(next);
    context.fillText(fits ? text : size, left, Math.max(group.top - 8, 12));
  }

  /** Where a group's title begins. @param {Group} group */
  leftOf({kind, box, x, across, size}) {
    return Math.max(kind === "votes" ? box.x : Math.min(...x.subarray(0, across)) - size / 2, 1);
  }

  /** @param {Group} group */
  drawPixels(group) {
    const {context, colours, network} = this, {size, count} = group, [channels] = network.size;
    const still = network.encoder.kind === "repeat", fired = network.t > 0 && this.phase < 1;
    const side = size > 4 ? size - 1 : size;
    context.fillStyle = colours.faint;
    for (let i = 0; i < count; i++) context.fillRect(group.x[i] - side / 2, group.y[i] - side / 2, side, side);
    context.fillStyle = channels > 1 ? colours.blue : colours.ink;
    for (let i = 0; i < count; i++) {
      const shown = still && network.t > 0 ? network.input[i] / network.encoder.gain : network.image[i];
      const value = Math.min(Math.max(shown, 0), 1);
      if (value === 0) continue;
      context.globalAlpha = still ? value : 0.55 * value;
      context.fillRect(group.x[i] - side / 2, group.y[i] - side / 2, side, side);
    }
    context.globalAlpha = 1;
    if (still || !fired) return;
    context.fillStyle = colours.orange;
    const column = network.encoder.columns > 1;
    network.input.forEach((value, input) => {
      const i = network.encoder.pixel(input, network.t - 1);
      // The column that is read is seen, also where it is empty.
      context.globalAlpha = (1 - this.phase) * (column ? Math.min(0.25 + Math.max(value, 0), 1) : 1);
      if (column || value) context.fillRect(group.x[i] - side / 2, group.y[i] - side / 2, side, side);
    });
    context.globalAlpha = 1;
  }

  /** @param {Group} group */
  drawCells(group) {
    const {context, colours} = this, {count, size, level, flash, cells} = group;
    const radius = Math.max(size * 0.42, 0.8), round = size >= 7, silenced = cells?.silenced;
    if (group.kind === "votes") this.drawVotes(group);
    /** @param {number} i @param {number} r */
    const shape = (i, r) => {
      if (round) {
        context.moveTo(group.x[i] + r, group.y[i]);
        context.arc(group.x[i], group.y[i], r, 0, 7);
      } else {
        context.rect(group.x[i] - r, group.y[i] - r, 2 * r, 2 * r);
      }
    };
    /** @param {string} style @param {function(number): boolean} wanted @param {function(number): number} r */
    const fill = (style, wanted, r) => {
      context.fillStyle = style;
      context.beginPath();
      for (let i = 0; i < count; i++) if (wanted(i)) shape(i, r(i));
      context.fill();
    };
    const still = (/** @type {number} */ i) => silenced && silenced[i];
    fill(colours.faint, (i) => !still(i), () => radius);
    for (let step = 1; step <= LEVELS; step++) {
      const shade = (/** @type {number} */ i) => !still(i) && Math.round(level[i] * LEVELS) === step;
      fill(faint(colours.ink, 0.05 + (0.55 * step) / LEVELS), shade, (i) => radius * Math.sqrt(0.25 + 0.75 * level[i]));
    }
    for (const [from, to] of [[0.02, 0.2], [0.2, 0.45], [0.45, 0.75], [0.75, 1.01]]) {
      const lit = (/** @type {number} */ i) => !still(i) && flash[i] >= from && flash[i] < to;
      if (size >= 5) fill(faint(colours.orange, 0.3 * to), lit, (i) => radius * (1.15 + 0.75 * flash[i]));
      fill(faint(colours.orange, Math.min(to, 1)), lit, () => radius * 1.02);
    }
    if (silenced?.some(Boolean)) {
      context.strokeStyle = colours.muted;
      context.lineWidth = Math.max(Math.min(size / 9, 1.6), 0.6);
      context.beginPath();
      for (let i = 0; i < count; i++) {
        if (!silenced[i]) continue;
        const r = radius * 0.62;
        context.moveTo(group.x[i] - r, group.y[i] - r);
        context.lineTo(group.x[i] + r, group.y[i] + r);
        context.moveTo(group.x[i] + r, group.y[i] - r);
        context.lineTo(group.x[i] - r, group.y[i] + r);
      }
      context.stroke();
    }
  }

  /** @param {Group} group */
  drawVotes(group) {
    const {context, colours, network} = this, {box, each, size} = group;
    const answer = network.answer(), arrived = this.phase >= 1;
    const bold = network.labels.every((label) => label.length <= 2);
    const leaders = arrived || network.t > 1 ? answer.leaders : [];
    network.labels.forEach((label, k) => {
      const leads = leaders.includes(k), bar = faint(colours.orange, leads ? 1 : 0.5);
      if (this.why?.label === k) this.drawAsked(group, k);
      context.fillStyle = leads ? colours.ink : colours.muted;
      const high = Math.max(0.55 * each, Math.min(each - 2, this.letters)); // within the row, or the bar
      context.font = `${leads ? 700 : 400} ${bold ? Math.min(high, 17) : this.letters}px ${FONT}`;
      if (this.upright) {
        const top = box.y + size + 8, room = box.h - size - 28, tall = Math.max(this.bars[k] * room, 0);
        context.textAlign = "center";
        context.textBaseline = "alphabetic";
        context.fillText(label, group.x[k], box.y + box.h - 2, each - 2);
        context.fillStyle = colours.faint;
        context.fillRect(group.x[k] - each * 0.28, top, each * 0.56, room);
        context.fillStyle = bar;
        context.fillRect(group.x[k] - each * 0.28, top + room - tall, each * 0.56, tall);
      } else {
        context.textAlign = "left";
        context.textBaseline = "middle";
        const text = bold ? 22 : Math.min(box.w * 0.45, 84), left = box.x + size + 12;
        context.fillText(label, left, group.y[k] + 1, text - 4);
        const start = left + text, room = box.x + box.w - start, tall = Math.min(each * 0.5, 14);
        context.fillStyle = colours.faint;
        context.fillRect(start, group.y[k] - tall / 2, room, tall);
        context.fillStyle = bar;
        context.fillRect(start, group.y[k] - tall / 2, Math.max(this.bars[k] * room, 0), tall);
      }
    });
  }

  /** A frame round the bar of the label in question. @param {Group} group @param {number} k */
  drawAsked({box, each, x, y}, k) {
    const {context, colours, upright} = this;
    context.strokeStyle = colours.accent;
    context.lineWidth = 2;
    if (upright) context.strokeRect(x[k] - each / 2 + 1, box.y, each - 2, box.h);
    else context.strokeRect(box.x - 1, y[k] - each / 2 + 1, box.w, each - 2);
  }

  /** From the neurons that sent most to the label in question. @param {Votes} why */
  drawSent({label, cells, sent}) {
    const {context, colours, groups} = this, group = groups.find((one) => one.cells && one.cells === cells);
    const last = groups[groups.length - 1];
    if (!sent || !group) return;
    const most = Math.max(...sent.map(Math.abs)), order = Array.from(sent.keys()).filter((i) => sent[i]);
    order.sort((a, b) => Math.abs(sent[b]) - Math.abs(sent[a]));
    for (const i of order.slice(0, MOST_SENDERS)) {
      const strong = Math.abs(sent[i]) / most;
      context.strokeStyle = faint(sent[i] > 0 ? colours.blue : colours.crimson, 0.2 + 0.6 * strong);
      context.lineWidth = 0.7 + 2 * strong;
      context.setLineDash(sent[i] > 0 ? [] : BELOW_ZERO);
      context.beginPath();
      context.moveTo(group.x[i], group.y[i]);
      context.lineTo(last.x[label], last.y[label]);
      context.stroke();
    }
    context.setLineDash([]);
  }

  /**
   * What each pixel or neuron brought the label in question: for it blue, against it crimson.
   * @param {Group} group @param {Votes} why
   */
  drawShares(group, {cells, sent, pixels}) {
    const {context, colours, network} = this, {count, size} = group, isImage = group.kind === "pixels";
    const values = isImage ? pixels : group.cells === cells ? sent : null, round = !isImage && size >= 7;
    const most = values ? Math.max(1e-12, ...values.map(Math.abs)) : 1, side = isImage && size <= 4 ? size : size - 1;
    /** @param {number} i @param {number} r half of its size */
    const fill = (i, r) => {
      context.beginPath();
      if (round) context.arc(group.x[i], group.y[i], r, 0, 7);
      else context.rect(group.x[i] - r, group.y[i] - r, 2 * r, 2 * r);
      context.fill();
    };
    const whole = isImage ? side / 2 : Math.max(size * 0.42, 0.8);
    for (let i = 0; i < count; i++) {
      context.fillStyle = colours.faint;
      fill(i, whole);
      if (isImage && !values && network.image[i]) {
        context.fillStyle = faint(colours.ink, 0.7 * Math.min(Math.max(network.image[i], 0), 1));
        fill(i, whole);
      }
      const strong = values ? Math.abs(values[i]) / most : 0;
      if (!values || strong < 0.01) continue;
      context.fillStyle = faint(values[i] > 0 ? colours.blue : colours.crimson, 0.15 + 0.85 * strong);
      // Those against it are hollow: colour alone does not say it.
      fill(i, isImage ? whole : whole * Math.sqrt(0.2 + 0.8 * strong));
      if (values[i] > 0 || size < 7) continue;
      context.fillStyle = colours.page;
      fill(i, whole * 0.28);
    }
  }

  /** @param {Group} group @param {number} place */
  drawLines(group, place) {
    const {context, colours} = this, way = this.phase * this.hops - place;
    if (way <= 0 || way >= 1.35 || group.lines.length === 0 || this.phase >= 1) return;
    const seen = way <= 1 ? 1 : (1.35 - way) / 0.35, head = Math.min(way, 1), at = head * head * (3 - 2 * head);
    for (const excites of [false, true]) {
      const colour = excites ? colours.blue : colours.crimson;
      context.setLineDash(excites ? [] : BELOW_ZERO);
      for (const [from, to, alpha, thick] of [[0, 0.4, 0.16, 0.7], [0.4, 0.75, 0.3, 1], [0.75, 1.01, 0.5, 1.5]]) {
        context.strokeStyle = faint(colour, alpha * seen);
        context.lineWidth = thick;
        context.beginPath();
        for (const [x0, y0, x1, y1, strong, sign] of group.lines) {
          if (sign !== excites || strong < from || strong >= to) continue;
          context.moveTo(x0, y0);
          context.lineTo(x0 + (x1 - x0) * at, y0 + (y1 - y0) * at);
        }
        context.stroke();
      }
      context.setLineDash([]);
      if (way > 1) continue;
      context.fillStyle = colour;
      context.beginPath();
      for (const [x0, y0, x1, y1, strong, sign] of group.lines) {
        if (sign !== excites) continue;
        const x = x0 + (x1 - x0) * at, y = y0 + (y1 - y0) * at, r = 1.2 + 1.4 * strong;
        context.moveTo(x + r, y);
        context.arc(x, y, r, 0, 7);
      }
      context.fill();
    }
  }

  /** @param {Neuron} neuron */
  drawRing({group, index}) {
    const {context, colours} = this;
    context.strokeStyle = colours.accent;
    context.lineWidth = 2;
    context.beginPath();
    context.arc(group.x[index], group.y[index], Math.max(group.size * 0.5 + 2, 6), 0, 7);
    context.stroke();
  }

  // ---- the hand -----------------------------------------------------------------------------------------------------

  /** The neuron at a pointer, or null. @param {MouseEvent} event */
  at({clientX, clientY}) {
    const box = this.canvas.getBoundingClientRect(), x = clientX - box.left, y = clientY - box.top;
    let best = /** @type {?Neuron} */ (null), nearest = Infinity;
    for (const group of this.groups) {
      if (!group.cells) continue;
      const reach = Math.max(group.size * 0.75, 9);
      for (let i = 0; i < group.count; i++) {
        const far = Math.hypot(group.x[i] - x, group.y[i] - y);
        if (far < nearest && far <= reach) {
          nearest = far;
          best = {group, cells: group.cells, index: i, x: group.x[i], y: group.y[i]};
        }
      }
    }
    return best;
  }

  /** The label whose bar is at a pointer, or -1. @param {MouseEvent} event */
  barAt({clientX, clientY}) {
    const box = this.canvas.getBoundingClientRect(), x = clientX - box.left, y = clientY - box.top;
    const group = this.groups[this.groups.length - 1], {box: place, size, each} = group;
    const [along, across, from] = this.upright ? [x, y, place.y] : [y, x, place.x], middles = this.upright ? group.x : group.y;
    return across < from + size + 8 ? -1 : middles.findIndex((middle) => Math.abs(middle - along) < each / 2);
  }

  /** @param {?Neuron} neuron */
  point(neuron) {
    if (neuron?.cells === this.pointer?.cells && neuron?.index === this.pointer?.index) return;
    this.pointer = neuron;
    this.canvas.style.cursor = neuron ? "pointer" : "";
    this.pointed(neuron);
    this.wake();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const ways = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home", "End"];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const neurons = /** @type {CellDots[]} */ (this.groups.filter((group) => group.cells));
    let {group, index} = this.pointer ?? {group: neurons[0], index: -1};
    if (ways.includes(event.key)) {
      if (index < 0) {
        index = 0;
      } else if (event.key.startsWith("Page")) {
        const next = neurons.indexOf(group) + (event.key === "PageDown" ? 1 : -1);
        group = neurons[Math.min(Math.max(next, 0), neurons.length - 1)];
        index = 0;
      } else {
        const {count, across} = group;
        index = /** @type {Record<string, number|undefined>} */ ({Home: 0, End: count - 1})[event.key]
          ?? index + /** @type {Record<string, number>} */ (
            {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across})[event.key];
        index = Math.min(Math.max(index, 0), count - 1);
      }
      this.point({group, cells: group.cells, index, x: group.x[index], y: group.y[index]});
    } else if ((event.key === "Enter" || event.key === " ") && this.pointer) {
      this.picked(group.cells, index);
      this.pointed(this.pointer);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
}

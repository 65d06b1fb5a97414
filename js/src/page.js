// The page of one trained network: draws, runs, and answers what the reader does.

import {bytesOf} from "./bytes.js";
import {colours, Loop, watchColours} from "./canvas.js";
import {button, legend, make, slider, toggle} from "./controls.js";
import {fitIn} from "./fit_in.js";
import {History} from "./history.js";
import {Network, SURE} from "./network.js";
import {Pad} from "./pad.js";
import {Clicks} from "./sound.js";
import {Stage} from "./stage.js";
import {STYLES, isBlank, moved, rasterize, styleOf} from "./strokes.js";
import {why} from "./why.js";

/** @import {Slider, SliderOptions} from "./controls.js" */
/** @import {Answer, Cells, Description, Neurons} from "./network.js" */
/** @import {Neuron} from "./stage.js" */
/** @import {Why} from "./why.js" */

/**
 * @typedef {{count: number, pixels: string, labels: ?number[], bytes?: Uint8Array}} Images pixels [N, channels, rows,
 *   columns] in base64; `bytes`: them, once they are needed
 * @typedef {{noise: Slider, threshold?: Slider, memory?: Slider}} Knobs
 */

const SPEEDS = [0.5, 1, 2, 4, 6, 10, 15, 25, 40, 60];
const REST = 2.2; // seconds after which another image comes, until the reader does something

/** @param {string} id */
const at = (id) => /** @type {HTMLElement} */ (document.getElementById(id));
const canvasAt = /** @type {function(string): HTMLCanvasElement} */ (at);

/** Starts the page that pages/page.py has written, with the neurons' JavaScript. @param {Neurons[]} neurons */
export function start(neurons) {
  const description = JSON.parse(at("data").textContent);
  if (location.hash === "#compact" || self.name === "compact") becomeCompact();
  fitIn(at("page"));
  try {
    const player = new Player(description, neurons);
    player.next();
    player.play();
  } catch (error) {
    at("missing").hidden = false;
    at("missing").textContent = `This browser can't run the page: ${/** @type {Error} */ (error).message}`;
    throw error;
  }
}

/** Within another page: only the essential. */
function becomeCompact() {
  document.body.classList.add("compact");
  if (location.protocol === "about:") { // in a notebook, whose outputs have no address
    document.body.style.background = "var(--page)"; // a frame of another scheme than its page is white
    return;
  }
  const whole = document.createElement("a");
  const href = location.href.replace(/#.*/, "");
  Object.assign(whole, {href, target: "_blank", className: "small", textContent: "Change the network, see its spikes"});
  at("answer").append(whole);
}

class Player {
  /** @param {Description & {images: ?Images}} description @param {Neurons[]} neurons */
  constructor(description, neurons) {
    const network = (this.network = new Network(description, neurons));
    this.images = description.images;
    this.shown = -1; // which of them
    this.pixels = new Float32Array(network.image.length); // of the drawing or image, before it is moved and tilted
    this.move = {dx: 0, dy: 0, tilt: 0};
    this.speed = network.steps <= 8 ? 4 : 6;
    this.playing = false;
    this.single = false; // whether one step is to be done
    this.touched = false; // whether the reader has done anything
    this.waited = 0;
    /** @type {?{index: number, step: number, sure: boolean}} */
    this.since = null; // when the answer became certain
    this.said = "";
    this.clicks = new Clicks();
    const page = document.body, palette = colours(page);
    const silenced = /** @type {[string, string, string]} */ (["cross", "muted", "silenced"]);
    this.legends = [legend(["disc", "muted", "membrane: the fuller, the nearer to the threshold"],
      ["disc", "orange", "spike"], ["line", "blue", "excites"], ["dashed", "crimson", "inhibits"], silenced),
    legend(["line", "blue", "excites it"], ["dashed", "crimson", "inhibits it (a ring)"], ["disc", "orange", "votes"])];
    at("frame").after(this.legends[0]);
    this.stage = new Stage(canvasAt("stage"), network, {colours: palette, picked: (cells, i) => this.silence(cells, i),
      asked: (label) => this.ask(label),
      pointed: (neuron) => this.tell(neuron), wake: () => this.loop?.wake()});
    this.history = new History(canvasAt("raster"), network, {colours: palette});
    this.pad = new Pad(canvasAt("pad"), {colours: palette, changed: (drawing) => this.drawn(drawing)});
    this.loop = new Loop((passed) => this.frame(passed));
    watchColours(page, (now) => {
      for (const one of [this.stage, this.history, this.pad]) one.colours = now;
      for (const one of [this.stage, this.history, this.pad]) one.draw();
    });
    this.moves = /** @type {Slider[]} */ ([]);
    this.knobs = /** @type {Knobs} */ ({});
    this.askButtons = [0, 1].map(() => button({label: "Why?", press: () => {}}));
    at("ask").append(...this.askButtons);
    this.playButton = button({label: "Play", primary: true, press: () => this.toggle()});
    this.slower = button({label: "Slower", press: () => this.pace(-1)});
    this.faster = button({label: "Faster", press: () => this.pace(1)});
    this.speedText = document.createElement("output");
    this.speedText.className = "speed";
    this.buttons();
    for (const kind of ["pointerdown", "keydown"]) {
      const touch = (/** @type {Event} */ {target}) => (this.touched ||= target !== this.playButton);
      addEventListener(kind, touch, {capture: true, passive: true});
    }
    addEventListener("keydown", (event) => this.key(event));
    const word = network.labels.some((label) => label.length > 2);
    at("reading").classList.toggle("word", word);
  }

  // ---- controls -----------------------------------------------------------------------------------------------------

  buttons() {
    const {network} = this, [, rows] = network.size;
    const clear = button({label: "Clear", hint: "an empty field", press: () => this.pad.clear()});
    at("choose").append(clear);
    if (this.images) {
      const hint = "an image that the network was not trained on";
      at("choose").prepend(button({label: "Test image", hint, press: () => this.next()}));
    }
    const reach = Math.max(Math.round(rows / 4), 1), step = rows < 16 ? 0.25 : 0.5;
    /** @param {"dx"|"dy"|"tilt"} name @param {Omit<SliderOptions, "value">} options */
    const turn = (name, options) => slider({...options, value: 0, change: (value) => {
      this.move[name] = value;
      this.see(true);
    }});
    this.moves = [
      turn("dx", {label: "Shift right", unit: "px", min: -reach, max: reach, step, hint: "less than 0: to the left"}),
      turn("dy", {label: "Shift down", unit: "px", min: -reach, max: reach, step, hint: "less than 0: up"}),
      turn("tilt", {label: "Tilt", unit: "°", min: -90, max: 90, step: 5, hint: "clockwise"}),
    ];
    at("moves").append(...this.moves.map((one) => one.element));
    const details = /** @type {HTMLDetailsElement} */ (at("moves").parentElement);
    details.open = innerWidth > 1080; // else the answer comes first

    const once = button({label: "One step", hint: "one time step, then pause", press: () => this.once()});
    const again = button({label: "Start again", hint: "from rest", press: () => this.restart(true)});
    const first = document.createElement("span"), second = document.createElement("span");
    first.append(this.playButton, once, again);
    second.append(this.slower, this.speedText, this.faster);
    at("transport").append(first, second);
    this.pace(0);

    this.knobs = {
      noise: slider({label: "Noise in pixels", unit: "sd", min: 0, max: 1, step: 0.05, value: 0,
        hint: "standard deviation; another draw in each step", change: () => this.changed()}),
    };
    const factor = {unit: "×", step: 0.05, value: 1, log: true};
    /** @param {"threshold"|"leak"} role */
    const shared = (role) => network.cells.some((cells) => cells.spiking && cells.number(cells[role]) !== null);
    if (shared("threshold")) {
      this.knobs.threshold = slider({...factor, label: "Threshold", min: 0.2, max: 5,
        hint: "of all neurons: how much charge it takes to fire", change: () => this.changed()});
    }
    if (shared("leak")) {
      this.knobs.memory = slider({...factor, label: "Memory", min: 0.1, max: 10,
        hint: "membrane time constant of all neurons: the smaller, the faster charge leaks away",
        change: () => this.changed()});
    }
    at("knobs").append(...Object.values(this.knobs).map((one) => one.element));
    const all = (/** @type {0|1} */ value) => () => {
      for (const cells of network.cells) {
        if (cells.out !== network.output || !value) cells.silenced.fill(value);
      }
      this.changed();
    };
    at("silence").append(
      button({label: "Silence hidden", hint: "all neurons but the outputs", press: all(1)}),
      button({label: "Wake all", press: all(0)}),
      button({label: "As trained", hint: "undo all changes here", press: () => {
        for (const one of Object.values(this.knobs)) one.set(one.first);
        all(0)();
      }}),
    );
    const sound = toggle({label: "Sound: each spike a click", change: (on) => this.clicks.set(on)});
    if (Clicks.possible) at("sound").append(sound.element);
  }

  /**
   * P: play or pause, S: one step, R: again, minus and plus: slower and faster, Escape: back to the spikes; not while
   * something is typed.
   * @param {KeyboardEvent} event
   */
  key(event) {
    const target = /** @type {Element} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey || target.matches?.("input, select")) return;
    if (event.key === "Escape" && this.stage.why) this.ask(null);
    /** @type {Record<string, (() => void)|undefined>} */
    const actions = {p: () => this.toggle(), s: () => this.once(),
      r: () => this.restart(true), "-": () => this.pace(-1), "+": () => this.pace(1)};
    actions[event.key.toLowerCase()]?.();
  }

  /** @param {number} by so many places in SPEEDS */
  pace(by) {
    const place = Math.min(Math.max(SPEEDS.indexOf(this.speed) + by, 0), SPEEDS.length - 1);
    this.speed = SPEEDS[place];
    this.speedText.textContent = `${this.speed} step${this.speed === 1 ? "" : "s"}/s`;
    this.slower.disabled = place === 0;
    this.faster.disabled = place === SPEEDS.length - 1;
  }

  /** What the knobs say, from the next step on; a run that is over starts again. */
  changed() {
    const {network} = this, {noise, threshold, memory} = this.knobs;
    network.noise = noise.value;
    for (const cells of network.cells) {
      const numbers = /** @type {Record<string, number>} */ ({});
      const high = threshold && cells.number(cells.threshold), leak = memory && cells.number(cells.leak);
      if (high && threshold.value !== 1) numbers[/** @type {string} */ (cells.threshold)] = high * threshold.value;
      if (leak && memory.value !== 1) numbers[/** @type {string} */ (cells.leak)] = slowed(cells, leak, memory.value);
      cells.use(numbers);
    }
    this.restart(false);
  }

  /** @param {Cells} cells @param {number} index */
  silence(cells, index) {
    cells.silenced[index] = cells.silenced[index] ? 0 : 1;
    if (this.network.t >= this.network.steps) this.restart(false);
    else if (!this.playing) this.stage.draw();
    this.tell(this.stage.pointer);
    this.loop.wake();
  }

  // ---- images -------------------------------------------------------------------------------------------------------

  /** The next of the images in the page. */
  next() {
    const {images, network} = this;
    if (!images) {
      at("hint").textContent = "Draw here by mouse, finger or pen.";
      return;
    }
    this.shown = (this.shown + 1) % images.count;
    images.bytes ??= bytesOf(images.pixels);
    const count = this.pixels.length, first = this.shown * count;
    for (let i = 0; i < count; i++) this.pixels[i] = Math.fround(images.bytes[first + i] / 255);
    for (const one of this.moves) one.set(one.first);
    this.move = {dx: 0, dy: 0, tilt: 0};
    this.pad.show(this.pixels, network.size[1], network.size[2]);
    const label = images.labels ? `: a ${network.labels[images.labels[this.shown]]}` : "";
    at("hint").textContent = `Test image ${this.shown + 1} of ${images.count}${label}. Or draw your own here.`;
    this.see(true);
  }

  /** The strokes are others. @param {boolean} drawing whether the pen is down */
  drawn(drawing) {
    const {network, pad} = this, [channels, rows, columns] = network.size;
    const reads = network.encoder.kind === "columns"; // from left to right
    const image = rasterize(pad.strokes, rows, columns, reads ? STYLES.drawn : styleOf(rows));
    for (let c = 0; c < channels; c++) this.pixels.set(image, c * rows * columns);
    at("hint").textContent = isBlank(pad.strokes) ? "Draw here by mouse, finger or pen."
      : reads ? "Your drawing, read from left to right: one column in each step."
      : "Your drawing, scaled and centred like the images that the network was trained on.";
    // While the pen is down, a run goes on with the pixels that there are; then one starts from rest.
    this.see(!drawing || network.t >= network.steps);
  }

  /** Shows the network what there is now. @param {boolean} again from rest */
  see(again) {
    const {dx, dy, tilt} = this.move;
    this.network.show(moved(this.pixels, this.network.size, dx, dy, tilt));
    if (again) this.restart(false);
    this.stage.draw();
    this.loop.wake();
  }

  // ---- time ---------------------------------------------------------------------------------------------------------

  /** Whether the last step has been shown. */
  get over() {
    return this.network.t >= this.network.steps && this.stage.phase >= 1;
  }

  /** Whether another image follows by itself, until the reader does something. */
  get shows() {
    return this.images && !this.touched;
  }

  /** What the button does: after the end, it plays again. */
  label() {
    this.playButton.textContent = this.playing && (!this.over || this.shows) ? "Pause" : "Play";
  }

  toggle() {
    const pauses = this.playButton.textContent === "Pause";
    this.touched = true;
    if (pauses) this.pause();
    else this.play();
  }

  play() {
    this.playing = true;
    if (this.stage.why) this.ask(null);
    if (this.over) this.restart(false);
    this.label();
    this.loop.wake();
  }

  pause() {
    this.playing = false;
    this.label();
  }

  once() {
    if (this.over) this.restart(false);
    this.pause();
    this.single = true;
    this.loop.wake();
  }

  /** Why a label has its votes; the same again, or null: back to the spikes. @param {?number} label */
  ask(label) {
    const {network, stage} = this, wanted = label !== null && label !== stage.why?.label && network.t > 0;
    if (wanted && this.playing) this.pause();
    this.explain(wanted ? label : null);
    this.askable();
    stage.draw();
    this.loop.wake();
  }

  /** @param {?number} label */
  explain(label) {
    const {network, stage} = this, found = label === null ? null : why(network, label);
    stage.why = found;
    const back = () => button({label: "Back to the spikes", press: () => this.ask(null)});
    at("why").replaceChildren(...(found ? [...this.reasons(found), back()] : []));
    const [spikes, reasons] = this.legends; // one of which is in the page
    if (found) spikes.replaceWith(reasons);
    else reasons.replaceWith(spikes);
  }

  /** Buttons that ask: for what leads, and for what is next to it. */
  askable() {
    const {network, stage} = this, leads = network.answer().index, next = leads < 0 ? -1 : network.next(leads);
    for (const [i, label] of [leads, next].entries()) {
      const one = this.askButtons[i], words = i ? "Why not" : "Why";
      one.disabled = label < 0;
      one.textContent = `${words}${label < 0 ? "" : ` ${network.labels[label]}`}?`;
      one.setAttribute("aria-pressed", String(label >= 0 && stage.why?.label === label));
      one.onclick = () => this.ask(label);
    }
  }

  /** What the picture shows, in words. @param {Why} found @returns {HTMLElement[]} */
  reasons({label, cells, sent, pixels, bias, left, note}) {
    const {network} = this, {votes, rates, t, labels} = network, name = labels[label];
    const signed = (/** @type {number} */ value) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
    /** @param {Float64Array} values @param {1|-1} sign */
    const sum = (values, sign) => values.reduce((all, value) => all + Math.max(value * sign, 0), 0).toFixed(2);
    /** @param {Float64Array} values */
    const sums = (values) => `+${sum(values, 1)} and −${sum(values, -1)}`;
    const own = network.cells.at(-1), parts = [this.compared(label)];
    if (!network.answer().over) parts.unshift(`After step ${t - 1}:`);
    const lines = [parts.join(" ")];
    if (sent && cells) {
      const most = sent.reduce((best, value, j) => (Math.abs(value) > Math.abs(sent[best]) ? j : best), 0);
      const count = cells.counts[most], spikes = `${count} spike${count === 1 ? "" : "s"}`;
      const example = count ? ` The largest share: neuron ${most + 1}, ${spikes} × ${signed(sent[most] / count)} = ` +
        `${signed(sent[most])}.` : "";
      lines.push(`Hidden neurons sent ${name} charges of ${sums(sent)} (weight × spikes).${example}`);
    } else if (pixels) {
      lines.push(`Pixels sent ${name} charges of ${sums(pixels)} (weight × value, summed over the steps).`);
    }
    if (bias) lines.push(`Its bias added ${signed(bias)} in ${t} step${t === 1 ? "" : "s"}.`);
    if (rates && (sent || pixels)) {
      lines.push(`Of this the output neuron made ${votes[label]} spike${votes[label] === 1 ? "" : "s"}.`);
      if (own?.weight) lines.push("What outputs send each other is not counted.");
    }
    const small = [];
    if (sent && pixels) {
      small.push("Pixels: what each hidden neuron sent is shared out among them by what they sent to it.");
      if (Math.abs(left) > 0.005) small.push(`${signed(left)} is not shared out: of neurons whose input sums up to nothing.`);
    }
    if (note) small.push(note);
    return [make("p", {}, lines.join(" ")), ...(small.length ? [make("p", {className: "muted"}, small.join(" "))] : [])];
  }

  /** Its votes beside those of what leads, or of what came next. @param {number} label */
  compared(label) {
    const {network} = this, {votes, rates, readout, steps, labels} = network, {leaders} = network.answer();
    /** @param {number} k */
    const amount = (k) => rates ? `${votes[k]} vote${votes[k] === 1 ? "" : "s"}` : readout !== "first" ?
      votes[k].toFixed(2) : votes[k] ? `its first spike in step ${steps - 1 - votes[k]}` : "no spike before the last step";
    if (!leaders.length) return "No output has fired.";
    if (leaders.length > 1 && leaders.includes(label)) {
      return `${listed(leaders.map((k) => labels[k]), "and")} are level, each with ${amount(label)}.`;
    }
    const first = leaders.includes(label), other = first ? network.next(label) : leaders[0];
    if (other < 0) return `${labels[label]} has ${amount(label)}.`;
    const fewer = rates ? `, ${Math.abs(votes[label] - votes[other])} fewer` : "", its = `${labels[label]} has ${amount(label)}`;
    if (first) return `${labels[label]} leads with ${amount(label)}. Next is ${labels[other]} with ${amount(other)}${fewer}.`;
    return rates ? `${its}${fewer} than ${labels[other]}, which leads.` : `${its}; ${labels[other]} leads with ${amount(other)}.`;
  }

  /** From rest; `play`: whether it is to run where it was paused. @param {boolean} play */
  restart(play) {
    if (this.stage.why) this.explain(null);
    this.network.reset();
    this.stage.clear();
    this.history.clear();
    this.since = null;
    this.waited = 0;
    this.said = "";
    this.read();
    if (play) this.play();
    this.label();
    this.stage.draw();
    this.loop.wake();
  }

  /** Whether another is needed. @param {number} passed seconds */
  frame(passed) {
    const {network, stage} = this;
    let steps = this.playing || this.single ? passed * this.speed : 0;
    while (steps > 0) {
      if (stage.phase >= 1) {
        if (network.t >= network.steps) break;
        this.step();
      }
      const part = Math.min(steps, 1 - stage.phase);
      stage.phase = 1 - stage.phase - part < 1e-9 ? 1 : stage.phase + part;
      steps -= part;
      if (stage.phase >= 1) {
        this.done();
        if (this.single) {
          this.single = false;
          break;
        }
      }
    }
    const moves = stage.advance(passed, this.speed);
    stage.draw();
    this.label();
    if (this.over && this.playing && this.shows) {
      this.waited += passed;
      if (this.waited > REST) this.next();
      return true;
    }
    return moves || (this.playing && !this.over) || this.single;
  }

  step() {
    const {network, stage, clicks} = this;
    network.step();
    stage.begin();
    if (!clicks.on) return;
    const during = 1 / this.speed / stage.hops;
    network.cells.forEach((cells, place) => {
      if (!cells.spiking) return;
      const fired = [];
      for (let i = 0; i < cells.size; i++) if (cells.out[i]) fired.push(i);
      const last = cells.out === network.output;
      clicks.play(fired, last ? 440 : 900 + 500 * place, (place + 1) * during, last ? 0 : during * 0.6, last);
    });
  }

  done() {
    this.history.add();
    if (this.stage.why) this.explain(this.stage.why.label);
    this.read();
  }

  // ---- words --------------------------------------------------------------------------------------------------------

  /** What the network reads by now. */
  read() {
    const {network} = this, answer = network.answer(), {index, leaders, over, sure, settled} = answer;
    const certain = sure || settled, reading = at("reading"), step = network.t - 1; // from 0, as in x[0]
    if (!certain || index !== this.since?.index) this.since = certain ? {index, step, sure} : null;
    const names = leaders.map((k) => network.labels[k]);
    reading.textContent = listed(names, "or") || "–";
    reading.classList.toggle("certain", certain);
    reading.classList.toggle("tie", names.length > 1);
    at("certainty").textContent = this.verdict(answer, names);
    this.askable();
    const said = !over ? "" : index < 0 ? at("certainty").textContent
      : names.length > 1 ? `A tie: the network reads ${listed(names, "or")}.` : `The network reads ${names[0]}.`;
    if (said !== this.said) at("spoken").textContent = this.said = said;
  }

  /** @param {Answer} answer @param {string[]} names those that lead */
  verdict({index, over, share}, names) {
    const {network, since} = this, {votes, steps, t} = network;
    const when = over ? "the answer" : `leads after step ${t - 1}`;
    if (index < 0) return over ? "No answer: no output neuron has fired." : t ? `step ${t - 1}: no vote yet` : "";
    if (network.readout === "first" && over) return names.length > 1 ? "a tie of the first spikes" : "the first to spike";
    if (!network.rates) return over ? "the answer after all steps" : when;
    const sorted = Array.from(votes).sort((a, b) => b - a), most = sorted[0], vote = `vote${most === 1 ? "" : "s"}`;
    if (names.length > 1) {
      const argmax = over ? `; code that takes the first of them (argmax) answers ${names[0]}` : "";
      return `${over ? "a tie" : `a tie after step ${t - 1}`}: ${most} ${vote} each${argmax}`;
    }
    const sure = "sure (softmax of the votes)";
    let how = `${share > 0.995 ? "over 99" : Math.floor(100 * share)} % ${sure}`;
    if (since && since.step < steps - 1) {
      how = since.sure ? `at least ${100 * SURE} % ${sure} since step ${since.step}`
        : `since step ${since.step} no later vote can change it`;
    }
    return `${when}: ${most} ${vote} to ${sorted[1]}; ${how}`;
  }

  /** About the neuron under the pointer. @param {?Neuron} neuron */
  tell(neuron) {
    const tip = at("tip");
    tip.hidden = !neuron;
    if (!neuron) return;
    const {cells, index, x, y} = neuron, {network} = this;
    const last = cells.out === network.output;
    const name = last ? `output ${network.labels[index]}` : `neuron ${index + 1} of ${cells.size.toLocaleString("en")}`;
    const spikes = cells.counts[index];
    const state = cells.silenced[index] ? "silenced" : cells.spiking
      ? `${spikes} spike${spikes === 1 ? "" : "s"} in this run` : `potential ${cells.out[index].toFixed(2)}`;
    const {why: found} = this.stage, sent = found?.cells === cells && spikes ? found.sent?.[index] ?? 0 : 0;
    const share = sent && found ? ` × ${(sent / spikes).toFixed(2).replace("-", "−")} for ${network.labels[found.label]}` : "";
    tip.textContent = `${name}: ${state}${share}`;
    const width = tip.offsetWidth, frame = at("frame").clientWidth;
    const left = Math.min(Math.max(x - width / 2, 0), frame - width);
    tip.style.transform = `translate(${left}px, ${Math.max(y - 46, 0)}px)`;
    if (document.activeElement === at("stage")) at("spoken").textContent = tip.textContent;
  }
}

/** Names as a list in words: "3", "3 or 8", "1, 3 or 8". @param {string[]} names @param {string} word */
function listed(names, word) {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} ${word} ${names.at(-1)}`;
}

/**
 * A number of a leak for another membrane time constant, so many times that of training.
 * @param {Cells} cells @param {number} value @param {number} factor
 */
function slowed(cells, value, factor) {
  if (cells.leak === "beta") return value ** (1 / factor);
  if (cells.leak === "tau_mem_inv") return Math.min(value / factor, cells.dt ? 1 / cells.dt : Infinity);
  return Math.max(value * factor, 1);
}

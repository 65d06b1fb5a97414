/** The playground: settings, training in a worker, and pictures of what happens. */

import {Loop, calm, colours, watchColours} from "./canvas.js";
import {CLASS_COLOURS, PRESETS, describe, diagnosis} from "./commentary.js";
import {button, choice, framed, legend, make, slider} from "./controls.js";
import {fitIn} from "./fit_in.js";
import {Guide} from "./guide.js";
import {
  AnswersPlot, CurvePlot, DecisionPlot, MembranePlot, RasterPlot, Series, SurrogatePlot, busiest, trace,
} from "./learning_plots.js";
import {NetworkView} from "./network_view.js";
import {
  BATCHES, DATA, ENCODINGS, NEURONS, NUMBERS, SURROGATES, asPython, complete, defaults, readLink, writeLink,
} from "./setup.js";
import {PLANE} from "./toys.js";
import {REACH, Runner} from "./trainer.js";

/**
 * @import {Colours} from "./canvas.js"
 * @import {Model, Place, Plane, Table} from "./commentary.js"
 * @import {Option} from "./controls.js"
 * @import {Hint} from "./guide.js"
 * @import {DataName, NeuronKey, NeuronName, Range, Settings} from "./setup.js"
 * @import {Digits, Membranes, Neurons, Order, Report, Which} from "./trainer.js"
 *
 * @typedef {{type: "start", digits: Digits}|Order} Message to a worker
 * @typedef {{post: function(Message): void, inPage: boolean}} Link
 *
 * @typedef {{(id: "code"): HTMLTextAreaElement; (id: keyof Canvases): HTMLCanvasElement; (id: string): HTMLElement}} At
 * @typedef {{network: 0, decision: 0, answers: 0, raster: 0, membrane: 0, accuracy: 0,
 *   loss: 0}} Canvases
 * @typedef {ReturnType<typeof setTimeout>|number} Timer
 * @typedef {string|number|number[]} Value of a setting
 * @typedef {Record<string, unknown>} Loose settings whose values are known to fit
 * @typedef {[mark: string, colour: string, words: string]} Entry of a legend
 */

const LIVE = ["leak", "synapse", "adaptation", "threshold", "width", "lr", "penalty"]; // may change while it learns
const STEPS_A_SECOND = 7, SLOW = 200, REST = 1.5, PASSES = 3;

/** Start: in a worker the training, in a page all the rest.
 *
 * @param {Neurons} neurons as `pages.playground` generates them, by `neuron/reset/surrogate`
 */
export function playground(neurons) {
  if (typeof document === "undefined") serve(neurons);
  else new Playground(neurons, JSON.parse(/** @type {Element} */ (
    document.getElementById("data")).textContent).digits);
}

/** In a worker: train while it runs, and read messages in between. @param {Neurons} neurons */
function serve(neurons) {
  /** @type {Runner} */
  let runner, /** @type {Timer} */ timer = 0;
  const channel = new MessageChannel(); // goes round at once, where a timer would wait 4 ms
  const go = () => {
    const wait = runner.slice();
    if (wait === 0) channel.port2.postMessage(0);
    else if (wait !== null) timer = setTimeout(go, wait);
  };
  let going = false;
  channel.port1.onmessage = go;
  onmessage = (/** @type {MessageEvent<Message>} */ {data: message}) => {
    if (message.type === "start") {
      runner = new Runner(neurons, message.digits, (report) => postMessage(report));
      return;
    }
    runner.receive(message);
    if (message.type === "run") {
      clearTimeout(timer);
      if (!going || message.interval) go();
      going = true;
    } else if (!runner.running) {
      clearTimeout(timer);
      going = false;
    }
  };
}

/** Training in a worker, or, where there are none, in the page between two of its pictures: {post, inPage}.
 *
 * `failed` is called when a worker turns out not to work, and everything is to be sent again.
 * @param {Neurons} neurons @param {Digits} digits
 * @param {function(Report): void} receive @param {function(): void} failed
 * @returns {Link}
 */
function connect(neurons, digits, receive, failed) {
  const local = () => {
    const runner = new Runner(neurons, digits, (report) => setTimeout(() => receive(report)));
    const loop = new Loop(() => runner.slice(performance.now(), 8) !== null);
    /** @param {Message} message */
    const post = (message) => {
      runner.receive(/** @type {Order} */ (message));
      loop.wake();
    };
    return {post, inPage: true};
  };
  try {
    // The worker runs the script of this page.
    const script = /** @type {Element} */ (document.querySelector('script[type="module"]')).textContent;
    const address = URL.createObjectURL(new Blob([script], {type: "text/javascript"})), worker = new Worker(address);
    /** @type {Link} */
    const link = {post: (message) => worker.postMessage(message), inPage: false};
    worker.onmessage = ({data}) => receive(data);
    worker.onerror = () => {
      Object.assign(link, local());
      failed();
    };
    link.post({type: "start", digits});
    return link;
  } catch {
    return local();
  }
}

class Playground {
  /** @param {Neurons} neurons @param {Digits} digits */
  constructor(neurons, digits) {
    this.neurons = neurons;
    this.digits = digits;
    this.running = false;
    this.run = 0; // how many were begun
    this.position = -1;
    this.passes = 0;
    /** @type {Timer} */ this.writing = 0;
    /** @type {?Report} */ this.report = null;
    /** @type {?Report} */ this.pending = null;
    /** @type {?Float32Array[]} */ this.lastMaps = null;
    /** @type {Which} */ this.which = {index: 0};
    /** @type {?Place} */ this.watched = null; // the neuron whose membrane is shown
    this.chosen = false; // whether by the reader
    this.changed = 0; // when a setting was
    this.shownData = "";
    this.losses = new Series();
    this.rights = new Series();
    /** @type {Report["tests"]} */ this.tests = [];
    const later = /** @type {any} */ (null); // of what is called below
    /** @type {Settings} */ this.settings = later;
    /** @type {Model} */ this.model = later;
    /** @type {SurrogatePlot} */ this.surrogate = later;
    /** @type {HTMLButtonElement} */ this.play = later;
    this.root = /** @type {Element} */ (document.querySelector(".snn"));
    this.interval = 0;
    const at = /** @type {At} */ ((/** @type {string} */ id) => document.getElementById(id));
    this.at = at;
    this.link = connect(neurons, digits, (report) => this.receive(report), () => {
      this.missing();
      this.start(this.running);
    });
    if (this.link.inPage) this.missing();
    this.network = new NetworkView(at("network"), (place) => this.pointed(place));
    this.decision = new DecisionPlot(at("decision"), (/** @type {number[]} */ point) => this.look({point}));
    this.answers = new AnswersPlot(at("answers"), (/** @type {number} */ index) => this.look({index}));
    this.raster = new RasterPlot(at("raster"), (place) => this.watch(place));
    this.membrane = new MembranePlot(at("membrane"));
    this.accuracy = new CurvePlot(at("accuracy"));
    this.loss = new CurvePlot(at("loss"));
    this.draw = framed(() => this.paint());
    this.loop = new Loop((passed) => this.advance(passed));
    this.buttons();
    this.guide = new Guide(at("guide"), this.hints(), "That was the first minute. Next: press a button of “Break it on " +
      "purpose”, and read under “Health of the layers” why nothing is learned.");
    /** @param {Colours} palette */
    const recolour = (palette) => {
      this.palette = palette;
      const {network, decision, answers, raster, membrane, accuracy, loss, surrogate} = this;
      const all = [network, decision, answers, raster, membrane, accuracy, loss, surrogate];
      for (const one of all) one?.recolour(palette);
    };
    recolour(colours(this.root));
    watchColours(this.root, recolour);
    fitIn();
    addEventListener("hashchange", () => this.readLink());
    this.readLink();
    if (location.hash.length < 2) this.guide.begin();
  }

  /** The first minute. @returns {Hint[]} */
  hints() {
    /** @param {string} name */
    const control = (name) => [...this.at("settings").querySelectorAll(".control")].find((one) => (
      one.querySelector("label")?.textContent?.startsWith(name))) ?? null;
    const hidden = () => /** @type {Report} */ (this.report).rates.slice(0, -1).flatMap((layer) => [...layer]);
    const silent = () => {
      const rates = hidden();
      return `${rates.filter((rate) => rate === 0).length} of ${rates.length} hidden neurons never fire`;
    };
    const right = () => this.tests.at(-1)?.accuracy ?? 0, updates = () => this.report?.updates ?? 0;
    const settled = () => performance.now() - this.changed > 1500 &&
      `With a threshold of ${this.settings.threshold}, ${silent()}, and ${percent()}.`;
    const percent = () => `${(100 * right()).toFixed(0)} % of the test set are right`;
    return [
      {
        text: "Nothing is learned so far: neurons with a cross never fire. Press Play, or the space bar.",
        at: () => this.play, done: () => updates() > 0 && "It learns.",
      },
      {
        text: "Watch the crosses: which of them vanish?", at: () => this.at("network"),
        done: () => (right() > 0.9 || updates() > 2000) && `${percent()} after ${updates()} updates; ${silent()}.`,
      },
      {
        text: "Drag the threshold θ up to 5. Which neurons fall silent?", at: () => control("threshold"),
        done: () => this.settings.threshold >= 4 && settled(),
      },
      {
        text: "Press ↺ beside it: the threshold is 1 again.", at: () => control("threshold"),
        done: () => this.settings.threshold < 1.5 && settled(),
      },
      {
        text: "Click an orange neuron, or choose one by the arrow keys: below is its membrane over the steps of a sample, " +
          "with a disc where it fires.",
        at: () => this.at("network"), done: () => this.chosen && this.at("membrane-text").textContent,
      },
    ];
  }

  missing() {
    const text = "This browser has no Web Workers: the network learns in the page, more slowly.";
    this.at("refused").after(make("p", {className: "small muted"}, text));
  }

  readLink() {
    const {settings, errors} = readLink(location.hash);
    if (this.settings && writeLink(settings) === writeLink(this.settings) && !errors.length) return;
    this.use({settings, errors}, false);
  }

  /**
   * The settings of a link; `run`: whether the network learns at once.
   * @param {{settings: Settings, errors: string[]}} link @param {boolean} run
   */
  use({settings, errors}, run) {
    const line = this.at("refused");
    line.hidden = errors.length === 0;
    line.replaceChildren(...errors.flatMap((text, i) => (i ? [document.createElement("br"), text] : [text])));
    this.settings = settings;
    this.controls();
    this.start(run);
  }

  /** Play, one update, again; speed; the sample. */
  buttons() {
    this.play = button({label: "▶ Play", primary: true, hint: "train, or pause (space)", press: () => this.toggle()});
    const one = button({label: "One update", hint: "learn from one batch", press: () => this.once()});
    const again = button({label: "Start again", hint: "new weights from the seed", press: () => this.start(false)});
    const speeds = [{value: SLOW, label: "slow"}, {value: SLOW / 10, label: "medium"}, {value: 0, label: "fast"}];
    const speed = choice({label: "", options: speeds, value: 0, change: (value) => {
      this.interval = value;
      if (this.running) this.send({type: "run", interval: value});
    }});
    /** @type {Element} */ (speed.element.querySelector(".segments")).setAttribute("aria-label", "speed");
    /** @type {Element} */ (speed.element.querySelector(".name")).remove();
    const link = button({label: "Copy link", hint: "a link to these settings, to hand out", press: async () => {
      this.writeLink();
      const copied = await copy(location.href);
      link.textContent = copied ? "Copied" : "It is in the address bar";
      setTimeout(() => (link.textContent = "Copy link"), 2000);
    }});
    this.at("buttons").append(this.play, one, again, speed.element, link);
    /** @param {number} way */
    const step = (way) => {
      const {steps} = this.settings;
      this.passes = 0;
      this.position = (Math.floor(Math.max(0, this.position)) + way + steps) % steps + (calm() ? 0 : 0.5);
      this.showStep();
    };
    this.at("sample-buttons").append(
      button({label: "Next sample", hint: "another one of the test set", press: () => this.nextSample()}),
      button({label: "‹", hint: "one time step back", press: () => step(-1)}),
      button({label: "›", hint: "one time step on", press: () => step(1)}),
      button({label: "Replay", hint: "from the first time step", press: () => this.replay()}),
    );
    for (const [i, name] of ["one time step back", "one time step on"].entries()) {
      this.at("sample-buttons").children[i + 1].setAttribute("aria-label", name);
    }
    for (const link of this.at("try").querySelectorAll("a")) {
      link.addEventListener("click", (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return; // a tab of its own
        event.preventDefault();
        this.guide.close();
        this.use(readLink(link.hash), true);
        this.play.focus({preventScroll: true});
        scrollTo({top: 0, behavior: calm() ? "auto" : "smooth"});
      });
    }
    for (const preset of PRESETS) {
      const press = () => this.breakIt(preset);
      this.at("presets").append(button({label: preset.label, hint: "set it up and press play", press}));
    }
    this.at("presets").append(button({label: "Back to what works", press: () => this.whole()}));
    const code = button({label: "Copy", hint: "the code to the clipboard", press: async () => {
      this.at("code").select();
      code.textContent = (await copy(this.at("code").value)) ? "Copied" : "Selected: press Ctrl+C";
      setTimeout(() => (code.textContent = "Copy"), 2000);
    }});
    this.at("python-buttons").append(code);
    document.addEventListener("keydown", (event) => {
      if (event.key !== " " ||
        /** @type {Element} */ (event.target).closest("button, input, select, textarea, summary, a")) return;
      event.preventDefault();
      this.toggle();
    });
  }

  /** Controls of the settings as they are; they differ between neurons. */
  controls() {
    const {settings} = this, kind = NEURONS[settings.neuron], plain = defaults(settings.data, settings.neuron);
    /** @param {keyof Settings} key */
    const change = (key) => (/** @type {Value} */ value) => this.change(key, value);
    /** @param {NeuronKey|keyof typeof NUMBERS} key @param {Partial<Range> & {hint?: string}} more */
    const number = (key, more = {}) => {
      const control = slider({.../** @type {Record<string, Range>} */ (NUMBERS)[key], ...more,
        value: /** @type {number} */ (plain[key]), change: change(key)});
      control.set(/** @type {number} */ (settings[key]));
      return control.element;
    };
    /**
     * @param {keyof Settings} key @param {string} label @param {Array<Option<string|number>>} options
     * @param {{list?: boolean}} more
     */
    const pick = (key, label, options, more = {}) => {
      return choice({label, options, value: /** @type {string|number} */ (settings[key]), change: change(key),
        ...more}).element;
    };
    /** @param {Record<string, {label?: string, hint?: string}>} table */
    const named = (table) => Object.entries(table).map(([value, {label = value, hint}]) => ({value, label, hint}));
    /** @param {string} title @param {Array<Node|string|false|null>} parts */
    const group = (title, ...parts) => {
      const heading = make("h2", {}, title);
      return make("section", {className: "panel", "aria-label": title}, heading,
        .../** @type {Node[]} */ (parts.filter(Boolean)));
    };
    const sizes = settings.hidden.map((size, i) => {
      /** @param {number} value */
      const resize = (value) => this.change("hidden", settings.hidden.map((old, j) => (i === j ? value : old)));
      const range = {min: 2, max: 128, step: 1, log: true};
      return slider({label: `hidden ${i + 1}`, unit: "neurons", ...range, value: size, change: resize}).element;
    });
    /** @param {number[]} values */
    const counts = (values) => values.map((value) => ({value, label: String(value)}));
    const depth = choice({label: "hidden layers", options: counts([1, 2, 3]), value: sizes.length, change: (value) => {
      const last = settings.hidden.at(-1);
      this.change("hidden", Array.from({length: value}, (_, i) => settings.hidden[i] ?? last));
    }});
    const seen = "The surrogate's slope, and how far the membranes of hidden neurons are from the threshold";
    const canvas = make("canvas", {className: "surrogate", role: "img", "aria-label": seen});
    const slope = SURROGATES[settings.surrogate].slope;
    const names = {subtract: "subtract θ", zero: "to zero", none: "none"};
    const resets = kind.resets.map((value) => ({value, label: names[value]}));
    this.at("settings").replaceChildren(
      group("Data",
        pick("data", "data set", named(DATA), {list: true}),
        settings.data !== "xor" && pick("encoding", "what the input neurons send", named(ENCODINGS), {list: true}),
        number("steps", settings.data === "xor" ? {min: 10} : {})),
      group("Network", depth.element, ...sizes),
      group("Neurons",
        pick("neuron", "model", named(NEURONS)),
        make("p", {className: "small muted"}, kind.hint),
        ...kind.numbers.map((one) => number(one.key, one)),
        number("threshold", {label: "threshold θ"}),
        resets.length > 1 && pick("reset", "after a spike", resets, {list: false})),
      group("Learning",
        pick("surrogate", "surrogate of the spike's slope", named(SURROGATES), {list: true}),
        slope && number("width"),
        canvas,
        legend(["line", "ink", "how much gradient passes"],
          ["box", "muted", "where the membranes of hidden neurons are"]),
        number("lr"), number("penalty", {hint: "pulls each hidden neuron's rate towards 0.1 spikes per step"}),
        pick("batch", "samples in a batch", counts(BATCHES)),
        number("seed", {hint: "of the weights and of the order of samples"})),
    );
    this.surrogate = new SurrogatePlot(canvas);
    this.surrogate.recolour(this.palette);
    this.showSurrogate();
  }

  /** The slope that learning takes for that of a spike: one step back of a generated neuron at rest. */
  showSurrogate() {
    const neuron = this.neurons[`Leaky/none/${this.settings.surrogate}`], {numbers} = complete(this.settings);
    /** @param {number} value */
    const one = (value) => Float32Array.of(value);
    this.surrogate.show((away) => {
      /** @param {string} name @param {number} i */
      const number = (name, i) => one(name.startsWith("surrogate.") ? numbers[name] : neuron.values[i][0]);
      const params = neuron.parameters.map(number);
      const dX = one(0), threshold = params[neuron.parameters.indexOf("threshold")][0];
      neuron.backward(1, 1, one(threshold + away), [one(0)], params, one(1), [one(0)], dX, params.map(() => null));
      return dX[0];
    }, REACH);
    if (this.report?.membranes) this.surrogate.update(this.report.membranes);
  }

  /** @param {keyof Settings} key @param {Value} value */
  change(key, value) {
    const {settings} = this;
    this.changed = performance.now();
    if (key === "threshold") setTimeout(() => this.guide.check(), 1600); // also where it is paused
    if (key === "data") this.guide.close();
    if (key === "data" || key === "neuron") {
      const fresh = key === "data" ? defaults(/** @type {DataName} */ (value), settings.neuron) :
        defaults(settings.data, /** @type {NeuronName} */ (value));
      /** @type {Array<keyof Settings>} */
      const stays = ["surrogate", "width", "penalty", "seed"];
      if (key === "data") stays.push("reset", "leak", "synapse", "adaptation", "threshold");
      else stays.push("hidden", "steps", "encoding", "lr", "batch");
      for (const one of stays) if (one in fresh) /** @type {Loose} */ (fresh)[one] = settings[one];
      this.settings = fresh;
    } else {
      /** @type {Loose} */ (settings)[key] = value;
    }
    if (!LIVE.includes(key)) {
      if (["data", "neuron", "hidden", "surrogate"].includes(key)) this.controls();
      this.start(this.running);
      return;
    }
    this.send({type: "set", settings: complete(this.settings)});
    if (key === "width") this.showSurrogate();
    this.written();
  }

  /** @param {typeof PRESETS[0]} preset */
  breakIt(preset) {
    const {data, neuron = "Leaky", ...rest} = preset.set;
    this.settings = {...defaults(data, neuron), ...rest};
    this.at("preset-text").textContent = preset.text;
    this.guide.close(); // the reader has found something else to do
    this.controls();
    this.start(true);
  }

  whole() {
    this.settings = defaults(this.settings.data);
    this.at("preset-text").textContent = "The settings with which this data set is learned within seconds.";
    this.controls();
    this.start(true);
  }

  /** The link and the code of the settings, a moment after the last change. */
  written() {
    clearTimeout(this.writing);
    this.writing = setTimeout(() => this.writeLink(), 250);
    this.at("code").value = asPython(this.settings);
  }

  writeLink() {
    try {
      history.replaceState(null, "", `#${writeLink(this.settings)}`);
    } catch { /* a page in a frame without an address */ }
  }

  /** @param {Order} message */
  send(message) {
    this.link.post(message);
  }

  /** Weights as the seed draws them, no update so far. */
  start(run = false) {
    const {settings} = this, inPlane = settings.data in PLANE;
    Object.assign(this, {report: null, pending: null, lastMaps: null, watched: null, chosen: false});
    Object.assign(this, {losses: new Series(), rights: new Series(), tests: []});
    if (this.shownData !== settings.data) this.which = {index: 0};
    this.shownData = settings.data;
    this.model = describe(settings, this.digits);
    this.legends();
    this.network.show(this.model);
    this.raster.show(this.model);
    this.membrane.show({trace: null});
    this.at("answers-title").textContent = "Answers";
    this.at("decision").hidden = !inPlane;
    this.at("answers").hidden = inPlane;
    if (inPlane) this.decision.show(/** @type {Plane} */ (this.model.plane));
    else this.answers.show(/** @type {Table} */ (this.model.table));
    this.at("answers-text").textContent = this.model.text;
    this.send({type: "build", id: ++this.run, settings: complete(settings), which: this.which});
    this.setRunning(run);
    this.written();
  }

  /** What colours mean; each means one thing on the whole page. */
  legends() {
    const {classes, classNames, spikingInput, table} = this.model, shapes = ["disc", "box", "triangle"];
    /** @type {Entry} */
    const spikes = ["box", "orange", "spikes, and how many"], /** @type {Entry[]} */ weights = [
      ["line", "blue", "weight above 0"], ["dashed", "crimson", "weight below 0"]],
      /** @type {Entry} */ input = ["box", "ink", "input current"];
    /** @type {Entry[]} */
    const outputs = classes > 4 ? [] : classNames.map((name, i) => [shapes[i], CLASS_COLOURS[i], name]);
    /** @type {Entry} */
    const silent = ["cross", "ink", "never fires"], /** @type {Entry[]} */ membrane = [
      ["line", "ink", "membrane"], ["dashed", "muted", "its threshold θ"]];
    const inputs = spikingInput ? [] : [input];
    /** @type {Entry[]} */
    const answers = table ? [["box", "muted", "right"], ["box", "error", "wrong"]] : outputs;
    for (const [place, entries] of Object.entries({
      network: [spikes, ...weights, silent, ...inputs], sample: [spikes, ...inputs, ...outputs, ...membrane], answers,
    })) this.at(`${place}-legend`).replaceChildren(legend(...entries));
  }

  /** @param {boolean} run */
  setRunning(run) {
    this.running = run;
    this.play.textContent = run ? "❚❚ Pause" : "▶ Play";
    this.send(run ? {type: "run", interval: this.interval} : {type: "pause"});
    this.passes = PASSES;
    if (!calm()) this.loop.wake();
  }

  toggle() {
    this.setRunning(!this.running);
    this.say(this.running ? "Training" : this.summary());
  }

  once() {
    if (this.running) this.setRunning(false);
    this.send({type: "one"});
  }

  /** @param {string} text */
  say(text) {
    this.at("said").textContent = text;
  }

  summary() {
    const test = this.tests.at(-1);
    const right = test ? `, ${(100 * test.accuracy).toFixed(1)} % right` : "";
    return `Paused after ${this.report?.updates ?? 0} updates${right}`;
  }

  /** Show another sample: {index} of the test set, or {point} of the plane. @param {Which} which */
  look(which) {
    this.which = which;
    this.send({type: "probe", which});
    this.replay();
  }

  nextSample() {
    this.look({index: (this.report?.probe.point && this.which.point ? 0 : (this.which.index ?? 0) + 1)});
  }

  replay() {
    this.position = 0;
    this.passes = PASSES;
    if (calm()) this.showStep();
    else this.loop.wake();
  }

  /** @param {Report} report */
  receive(report) {
    if (report.id !== this.run) return;
    this.send({type: "seen"});
    for (const {loss, accuracy} of report.batches) {
      this.losses.add(loss);
      this.rights.add(accuracy);
    }
    this.tests.push(...report.tests);
    if (this.tests.length > 4000) this.tests = this.tests.filter((_, i) => i % 2 === 0);
    // What came with an earlier report, and was not painted so far, is still to be painted.
    this.report = {...report, maps: report.maps ?? this.pending?.maps, answers: report.answers ?? this.pending?.answers,
      membranes: report.membranes ?? this.report?.membranes};
    this.pending = this.report;
    this.draw();
  }

  /** Everything that a report changes, at most once a frame. */
  paint() {
    const {report, settings, tests} = this, test = tests.at(-1);
    if (!report || report.id !== this.run) return;
    this.pending = null;
    this.network.update(report);
    this.showMembrane();
    if (settings.data in PLANE) {
      if (report.maps) this.lastMaps = report.maps;
      this.decision.update({rates: report.maps?.at(-1), answers: report.answers, point: report.probe.point});
    } else {
      this.answers.update({answers: report.answers, index: report.probe.index});
    }
    const guess = Math.log(this.model.classes), losses = this.losses.points(300);
    const top = Math.max(guess * 1.15, Math.min(3 * guess, Math.max(0, ...losses.map(([, value]) => value))));
    this.loss.show({
      updates: report.updates, top, level: {value: guess, name: "guessing"},
      lines: [{points: losses, colour: "ink", thick: 1.6}],
    });
    this.accuracy.show({
      updates: report.updates, top: 1, percent: true, level: {value: 1 / this.model.classes, name: "guessing"},
      lines: [
        {points: this.rights.points(150), colour: "muted", thick: 1.2, alpha: 0.7},
        {points: tests.map(({update, accuracy}) => [update, accuracy]), colour: "ink", thick: 2.4},
      ],
    });
    /** @param {string} name @param {string|number} text */
    const set = (name, text) => (this.at(`figure-${name}`).textContent = /** @type {string} */ (text));
    set("accuracy", test ? `${(100 * test.accuracy).toFixed(1)} %` : "–");
    set("loss", losses.length ? /** @type {number[]} */ (losses.at(-1))[1].toFixed(3) : "–");
    set("epoch", report.epoch);
    set("updates", report.updates);
    set("time", `${report.seconds.toFixed(1)} s`);
    this.surrogate.update(/** @type {Membranes} */ (report.membranes)); // the first report has them
    this.health();
    this.sampleText();
    this.neuronText();
    if (this.position < 0 && (calm() || !this.passes)) this.position = settings.steps - 1 + 0.5;
    this.showStep();
    this.guide.check();
  }

  /** How each layer is: how much it fires, which of its neurons are of no use, what gradient arrives. */
  health() {
    const {report} = /** @type {Playground & {report: Report}} */ (this), {rates, gradients, updates} = report;
    const wrong = diagnosis(report); // random weights leave many neurons silent: no alarm before it has learned
    /** @param {Array<Node|string>} cells @param {"td"|"th"} tag */
    const row = (cells, tag = "td") => make("tr", {}, ...cells.map((cell) => {
      return cell instanceof Node ? cell : make(tag, tag === "th" ? {scope: "col"} : {}, cell);
    }));
    /** @param {string} text @param {boolean} isBad */
    const bad = (text, isBad) => make("td", {className: isBad && (updates || wrong) ? "bad" : ""}, text);
    /** @param {number} value */
    const size = (value) => (value === 0 ? "0" : value >= 0.001 ? String(Number(value.toPrecision(2))) :
      value.toExponential(1).replace("-", "−"));
    const rows = rates.map((layer, i) => {
      const mean = layer.reduce((sum, rate) => sum + rate, 0) / layer.length;
      const silent = layer.filter((rate) => rate === 0).length, busy = layer.filter((rate) => rate > 0.9).length;
      return row([i === rates.length - 1 ? "output" : `hidden ${i + 1}`, bad(mean.toFixed(3), mean === 0 || mean > 0.9),
        bad(`${silent} of ${layer.length}`, silent > layer.length / 2), bad(String(busy), busy > layer.length / 2),
        bad(updates ? size(gradients[i]) : "–", updates > 0 && gradients[i] === 0)]);
    });
    this.at("layers").replaceChildren(
      row(["", "spikes per neuron and step", "silent", "fire always", "gradient of the weights"], "th"), ...rows);
    this.at("diagnosis").textContent = wrong;
  }

  sampleText() {
    const {probe} = /** @type {Report} */ (this.report), {classNames, inTime} = this.model;
    const {label, leaders, votes} = probe;
    const place = probe.point?.map((one) => one.toFixed(2)).join(", ");
    const what = inTime ? "Two cues, one after the other" : place ? `The point (${place})` :
      `A ${classNames[/** @type {number} */ (probe.label)]} of the test set`;
    /** @param {number} one */
    const named = (one) => (classNames.length > 4 ? classNames[one] : `“${classNames[one]}”`), first = leaders[0];
    const tie = `a tie of ${leaders.map(named).join(" and ")}, ${votes[first]} votes each, of which the first counts`;
    const answer = !leaders.length ? "no output neuron fires: no answer" :
      leaders.length > 1 ? tie : `the answer is ${named(first)}`;
    const right = label === null || !leaders.length ? "" : first === label ? ", which is right" :
      `, but it is ${named(label)}`;
    this.at("sample-text").textContent = `${what}: ${answer}${right}.`;
  }

  /** Show the membrane of another neuron. @param {Place} place */
  watch(place) {
    if (!this.report) return; // the rows are those of the network before
    Object.assign(this, {watched: place, chosen: true});
    this.say(this.showMembrane());
    this.guide.check();
  }

  /** The membrane of a neuron in the shown sample, of the one that fires most until the reader chooses; in words. */
  showMembrane() {
    const {probe} = /** @type {Report} */ (this.report), {chosen} = this;
    if (!this.watched || !(chosen || trace(probe, this.watched).fired.includes(true))) this.watched = busiest(probe);
    const shown = trace(probe, this.watched), {membrane, threshold, fired} = shown;
    this.raster.update(probe, this.watched);
    this.membrane.show({trace: shown});
    /** @param {number[]} values */
    const range = (values) => [...new Set([Math.min(...values), Math.max(...values)].map((value) => (
      value.toFixed(2).replace("-", "−"))))].join(" to ");
    const count = fired.filter(Boolean).length;
    return (this.at("membrane-text").textContent = `${this.nameOf(this.watched)}: fires in ${count} of ` +
      `${fired.length} steps; membrane ${range(membrane)}, threshold ${range(threshold)}.`);
  }

  /** @param {?Place} place */
  pointed(place) {
    if (place && this.network.pinned) this.watch(place);
    const map = place && this.settings.data in PLANE && this.lastMaps?.[place.layer];
    const cells = this.model.side ** 2;
    const own = map ? map.subarray(place.unit * cells, (place.unit + 1) * cells) : null;
    this.decision.alone(own);
    this.at("answers-title").textContent = own ? `Where ${this.nameOf(/** @type {Place} */ (place))} fires` : "Answers";
    this.neuronText();
  }

  /** @param {Place} place */
  nameOf({layer, unit}) {
    const last = layer === this.model.sizes.length - 2;
    return last ? `output ${this.model.classNames[unit]}` : `hidden ${layer + 1}, neuron ${unit + 1}`;
  }

  neuronText() {
    const place = this.network.selected, {report, settings} = this;
    const first = "Squares are neurons: the more orange, the more they fire. A thick line is a large weight.";
    const cells = settings.data === "xor" ? " The four cells of a square are the four pairs of cues." : "";
    const images = settings.data === "digits" ? " In hidden 1 a square shows the neuron's weights as an image, in " +
      "deeper layers its rate for each digit." : "";
    if (!place || !report) {
      this.at("neuron-text").textContent = first + images + cells;
      return;
    }
    const rate = report.rates[place.layer][place.unit], name = this.nameOf(place);
    const count = `${(rate * settings.steps).toFixed(1)} in the ${settings.steps} steps of a sample`;
    this.at("neuron-text").textContent = rate === 0 ? `${name}: fires for no sample of the test set.` :
      `${name}: ${rate.toFixed(3)} spikes per step, ${count}.`;
  }

  /** Move the spikes on; false: rest. @param {number} passed */
  advance(passed) {
    if (!this.report) return this.running;
    const {steps} = this.settings;
    this.position = Math.max(0, this.position) + passed * STEPS_A_SECOND;
    if (this.position >= steps + REST) {
      this.position = 0;
      if (!this.running) this.passes--;
      if (this.passes <= 0) {
        this.position = -1;
        this.showStep();
        return false;
      }
    }
    this.showStep();
    return true;
  }

  showStep() {
    const {steps} = this.settings, inside = this.position >= 0 && this.position < steps;
    this.network.frame(inside ? this.position : -1);
    const position = this.position >= 0 ? Math.min(this.position, steps) : -1;
    this.raster.frame(position);
    this.membrane.show({position});
  }
}

/** Text to the clipboard; false where the browser forbids it. @param {string} text */
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

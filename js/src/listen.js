// Spike trains to listen to: a click for each spike, a raster for each train, and a line that follows the sound.
import {colours, Loop, surface, watchColours} from "./canvas.js";
import {choice, make} from "./controls.js";

const LOWEST = 440; // hertz of the first neuron's click; the others are above
const CLICK = 0.012; // seconds

/**
 * @typedef {{name: string, neurons: number[][]}} Train `neurons`: the steps at which each neuron of it fires
 * @typedef {Train & {canvas: HTMLCanvasElement, button: HTMLButtonElement, pen: ?CanvasRenderingContext2D,
 *   width: number, height: number, element: ?HTMLElement}} Row of a train; no `pen` until its canvas has a place
 * @typedef {{row: Row, source: AudioBufferSourceNode, began: number, lasts: number}} Playing times in seconds
 */

/** Volumes of the samples of one click. @param {number} rate of samples, in hertz @param {number} hertz */
function click(rate, hertz) {
  return Float32Array.from({length: Math.round(CLICK * rate)},
    (_, n) => Math.sin((2 * Math.PI * hertz * n) / rate) * Math.exp((-6 * n) / (CLICK * rate)));
}

/**
 * @param {HTMLElement} root
 * @param {{seconds: number, steps: number, trains: Train[]}} data `seconds` is what one step lasts
 */
export function listen(root, {seconds, steps, trains}) {
  let presses = 0;
  let palette = colours(root), /** @type {?AudioContext} */ context = null, /** @type {?Playing} */ playing = null;
  const slow = choice({label: "speed", options: [{value: 1, label: "1"}, {value: 0.5, label: "½"},
    {value: 0.25, label: "¼"}], hint: "slower, to count", change: () => stop()});
  const rows = trains.map((train) => row(train));
  const words = make("p", {className: "small muted", textContent: "A click for each spike."});
  if (typeof AudioContext === "undefined") words.textContent = "This browser makes no sounds; the rasters remain.";
  root.append(make("div", {className: "panel stack"}, ...rows.map((one) => /** @type {HTMLElement} */ (one.element)),
    beside(slow.element, words)));

  /** @param {...HTMLElement} elements */
  function beside(...elements) {
    const line = make("div", {}, ...elements);
    line.style.cssText = "display:flex;flex-wrap:wrap;align-items:center;gap:8px";
    return line;
  }

  /** @param {Train} train */
  function row({name, neurons}) {
    const count = neurons.reduce((sum, one) => sum + one.length, 0);
    const canvas = make("canvas", {role: "img", "aria-label": `${name}: ${count} spikes in ${steps} steps`});
    canvas.style.cssText = `width:100%;height:${Math.max(34, 10 * neurons.length)}px;cursor:pointer;margin-top:5px`;
    const button = make("button", {type: "button", textContent: `▶ ${name}`, title: "listen", "aria-pressed": "false"});
    const note = make("span", {className: "small muted", textContent: `${count} spikes`});
    /** @type {Row} */
    const one = {neurons, canvas, button, pen: null, width: 0, height: 0, name, element: null};
    one.element = make("div", {}, beside(button, note), canvas);
    const press = () => (playing?.row === one ? stop() : play(one));
    button.addEventListener("click", press);
    canvas.addEventListener("click", press);
    surface(canvas, (pen, width, height) => {
      Object.assign(one, {pen, width, height});
      draw(one);
    });
    return one;
  }

  /** @param {Row} one */
  function sound(one) {
    const rate = /** @type {AudioContext} */ (context).sampleRate, step = seconds / slow.value;
    const made = /** @type {AudioContext} */ (context).createBuffer(1, Math.ceil((steps * step + 0.05) * rate), rate);
    const samples = made.getChannelData(0);
    one.neurons.forEach((times, neuron) => {
      const shape = click(rate, LOWEST * 2 ** ((7 * neuron) / 12));
      for (const time of times) {
        const start = Math.round(time * step * rate);
        for (let n = 0; n < shape.length && start + n < samples.length; n += 1) samples[start + n] += shape[n];
      }
    });
    const loudest = samples.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    if (loudest > 0) samples.forEach((value, n) => { samples[n] = (0.6 * value) / loudest; });
    return made;
  }

  /** @param {Row} one */
  async function play(one) {
    stop();
    context ??= new AudioContext(); // a browser allows it only in answer to something that the reader does
    const mine = ++presses;
    await context.resume();
    if (mine !== presses) return; // pressed again meanwhile
    const source = context.createBufferSource();
    source.buffer = sound(one);
    source.connect(context.destination);
    source.start();
    playing = {row: one, source, began: context.currentTime, lasts: (steps * seconds) / slow.value};
    one.button.textContent = `■ ${one.name}`;
    one.button.setAttribute("aria-pressed", "true");
    loop.wake();
  }

  function stop() {
    if (!playing) return;
    const {row: one, source} = playing;
    playing = null;
    source.stop();
    one.button.textContent = `▶ ${one.name}`;
    one.button.setAttribute("aria-pressed", "false");
    draw(one);
  }

  /** @param {Row} one */
  function draw(one) {
    const {pen, width, height, neurons} = one;
    if (!pen) return;
    const line = height / neurons.length;
    /** @param {number} step */
    const at = (step) => 2 + ((width - 4) * (step + 0.5)) / steps;
    const share = playing?.row === one
      ? (/** @type {AudioContext} */ (context).currentTime - playing.began) / playing.lasts : null;
    pen.clearRect(0, 0, width, height);
    pen.fillStyle = palette.faint;
    pen.fillRect(0, 0, width, height);
    neurons.forEach((times, neuron) => {
      for (const time of times) {
        const now = share !== null && Math.abs(time / steps - share) < 0.012;
        pen.fillStyle = now ? palette.ink : palette.orange;
        pen.fillRect(at(time) - (now ? 1.5 : 1), neuron * line + 3, now ? 3 : 2, line - 6);
      }
    });
    if (share !== null) {
      pen.fillStyle = palette.ink;
      pen.fillRect(share * width, 0, 1.5, height);
    }
  }

  const loop = new Loop(() => {
    if (!playing) return false;
    if (/** @type {AudioContext} */ (context).currentTime - playing.began > playing.lasts) stop();
    else draw(playing.row);
    return playing !== null;
  });
  watchColours(root, (now) => {
    palette = now;
    rows.forEach(draw);
  });
}

// Spikes as clicks, by WebAudio: every layer has its pitch, every output its tone.

const MOST = 24; // clicks in one step: more are one noise

export class Clicks {
  constructor() {
    this.on = false;
    /** @type {?AudioContext} */
    this.context = null;
    /** @type {Map<string, AudioBuffer>} of each pitch, as clicks and as tones */
    this.buffers = new Map();
  }

  /** Whether this browser can make sounds. */
  static get possible() {
    return typeof AudioContext !== "undefined";
  }

  /** On or off; a browser allows it only in answer to something that the reader does. @param {boolean} on */
  set(on) {
    if (on && !this.context) {
      this.context = new AudioContext();
      this.volume = this.context.createGain();
      this.volume.gain.value = 0.25;
      this.volume.connect(this.context.destination);
    }
    this.on = on;
    if (this.context) this.context[on ? "resume" : "suspend"]();
  }

  /**
   * The spikes of one layer in one step.
   * @param {number[]} neurons that fired
   * @param {number} pitch in hertz
   * @param {number} after seconds from now until the first click
   * @param {number} during seconds over which they are spread
   * @param {boolean} tone whether a click rings, at a pitch for each neuron
   */
  play(neurons, pitch, after, during, tone = false) {
    if (!this.on || this.context?.state !== "running" || neurons.length === 0) return;
    const every = Math.ceil(neurons.length / MOST);
    for (let i = 0; i < neurons.length; i += every) {
      const hertz = tone ? pitch * 2 ** (neurons[i] / 12) : pitch;
      const source = this.context.createBufferSource();
      source.buffer = this.buffer(Math.round(hertz), tone);
      source.connect(/** @type {GainNode} */ (this.volume));
      source.start(this.context.currentTime + after + (during * i) / neurons.length);
    }
  }

  /**
   * A short sine that dies away: 6 ms for a click, 90 ms for a tone.
   * @param {number} hertz @param {boolean} tone
   * @returns {AudioBuffer}
   */
  buffer(hertz, tone) {
    const key = `${hertz} ${tone}`;
    if (!this.buffers.has(key)) {
      const context = /** @type {AudioContext} */ (this.context);
      const rate = context.sampleRate, decay = tone ? 0.03 : 0.0015, length = Math.ceil(rate * decay * 6);
      const buffer = context.createBuffer(1, length, rate), samples = buffer.getChannelData(0);
      for (let i = 0; i < length; i++) {
        const t = i / rate;
        samples[i] = (tone ? 0.5 : 0.7) * Math.exp(-t / decay) * Math.sin(2 * Math.PI * hertz * t);
      }
      this.buffers.set(key, buffer);
    }
    return /** @type {AudioBuffer} */ (this.buffers.get(key));
  }
}

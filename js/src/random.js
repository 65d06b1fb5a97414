/** PyTorch's random numbers on a CPU, number for number: `torch.manual_seed(seed)`, then `rand` and its kind.
 *
 * So weights, batches and data drawn here are those of the same lines in Python.
 */

const N = 624;

/** The Mersenne Twister MT19937 (Matsumoto and Nishimura 1998), which PyTorch uses on a CPU. */
export class Generator {
  /** @param {number} seed whole number of at least 0; its lowest 32 bits count */
  constructor(seed) {
    this.words = new Uint32Array(N);
    this.words[0] = seed >>> 0;
    for (let i = 1; i < N; i++) {
      const last = this.words[i - 1] ^ (this.words[i - 1] >>> 30);
      this.words[i] = Math.imul(1812433253, last) + i;
    }
    this.next = N;
  }

  /** The next 32 bits, as a number of at least 0. */
  bits() {
    if (this.next === N) this.twist();
    let y = this.words[this.next++];
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    return (y ^ (y >>> 18)) >>> 0;
  }

  twist() {
    const words = this.words;
    for (let i = 0; i < N; i++) {
      const y = (words[i] & 0x80000000) | (words[(i + 1) % N] & 0x7fffffff);
      words[i] = words[(i + 397) % N] ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
    }
    this.next = 0;
  }

  /** One float32 in [0, 1), as `torch.rand(())`. */
  unit() {
    return (this.bits() & 0xffffff) * 2 ** -24;
  }

  /** As `torch.rand(count)`. @param {number} count */
  rand(count) {
    const out = new Float32Array(count);
    for (let i = 0; i < count; i++) out[i] = this.unit();
    return out;
  }

  /**
   * As `torch.empty(count).uniform_(low, high)`, whose product and sum are rounded once (a fused multiply-add).
   * @param {number} count @param {number} low @param {number} high
   */
  uniform(count, low, high) {
    const from = Math.fround(low), width = Math.fround(Math.fround(high) - from);
    const out = new Float32Array(count);
    for (let i = 0; i < count; i++) out[i] = Math.fround(this.unit() * width + from);
    return out;
  }

  /** As `torch.randperm(count)`. @param {number} count */
  permutation(count) {
    const out = new Int32Array(count);
    for (let i = 0; i < count; i++) out[i] = i;
    for (let i = 0; i < count - 1; i++) {
      const j = i + (this.bits() % (count - i));
      [out[i], out[j]] = [out[j], out[i]];
    }
    return out;
  }
}

/** Data to learn from, drawn by PyTorch's generator: points in the plane with a class, and XOR in time.
 *
 * Points lie in the unit square; a network sees each as four numbers in [0, 1]: x, y, 1 - x, 1 - y (as Kriener et al.
 * 2022 do for yin-yang, doi:10.1145/3517343.3517380). Each set has beside it the same in Python: `python` makes
 * `points` [n, 2] and `labels` [n] from a function `rand(n, k)` of float64 numbers in [0, 1).
 */

/**
 * @import {Generator} from "./random.js"
 * @typedef {{points: Float32Array, labels: Int32Array}} Points [n, 2] and [n]
 * @typedef {{label: string, classes: string[], draw: function(number, Generator): Points, python: string}} PlaneSet
 */

const TURN = 2 * Math.PI;

/**
 * [n, 2] and [n] from an equation of two uniform numbers and the class, the classes in turn.
 * @param {number} count @param {number} classes @param {Generator} generator
 * @param {function(number, number, number): number[]} place
 */
function drawn(count, classes, generator, place) {
  const points = new Float32Array(2 * count), labels = new Int32Array(count);
  const u = generator.rand(2 * count);
  for (let i = 0; i < count; i++) {
    labels[i] = i % classes;
    points.set(place(u[2 * i], u[2 * i + 1], labels[i]), 2 * i);
  }
  return {points, labels};
}

/** @param {number} radius @param {number} angle */
const round = (radius, angle) => [0.5 + radius * Math.cos(angle), 0.5 + radius * Math.sin(angle)];

/** Of yin-yang: 0 yin, 1 yang, 2 a dot, null outside. @param {number} x @param {number} y */
function yinYang(x, y) {
  const radius = 0.5, dot = 0.1;
  /** @param {number} cx @param {number} cy */
  const square = (cx, cy) => (x - cx) ** 2 + (y - cy) ** 2;
  if (square(0.5, 0.5) > radius ** 2) return null;
  const right = square(0.75, 0.5), left = square(0.25, 0.5);
  if (Math.min(right, left) < dot ** 2) return 2;
  const yin = right <= (radius / 2) ** 2 || (left > (radius / 2) ** 2 && y > 0.5);
  return yin ? 0 : 1;
}

/** @type {Record<string, PlaneSet>} */
export const PLANE = {
  circles: {
    label: "circles",
    classes: ["disc", "ring"],
    draw: (count, generator) => drawn(count, 2, generator, (u, w, label) => {
      return round(label ? 0.32 + 0.13 * u : 0.22 * Math.sqrt(u), TURN * w);
    }),
    python: `def draw(n):
    u, labels = rand(n, 2), torch.arange(n) % 2
    radius = torch.where(labels == 1, 0.32 + 0.13 * u[:, 0], 0.22 * u[:, 0].sqrt())
    angle = 2 * math.pi * u[:, 1]
    return 0.5 + radius[:, None] * torch.stack([angle.cos(), angle.sin()], 1), labels`,
  },
  spirals: {
    label: "spirals",
    classes: ["one arm", "the other"],
    draw: (count, generator) => drawn(count, 2, generator, (u, w, label) => {
      const along = Math.sqrt(u);
      return round(0.04 + 0.42 * along + 0.05 * (w - 0.5), TURN * (1.25 * along + 0.5 * label));
    }),
    python: `def draw(n):
    u, labels = rand(n, 2), torch.arange(n) % 2
    along = u[:, 0].sqrt()
    radius = 0.04 + 0.42 * along + 0.05 * (u[:, 1] - 0.5)
    angle = 2 * math.pi * (1.25 * along + 0.5 * labels)
    return 0.5 + radius[:, None] * torch.stack([angle.cos(), angle.sin()], 1), labels`,
  },
  yinyang: {
    label: "yin-yang",
    classes: ["yin", "yang", "dot"],
    draw(count, generator) {
      const points = new Float32Array(2 * count), labels = new Int32Array(count);
      const taken = [0, 0, 0], most = Math.ceil(count / 3), u = generator.rand(2 * 16 * count);
      for (let i = 0, k = 0; k < 3 * most && i < u.length; i += 2) {
        const label = yinYang(u[i], u[i + 1]);
        if (label === null || taken[label] === most) continue;
        const to = 3 * taken[label]++ + label;
        k++;
        if (to >= count) continue;
        points.set([u[i], u[i + 1]], 2 * to);
        labels[to] = label;
      }
      return {points, labels};
    },
    python: `def draw(n):
    points = rand(16 * n, 2)
    left, middle, right = ((points - torch.tensor([x, 0.5])).square().sum(1) for x in (0.25, 0.5, 0.75))
    yin = (right <= 0.25**2) | ((left > 0.25**2) & (points[:, 1] > 0.5))
    label = torch.where(torch.minimum(left, right) < 0.1**2, 2, (~yin).long()).masked_fill(middle > 0.5**2, -1)
    each = [points[label == k][: -(-n // 3)] for k in range(3)]  # yin, yang, a dot
    return torch.stack(each, 1).flatten(0, 1)[:n], torch.arange(n) % 3`,
  },
};

/** Points [n, 2] as what a network sees [n, 4]. @param {ArrayLike<number>} points */
export function planeInputs(points) {
  const x = new Float32Array(2 * points.length);
  for (let i = 0; i < points.length / 2; i++) {
    const a = points[2 * i], b = points[2 * i + 1];
    x.set([a, b, 1 - a, 1 - b], 4 * i);
  }
  return x;
}

export const CUE = 3, UNITS = 5;

/**
 * As `snnkit.data.xor_in_time(count, steps, delay=steps - 10)`: spikes [T][n][10], labels, and the pairs of cues.
 * @param {number} count @param {number} steps @param {Generator} generator
 */
export function xorInTime(count, steps, generator) {
  const order = generator.permutation(count), width = 2 * UNITS;
  const pairs = order.map((value) => value % 4), labels = pairs.map((pair) => (pair >> 1) ^ (pair & 1));
  const spikes = new Float32Array(steps * count * width), second = steps - CUE - 4;
  for (let t = 0, k = 0; t < steps; t++) {
    for (let i = 0; i < count; i++) {
      const cue = t < CUE ? pairs[i] >> 1 : t >= second && t < second + CUE ? pairs[i] & 1 : -1;
      for (let j = 0; j < width; j++, k++) {
        // The rate 0.6 as a float32, with which PyTorch compares.
        spikes[k] = generator.unit() < (Math.floor(j / UNITS) === cue ? Math.fround(0.6) : 0) ? 1 : 0;
      }
    }
  }
  return {spikes, labels, pairs};
}

// From strokes to an image like those that a network was trained on, and an image moved and tilted.
//
// What people draw is small, large, in a corner or thick. The digits of data sets are not: each was scaled to one size
// and centred. The same is done here, to the strokes themselves, so that the lines are as thick as those of the data.
// Only what is read from left to right, such as a sound, stays where it is drawn.

/**
 * How the images of two data sets were made, in parts of the image's side, and a drawing that stays as it is:
 * `height`, `width`: the box that a drawing fills; `narrow`: drawings are made at least so wide; `keep`: whether the
 * proportions stay, or "place": all stays, and strokes are in parts of the field; `line`: how thick lines are; `ink`:
 * mean of the pixels that thickness is chosen for, if given; `mass`: whether the centre of mass comes into the middle,
 * or that of the box.
 *
 * @typedef {{line: number, ink?: number, mass: boolean} & ({keep: "place"}|{keep: true, height: number, width: number}
 *   |{keep: false, height: number, width: number, narrow: number})} Style
 * @type {{mnist: Style, digits: Style, drawn: Style}}
 */
export const STYLES = {
  mnist: {height: 20 / 28, width: 20 / 28, keep: true, line: 2.6 / 28, mass: true},
  digits: {height: 1, width: 22 / 32, narrow: 12 / 32, keep: false, line: 5 / 32, ink: 0.3, mass: false},
  drawn: {keep: "place", line: 0.18, mass: false},
};

/**
 * @typedef {[x: number, y: number]} Point
 * @typedef {Point[]} Stroke
 * @typedef {{rows: number, columns: number}} Grid
 */

/**
 * The style of images with so many rows: small ones are like the 8 × 8 digits of UCI, larger ones like MNIST.
 * @param {number} rows
 */
export function styleOf(rows) {
  return rows < 16 ? STYLES.digits : STYLES.mnist;
}

/** Whether there is anything to see in these strokes: arrays of points [x, y]. @param {Stroke[]} strokes */
export function isBlank(strokes) {
  return strokes.every((stroke) => stroke.length === 0);
}

/**
 * Strokes as an image with values in [0, 1]: scaled, centred, and as thick as `style` says.
 * @param {Stroke[]} strokes in any unit, y downwards; if they keep their place, in parts of the sides
 * @param {number} rows
 * @param {number} columns
 * @returns {Float32Array} [rows * columns]
 */
export function rasterize(strokes, rows, columns, style = styleOf(rows)) {
  const image = new Float32Array(rows * columns);
  if (isBlank(strokes)) return image;
  const fine = rows < 16 ? 8 : 4; // samples along each side of a pixel
  const grid = {rows: rows * fine, columns: columns * fine};
  let radius = (style.line / 2) * grid.rows, placed = place(strokes, grid, style, radius);
  let distance = distances(placed, grid, 3 * radius);
  if (style.ink) {
    // Thicker or thinner, between half and one and a half times, until there is as much ink as in the data.
    let low = 0.6 * radius, high = 1.5 * radius;
    for (let round = 0; round < 8; round++) {
      radius = (low + high) / 2;
      let ink = 0;
      for (const d of distance) if (d < radius) ink++;
      if (ink < style.ink * distance.length) low = radius;
      else high = radius;
    }
    placed = place(strokes, grid, style, radius);
    distance = distances(placed, grid, radius + 1);
  }
  if (style.mass) {
    const [x, y] = centre(distance, grid, radius);
    const moved = [(grid.columns - 1) / 2 - x, (grid.rows - 1) / 2 - y];
    placed = placed.map((stroke) => stroke.map(([a, b]) => [a + moved[0], b + moved[1]]));
    distance = distances(placed, grid, radius + 1);
  }
  for (let y = 0, at = 0; y < grid.rows; y++) {
    const row = Math.floor(y / fine) * columns;
    for (let x = 0; x < grid.columns; x++, at++) {
      const covered = Math.min(Math.max(radius - distance[at] + 0.5, 0), 1);
      if (covered) image[row + Math.floor(x / fine)] += covered / (fine * fine);
    }
  }
  return image;
}

/**
 * The strokes in the grid's unit, scaled to the box of the style and in its middle.
 * @param {Stroke[]} strokes @param {Grid} grid @param {Style} style @param {number} radius @returns {Stroke[]}
 */
function place(strokes, grid, style, radius) {
  if (style.keep === "place") {
    return strokes.map((stroke) => stroke.map(([x, y]) => [x * grid.columns - 0.5, y * grid.rows - 0.5]));
  }
  const xs = strokes.flat().map(([x]) => x), ys = strokes.flat().map(([, y]) => y);
  const [left, right, top, bottom] = [least(xs), -least(xs.map((x) => -x)), least(ys), -least(ys.map((y) => -y))];
  // The box holds the lines with their thickness.
  const tall = Math.max(style.height * grid.rows - 2 * radius, 1);
  const wide = Math.max(style.width * grid.columns - 2 * radius, 1);
  const height = Math.max(bottom - top, 1e-6), width = Math.max(right - left, 1e-6);
  let down = tall / height, across = down;
  if (style.keep) {
    down = across = Math.min(tall / height, wide / width);
  } else if (width > 3 * height) {
    down = across = wide / width; // a dash stays one
  } else {
    const narrow = Math.max(style.narrow * grid.columns - 2 * radius, 1);
    // What is nearly a line is not made wide: its width says nothing.
    const wanted = Math.max(width * down, Math.min(narrow, 3 * width * down));
    across = Math.min(wanted, wide) / width;
  }
  const x0 = (grid.columns - 1) / 2 - (across * (left + right)) / 2;
  const y0 = (grid.rows - 1) / 2 - (down * (top + bottom)) / 2;
  return strokes.map((stroke) => stroke.map(([x, y]) => [x0 + across * x, y0 + down * y]));
}

/** @param {number[]} values */
function least(values) {
  return values.reduce((a, b) => Math.min(a, b), Infinity);
}

/**
 * How far each sample is from the nearest line, where that is less than `most`.
 * @param {Stroke[]} strokes @param {Grid} grid @param {number} most
 */
function distances(strokes, {rows, columns}, most) {
  const squares = new Float32Array(rows * columns).fill(1e9);
  for (const stroke of strokes) {
    for (let i = 0; i < stroke.length; i++) {
      const [x0, y0] = stroke[Math.max(i - 1, 0)], [x1, y1] = stroke[i];
      if (i === 0 && stroke.length > 1) continue; // a single point is a dot
      const dx = x1 - x0, dy = y1 - y0, length = dx * dx + dy * dy;
      const bottom = Math.min(Math.ceil(Math.max(y0, y1) + most), rows - 1);
      const right = Math.min(Math.ceil(Math.max(x0, x1) + most), columns - 1);
      const left = Math.max(Math.floor(Math.min(x0, x1) - most), 0);
      for (let y = Math.max(Math.floor(Math.min(y0, y1) - most), 0); y <= bottom; y++) {
        for (let x = left; x <= right; x++) {
          const along = length ? Math.min(Math.max(((x - x0) * dx + (y - y0) * dy) / length, 0), 1) : 0;
          const square = (x - x0 - along * dx) ** 2 + (y - y0 - along * dy) ** 2;
          if (square < squares[y * columns + x]) squares[y * columns + x] = square;
        }
      }
    }
  }
  return squares.map(Math.sqrt);
}

/** @param {Float32Array} distance @param {Grid} grid @param {number} radius */
function centre(distance, {rows, columns}, radius) {
  let sum = 0, x = 0, y = 0;
  for (let row = 0, at = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++, at++) {
      if (distance[at] >= radius) continue;
      sum++;
      x += column;
      y += row;
    }
  }
  return sum ? [x / sum, y / sum] : [(columns - 1) / 2, (rows - 1) / 2];
}

/**
 * An image moved by `dx` and `dy` pixels and turned clockwise by `degrees` about its middle; what comes in is 0.
 * @param {Float32Array} image [channels * rows * columns]
 * @param {[channels: number, rows: number, columns: number]} size
 * @param {number} dx @param {number} dy @param {number} degrees
 */
export function moved(image, [channels, rows, columns], dx, dy, degrees) {
  if (dx === 0 && dy === 0 && degrees === 0) return image;
  const out = new Float32Array(image.length), angle = (degrees * Math.PI) / 180;
  const cos = Math.cos(angle), sin = Math.sin(angle), middle = [(columns - 1) / 2, (rows - 1) / 2];
  /** @param {number} c @param {number} y @param {number} x */
  const pixel = (c, y, x) => (x < 0 || y < 0 || x >= columns || y >= rows ? 0 : image[(c * rows + y) * columns + x]);
  for (let y = 0; y < rows; y++) {
    for (let x = 0; x < columns; x++) {
      const right = x - dx - middle[0], down = y - dy - middle[1];
      const fromX = cos * right + sin * down + middle[0], fromY = cos * down - sin * right + middle[1];
      const x0 = Math.floor(fromX), y0 = Math.floor(fromY), a = fromX - x0, b = fromY - y0;
      for (let c = 0; c < channels; c++) {
        const above = (1 - a) * pixel(c, y0, x0) + a * pixel(c, y0, x0 + 1);
        const below = (1 - a) * pixel(c, y0 + 1, x0) + a * pixel(c, y0 + 1, x0 + 1);
        out[(c * rows + y) * columns + x] = (1 - b) * above + b * below;
      }
    }
  }
  return out;
}

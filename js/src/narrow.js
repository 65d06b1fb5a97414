// Plotly figures on a phone: panels come one below the other, names of lines into a legend below.

/**
 * @typedef {Record<string, any>} Layout of plotly
 * @typedef {{data: Record<string, any>[], layout: Layout, frames?: {layout?: Layout}[]}} Figure
 */

// In px: a page, a row of a legend and a letter in it, the right margin; the least height of a panel, a gap below it.
const PAGE = 700, ROW = 20, LETTER = 7.2, SIDE = 16, LEAST = 120, GAP = 70;
const MARGIN = {l: 62, r: 24, t: 52, b: 54}; // of layouts without their own, as in viz/theme.py
const MOST = 16, LONGEST = 28; // letters of a line at the left, and in a legend
const NAME = /^<span style="color:[^>]*>●<\/span> /;

/** Whether many small pictures stand side by side with words above them. @param {Layout} layout */
export const isGrid = (layout) => Boolean(layout.yaxis?.scaleanchor) && (layout.annotations?.length ?? 0) > 4;

/** Lays a figure out anew for `wide` pixels. @param {Figure} figure @param {number} wide */
export function narrow({data, layout, frames = []}, wide) {
  const all = [layout, ...frames.flatMap((frame) => frame.layout ?? [])];
  const margin = layout.margin = {...MARGIN, ...layout.template?.layout?.margin, ...layout.margin};
  const page = (layout.height ?? 450) - margin.t - margin.b;
  const plot = Math.max(page, ...data.map((trace) => rowsNeed(trace, layout)));
  const beside = layout.legend?.orientation !== "h";
  let below = beside ? margin.b : -layout.legend.y * page; // px from the plot to the legend
  if (namesBecomeLegend(data, all)) layout.showlegend = true;
  const notes = /** @type {Layout[]} */ (layout.annotations ?? []);
  const ends = notes.filter(({xref = "x", xanchor}) => xref === "x" && xanchor === "left").map(({text}) => text.length);
  const letters = Math.max(0, ...ends); // of a number at the end of a bar
  const bars = letters > 0 && data.some(({type}) => type === "bar");
  margin.r = bars ? Math.min(LETTER * letters + 14, 90) : Math.min(margin.r, SIDE);
  const left = Math.max(margin.l, ...data.map((trace) => 24 + LETTER * wrapRows(trace, layout, plot)));
  const title = layout.xaxis?.title;
  const inner = wide - left - margin.r;
  if (title?.text) {
    const text = wrapped(title.text, inner / LETTER), more = ROW * (text.split("<br>").length - 1);
    layout.xaxis = {...layout.xaxis, title: {...title, text}};
    below += more;
    margin.b += more;
  }
  margin.t += wrapNotes(layout, (wide - 2 * SIDE) / LETTER);
  const square = layout.yaxis?.scaleanchor ? Math.min(1, inner / (PAGE - margin.l - margin.r)) : 1;
  const now = stacked(layout, plot) ?? plot * square;
  const shown = data.filter(({type, name, showlegend}) => name && showlegend !== false && type !== "heatmap");
  for (const trace of shown) trace.name = wrapped(`${trace.name}`, LONGEST);
  const names = shown.map(({name}) => name);
  if (layout.showlegend !== false && (names.length > 1 || layout.showlegend)) {
    const more = rows(names, wide) - (beside ? 0 : rows(names, PAGE));
    margin.b += ROW * more + (beside ? 8 : 0);
    for (const {pad} of beside ? [] : layout.sliders ?? []) pad.t += ROW * more;
    Object.assign(layout.legend ??= {}, {orientation: "h", x: 0, xanchor: "left", yanchor: "top"});
    layout.legend.y = -below / Math.max(now, 40);
  }
  const height = Math.round(now + margin.t + margin.b);
  for (const one of all) {
    if (one === layout || one.height) one.height = height;
    if (one.margin) one.margin = {...margin};
  }
}

/**
 * The names at the left of rows, if they are words.
 * @param {Record<string, any>} trace @param {Layout} layout @returns {string[]}
 */
function rowNames({y, yaxis = "y"}, layout) {
  const {ticktext} = layout[`yaxis${yaxis.slice(1)}`] ?? {};
  return ticktext ?? (Array.isArray(y) && y.every((one) => typeof one === "string") ? [...new Set(y)] : []);
}

/** How high a plot is to be for names that need two lines. @param {Record<string, any>} trace @param {Layout} layout */
function rowsNeed(trace, layout) {
  const names = rowNames(trace, layout);
  return names.some((name) => name.length > 1.5 * MOST) ? names.length * 1.7 * ROW : 0;
}

/**
 * Long names at the left of rows get two lines; how many letters the longest has then.
 * @param {Record<string, any>} trace @param {Layout} layout @param {number} plot px
 */
function wrapRows(trace, layout, plot) {
  const key = `yaxis${(trace.yaxis ?? "y").slice(1)}`, axis = layout[key] ?? {}, named = rowNames(trace, layout);
  const letters = Math.max(0, ...named.flatMap((name) => name.split("<br>")).map((line) => line.length));
  const done = named.some((name) => name.includes("<br>")); // for a trace before
  if (done || letters <= MOST || plot / named.length < 1.6 * ROW || axis.type === "date") return letters;
  const most = Math.max(MOST, letters / 2 + 3);
  layout[key] = {...axis, tickvals: axis.tickvals ?? named, ticktext: named.map((name) => wrapped(name, most))};
  return most;
}

/**
 * Long notes above a plot get more lines; how many px more they take.
 * @param {Layout} layout @param {number} most letters of a line
 */
function wrapNotes(layout, most) {
  let more = 0;
  for (const note of layout.annotations ?? []) {
    if (note.yref !== "paper" || note.yanchor !== "bottom" || note.y < 1 || !note.text) continue;
    const lines = note.text.split("<br>").length;
    if (note.text.length <= most * lines * 0.7) continue;
    note.text = wrapped(note.text.replaceAll("<br>", " "), most);
    Object.assign(note, {x: 1, xref: "paper", xanchor: "right", align: "left"}); // over the numbers of the axis, too
    more = Math.max(more, note.text.split("<br>").length - lines);
  }
  return more * ROW;
}

/** @param {string} text @param {number} most letters of a line */
export function wrapped(text, most) {
  return text.split("<br>").map((line) => {
    const lines = [""];
    for (const word of line.split(" ")) {
      const longer = `${lines.at(-1)} ${word}`.trim();
      if (longer.replace(/<[^>]*>/g, "").length <= most || !lines.at(-1)) lines[lines.length - 1] = longer;
      else lines.push(word);
    }
    return lines.join("<br>");
  }).join("<br>");
}

/** How many rows of one line a legend of these names has. @param {string[]} names @param {number} wide */
function rows(names, wide) {
  const lines = names.map((name) => name.split("<br>"));
  const column = 50 + LETTER * Math.max(0, ...lines.flat().map((line) => line.length));
  const columns = Math.max(1, Math.floor((wide - 90) / column));
  return Math.ceil(names.length / columns) * Math.max(1, ...lines.map((one) => one.length));
}

/**
 * Takes names beside the ends of lines away, and says whether there were any; lines without one get none in the legend.
 * @param {Figure["data"]} data @param {Layout[]} layouts
 */
function namesBecomeLegend(data, layouts) {
  const names = new Set();
  for (const layout of layouts) {
    layout.annotations = layout.annotations?.filter((/** @type {{text?: string}} */ {text = ""}) => {
      if (NAME.test(text)) names.add(text.replace(NAME, "").replaceAll("<br>", " "));
      return !NAME.test(text);
    });
  }
  const first = new Set();
  for (const trace of names.size ? data : []) {
    trace.showlegend = names.has(trace.name) && !first.has(trace.name);
    first.add(trace.name);
  }
  return names.size > 0;
}

/**
 * Panels side by side come one below the other; how high all are then, or null.
 * @param {Layout} layout @param {number} plot px
 */
function stacked(layout, plot) {
  const domain = (/** @type {string} */ axis) => layout[axis]?.domain ?? [0, 1];
  const across = (/** @type {string} */ y) => `xaxis${(layout[y].anchor ?? "x").slice(1)}`;
  const panels = Object.keys(layout).filter((key) => /^yaxis\d*$/.test(key) && !layout[key].overlaying);
  if (new Set(panels.map((y) => domain(across(y))[0])).size < 2) return null;
  panels.sort((a, b) => domain(b)[1] - domain(a)[1] || domain(across(a))[0] - domain(across(b))[0]);
  const high = panels.map((y) => Math.max(LEAST, Math.min(200, (domain(y)[1] - domain(y)[0]) * plot)));
  const whole = high.reduce((sum, one) => sum + one + GAP, -GAP);
  const notes = /** @type {Layout[]} */ (layout.annotations ?? []);
  let top = whole;
  const places = panels.map((y, k) => {
    const [left, right] = domain(across(y)), roof = domain(y)[1];
    const title = notes.find(({x, y: at, xref, yref}) => xref === "paper" && yref === "paper" &&
      Math.hypot(x - (left + right) / 2, at - roof) < 0.02);
    const place = {y, title, from: (top - high[k]) / whole, to: top / whole};
    top -= high[k] + GAP;
    return place;
  });
  for (const {y, title, from, to} of places) {
    layout[y] = {...layout[y], domain: [from, to], showticklabels: true};
    layout[across(y)] = {...layout[across(y)], domain: [0, 1]};
    if (title) Object.assign(title, {x: 0.5, y: to});
  }
  return whole;
}

// Pictures while Plotly is being read, and while a control moves: the same lines, points and bars on the same axes as
// its own, with the same numbers beside them, as plain SVG.

import { colourOf } from "./legend.js";

const MARGIN = { l: 56, r: 24, t: 8, b: 44 };
const FONT = 12, TITLE = 14, HALF = 6.5;
// Pixels between two ticks at least, across and up.
const APART = { x: 80, y: 40 };
const CHARACTER = 6.2;
const BAR = 0.8, ROOM = 0.05;

export function sketch(figure, width, height, { ink, grid, wrong }, margin = MARGIN) {
  const traces = figure.data.filter((trace) => trace.x.length && trace.visible !== false);
  const isFlat = traces.some((trace) => trace.orientation === "h");
  const names = isFlat ? traces.flatMap((trace) => trace.y).map(String) : [];
  // Plotly knows how wide its names are; where it has not drawn yet they are guessed.
  const wide = margin === MARGIN ? names.map((name) => CHARACTER * name.length + 24) : [];
  const left = Math.max(margin.l, ...wide), right = width - margin.r;
  const bottom = height - margin.b;
  const across = scale(traces, "x", figure.layout.xaxis, left, right, isFlat);
  const upTo = (edge) => scale(traces, "y", figure.layout.yaxis, bottom, edge, !isFlat);
  // Plotly makes room above for the half of a number that stands out of the axis.
  const edge = isFlat ? margin.t : MARGIN.t, first = upTo(edge);
  const over = isFlat ? 0 : Math.max(edge + HALF - Math.min(...first.ticks.map(([value]) => first.at(value))), 0);
  const top = edge + over, up = over ? upTo(top) : first;
  const svg = node("svg", { class: "sketch", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", "font-size": FONT, "font-family": "'Open Sans', verdana, arial, sans-serif", color: ink, fill: ink });
  for (const [value, label] of across.ticks) svg.append(
    node("line", { x1: across.at(value), x2: across.at(value), y1: top, y2: bottom, stroke: grid }),
    tick(label, { x: across.at(value), y: bottom + 16, "text-anchor": "middle" }));
  for (const [value, label] of up.ticks) svg.append(
    node("line", { x1: left, x2: right, y1: up.at(value), y2: up.at(value), stroke: grid }),
    tick(label, { x: left - 3, y: up.at(value) + 4, "text-anchor": "end" }));
  svg.append(
    text(figure.layout.xaxis.title?.text ?? "", { x: (left + right) / 2, y: height - 8, "text-anchor": "middle", "font-size": TITLE }),
    text(figure.layout.yaxis.title?.text ?? "", { "text-anchor": "middle", transform: `translate(${Math.max(left - 35, 14)} ${(top + bottom) / 2}) rotate(-90)`, "font-size": TITLE }));
  const sums = new Map();
  traces.forEach((trace, i) => svg.append(...(trace.type === "bar" ? bars(trace, across, up, sums) : curve(trace, traces[i - 1], across, up))));
  if (figure.limit) svg.append(node("line", { x1: across.at(figure.limit.at), x2: across.at(figure.limit.at), y1: top, y2: bottom, stroke: wrong, "stroke-width": 3, "stroke-dasharray": "9 9" }));
  return svg;
}

function node(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function text(label, attributes, tag = "text") {
  const made = node(tag, attributes);
  made.textContent = label;
  return made;
}

// A number beside an axis; a power of ten has its exponent above the line.
function tick({ base, exponent, size }, attributes) {
  const made = text(base, { ...attributes, "font-size": size ?? FONT });
  if (exponent !== undefined) made.append(text(exponent, { dy: "-0.6em", "font-size": "70%" }, "tspan"));
  return made;
}

// From values of an axis to places between two pixels, and what is written beside it.
function scale(traces, key, axis, from, to, isLength) {
  const values = traces.flatMap((trace) => trace[key]).filter((value) => value !== null);
  const names = values.some((value) => typeof value === "string") ? [...new Set(axis.categoryarray ?? values)] : null;
  const hasBars = traces.some((trace) => trace.type === "bar");
  if (names) {
    const order = axis.autorange === "reversed" ? names.toReversed() : names;
    const at = (value) => from + (to - from) * (order.indexOf(value) + 0.5) / order.length;
    const unit = Math.abs(to - from) / order.length;
    // Names beside each other need room; below each other they have it.
    const stride = key === "x" ? Math.ceil(CHARACTER * Math.max(...order.map((name) => name.length)) / unit) : 1;
    return { at, unit, ticks: order.filter((_, i) => i % stride === 0).map((name) => [name, { base: name }]) };
  }
  const log = axis.type === "log", inner = log ? Math.log10 : Number;
  const tops = isLength && hasBars ? ends(traces, key) : [], count = new Set(values).size;
  const numbers = [...values, ...tops].map(inner).filter(Number.isFinite);
  let [low, high] = axis.range ?? [Math.min(...numbers), Math.max(...numbers)];
  if (!axis.range) {
    if (!log && (axis.rangemode === "tozero" || (hasBars && isLength))) { low = Math.min(low, 0); high = Math.max(high, 0); }
    // Of bars the outer halves, of curves and points some room.
    const span = (high - low) || 1, room = hasBars && !isLength ? span / Math.max(2 * count - 2, 1) : ROOM * span;
    if (hasBars && !isLength) { low -= room; high += room; }
    else if (key === "y") {
      // A part of the axis, which the room itself makes longer; points have some for their own size as well.
      const isFree = low !== 0 || log, length = Math.abs(to - from);
      const above = ROOM + padding(traces, high, inner) / length, below = isFree ? ROOM + padding(traces, low, inner) / length : 0;
      const whole = span / (1 - above - below);
      high += above * whole;
      low -= below * whole;
    }
    // Across, curves reach the edges and points do not.
    else for (const value of traces.filter((trace) => trace.mode === "markers").flatMap((trace) => trace.x).map(inner).filter(Number.isFinite)) { low = Math.min(low, value - room); high = Math.max(high, value + room); }
    if (!(high > low)) { low -= 0.5; high += 0.5; }
  }
  if (axis.autorange === "reversed") [from, to] = [to, from];
  const at = (value) => from + (to - from) * (inner(value) - low) / (high - low);
  // As Plotly counts them: between four and nine by the room there is, and one.
  const rough = (high - low) / (Math.min(Math.max(Math.abs(to - from) / APART[key], 4), 9) + 1);
  return { at, unit: Math.abs(to - from) / count, ticks: (log ? decades : steps)(low, high, axis.dtick ?? rough) };
}

// Pixels beyond a value that Plotly leaves for the marker that stands there.
function padding(traces, value, inner) {
  const here = traces.filter((trace) => trace.mode?.includes("markers") && trace.y.some((y) => y !== null && inner(y) === value));
  return Math.max(0, ...here.map((trace) => Math.max(...[trace.marker?.size ?? 6].flat()) / 1.6).map((size) => Math.max(size, 3)));
}

// Ends of bars that stand on each other, and of those that say where they begin.
function ends(traces, key) {
  const other = key === "x" ? "y" : "x", sums = new Map();
  return traces.filter((trace) => trace.type === "bar").flatMap((trace) => trace[key].map((value, i) => {
    if (trace.base) return trace.base[i] + value;
    sums.set(trace[other][i], (sums.get(trace[other][i]) ?? 0) + value);
    return sums.get(trace[other][i]);
  }));
}

function steps(low, high, rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((times) => times * power >= rough * (1 - 1e-9));
  const count = Math.floor(high / step) - Math.ceil(low / step) + 1;
  return Array.from({ length: count }, (_, i) => (Math.ceil(low / step) + i) * step).map((value) => [value, { base: written(value) }]);
}

// Powers of ten, the digits between them where there is room; less than one decade is counted as any other axis.
function decades(low, high, rough) {
  if (high - low < 1) return steps(10 ** low, 10 ** high, (10 ** high - 10 ** low) / (1.5 * (high - low) / rough));
  const apart = Math.max(Math.ceil(rough), 1), digits = rough > 0.7 ? [1] : rough > 0.3 ? [1, 2, 5] : [1, 2, 3, 4, 5, 6, 7, 8, 9];
  const ticks = [];
  for (let power = Math.floor(low / apart) * apart; power <= high; power += apart) for (const digit of digits) {
    const value = digit * 10 ** power;
    if (Math.log10(value) < low || Math.log10(value) > high) continue;
    if (digit > 1) ticks.push([value, { base: String(digit), size: 0.75 * FONT }]);
    else ticks.push([value, power === 0 || power === 1 ? { base: String(value), size: 1.25 * FONT } : { base: "10", exponent: String(power).replace("-", "\u2212"), size: 1.25 * FONT }]);
  }
  return ticks;
}

function written(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-4)) return Number(value.toPrecision(3)).toExponential().replace("e+", "e");
  return String(Number(value.toPrecision(4)));
}

// Points of a trace on the picture; null where there is none, or none on this scale.
function places(trace, across, up) {
  return trace.x.map((x, i) => [x, trace.y[i]]).map(([x, y]) => (x === null || y === null ? null : [across.at(x), up.at(y)]))
    .map((point) => (point?.every(Number.isFinite) ? point : null));
}

function curve(trace, before, across, up) {
  const points = places(trace, across, up), sizes = trace.marker?.size ?? 6;
  if (trace.marker?.symbol === "star") return points.flatMap((point) => (point === null ? [] : [node("polygon", { points: star(point, 0.7 * sizes), fill: colourOf(trace) })]));
  if (trace.mode === "markers") {
    const there = points.flatMap((point, i) => (point === null ? [] : [[point, i]])), opacity = trace.opacity ?? trace.marker?.opacity ?? 1;
    const whiskers = there.flatMap(([point, i]) => whisker(trace, i, point[0], up));
    // Thousands of points are the round ends of one line without length.
    if (!Array.isArray(sizes)) return [...whiskers, node("path", { d: there.map(([[x, y]]) => `M${x.toFixed(1)} ${y.toFixed(1)}h0`).join(""), stroke: colourOf(trace), "stroke-width": sizes, "stroke-linecap": "round", "stroke-opacity": opacity })];
    return [...whiskers, ...there.map(([[x, y], i]) => node("circle", { cx: x, cy: y, r: sizes[i] / 2, fill: colourOf(trace), "fill-opacity": opacity }))];
  }
  if (trace.fill) {
    const around = [...points, ...places(before, across, up).reverse()].filter((point) => point !== null);
    return [node("polygon", { points: around.join(" "), fill: trace.fillcolor })];
  }
  if (trace.line?.width === 0) return [];
  const path = points.map((point, i) => (point === null ? "" : `${points[i - 1] ? "L" : "M"}${point[0].toFixed(1)} ${point[1].toFixed(1)}`)).join("");
  const dash = trace.line?.dash ? { "stroke-dasharray": trace.line.dash === "dot" ? "2 4" : "7 5" } : {};
  return [node("path", { d: path, fill: "none", stroke: colourOf(trace), "stroke-width": 2, "stroke-opacity": trace.opacity ?? 1, ...dash })];
}

// Corners of a star of five points.
function star([x, y], radius) {
  return Array.from({ length: 10 }, (_, i) => [x + radius * (i % 2 ? 0.38 : 1) * Math.sin(i * Math.PI / 5), y - radius * (i % 2 ? 0.38 : 1) * Math.cos(i * Math.PI / 5)]).join(" ");
}

// The range of a point.
function whisker(trace, i, x, up) {
  if (!trace.error_y) return [];
  const y1 = up.at(trace.y[i] + trace.error_y.array[i]), y2 = up.at(trace.y[i] - trace.error_y.arrayminus[i]);
  return Number.isFinite(y1 - y2) ? [node("line", { x1: x, x2: x, y1, y2, stroke: colourOf(trace), "stroke-width": 2 })] : [];
}

function bars(trace, across, up, sums) {
  const isFlat = trace.orientation === "h", [along, beside] = isFlat ? [across, up] : [up, across];
  const lengths = isFlat ? trace.x : trace.y, names = isFlat ? trace.y : trace.x;
  return names.map((name, i) => {
    const begin = trace.base ? trace.base[i] : sums.get(name) ?? 0, end = begin + lengths[i];
    sums.set(name, end);
    const [a, b] = [along.at(begin), along.at(end)].sort((one, two) => one - two);
    const thickness = BAR * beside.unit, side = beside.at(name) - thickness / 2;
    const box = isFlat ? { x: a, width: b - a, y: side, height: thickness } : { y: a, height: b - a, x: side, width: thickness };
    return node("rect", { ...box, fill: colourOf(trace) });
  });
}

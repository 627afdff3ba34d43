// Pictures while Plotly is being read: the same lines, points and bars on the same axes, as plain SVG.

import { colourOf } from "./legend.js";

const MARGIN = { left: 58, right: 24, top: 10, bottom: 46 };
const CHARACTER = 6.2;
const BAR = 0.8, ROOM = 0.05;

export function sketch(figure, width, height, { ink, grid }) {
  const traces = figure.data.filter((trace) => trace.x.length && trace.visible !== false);
  const isFlat = traces.some((trace) => trace.orientation === "h");
  const names = isFlat ? traces.flatMap((trace) => trace.y).map(String) : [];
  const left = Math.max(MARGIN.left, ...names.map((name) => CHARACTER * name.length + 24)), right = width - MARGIN.right;
  const top = MARGIN.top;
  const across = scale(traces, "x", figure.layout.xaxis, left, right, isFlat);
  const up = scale(traces, "y", figure.layout.yaxis, height - MARGIN.bottom, top, !isFlat);
  const svg = node("svg", { class: "sketch", width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true", "font-size": 12, "font-family": "verdana, arial, sans-serif", color: ink, fill: ink });
  for (const [value, label] of across.ticks) svg.append(
    node("line", { x1: across.at(value), x2: across.at(value), y1: top, y2: height - MARGIN.bottom, stroke: grid }),
    text(label, { x: across.at(value), y: height - MARGIN.bottom + 16, "text-anchor": "middle" }));
  for (const [value, label] of up.ticks) svg.append(
    node("line", { x1: left, x2: right, y1: up.at(value), y2: up.at(value), stroke: grid }),
    text(label, { x: left - 6, y: up.at(value) + 4, "text-anchor": "end" }));
  svg.append(
    text(figure.layout.xaxis.title?.text ?? "", { x: (left + right) / 2, y: height - 8, "text-anchor": "middle" }),
    text(figure.layout.yaxis.title?.text ?? "", { "text-anchor": "middle", transform: `translate(14 ${(top + height - MARGIN.bottom) / 2}) rotate(-90)` }));
  const sums = new Map();
  traces.forEach((trace, i) => svg.append(...(trace.type === "bar" ? bars(trace, across, up, sums) : curve(trace, traces[i - 1], across, up))));
  return svg;
}

function node(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function text(label, attributes) {
  const made = node("text", attributes);
  made.textContent = label;
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
    return { at, unit, ticks: order.filter((_, i) => i % stride === 0).map((name) => [name, name]) };
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
    else if (key === "y" || traces.some((trace) => trace.mode === "markers")) { high += room; if (low !== 0 || log) low -= room; }
    if (!(high > low)) { low -= 0.5; high += 0.5; }
  }
  if (axis.autorange === "reversed") [from, to] = [to, from];
  const at = (value) => from + (to - from) * (inner(value) - low) / (high - low);
  return { at, unit: Math.abs(to - from) / count, ticks: (log ? decades : steps)(low, high) };
}

// Ends of bars that stand on each other, and of those that say where they begin.
function ends(traces, key) {
  const other = key === "x" ? "y" : "x", sums = new Map();
  return traces.flatMap((trace) => trace[key].map((value, i) => {
    if (trace.base) return trace.base[i] + value;
    sums.set(trace[other][i], (sums.get(trace[other][i]) ?? 0) + value);
    return sums.get(trace[other][i]);
  }));
}

function steps(low, high) {
  const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((times) => times * power >= rough);
  const count = Math.floor(high / step) - Math.ceil(low / step) + 1;
  return Array.from({ length: count }, (_, i) => (Math.ceil(low / step) + i) * step).map((value) => [value, written(value)]);
}

function decades(low, high) {
  const digits = high - low < 2.2 ? [1, 2, 5] : [1];
  const apart = Math.max(Math.ceil((high - low) / 8), 1);
  const ticks = [];
  for (let power = Math.floor(low); power <= high; power += apart) for (const digit of digits) {
    const value = digit * 10 ** power;
    if (Math.log10(value) >= low && Math.log10(value) <= high) ticks.push([value, written(value)]);
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
  if (trace.mode === "markers") return points.flatMap((point, i) => (point === null ? [] : [
    node("circle", { cx: point[0], cy: point[1], r: (sizes[i] ?? sizes) / 2, fill: colourOf(trace), "fill-opacity": trace.marker?.opacity ?? 1 })]));
  if (trace.fill) {
    const around = [...points, ...places(before, across, up).reverse()].filter((point) => point !== null);
    return [node("polygon", { points: around.join(" "), fill: trace.fillcolor })];
  }
  if (trace.line?.width === 0) return [];
  const path = points.map((point, i) => (point === null ? "" : `${points[i - 1] ? "L" : "M"}${point[0].toFixed(1)} ${point[1].toFixed(1)}`)).join("");
  const dash = trace.line?.dash ? { "stroke-dasharray": trace.line.dash === "dot" ? "2 4" : "7 5" } : {};
  return [node("path", { d: path, fill: "none", stroke: colourOf(trace), "stroke-width": 2, ...dash })];
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

// Two answers side by side: what differs in the question, by how much the numbers differ, and where that comes from.

const SCALE = { n: 1e-9, u: 1e-6, m: 1e-3, "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15 };
const UNITS = ["FLOP/s", "FLOP", "B/s", "B", "s", "W", "J"];
const LARGEST = 4;

// A number at the head of a text, in its unit without a prefix; null where there is none.
function amount(text) {
  const parts = /^~?([\d,.]+(?:e[+-]?\d+)?)\s*(.*)$/.exec(String(text));
  if (!parts) return null;
  const value = Number(parts[1].replaceAll(",", "")), rest = parts[2];
  const word = rest.split(/[\s,(]/)[0];
  for (const unit of UNITS) {
    const prefix = word.slice(0, word.length - unit.length);
    if (word.endsWith(unit) && prefix in SCALE) return { value: value * SCALE[prefix], unit };
  }
  return { value: word in SCALE ? value * SCALE[word] : value, unit: word in SCALE ? "" : word };
}

function rounded(value) { return Number(value.toPrecision(3)).toString(); }

// What stood there before, and the new number over it where both are numbers of one unit.
export function beforeText(before, after) {
  const a = amount(before), b = amount(after);
  const ratio = a && b && a.unit === b.unit && a.value > 0 && b.value > 0 ? `, x ${rounded(b.value / a.value)}` : "";
  return `beside: ${before}${ratio}`;
}

// Fields that differ between two questions: name, value beside, value here.
export function changes(before, after) {
  const a = new URLSearchParams(before), b = new URLSearchParams(after);
  const names = [...new Set([...a.keys(), ...b.keys()])];
  return names.filter((name) => a.get(name) !== b.get(name)).map((name) => [name, a.get(name) ?? "default", b.get(name) ?? "default"]);
}

// Parts of a time that changed most, largest first; nothing for answers without parts.
export function causes(before, after) {
  const parts = (facts) => (facts && facts.terms ? { ...facts.terms, ...(facts.lost ?? {}) } : null);
  const a = parts(before), b = parts(after);
  if (!a || !b) return [];
  const moved = [...new Set([...Object.keys(a), ...Object.keys(b)])].map((name) => [name, (b[name] ?? 0) - (a[name] ?? 0)]);
  const all = moved.reduce((sum, [, change]) => sum + Math.abs(change), 0);
  return all > 0 ? moved.filter(([, change]) => Math.abs(change) > 0.02 * all).sort((x, y) => Math.abs(y[1]) - Math.abs(x[1])).slice(0, LARGEST) : [];
}

export function milliseconds(seconds) { return `${seconds > 0 ? "+" : "-"}${rounded(Math.abs(seconds) * 1e3)} ms`; }

// A picture with the curves of the answer beside it, thinner.
export function overlaid(figure, others) {
  const other = others?.find((one) => one.title === figure.title);
  if (!other) return figure;
  const curves = other.data.filter((trace) => trace.type !== "bar" && trace.hoverinfo !== "skip");
  return { ...figure, data: [...figure.data, ...curves.map((trace) => ({ ...trace, name: `beside: ${trace.name}`, opacity: 0.45, line: { ...trace.line, dash: "dot" } }))] };
}

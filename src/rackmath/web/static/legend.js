// Names of a picture's curves, as buttons that hide them. The page lays them out: a picture that does has to measure
// every name at each redraw, and nobody reaches them by keyboard.

import { element } from "./dom.js";

export class Legend {
  constructor(changed) {
    this.place = element("div", { class: "legend" });
    this.off = new Set();
    this.changed = changed;
  }

  show(traces) {
    const entries = traces.filter((trace) => trace.showlegend !== false && trace.name);
    const named = entries.length > 1 ? entries : [];
    const key = JSON.stringify(named.map((trace) => [trace.name, colourOf(trace), trace.type, trace.mode, trace.line?.dash]));
    if (key === this.key) return;
    this.key = key;
    this.place.hidden = !named.length;
    this.place.replaceChildren(...named.map((trace) => this.entry(trace)));
  }

  entry(trace) {
    const button = element("button", { type: "button", class: "quiet", "aria-pressed": String(!this.off.has(trace.name)) }, mark(trace), trace.name);
    button.addEventListener("click", () => {
      if (!this.off.delete(trace.name)) this.off.add(trace.name);
      button.setAttribute("aria-pressed", String(!this.off.has(trace.name)));
      this.changed();
    });
    return button;
  }

  // The traces that are not hidden; the others stay in their places.
  seen(traces) {
    return this.off.size ? traces.map((trace) => (this.off.has(trace.name) ? { ...trace, visible: false } : trace)) : traces;
  }
}

export function colourOf(trace) { return trace.marker?.color ?? trace.line?.color ?? "currentColor"; }

function mark(trace) {
  const kind = trace.type === "bar" ? "bar" : trace.mode === "markers" ? "point" : trace.line?.dash ? "dashed" : "curve";
  const made = element("span", { class: `mark ${kind}`, "aria-hidden": "true" });
  made.style.color = colourOf(trace);
  return made;
}

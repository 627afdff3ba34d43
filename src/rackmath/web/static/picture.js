// One figure: its names, its picture by Plotly or as a sketch, and what can be taken along of it.

import { download, element } from "./dom.js";
import { Legend } from "./legend.js";
import { sketch } from "./sketch.js";
import { colours } from "./theme.js";

function csv(figure) {
  const quote = (cell) => (/[",\n]/.test(String(cell)) ? `"${String(cell).replaceAll('"', '""')}"` : String(cell ?? ""));
  const rows = [["series", "x", "y"]];
  for (const trace of figure.data) trace.x.forEach((x, i) => rows.push([trace.name, x, trace.y[i]]));
  return rows.map((row) => row.map(quote).join(",")).join("\n") + "\n";
}

function layoutOf(figure) {
  const { ink, grid } = colours();
  // Labels at the ends are kept: finding out which to hide makes the browser lay the page out for every one of them.
  const axis = (one) => ({ automargin: true, ticklabeloverflow: "allow", exponentformat: "power", gridcolor: grid, zerolinecolor: grid, linecolor: grid, ...one });
  const given = figure.layout;
  return {
    ...given,
    xaxis: axis(given.xaxis), yaxis: axis(given.yaxis),
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: ink, size: 12 }, margin: { l: 56, r: 24, t: 8, b: 44 },
    showlegend: false, legend: { orientation: "h", y: 1.01, yanchor: "bottom", x: 0 }, hovermode: "closest",
    uirevision: figure.title,
  };
}

// The same order of colours on a dark ground.
const LIGHTER = {
  "#1f5fa8": "#7fb2ee", "#c2571a": "#f0935a", "#2b8a57": "#66cc96", "#8d3a8a": "#d08bcd",
  "#7a6a00": "#d6c34a", "#4c4c4c": "#bdbdbd", "#0d8b99": "#4fcbd8", "#b0203a": "#f07a8e",
};

function dataOf(figure) {
  if (!colours().dark) return figure.data;
  return figure.data.map((trace) => {
    const found = { ...trace };
    for (const key of ["marker", "line"]) if (LIGHTER[trace[key]?.color]) found[key] = { ...trace[key], color: LIGHTER[trace[key].color] };
    return found;
  });
}

// How long a control rests before Plotly draws: it takes ten times as long as the sketch that stands meanwhile. [ms]
const REST = 400;

const CONFIG = { displaylogo: false, responsive: true, displayModeBar: false };

// How far out of sight a picture may be and is drawn. [pixels]
const NEAR = 400;

const pictureAt = new WeakMap();
const watch = new IntersectionObserver((entries) => {
  for (const entry of entries) pictureAt.get(entry.target)?.sighted(!entry.isIntersecting);
}, { rootMargin: `${NEAR}px` });

export class Picture {
  // ``drawn`` is called with this picture after each drawing by Plotly.
  constructor(place, drawn) {
    this.drawn = drawn;
    this.place = element("div", { class: "drawn" });
    this.caption = element("span");
    const button = (name, act) => element("button", { type: "button", class: "quiet", onclick: act }, name);
    // What is taken along has no page around it: its names are drawn.
    const save = (format) => {
      this.catchUp();
      const { data, layout } = this.place;
      return Plotly.downloadImage({ data, layout: { ...layout, showlegend: data.length > 1 } }, { format, width: 1000, height: 600, filename: this.name() });
    };
    const buttons = element("span", { class: "buttons" },
      button("PNG", () => save("png")), button("SVG", () => save("svg")),
      button("CSV", () => download(`${this.name()}.csv`, "text/csv", csv(this.figure))));
    this.legend = new Legend(() => this.draw(this.figure));
    this.paper = element("div", { class: "paper" }, this.place);
    this.frame = element("figure", {}, element("figcaption", {}, this.caption, buttons), this.legend.place, this.paper);
    place.append(this.frame);
    // At first only the first view can be in sight: where others lie is not asked, since the browser would lay them out.
    this.hidden = place.closest(".view") !== document.querySelector(".view") || place.getBoundingClientRect().top > innerHeight + NEAR;
    pictureAt.set(this.place, this);
    watch.observe(this.place);
  }

  remove() {
    clearTimeout(this.rest);
    watch.unobserve(this.place);
    this.frame.remove();
  }

  name() { return this.figure.title.replaceAll(/[^\w]+/g, "-").slice(0, 60); }

  // With ``moves`` more answers may follow at once: a picture that Plotly has drawn is covered by a sketch until they do not.
  draw(figure, moves = false) {
    this.figure = figure;
    this.caption.textContent = figure.title;
    this.place.setAttribute("role", "img");
    this.place.setAttribute("aria-label", `${figure.title}: ${figure.data.filter((trace) => trace.hoverinfo !== "skip").map((trace) => trace.name).join(", ")}`);
    const layout = layoutOf(figure);
    const config = { ...CONFIG };
    if (figure.limit) {
      const x = figure.limit.at;
      layout.shapes = [{ type: "line", xref: "x", yref: "paper", x0: x, x1: x, y0: 0, y1: 1, line: { color: colours().wrong, width: 3, dash: "dash" } }];
      config.edits = { shapePosition: true };
    }
    this.replay(figure);
    const all = dataOf(figure), data = this.legend.seen(all);
    this.legend.show(all);
    this.pending = () => {
      if (typeof Plotly === "undefined") {
        this.place.replaceChildren(sketch({ ...figure, data }, this.place.clientWidth, this.place.clientHeight, colours()));
        return null;
      }
      if (!this.place.data) this.place.replaceChildren();
      const drawn = Plotly.react(this.place, data, layout, config).then(() => this.drawn(this));
      this.cover(null);
      return drawn;
    };
    // What is out of sight is drawn when it comes into sight.
    if (this.hidden) return null;
    if (!moves || !this.place.data) return this.catchUp();
    // Plotly knows the size of what it has drawn: to ask the page for it makes the browser lay everything out.
    const { width, height, _size } = this.place._fullLayout;
    this.cover(sketch({ ...figure, data }, width, height, colours(), _size));
    clearTimeout(this.rest);
    this.rest = setTimeout(() => this.catchUp(), REST);
    return null;
  }

  // Put a sketch over what Plotly has drawn, or take it away.
  cover(svg) {
    this.over?.remove();
    this.over = svg;
    if (svg) this.paper.append(svg);
  }

  sighted(hidden) {
    this.hidden = hidden;
    if (!hidden) this.catchUp();
  }

  catchUp() {
    const paint = this.pending;
    this.pending = null;
    return paint?.();
  }

  // A slider over the moments of a figure: what its bars are then, without asking the server.
  replay(figure) {
    this.moments?.remove();
    if (!figure.moments) return;
    const when = element("output", {}, figure.moments[figure.moment].label);
    const slider = element("input", { type: "range", min: 0, max: figure.moments.length - 1, step: 1, value: figure.moment, "aria-label": "time of the run" });
    const show = (i) => {
      const { label, values } = figure.moments[i];
      when.textContent = label;
      slider.setAttribute("aria-valuetext", label);
      // What is saved as CSV, and drawn again in other colours, is what is shown.
      figure.moment = i;
      figure.data = figure.data.map((trace, k) => (k < values.length ? { ...trace, y: values[k] } : trace));
      if (this.place.data) Plotly.restyle(this.place, { y: values }, values.map((_, k) => k));
    };
    slider.addEventListener("input", () => show(Number(slider.value)));
    this.moments = element("label", { class: "moments" }, "Time", slider, when);
    this.frame.append(this.moments);
  }
}

// The whole state of a page is its address; every change asks the server and draws what comes back.

import { beforeText, causes, changes, milliseconds, overlaid } from "./beside.js";
import { element } from "./dom.js";
import { Legend } from "./legend.js";
import { sketch } from "./sketch.js";

const root = document.documentElement;
root.classList.add("scripted");

// ---- colours

function theme() {
  const button = document.getElementById("theme");
  const stored = readStored("theme");
  if (stored) root.dataset.theme = stored;
  const name = () => { button.textContent = colours().dark ? "Light" : "Dark"; };
  const repaint = () => {
    palette = null;
    name();
    for (const view of views) view.redraw();
  };
  button.hidden = false;
  name();
  button.addEventListener("click", () => {
    root.dataset.theme = colours().dark ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* private windows keep nothing */ }
    repaint();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
}

function readStored(key) {
  try { return localStorage.getItem(key); } catch { return null; }
}

// Colours of the style sheet, read once for each theme: reading them makes the browser work out every style anew.
let palette = null;

function colours() {
  if (!palette) {
    const style = getComputedStyle(root);
    const named = (name) => style.getPropertyValue(name).trim();
    palette = { ink: named("--ink"), grid: named("--grid"), wrong: named("--wrong"), dark: style.colorScheme.includes("dark") };
  }
  return palette;
}

// ---- small helpers

function download(name, kind, text) {
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type: kind })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  URL.revokeObjectURL(link.href);
}

function short(value) {
  return Number(value.toPrecision(4)).toString();
}

function csv(figure) {
  const quote = (cell) => (/[",\n]/.test(String(cell)) ? `"${String(cell).replaceAll('"', '""')}"` : String(cell ?? ""));
  const rows = [["series", "x", "y"]];
  for (const trace of figure.data) trace.x.forEach((x, i) => rows.push([trace.name, x, trace.y[i]]));
  return rows.map((row) => row.map(quote).join(",")).join("\n") + "\n";
}

// ---- pictures

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

const CONFIG = { displaylogo: false, responsive: true, displayModeBar: false };

const pictureAt = new WeakMap();
const watch = new IntersectionObserver((entries) => {
  for (const entry of entries) pictureAt.get(entry.target)?.sighted(!entry.isIntersecting);
}, { rootMargin: "100px" });

class Picture {
  constructor(place) {
    this.place = element("div", { class: "drawn" });
    this.caption = element("span");
    const button = (name, act) => element("button", { type: "button", class: "quiet", onclick: act }, name);
    // What is taken along has no page around it: its names are drawn.
    const save = (format) => {
      const { data, layout } = this.place;
      return Plotly.downloadImage({ data, layout: { ...layout, showlegend: data.length > 1 } }, { format, width: 1000, height: 600, filename: this.name() });
    };
    const buttons = element("span", { class: "buttons" },
      button("PNG", () => save("png")), button("SVG", () => save("svg")),
      button("CSV", () => download(`${this.name()}.csv`, "text/csv", csv(this.figure))));
    this.legend = new Legend(() => this.draw(this.figure));
    this.frame = element("figure", {}, element("figcaption", {}, this.caption, buttons), this.legend.place, this.place);
    place.append(this.frame);
    pictureAt.set(this.place, this);
    watch.observe(this.place);
  }

  name() { return this.figure.title.replaceAll(/[^\w]+/g, "-").slice(0, 60); }

  draw(figure) {
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
    if (typeof Plotly === "undefined") {
      this.place.replaceChildren(sketch({ ...figure, data }, this.place.clientWidth, this.place.clientHeight, colours()));
      return null;
    }
    const paint = () => {
      if (!this.place.data) this.place.replaceChildren();
      return Plotly.react(this.place, data, layout, config);
    };
    // What is out of sight is drawn again when it comes into sight.
    if (this.hidden && this.place.data) { this.pending = paint; return null; }
    this.pending = null;
    return paint();
  }

  sighted(hidden) {
    this.hidden = hidden;
    if (!hidden) this.catchUp();
  }

  catchUp() {
    this.pending?.();
    this.pending = null;
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

// ---- one form with its results

class View {
  constructor(section) {
    this.section = section;
    this.name = section.dataset.view;
    this.heavy = "heavy" in section.dataset;
    this.form = section.querySelector("form");
    this.results = section.querySelector(".results");
    this.state = section.querySelector(".state");
    this.pictures = [];
    this.chosen = [];
    this.fields = [...this.form.querySelectorAll("[name]")];
    for (const range of this.form.querySelectorAll("input[type=range]")) this.joinRange(range);
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("input", (event) => this.changed(event));
    this.form.addEventListener("change", () => remember(true));
    this.form.querySelector(".reset").addEventListener("click", () => { this.setAll(() => null); remember(true); this.ask(); });
    const preset = this.form.querySelector(".preset");
    if (preset) preset.addEventListener("input", (event) => { event.stopPropagation(); this.take(preset); });
    const file = this.form.querySelector(".file");
    if (file) file.addEventListener("input", (event) => event.stopPropagation());
    if (file) file.addEventListener("change", (event) => { event.stopPropagation(); this.send(file); });
    section.querySelector(".copy").addEventListener("click", () => navigator.clipboard?.writeText(this.answer?.command ?? ""));
    section.querySelector(".link").addEventListener("click", () => { remember(false); navigator.clipboard?.writeText(location.href); });
    section.querySelector(".json").addEventListener("click", () => download(`${this.name}.json`, "application/json", JSON.stringify(this.answer?.facts ?? null, null, 1)));
    section.querySelector(".notebook").addEventListener("click", () => download(`${this.name}.ipynb`, "application/json", notebook(this.answer)));
    this.beside = null;
    section.querySelector(".keep").addEventListener("click", () => this.keep());
    this.recall();
    const first = section.querySelector("script.answer");
    if (first) this.show(JSON.parse(first.textContent));
    else if (this.heavy || section.querySelector(".errors p") === null) this.ask();
  }

  // Keep today's answer beside the next ones, or let it go.
  keep() {
    this.beside = this.beside || !this.answer ? null : { query: this.query(), answer: this.answer };
    rememberBeside();
    if (this.answer) this.show(this.answer);
  }

  // The answer that the address keeps beside this one.
  async recall() {
    const query = new URLSearchParams(location.hash.slice(1)).get(`beside.${this.name}`);
    if (query === null) return;
    const response = await fetch(`/api/${this.name}?${query}`);
    if (!response.ok) return;
    this.beside = { query, answer: await response.json() };
    if (this.answer) await this.show(this.answer);
  }

  showBeside() {
    const place = this.section.querySelector(".beside"), button = this.section.querySelector(".keep");
    button.textContent = this.beside ? "Let the answer beside go" : "Keep this answer beside";
    place.hidden = !this.beside;
    if (!this.beside) return;
    const differing = changes(this.beside.query, this.query());
    const moved = causes(this.beside.answer.facts, this.answer.facts);
    place.replaceChildren(
      element("p", {}, differing.length ? `Beside it: ${differing.map(([name, a, b]) => `${name} ${a} instead of ${b}`).join(", ")}.` : "The answer beside is of the same question: change something."),
      ...(moved.length ? [element("p", {}, `The difference comes from ${moved.map(([name, change]) => `${name} (${milliseconds(change)})`).join(", ")}.`)] : []));
  }

  joinRange(range) {
    const number = range.parentElement.querySelector("input[type=number]");
    const low = Number(range.dataset.low), high = Number(range.dataset.high), log = "log" in range.dataset;
    range.read = () => {
      const part = Number(range.value) / Number(range.max);
      let value = log ? low * (high / low) ** part : low + (high - low) * part;
      if ("whole" in range.dataset) value = Math.round(value);
      return Math.min(Math.max(Number(short(value)), low), high);
    };
    range.place = () => {
      const value = Math.min(Math.max(Number(number.value), low), high);
      range.value = String(Math.round(Number(range.max) * (log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low))));
      range.setAttribute("aria-valuetext", number.value);
    };
    number.range = range;
    range.place();
  }

  changed(event) {
    const target = event.target;
    if (target.type === "range") {
      target.parentElement.querySelector("input[type=number]").value = target.read();
      target.setAttribute("aria-valuetext", target.read());
    } else if (target.range) target.range.place();
    this.ask();
  }

  valueOf(field) {
    if (field.type === "checkbox") return field.checked ? "true" : "";
    return field.value.trim();
  }

  // Values that are not the defaults, by their names in the address.
  differing() {
    return this.fields.filter((field) => {
      const usual = field.dataset.default ?? "";
      const value = this.valueOf(field);
      return field.type === "checkbox" ? field.checked !== (usual.toLowerCase() === "true") : value !== usual;
    }).map((field) => [field.name, field.type === "checkbox" ? String(field.checked) : this.valueOf(field)]);
  }

  setAll(valueFor) {
    for (const field of this.fields) {
      const value = valueFor(field.name) ?? field.dataset.default ?? "";
      if (field.type === "checkbox") field.checked = value.toLowerCase() === "true";
      else {
        if (field.tagName === "SELECT" && ![...field.options].some((one) => one.value === value)) field.append(element("option", { value }, value));
        field.value = value;
      }
      if (field.range) field.range.place();
    }
  }

  take(preset) {
    const values = JSON.parse(preset.dataset.presets)[preset.value] ?? {};
    for (const [key, value] of Object.entries(values)) {
      const field = this.fields.find((one) => one.name === `${this.name}.${key}`);
      field.value = short(value);
      if (field.range) field.range.place();
    }
    remember(true);
    this.ask();
  }

  async send(file) {
    const chosen = file.files[0];
    if (!chosen) return;
    this.wrong([]);
    const response = await fetch(`/api/uploads/${file.dataset.kind}?name=${encodeURIComponent(chosen.name)}`, {
      method: "POST", body: chosen,
      headers: { "x-rackmath-token": document.querySelector('meta[name="rackmath-token"]').content },
    });
    const found = await response.json();
    if (!response.ok) { this.wrong(found.errors); return; }
    const field = this.fields.find((one) => one.name === `${this.name}.${file.dataset.kind === "config" ? "model" : "trace"}`);
    if (field.tagName === "SELECT") field.append(element("option", { value: found.name }, `${chosen.name} (${found.name})`));
    field.value = found.name;
    remember(true);
    this.ask();
  }

  query() {
    const found = new URLSearchParams();
    for (const field of this.fields) {
      const value = this.valueOf(field);
      if (field.type === "checkbox") { if (field.checked !== (field.dataset.default.toLowerCase() === "true")) found.set(field.name.split(".")[1], String(field.checked)); }
      else if (value !== "" || field.dataset.default) found.set(field.name.split(".")[1], value);
    }
    // A number that was left open has no value; one that was emptied has none either.
    for (const [key, value] of [...found]) if (value === "") found.delete(key);
    return found.toString();
  }

  // One question at a time; while it is asked only the latest change is remembered.
  ask() {
    this.began ??= performance.now();
    if (this.asking) {
      this.again = true;
      if (this.heavy) this.cancel?.abort();
      return this.asking;
    }
    this.asking = (this.heavy ? this.wait(250) : Promise.resolve()).then(() => this.fetch()).finally(() => {
      this.asking = null;
      if (this.again) { this.again = false; this.ask(); }
    });
    return this.asking;
  }

  wait(milliseconds) { return new Promise((done) => setTimeout(done, milliseconds)); }

  async fetch() {
    const began = this.began;
    this.began = null;
    this.again = false;
    remember(false);
    this.cancel = new AbortController();
    if (this.heavy) this.busy(true);
    let response, found;
    try {
      response = await fetch(`/api/${this.name}?${this.query()}`, { signal: this.cancel.signal });
      found = await response.json();
    } catch (error) {
      if (error.name !== "AbortError") this.wrong([{ field: "", message: "the server does not answer: is rackmath board still running?" }]);
      return;
    } finally {
      if (this.heavy && !this.again) this.busy(false);
    }
    if (!response.ok) {
      this.wrong(found.errors ?? [{ field: "", message: `the server refuses: ${response.status}` }]);
      return;
    }
    await this.show(found);
    performance.measure(`redraw:${this.name}`, { start: began, end: performance.now() });
  }

  busy(on) {
    this.results.setAttribute("aria-busy", String(on));
    this.state.replaceChildren(...(on ? ["Working. ", element("button", { type: "button", class: "quiet", onclick: () => { this.again = false; this.cancel.abort(); } }, "Cancel")] : []));
  }

  wrong(errors) {
    for (const field of this.fields) field.removeAttribute("aria-invalid");
    for (const note of this.form.querySelectorAll(".wrong")) note.hidden = true;
    const rest = [];
    for (const { field, message } of errors) {
      const control = this.form.querySelector(`[data-field="${CSS.escape(field)}"]`);
      if (!control) { rest.push(message); continue; }
      const note = control.querySelector(".wrong"), input = control.querySelector("[name]");
      note.textContent = message;
      note.hidden = false;
      input.setAttribute("aria-invalid", "true");
      input.setAttribute("aria-describedby", note.id);
    }
    this.section.querySelector(".errors").replaceChildren(...rest.map((message) => element("p", {}, message)));
  }

  async show(answer) {
    this.answer = answer;
    this.wrong([]);
    const before = new Map(this.beside?.answer.pairs ?? []);
    this.section.querySelector(".pairs").replaceChildren(...answer.pairs.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value),
      ...(before.has(name) && before.get(name) !== value ? [element("dd", { class: "before" }, beforeText(before.get(name), value))] : []))));
    this.showBeside();
    this.section.querySelector(".tables").replaceChildren(...answer.tables.map(tableOf));
    const assumed = this.section.querySelector(".assumed");
    assumed.hidden = !answer.notes.length;
    assumed.querySelector("ul").replaceChildren(...answer.notes.map((note) => element("li", {}, note)));
    this.section.querySelector(".command code").textContent = answer.command;
    this.section.querySelector(".notebook").hidden = !answer.python;
    await this.redraw();
  }

  async redraw() {
    if (!this.answer) return;
    const place = this.section.querySelector(".figures");
    const figures = this.answer.figures.map((figure) => overlaid(figure, this.beside?.answer.figures));
    while (this.pictures.length < figures.length) this.pictures.push(this.picture(place));
    while (this.pictures.length > figures.length) {
      const last = this.pictures.pop();
      watch.unobserve(last.place);
      last.frame.remove();
    }
    await Promise.all(figures.map((figure, i) => this.pictures[i].draw(figure)));
    for (const picture of this.pictures) this.listen(picture);
  }

  picture(place) { return new Picture(place); }

  // A plan: its limits can be dragged, its points can be chosen.
  listen(picture) {
    if (!picture.figure.points || picture.listening || !picture.place.on) return;
    picture.listening = true;
    picture.place.on("plotly_relayout", (event) => {
      const x = event["shapes[0].x0"];
      const limit = picture.figure.limit;
      const field = this.fields.find((one) => one.name === `${this.name}.${limit?.field}`);
      if (!field || x === undefined || !(x > 0)) return;
      field.value = short(limit.inverse ? 1 / x : x);
      remember(true);
      this.ask();
    });
    picture.place.on("plotly_click", (event) => {
      const at = event.points.find((one) => one.data.mode === "markers" && picture.figure.points[one.pointIndex]);
      if (at) this.choose(picture.figure.points[at.pointIndex]);
    });
  }

  async choose(point) {
    this.chosen = [...this.chosen.filter((one) => one !== point), point].slice(-4);
    const place = this.section.querySelector(".chosen");
    place.hidden = false;
    const cards = await Promise.all(this.chosen.map((one) => this.card(one)));
    place.replaceChildren(element("h3", {}, "Chosen, up to four"), element("div", { class: "choices" }, ...cards));
  }

  async card(point) {
    const rows = [
      ["batch", point.batch], ["weights, cache", `${point.weights}, ${point.kv}`], ["drafted", point.drafted],
      ["tokens/s per accelerator", short(point.tokens_per_second_per_gpu)], ["tokens/s of a user", short(point.tokens_per_second_per_user)],
      ["first token [s]", short(point.time_to_first_token)], ["per token [ms]", short(point.time_per_output_token * 1e3)],
      ["$ per million", point.usd_per_million_output_tokens === null ? "" : short(point.usd_per_million_output_tokens)],
      ["bound by", point.bound_by],
    ];
    const facts = this.answer.facts, asked = new URLSearchParams(this.query());
    const layout = point.pools ? point.pools.write : point.layout;
    const widths = Object.fromEntries([...layout.matchAll(/([a-z]+)(\d+)/g)].map(([, key, width]) => [key, Number(width)]));
    const question = new URLSearchParams({
      model: asked.get("model") ?? facts.model, on: asked.get("on") ?? facts.system, layout, batch: point.batch, weights: point.weights, kv: point.kv,
      gpus: widths.tp * (widths.pp ?? 1) * (widths.dp ?? 1), drafted: point.drafted, engine: asked.get("engine") ?? "sglang",
      context: Math.round(Number(asked.get("input")) + Number(asked.get("output")) / 2),
    });
    const response = await fetch(`/api/estimate?${question}`);
    if (response.ok) {
      const one = (await response.json()).facts, parts = { ...one.terms, ...one.lost };
      const largest = Object.entries(parts).sort((a, b) => b[1] - a[1]).slice(0, 4);
      rows.push(["a step goes to", largest.map(([name, value]) => `${name} ${Math.round((100 * value) / one.time)} %`).join(", ")]);
    }
    const { instances, engines, notes, ...scripts } = point.launch ?? {};
    const launch = Object.entries(scripts).filter(([, value]) => typeof value === "string").map(([name, value]) =>
      element("details", {}, element("summary", {}, name), element("pre", { tabindex: "0" }, element("code", {}, value))));
    if (launch.length) launch.push(element("ul", {}, ...(notes ?? []).map((note) => element("li", {}, note))));
    return element("div", {}, element("h4", {}, `${point.units} x (${point.layout})`), tableOf({ title: "", columns: ["", ">"], rows }), ...launch);
  }
}

// The question as a notebook: the request, its answer, its picture.
function notebook(answer) {
  const cell = (id, kind, ...lines) => ({
    cell_type: kind, id, metadata: {}, source: lines.map((line, i) => (i + 1 < lines.length ? `${line}\n` : line)),
    ...(kind === "code" ? { execution_count: null, outputs: [] } : {}),
  });
  const cells = [
    cell("question", "markdown", "The same on the command line:", "", `    ${answer.command}`),
    cell("answer", "code", "import rackmath as rm", "", `result = ${answer.python}`, "result"),
    cell("picture", "code", "result.figure()"),
    cell("facts", "code", "result.to_dict()"),
  ];
  const metadata = { kernelspec: { display_name: "Python 3", language: "python", name: "python3" }, language_info: { name: "python" } };
  return JSON.stringify({ cells, metadata, nbformat: 4, nbformat_minor: 5 }, null, 1);
}

function tableOf(table) {
  const numeric = table.columns.map((name) => name.startsWith(">"));
  const cell = (wanted, text, i) => {
    const tag = text === "" ? "td" : wanted;
    return element(tag, { ...(numeric[i] ? { class: "n" } : {}), ...(tag === "th" ? { scope: "col" } : {}) }, String(text));
  };
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": table.title || "numbers" }, element("table", {},
    element("caption", {}, table.title),
    element("thead", {}, element("tr", {}, ...table.columns.map((name, i) => cell("th", name.replace(/^>/, "").trim(), i)))),
    element("tbody", {}, ...table.rows.map((row) => element("tr", {}, ...row.map((text, i) => cell("td", text, i)))))));
}

// ---- the address

// One entry of the history for each change, however many steps a slider takes on the way.
function remember(settled) {
  const text = new URLSearchParams(views.flatMap((view) => view.differing())).toString();
  const address = text ? `${location.pathname}?${text}` : location.pathname;
  if (address !== location.pathname + location.search) {
    if (remember.moving) history.replaceState(null, "", address + location.hash);
    else history.pushState(null, "", address + location.hash);
    remember.moving = true;
  }
  if (settled) remember.moving = false;
}

// Answers that are kept beside stand behind the address, so that a link brings both.
function rememberBeside() {
  const kept = new URLSearchParams(views.filter((view) => view.beside).map((view) => [`beside.${view.name}`, view.beside.query])).toString();
  history.replaceState(null, "", location.pathname + location.search + (kept ? `#${kept}` : ""));
}

addEventListener("popstate", () => {
  const given = new URLSearchParams(location.search);
  remember.moving = false;
  for (const view of views) {
    view.setAll((name) => given.get(name));
    view.ask();
  }
});

// ---- equations

function equation(details) {
  const form = details.querySelector("form"), steps = details.querySelector(".steps");
  let latest = 0;
  const ask = async () => {
    const number = ++latest;
    const unknown = form.elements.for.value;
    const given = [];
    for (const control of form.querySelectorAll(".symbol")) {
      control.hidden = control.dataset.symbol === unknown;
      if (!control.hidden) given.push(`${control.dataset.symbol}=${control.querySelector("input").value.trim()}`);
    }
    const query = new URLSearchParams({ equation: details.dataset.equation, symbol: unknown, given: given.join(";") });
    const response = await fetch(`/api/solve?${query}`);
    const found = await response.json();
    // An answer that comes late is one to a question that nobody asks any more.
    if (number !== latest) return;
    steps.replaceChildren(...(response.ok
      ? found.steps.map((step) => element("li", {}, step.text, " ", element("span", {}, `(${step.note})`)))
      : (found.errors ?? []).map((one) => element("li", { class: "wrong" }, one.message))));
  };
  let waiting;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(ask, 120); });
  details.addEventListener("toggle", () => { if (details.open && !steps.children.length) ask(); });
}

// ---- problems of a chapter: a number is checked where it was typed

for (const problem of document.querySelectorAll(".problem")) {
  const form = problem.querySelector("form.check");
  form?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const told = form.querySelector(".checked"), reply = form.elements.reply.value.trim();
    if (!reply) return;
    const response = await fetch(`/api/quiz/check?${new URLSearchParams({ card: problem.dataset.card, reply })}`);
    const facts = await response.json();
    told.textContent = !response.ok ? facts.errors[0].message : facts.right ? `Right: ${facts.answer}. ${facts.why}` : `Not yet: ${facts.read_as} is ${facts.remark}`;
  });
}

// ---- begin

theme();
const views = [];
for (const section of document.querySelectorAll(".view")) views.push(new View(section));
for (const details of document.querySelectorAll(".equation")) equation(details);
root.dataset.ready = "true";

// Pictures out of sight are drawn before the page is printed.
addEventListener("beforeprint", () => { for (const view of views) for (const picture of view.pictures) picture.catchUp(); });

// Plotly takes a second to be read: a page answers and is sketched before it is there, and is drawn then.
const plotly = document.getElementById("plotly");
if (plotly) {
  const script = element("script", { src: plotly.href });
  script.addEventListener("load", () => { for (const view of views) view.redraw(); });
  document.head.append(script);
}

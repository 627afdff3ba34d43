// One form with its results: every change asks the server and draws what comes back.

import { remember, rememberBeside } from "./address.js";
import { beforeText, causes, changes, milliseconds, overlaid } from "./beside.js";
import { choose } from "./chosen.js";
import { download, element, short, tableOf } from "./dom.js";
import { notebook } from "./notebook.js";
import { Picture } from "./picture.js";
import { placeOf, takeArrows, valueAt } from "./slider.js";
import { Spoken } from "./spoken.js";
import { takeFiles } from "./uploads.js";

export class View {
  constructor(section) {
    this.section = section;
    this.name = section.dataset.view;
    this.heavy = "heavy" in section.dataset;
    this.form = section.querySelector("form");
    this.results = section.querySelector(".results");
    this.state = section.querySelector(".state");
    this.spoken = new Spoken(section.querySelector(".spoken"));
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
    if (file) takeFiles(section, file, (kind, chosen) => this.send(kind, chosen));
    section.querySelector(".copy").addEventListener("click", () => navigator.clipboard?.writeText(this.answer?.command ?? ""));
    section.querySelector(".link").addEventListener("click", () => { remember(false); navigator.clipboard?.writeText(location.href); });
    section.querySelector(".json").addEventListener("click", () => download(`${this.name}.json`, "application/json", JSON.stringify(this.answer?.facts ?? null, null, 1)));
    section.querySelector(".notebook").addEventListener("click", () => download(`${this.name}.ipynb`, "application/json", notebook(this.answer)));
    this.beside = null;
    section.querySelector(".keep").addEventListener("click", () => this.keep());
    this.recall();
    const first = section.querySelector("script.answer");
    if (first) {
      // The page came with the numbers and tables of the first answer: only its pictures are missing.
      this.answer = JSON.parse(first.textContent);
      this.spoken.begin(this.answer.pairs);
      this.redraw();
    } else if (this.heavy || section.querySelector(".errors p") === null) this.ask();
  }

  // Keep this answer beside the next ones, or let it go.
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
    const { low, high } = range.dataset;
    const scale = { low: Number(low), high: Number(high), steps: Number(range.max), log: "log" in range.dataset, whole: "whole" in range.dataset };
    range.read = () => valueAt(scale, Number(range.value));
    range.place = () => {
      range.value = String(placeOf(scale, Number(number.value)));
      range.setAttribute("aria-valuetext", number.value);
    };
    takeArrows(range, scale, () => Number(number.value), () => {
      for (const name of ["input", "change"]) range.dispatchEvent(new Event(name, { bubbles: true }));
    });
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

  async send(kind, chosen) {
    if (!chosen) return;
    this.wrong([]);
    const response = await fetch(`/api/uploads/${kind}?name=${encodeURIComponent(chosen.name)}`, {
      method: "POST", body: chosen,
      headers: { "x-rackmath-token": document.querySelector('meta[name="rackmath-token"]').content },
    });
    const found = await response.json();
    if (!response.ok) { this.wrong(found.errors); return; }
    const field = this.fields.find((one) => one.name === `${this.name}.${kind === "config" ? "model" : "trace"}`);
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
      // The address follows when the hand rests: a browser takes as long to write it as to draw a sketch.
      if (this.again) { this.again = false; this.ask(); } else remember(false);
    });
    return this.asking;
  }

  wait(milliseconds) { return new Promise((done) => setTimeout(done, milliseconds)); }

  async fetch() {
    const began = this.began;
    this.began = null;
    this.again = false;
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
    this.spoken.answer(found.pairs);
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
    await this.redraw(!this.heavy);
  }

  async redraw(moves = false) {
    if (!this.answer) return;
    const place = this.section.querySelector(".figures");
    const figures = this.answer.figures.map((figure) => overlaid(figure, this.beside?.answer.figures));
    while (this.pictures.length < figures.length) this.pictures.push(new Picture(place, (picture) => this.listen(picture)));
    while (this.pictures.length > figures.length) this.pictures.pop().remove();
    await Promise.all(figures.map((figure, i) => this.pictures[i].draw(figure, moves)));
  }

  // A plan: its limits can be dragged, its points can be chosen.
  listen(picture) {
    if (!picture.figure.points || picture.listening) return;
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
      if (at) choose(this, picture.figure.points[at.pointIndex]);
    });
  }
}

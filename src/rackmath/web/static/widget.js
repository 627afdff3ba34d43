// A view of the board in a cell of a notebook: controls write "values", the kernel answers with "html" or "errors".

import { placeOf, takeArrows, valueAt } from "./slider.js";

const WAIT = 150; // ms after the last move of a slider

function element(name, properties = {}, children = []) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function field(control, changed) {
  const unit = control.unit ? ` [${control.unit}]` : "";
  const label = element("label", { textContent: control.label + unit, title: control.about });
  const wrong = element("p", { className: "wrong", hidden: true });
  wrong.setAttribute("role", "alert");
  let input;
  if (control.kind === "tick") {
    input = element("input", { type: "checkbox", checked: Boolean(control.value) });
    input.onchange = () => changed(control.name, input.checked ? "true" : "false");
  } else if (control.values) {
    const options = control.values.map((value) => element("option", { value, textContent: value || "any" }));
    input = element("select", {}, options);
    input.value = control.value;
    input.onchange = () => changed(control.name, input.value);
  } else {
    const number = control.kind === "slider" || control.kind === "number";
    input = element("input", { type: number ? "number" : "text", step: "any", value: control.value });
    input.onchange = () => changed(control.name, input.value);
  }
  label.append(input);
  const parts = [label, wrong];
  if (control.kind === "slider") {
    const range = element("input", { type: "range", min: 0, max: control.steps, value: control.place });
    range.setAttribute("aria-label", `${control.label}, slider`);
    // A screen reader says the value, not the place of the slider.
    const say = () => range.setAttribute("aria-valuetext", input.value);
    say();
    range.oninput = () => { input.value = valueAt(control, Number(range.value)); say(); changed(control.name, input.value); };
    input.oninput = () => { range.value = placeOf(control, Number(input.value)); say(); };
    takeArrows(range, control, () => Number(input.value), () => range.oninput());
    parts.splice(1, 0, range);
  }
  const place = element("div", { className: "control" }, parts);
  place.dataset.field = control.name;
  return place;
}

function render({ model, el }) {
  let timer;
  const changed = (name, value) => {
    clearTimeout(timer);
    model.set("values", { ...model.get("values"), [name]: value });
    answer.setAttribute("aria-busy", "true");
    timer = setTimeout(() => model.save_changes(), WAIT);
  };
  const form = element("div", { className: "form" });
  const groups = new Map();
  for (const control of model.get("controls")) {
    let into = form;
    if (control.group) {
      if (!groups.has(control.group)) {
        groups.set(control.group, element("details", {}, [element("summary", { textContent: control.group })]));
      }
      into = groups.get(control.group);
    }
    into.append(field(control, changed));
  }
  form.append(...groups.values());
  const general = element("p", { className: "wrong", hidden: true });
  general.setAttribute("role", "alert");
  const spoken = element("p", { className: "spoken" });
  spoken.setAttribute("role", "status");
  const answer = element("div", { className: "answer" });
  const values = () => new Map([...answer.querySelectorAll("dt")].map((name) => [name.textContent, name.nextElementSibling.textContent]));
  // The kernel escapes every text that it puts into the answer. A screen reader says which values changed.
  const show = () => {
    const before = values();
    answer.innerHTML = model.get("html");
    answer.setAttribute("aria-busy", "false");
    const moved = [...values()].filter(([name, value]) => before.size && before.get(name) !== value);
    spoken.textContent = moved.map(([name, value]) => `${name} ${value}`).join("; ");
  };
  const refuse = () => {
    const errors = model.get("errors");
    for (const place of [...form.querySelectorAll(".control"), null]) {
      const message = errors[place ? place.dataset.field : ""];
      const line = place ? place.querySelector(".wrong") : general;
      line.textContent = message || "";
      line.hidden = !message;
    }
    answer.setAttribute("aria-busy", "false");
  };
  model.on("change:html", show);
  model.on("change:errors", refuse);
  show();
  refuse();
  el.classList.add("rackmath");
  el.append(element("h3", { textContent: model.get("title") }), form, element("div", {}, [general, spoken, answer]));
  return () => { model.off("change:html", show); model.off("change:errors", refuse); };
}

export default { render };

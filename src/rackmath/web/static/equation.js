// An equation that is solved for any of its symbols. Its form is a template until somebody opens it: browsers look for
// fields to fill in on a page, and lay out each form that is out of sight to do so.

import { element } from "./dom.js";

export function equation(details) {
  details.addEventListener("toggle", () => {
    const template = details.querySelector("template");
    template.replaceWith(template.content);
    solve(details.dataset.equation, details.querySelector("form"), details.querySelector(".steps"));
  }, { once: true });
}

function solve(name, form, steps) {
  let latest = 0;
  const ask = async () => {
    const number = ++latest;
    const unknown = form.elements.for.value;
    const given = [];
    for (const control of form.querySelectorAll(".symbol")) {
      control.hidden = control.dataset.symbol === unknown;
      if (!control.hidden) given.push(`${control.dataset.symbol}=${control.querySelector("input").value.trim()}`);
    }
    const query = new URLSearchParams({ equation: name, symbol: unknown, given: given.join(";") });
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
  ask();
}

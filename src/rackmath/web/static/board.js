// A page: its forms, its equations, its problems, and Plotly once it is there.

import { views } from "./address.js";
import { element } from "./dom.js";
import { equation } from "./equation.js";
import { root, theme } from "./theme.js";
import { View } from "./view.js";

root.classList.add("scripted");

// Problems of a chapter: a number is checked where it was typed.
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

theme(() => { for (const view of views) view.redraw(); });
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

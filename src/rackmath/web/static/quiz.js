// One card at a time: the question, an answer that is checked, a sketch to draw, and how well it was known.

import { element } from "./dom.js";

const token = document.querySelector('meta[name="rackmath-token"]').content;
const chapter = document.getElementById("quiz-chapter");
const place = document.querySelector(".quiz .card");
const count = document.querySelector(".quiz .count");
const RATINGS = [[1, "not at all"], [2, "with effort"], [3, "well"], [4, "at once"]];
const WRONG = 1, RIGHT = 3;

async function asked(path, query, method = "GET") {
  const headers = method === "GET" ? {} : { "x-rackmath-token": token };
  const response = await fetch(`${path}?${new URLSearchParams(query)}`, { method, headers });
  const facts = await response.json();
  if (!response.ok) throw new Error(facts.errors?.[0]?.message ?? "no answer");
  return facts;
}

let latest = 0;

async function next() {
  const mine = ++latest;
  try {
    const facts = await asked("/api/quiz/next", chapter.value ? { chapter: chapter.value } : {});
    // Another chapter was chosen while this one was asked.
    if (mine !== latest) return;
    count.textContent = `${facts.due} due, ${facts.new} new of ${facts.all}`;
    if (facts.card) show(facts.card);
    else place.replaceChildren(element("p", {}, "Nothing is due. Come back later, or take another chapter."));
  } catch (error) { place.replaceChildren(element("p", { class: "wrong" }, error.message)); }
}

function show(card) {
  const head = element("p", { class: "unit" }, `${card.chapter}: ${card.id}`);
  place.replaceChildren(head, element("p", { class: "lead" }, card.question));
  if (card.kind === "number") place.append(number(card));
  else {
    if (card.kind === "sketch") place.append(pad(card));
    place.append(element("button", { type: "button", onclick: () => reveal(card) }, "Show the answer"));
  }
}

function number(card) {
  const box = element("input", { type: "text", maxlength: "60", autocomplete: "off", id: "quiz-reply" });
  const told = element("p", { role: "status" });
  const form = element("form", {
    onsubmit: async (event) => {
      event.preventDefault();
      if (!box.value.trim()) { await reveal(card, WRONG); return; }
      try {
        const facts = await asked("/api/quiz/check", { card: card.id, reply: box.value });
        told.textContent = facts.right ? "" : `${facts.read_as} is ${facts.remark}`;
        await reveal(card, facts.right ? RIGHT : WRONG, facts.right ? "Right." : told.textContent);
      } catch (error) { told.textContent = error.message; }
    },
  }, element("label", { for: "quiz-reply" }, "a number with its unit, or nothing to see the answer "), box,
  element("button", { type: "submit" }, "Check"), told);
  setTimeout(() => box.focus());
  return form;
}

// Paper with axes. What is drawn stays beside the true picture when that is shown.
function pad(card) {
  const frame = element("div", { class: "pads" });
  for (const axis of card.axes) {
    const sheet = element("canvas", { width: "520", height: "340", "aria-label": `paper: ${axis.up} against ${axis.across}`, role: "img" });
    const pen = sheet.getContext("2d");
    const ink = getComputedStyle(document.documentElement).getPropertyValue("--accent").trim();
    const clear = () => {
      pen.clearRect(0, 0, sheet.width, sheet.height);
      pen.strokeStyle = pen.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--soft").trim();
      pen.lineWidth = 1;
      pen.strokeRect(46, 12, 460, 290);
      pen.font = "14px system-ui";
      pen.fillText(axis.across, 200, 328);
      pen.save(); pen.translate(24, 200); pen.rotate(-Math.PI / 2); pen.fillText(axis.up, 0, 0); pen.restore();
      pen.strokeStyle = ink; pen.lineWidth = 3; pen.lineCap = "round";
    };
    const at = (event) => {
      const box = sheet.getBoundingClientRect();
      return [(event.clientX - box.left) * sheet.width / box.width, (event.clientY - box.top) * sheet.height / box.height];
    };
    sheet.addEventListener("pointerdown", (event) => { sheet.setPointerCapture(event.pointerId); pen.beginPath(); pen.moveTo(...at(event)); });
    sheet.addEventListener("pointermove", (event) => { if (event.buttons) { pen.lineTo(...at(event)); pen.stroke(); } });
    clear();
    frame.append(element("div", {}, sheet, element("button", { type: "button", class: "quiet", onclick: clear }, "Clear")));
  }
  return frame;
}

async function reveal(card, rating = null, verdict = "") {
  const facts = await asked("/api/quiz/answer", { card: card.id });
  for (const form of place.querySelectorAll("form, :scope > button")) form.remove();
  if (verdict) place.append(element("p", {}, verdict));
  if (card.kind === "sketch") place.append(element("img", { class: "still", src: `/api/quiz/sketch.svg?${new URLSearchParams({ card: card.id })}`, alt: "what the sketch should show" }));
  else place.append(element("p", {}, element("strong", {}, facts.answer)));
  place.append(element("p", {}, facts.why));
  const keep = async (value) => { await asked("/api/quiz/remember", { card: card.id, rating: value }, "POST"); await next(); };
  const buttons = element("div", { class: "buttons" });
  if (rating === null) for (const [value, name] of RATINGS) buttons.append(element("button", { type: "button", onclick: () => keep(value) }, name));
  else buttons.append(element("button", { type: "button", onclick: () => keep(rating) }, "Next card"));
  place.append(element("p", { class: "unit" }, rating === null ? "How well was it known?" : ""), buttons);
  buttons.querySelector("button").focus();
}

chapter.addEventListener("change", next);
next();

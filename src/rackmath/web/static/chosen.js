// Deployments that a reader has clicked, with their numbers, their breakdown and their launch lines.

import { element, short, tableOf } from "./dom.js";

// Points of a plan beside each other: at most four, the latest last.
export async function choose(view, point) {
  view.chosen = [...view.chosen.filter((other) => other !== point), point].slice(-4);
  const place = view.section.querySelector(".chosen");
  place.hidden = false;
  const cards = await Promise.all(view.chosen.map((entry) => card(view, entry)));
  place.replaceChildren(element("h3", {}, "Chosen, up to four"), element("div", { class: "choices" }, ...cards));
}

async function card(view, point) {
  const rows = [
    ["batch", point.batch], ["weights, cache", `${point.weights}, ${point.kv}`], ["draft tokens", point.draft_tokens],
    ["tokens/s per accelerator", short(point.tokens_per_second_per_gpu)], ["tokens/s of a user", short(point.tokens_per_second_per_user)],
    ["first token [s]", short(point.time_to_first_token)], ["per token [ms]", short(point.time_per_output_token * 1e3)],
    ["$ per million", point.usd_per_million_output_tokens === null ? "" : short(point.usd_per_million_output_tokens)],
    ["bound by", point.bound_by],
  ];
  const facts = view.answer.facts, asked = new URLSearchParams(view.query());
  const layout = point.pools ? point.pools.write : point.layout;
  const widths = Object.fromEntries([...layout.matchAll(/([a-z]+)(\d+)/g)].map(([, key, width]) => [key, Number(width)]));
  const question = new URLSearchParams({
    model: asked.get("model") ?? facts.model, on: asked.get("on") ?? facts.system, layout, batch: point.batch, weights: point.weights, kv: point.kv,
    gpus: widths.tp * (widths.pp ?? 1) * (widths.dp ?? 1), draft_tokens: point.draft_tokens, engine: asked.get("engine") ?? "sglang",
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

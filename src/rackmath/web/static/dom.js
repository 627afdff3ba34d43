// Elements of a page: with their attributes, listeners and children; tables; files to keep; short numbers.

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

export function download(name, kind, text) {
  const link = element("a", { href: URL.createObjectURL(new Blob([text], { type: kind })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  URL.revokeObjectURL(link.href);
}

export function tableOf(table) {
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

export function short(value) {
  return Number(value.toPrecision(4)).toString();
}

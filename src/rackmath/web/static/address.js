// The whole state of a page is its address.

export const views = [];

// One entry of the history for each change, however many steps a slider takes on the way.
export function remember(settled) {
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
export function rememberBeside() {
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

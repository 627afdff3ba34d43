// Light or dark, and the colours of either.

export const root = document.documentElement;

export function theme(repaint) {
  const button = document.getElementById("theme");
  const stored = readStored("theme");
  if (stored) root.dataset.theme = stored;
  const name = () => { button.textContent = colours().dark ? "Light" : "Dark"; };
  const change = () => {
    palette = null;
    name();
    repaint();
  };
  button.hidden = false;
  name();
  button.addEventListener("click", () => {
    root.dataset.theme = colours().dark ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* private windows keep nothing */ }
    change();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", change);
}

function readStored(key) {
  try { return localStorage.getItem(key); } catch { return null; }
}

// Colours of the style sheet, read once for each theme: reading them makes the browser work out every style anew.
let palette = null;

export function colours() {
  if (!palette) {
    const style = getComputedStyle(root);
    const named = (name) => style.getPropertyValue(name).trim();
    palette = { ink: named("--ink"), grid: named("--grid"), wrong: named("--wrong"), dark: style.colorScheme.includes("dark") };
  }
  return palette;
}

// Sliders of the board and of notebooks: places and values on plain and logarithmic scales, arrows that reach the next value.

// A scale has low, high, steps, and log and whole where they hold.
export function valueAt(scale, place) {
  const part = place / scale.steps;
  const value = scale.log ? scale.low * (scale.high / scale.low) ** part : scale.low + (scale.high - scale.low) * part;
  return Math.min(Math.max(Number((scale.whole ? Math.round(value) : value).toPrecision(4)), scale.low), scale.high);
}

export function placeOf(scale, value) {
  const { low, high, steps, log } = scale;
  const held = Math.min(Math.max(value, low), high);
  return Math.round(steps * (log ? Math.log(held / low) / Math.log(high / low) : (held - low) / (high - low)));
}

// Steps of a wide or logarithmic slider are finer than its values: an arrow passes all that read the same.
export function takeArrows(range, scale, value, changed) {
  range.addEventListener("keydown", (event) => {
    const way = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!way) return;
    event.preventDefault();
    let place = Number(range.value);
    do place += way; while (place >= 0 && place <= scale.steps && (valueAt(scale, place) - value()) * way <= 0);
    if (place < 0 || place > scale.steps) return;
    range.value = String(place);
    changed();
  });
}

// What a screen reader says of an answer: the values that changed, once the hand rests.

// Long enough that a dragged slider is silent, short enough that an answer follows its question. [ms]
const PAUSE = 700;

export class Spoken {
  constructor(place) {
    this.place = place;
    this.said = new Map();
  }

  // What the page says by itself when it is opened.
  begin(pairs) { this.said = new Map(pairs); }

  answer(pairs) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      const changed = pairs.filter(([name, value]) => this.said.get(name) !== value);
      this.said = new Map(pairs);
      this.place.textContent = changed.length ? changed.map(([name, value]) => `${name} ${value}`).join("; ") : "No value changed.";
    }, PAUSE);
  }
}

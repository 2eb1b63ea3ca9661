// Type-ahead of WAI-ARIA's trees and lists: characters typed one soon after the other lead to a name that begins so.

/** ms after which a character begins anew. */
const PAUSE = 700;

/** Letters typed into one part. */
export class TypeAhead {
  constructor() {
    this.typed = "";
    this.last = -Infinity;
  }

  /** Whether a key is part of the typed name: a letter or a digit begins it, and any character goes on. @param {KeyboardEvent} event */
  takes({ key, timeStamp, ctrlKey, metaKey, altKey }) {
    if ([...key].length !== 1 || ctrlKey || metaKey || altKey) return false;
    return this.#goesOn(timeStamp) || /[\p{L}\p{N}_]/u.test(key);
  }

  /** The next name, around the end, that begins with the typed letters; the same letter again goes on to the next, −1 where none does. @param {KeyboardEvent} event @param {string[]} names @param {number} at the present one */
  find({ key, timeStamp }, names, at) {
    this.typed = (this.#goesOn(timeStamp) ? this.typed : "") + key.toLowerCase();
    this.last = timeStamp;
    const isOne = new Set(this.typed).size === 1;
    const start = isOne ? [...this.typed][0] : this.typed;
    for (let by = isOne ? 1 : 0; by < names.length + 1; by++) {
      const place = (Math.max(at, 0) + by) % names.length;
      if (names[place].toLowerCase().startsWith(start)) return place;
    }
    return -1;
  }

  #goesOn(time) {
    return this.typed !== "" && time - this.last < PAUSE;
  }
}

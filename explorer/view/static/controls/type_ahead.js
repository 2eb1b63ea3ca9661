// Type-ahead of WAI-ARIA trees and lists: characters typed in quick succession find a name that begins with them.

/** ms after which a character begins a new prefix. */
const PAUSE = 700;

/** Characters typed into one part. */
export class TypeAhead {
  constructor() {
    this.typed = "";
    this.last = -Infinity;
  }

  /** Whether a key is part of the typed prefix, which begins with a letter or digit and continues with any character. @param {KeyboardEvent} event */
  takes({ key, timeStamp, ctrlKey, metaKey, altKey }) {
    if ([...key].length !== 1 || ctrlKey || metaKey || altKey) return false;
    return this.#goesOn(timeStamp) || /[\p{L}\p{N}_]/u.test(key);
  }

  /** Return the index of the next name, wrapping around, that begins with the typed prefix, −1 if there is none. Repeating one letter moves to the next match. @param {KeyboardEvent} event @param {string[]} names @param {number} at the current index */
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

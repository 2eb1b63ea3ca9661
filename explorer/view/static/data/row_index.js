// Index from integer keys to their entries, stored as two integer arrays.

/** Entries sorted by key; the entries of key k begin at starts[k]. */
export class RowIndex {
  /** @param {number} count number of keys @param {(enter: (key: number, entry: number) => void) => void} walk calls `enter` for every entry, in the same order each time; negative keys are ignored */
  constructor(count, walk) {
    this.starts = new Int32Array(count + 1);
    walk((key) => {
      if (key >= 0) this.starts[key + 1]++;
    });
    for (let key = 0; key < count; key++) this.starts[key + 1] += this.starts[key];
    const next = this.starts.slice();
    this.entries = new Int32Array(this.starts[count]);
    walk((key, entry) => {
      if (key >= 0) this.entries[next[key]++] = entry;
    });
  }

  /** Return the entries of a key. @param {number} key @returns {Int32Array} */
  of(key) {
    return this.entries.subarray(this.starts[key], this.starts[key + 1]);
  }

  /** Return the keys that have entries. @returns {number[]} */
  keys() {
    return [...this.starts.keys()].filter((key) => this.starts[key] < this.starts[key + 1]);
  }

  /** Return the entries of consecutive keys. @param {number} first @param {number} last the key after the last one @returns {Int32Array} */
  between(first, last) {
    return this.entries.subarray(this.starts[Math.max(first, 0)], this.starts[Math.max(last, 0)]);
  }
}

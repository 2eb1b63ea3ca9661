// Indices of rows by number: the entries of every key, as two arrays of integers.

/** Entries in the order of their keys: those of key k stand from starts[k] on. */
export class RowIndex {
  /** @param {number} count of keys @param {(enter: (key: number, entry: number) => void) => void} walk enters everything, in the same order each time; a key below 0 has no entries */
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

  /** @param {number} key @returns {Int32Array} */
  of(key) {
    return this.entries.subarray(this.starts[key], this.starts[key + 1]);
  }

  /** The keys that have entries. @returns {number[]} */
  keys() {
    return [...this.starts.keys()].filter((key) => this.starts[key] < this.starts[key + 1]);
  }

  /** The entries of some keys in a row. @param {number} first @param {number} last the key behind them @returns {Int32Array} */
  between(first, last) {
    return this.entries.subarray(this.starts[Math.max(first, 0)], this.starts[Math.max(last, 0)]);
  }
}

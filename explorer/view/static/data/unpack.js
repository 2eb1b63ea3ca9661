// Unpacking of tables packed by view/payload/columns.py.

const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const VALUES = new Uint8Array(128);
for (let value = 0; value < DIGITS.length; value++) VALUES[DIGITS.charCodeAt(value)] = value;

/** Return the value of a packed form, which is not modified. @param {any} value */
export function unpack(value) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(unpack);
  if (value["=columns"]) return columns(value["=columns"]);
  if (value["=rows"]) return rows(value["=rows"].map(unpack));
  if (value["=runs"]) return runs(value["=runs"]);
  if (value["=deltas"]) return deltas(value["=deltas"]);
  if (value["=flat"]) return slices(unpack(value["=flat"]), unpack(value["=lengths"]));
  if (value["=forms"]) return inTurn(value["=forms"].map(unpack), unpack(value["=at"]));
  if (value["=words"]) return chosen(unpack(value["=words"]), unpack(value["=at"]));
  if (value["=numbered"]) return numbered(unpack(value["=numbered"]), unpack(value["=numbers"]));
  if (value["=woven"]) return woven(value["=woven"].map(unpack));
  if (value["=thousandths"]) return unpack(value["=thousandths"]).map((number) => number / 1000);
  if (value["=digits"]) return unpack(value["=digits"]).map(String);
  if (value["=keys"]) return keyed(unpack(value["=keys"]), unpack(value["=values"]));
  const plain = {};
  for (const key of Object.keys(value)) set(plain, key.startsWith("==") ? key.slice(1) : key, unpack(value[key]));
  return plain;
}

/** Set a key that may be any name from a file, even "__proto__", which must not change the object's prototype. */
function set(object, key, value) {
  if (key === "__proto__") Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
  else object[key] = value;
}

function columns(table) {
  const keys = Object.keys(table);
  const lists = keys.map((key) => unpack(table[key]));
  return lists[0].map((_, row) => {
    const plain = {};
    for (let column = 0; column < keys.length; column++) set(plain, keys[column], lists[column][row]);
    return plain;
  });
}

function rows(lists) {
  return lists[0].map((_, row) => lists.map((list) => list[row]));
}

function slices(flat, lengths) {
  let start = 0;
  return lengths.map((length) => flat.slice(start, (start += length)));
}

function chosen(words, indices) {
  return indices.map((at) => words[at]);
}

function numbered(texts, numbers) {
  const pieces = new Map();
  let next = 0;
  return texts.map((text) => {
    if (!pieces.has(text)) pieces.set(text, text.split("#"));
    return pieces.get(text).reduce((before, piece) => before + numbers[next++] + piece);
  });
}

function woven(lists) {
  const items = [];
  for (let row = 0; row < lists[0].length; row++) for (const list of lists) if (row < list.length) items.push(list[row]);
  return items;
}

function keyed(keys, values) {
  return Object.fromEntries(keys.map((key, place) => [key, values[place]]));
}

function inTurn(lists, turns) {
  const taken = lists.map(() => 0);
  return turns.map((at) => lists[at][taken[at]++]);
}

function runs(table) {
  const numbers = [];
  for (const [first, count, step] of table) {
    for (let index = 0; index < count; index++) numbers.push(first + index * step);
  }
  return numbers;
}

function deltas(text) {
  const sums = [];
  let [sum, rest, scale] = [0, 0, 1];
  for (let place = 0; place < text.length; place++) {
    const value = VALUES[text.charCodeAt(place)];
    rest += scale * (value & 31);
    // No bit shifts, because differences may have more than 32 bits.
    scale *= 32;
    if (value < 32) {
      sum += rest % 2 ? -(rest + 1) / 2 : rest / 2;
      sums.push(sum);
      [rest, scale] = [0, 1];
    }
  }
  return sums;
}

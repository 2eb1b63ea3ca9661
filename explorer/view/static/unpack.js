// Packed tables (view/pack.py) back to rows.

/** The value of a packed form; nothing of it is changed. @param {any} value */
export function unpack(value) {
  if (Array.isArray(value)) return value.map(unpack);
  if (value === null || typeof value !== "object") return value;
  if (isTable(value["=columns"])) return columns(value["=columns"]);
  if (Array.isArray(value["=rows"])) return rows(value["=rows"].map(unpack));
  if (Array.isArray(value["=runs"])) return value["=runs"].flatMap(run);
  if (Array.isArray(value["=lists"])) return inTurn(value["=lists"].map(unpack), unpack(value["=at"]));
  if (Array.isArray(value["=words"])) return unpack(value["=at"]).map((at) => value["=words"][at]);
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, unpack(item)]));
}

function isTable(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

function columns(table) {
  const keys = Object.keys(table);
  const lists = keys.map((key) => unpack(table[key]));
  return lists[0].map((_, row) => Object.fromEntries(keys.map((key, column) => [key, lists[column][row]])));
}

function rows(lists) {
  return lists[0].map((_, row) => lists.map((list) => list[row]));
}

function inTurn(lists, turns) {
  const taken = lists.map(() => 0);
  return turns.map((at) => lists[at][taken[at]++]);
}

function run([first, count, step]) {
  return Array.from({ length: count }, (_, index) => first + index * step);
}

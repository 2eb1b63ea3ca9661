// Search queries: parsing of the search field and matching of nodes and decisions.

const FIELDS = { type: "type", name: "name", operation: "operation", op: "operation", shape: "shape", dtype: "dtype", text: "text", found: "found", operand: "operand", tensor: "operand" };
/** Fields that a word must match completely: "operation:conv" does not find conv2d. */
const WHOLE = new Set(["type", "operation", "dtype"]);
const PLAIN = ["type", "name", "operation", "shape", "dtype", "text", "found", "operand"];
const WORD = /(?:(type|name|operation|op|shape|dtype|text|found|operand|tensor):)?("[^"]*"|\S+)/g;

/** @typedef {{type: string, name: string, operation: string, shape: string, dtype: string, text: string, found: string, line: string, operand: string, written: string}} Entry the searched strings of a node; only "text:" searches the line that recorded it */

/** Words that must all match; each word of "operation:conv2d shape:64x7x7" searches one field. */
export class Query {
  /** @param {string} typed */
  constructor(typed) {
    this.words = [...fold(typed).matchAll(WORD)].map(([, field, word]) => ({ field: FIELDS[field], word: word.replaceAll('"', "") })).filter(({ word }) => word);
  }

  get isEmpty() {
    return this.words.length === 0;
  }

  /** Whether an entry has every word. @param {Entry} entry its strings folded */
  matches(entry) {
    return this.words.every(({ field, word }) => {
      if (!field) return PLAIN.some((name) => has(name, entry[name], word));
      if (field === "text") return begins(entry.text, word) || begins(entry.line, word);
      if (field === "type" || field === "operand") return entry[field].split("\n").includes(word);
      return WHOLE.has(field) ? entry[field].split("\n")[0] === word : has(field, entry[field], word);
    });
  }

  /** Whether a file's operator writes an operand that a word names. @param {Entry} entry its strings folded */
  isOfWriter(entry) {
    return this.words.some(({ word }) => entry.written.split("\n").includes(word));
  }

  /** Whether a decision's text has every word; a word for a field of nodes matches no decision. @param {string} text */
  matchesText(text) {
    return this.words.every(({ field, word }) => (!field || field === "text") && begins(text, word));
  }
}

const LETTER = /[\p{L}\p{N}]/u;

/** Whether a word of the text begins with `word`: "sum" does not find "consumers". @param {string} text @param {string} word */
function begins(text, word) {
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
    if (at === 0 || !LETTER.test(text[at - 1]) || !LETTER.test(word[0])) return true;
  }
  return false;
}

/** Whether a field has a word; a part of a shape may begin at any of its lengths. */
function has(field, text, word) {
  // An operand is found by its whole name: "relu" does not find the readers of relu_1.
  if (field === "operand") return text.split("\n").includes(word);
  return field === "shape" ? text.includes(word) : begins(text, word);
}

/** Return a folded name, followed by its separate words if it is in camel case. @param {string} name */
function named(name) {
  const apart = name.replace(/(\p{Ll}|\p{N})(\p{Lu})/gu, "$1 $2");
  return apart === name ? fold(name) : `${fold(name)}\n${fold(apart)}`;
}

/** Normalize a string: convert it to lower case and replace "×" with "x". @param {string} text */
export function fold(text) {
  return text.toLowerCase().replaceAll("×", "x");
}

/** Return the query that finds every operator of a type in a file. @param {string} type */
export function ofType(type) {
  return `type:${/\s/.test(type) ? `"${type}"` : type}`;
}

/** Return the searched strings of a file's operator: its type with and without a module path, its name, result, attributes and operands. @param {import("./trace.js").Trace} trace @param {number} box @returns {Entry} */
export function operatorEntry(trace, box) {
  return entryOf(trace, trace.layout.boxes[box]);
}

/** Return the searched strings of each of a file's operators that has no box, because it is a single node: node → entry. @param {import("./trace.js").Trace} trace @returns {Map<number, Entry>} */
export function singleOperators(trace) {
  const { scopes, operators = [] } = trace.recording;
  const { kind, born, scope: scopeOf, operands } = trace.nodes;
  const boxed = new Set(trace.layout.boxes.map(({ operator }) => operators[operator]?.scope));
  const rows = new Map(operators.map(({ scope }, row) => [scope, row]));
  /** @type {Map<number, number>} scope → its last operation */ const last = new Map();
  for (let node = 0; node < trace.count && born[node] < 0; node++) {
    if (kind[node] === "constant" || !operands[node].length) continue;
    let scope = scopeOf[node];
    while (scope >= 0 && !scopes[scope].type) scope = scopes[scope].parent;
    if (scope >= 0 && !boxed.has(scope)) last.set(scope, node);
  }
  return new Map([...last].map(([scope, node]) => {
    const { type, name } = scopes[scope];
    return [node, entryOf(trace, { type, label: `${name}\n${trace.label(node)}`, text: [trace.typeText(trace.nodes.type[node]), trace.sourceText(node)], operator: rows.get(scope) ?? -1 })];
  }));
}

/** @param {import("./trace.js").Trace} trace @param {{type: string, label: string, text: string[], operator: number}} operator @returns {Entry} */
function entryOf(trace, { type, label, text, operator }) {
  const { attributes = [], doc = "", inputs = [], outputs = [] } = trace.recording.operators?.[operator] ?? {};
  const short = type.slice(type.lastIndexOf(".") + 1);
  const rest = [...text, ...attributes.map((pair) => pair.join(" ")), doc].join("\n");
  return { type: fold(`${type}\n${short}`), name: named(label), operation: "", shape: "", dtype: "", text: fold(rest), found: "", line: "", operand: fold([...outputs, ...inputs].join("\n")), written: fold(outputs.join("\n")) };
}

/** Return the query that finds every node of an operation. @param {string} operation */
export function ofOperation(operation) {
  return `operation:${/\s/.test(operation) ? `"${operation}"` : operation}`;
}

/** Return the searched strings of a node. @param {import("./trace.js").Trace} trace @param {number} node @param {string} [compositions] known functions that it is a part of @returns {Entry} */
export function nodeEntry(trace, node, compositions = "") {
  const { nodes, recording } = trace;
  const type = trace.typeText(nodes.type[node]);
  const { dtype, shape, named: withNames } = recording.types[nodes.type[node]];
  const source = recording.sources[nodes.source[node]];
  const attributes = Object.entries(nodes.attributes[node] ?? {}).map(([name, value]) => `${name} ${value}`);
  return {
    type: "",
    name: named([trace.namedLabel(node), trace.label(node), ...trace.outputNames(node)].join("\n")),
    operation: named(recording.operations[nodes.operation[node]]),
    // "batch=2×64" is also found by its lengths only
    shape: fold(withNames ? `${shape.join("×")}\n${withNames}` : dtype === "tuple" ? type : type.split(" ")[0]),
    dtype: fold(dtype),
    text: named([type, ...trace.scopePath(node), trace.sourceText(node), ...attributes].join("\n")),
    found: fold(compositions),
    line: fold(source?.text ?? ""),
    operand: "",
    written: "",
  };
}

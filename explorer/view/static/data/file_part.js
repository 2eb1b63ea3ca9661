// Part of a model's file between two selected nodes or boxes: the operands at which it begins and ends.

/** @typedef {{inputs: string[], outputs: string[]}} FilePart names of operands in the file */

/** Operators of a file, connected by their operands. */
export class FileParts {
  /** @param {import("./trace.js").Trace} trace */
  constructor(trace) {
    const { operators = [], interface: ports = [] } = trace.recording;
    this.trace = trace;
    this.operators = operators;
    this.rows = new Map(operators.map(({ scope }, row) => [scope, row]));
    /** @type {Map<string, number>} operand → the operator that computes it */ this.writer = new Map();
    /** @type {Map<string, number[]>} operand → the operators that read it */ this.readers = new Map();
    for (const [row, { inputs, outputs }] of operators.entries()) {
      for (const name of outputs) this.writer.set(name, row);
      for (const name of inputs) this.readers.set(name, [...(this.readers.get(name) ?? []), row]);
    }
    const named = (direction) => ports.filter((port) => port.direction === direction).map(({ name }) => name);
    this.results = new Set(named("output"));
    const starts = named("input");
    const computed = [...this.#reached(starts.flatMap((name) => this.readers.get(name) ?? []), (row) => this.#next(row))];
    /** operands that depend on an input of the model; the others are constants, which a part contains */
    this.varying = new Set([...starts, ...computed.flatMap((row) => operators[row].outputs)]);
  }

  /** Return the part with the operators of some nodes, or of two groups of nodes and the paths between them; null if there is no such part. @param {number[]} nodes @param {number[]} [others] @returns {FilePart | null} */
  part(nodes, others) {
    const [first, second] = [this.#operators(nodes), others && this.#operators(others)];
    const members = second ? this.#between(first, second) : first;
    if (!members.size) return null;
    const rows = [...members].sort((a, b) => a - b).map((row) => this.operators[row]);
    const written = new Set(rows.flatMap(({ outputs }) => outputs));
    const inputs = new Set(rows.flatMap((row) => row.inputs).filter((name) => this.varying.has(name) && !written.has(name)));
    const isRead = (name) => this.results.has(name) || (this.readers.get(name) ?? []).some((row) => !members.has(row));
    const outputs = [...written].filter((name) => this.varying.has(name) && isRead(name));
    return inputs.size && outputs.length ? { inputs: [...inputs], outputs } : null;
  }

  /** Return the operators of two groups and of all paths from one to the other; an empty set without a path. @param {Set<number>} first @param {Set<number>} second */
  #between(first, second) {
    for (const [from, to] of [[first, second], [second, first]]) {
      const after = this.#reached(from, (row) => this.#next(row));
      const before = this.#reached(to, (row) => this.#previous(row));
      const path = [...after].filter((row) => before.has(row));
      if (path.length) return new Set([...first, ...second, ...path]);
    }
    return new Set();
  }

  #next(row) {
    return this.operators[row].outputs.flatMap((name) => this.readers.get(name) ?? []);
  }

  #previous(row) {
    return this.operators[row].inputs.flatMap((name) => this.writer.get(name) ?? []);
  }

  #reached(starts, next) {
    const reached = new Set(starts);
    for (const row of reached) for (const other of next(row)) reached.add(other);
    return reached;
  }

  /** Return the innermost operators around nodes. @param {number[]} nodes @returns {Set<number>} */
  #operators(nodes) {
    const { scopes } = this.trace.recording;
    const found = new Set();
    for (const node of nodes) {
      let scope = this.trace.nodes.scope[node];
      while (scope >= 0 && !this.rows.has(scope)) scope = scopes[scope].parent;
      if (scope >= 0) found.add(this.rows.get(scope));
    }
    return found;
  }

  /** Return the base name of the model's file; "" if the operators are not from a single file of a model. */
  get file() {
    const names = new Set(this.trace.recording.sources.map(({ place }) => place.replace(/ (node|line) \d+$/, "")));
    const [name] = names;
    return names.size === 1 && !/^In\[|\.py\b/.test(name) ? name : "";
  }
}

/** Return the call that cuts out a part and saves it. @param {FilePart} part */
export function cutCall({ inputs, outputs }) {
  return `net.cut(inputs=[${inputs.map(quoted).join(", ")}], outputs=[${outputs.map(quoted).join(", ")}]).save("part.onnx")`;
}

/** Return the command that cuts out a part; "" if it has a name that a command cannot have. @param {string} file @param {FilePart} part */
export function cutCommand(file, { inputs, outputs }) {
  const isPlain = [file, ...inputs, ...outputs].every((name) => name !== "" && !name.startsWith("-") && !ESCAPED.test(name));
  return isPlain ? `explorer cut ${[file, "--inputs", ...inputs, "--outputs", ...outputs].map(word).join(" ")} -o part.onnx` : "";
}

/** Escape of a hidden character, as record/escape.py writes it into names. */
const ESCAPED = /\\([nrt]|x[0-9a-f]{2}|u[0-9a-f]{4})/;

/** Return a name as a string of Python, in which these escapes mean the same. @param {string} name */
function quoted(name) {
  return `"${name.replaceAll('"', '\\"').replace(/\\(?!"|[nrt]|x[0-9a-f]{2}|u[0-9a-f]{4})/g, "\\\\")}"`;
}

/** Return a name as a word of a shell. @param {string} name */
function word(name) {
  return /^[\w./:+=@%,-]+$/.test(name) ? name : `'${name.replaceAll("'", `'\\''`)}'`;
}

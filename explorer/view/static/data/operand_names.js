// Names of values in a model's file, and of operators' operands in the definitions of their types.

/**
 * @typedef {{formal: string, name: string, text: string, node: number}} Operand an input or output of an operator: its name in the definition of the operator's type, its name in the file, or the text of a constant, and its node, −1 if it has none
 */

/** Names of the operands of one trace. */
export class OperandNames {
  /** @param {import("./trace.js").Trace} trace */
  constructor(trace) {
    this.trace = trace;
    const { operators = [], interface: ports = [] } = trace.recording;
    this.operators = operators;
    /** @type {Map<number, string[]>} */ this.namesOf = new Map();
    /** @type {Map<string, number>} */ this.nodeOf = new Map();
    for (const { direction, name, node } of ports) if (direction === "input") this.#enter(name, node);
    // Recordings saved by older versions have no results and parameters.
    for (const { outputs, results = [] } of operators) outputs.forEach((name, index) => this.#enter(name, results[index]?.[1] ?? -1));
    /** name of a weight → its node @type {Map<string, number>} */ this.weights = new Map();
    trace.nodes.kind.forEach((kind, node) => kind === "leaf" && !this.weights.has(trace.label(node)) && this.weights.set(trace.label(node), node));
  }

  #enter(name, node) {
    if (node < 0) return;
    this.nodeOf.set(name, node);
    this.namesOf.set(node, [...(this.namesOf.get(node) ?? []), name]);
  }

  /** Return the names in the file of the value of a node, and of nodes that it replaced, at a position. @param {number} node @param {number} position @returns {string[]} */
  names(node, position) {
    const final = this.trace.resolver(position);
    return [...this.namesOf].flatMap(([each, names]) => (each === node || final[each] === node ? names : []));
  }

  /** Return the inputs of an operator, in the order of its type's parameters, followed by its other weights. @param {import("../types").FileOperator} operator @returns {Operand[]} */
  inputs({ inputs, parameters = [], weights, attributes }) {
    const [stored, constants] = [new Map(weights), new Map(attributes)];
    const given = parameters.map(([formal, index]) => (index >= 0 ? this.#computed(formal || (inputs.length > 1 ? `input ${index}` : "input"), inputs[index]) : stored.has(formal) ? this.#weight(formal, stored.get(formal)) : { formal, name: "", text: constants.get(formal) ?? "", node: -1 }));
    const named = new Set(parameters.map(([formal]) => formal));
    return [...given, ...weights.filter(([formal]) => !named.has(formal)).map(([formal, text]) => this.#weight(formal, text))];
  }

  /** Return the attributes of an operator that are not inputs. @param {import("../types").FileOperator} operator @returns {[string, string][]} */
  attributes({ attributes, parameters = [] }) {
    const named = new Set(parameters.map(([formal]) => formal));
    return attributes.filter(([name]) => !named.has(name));
  }

  /** Return the outputs of an operator. @param {import("../types").FileOperator} operator @returns {Operand[]} */
  outputs({ outputs, results = [] }) {
    return outputs.map((name, index) => {
      const [formal, node] = results[index] ?? ["", -1];
      return { formal: formal || (outputs.length > 1 ? `output ${index}` : "output"), name, text: "", node };
    });
  }

  #computed(formal, name) {
    return { formal, name, text: "", node: this.nodeOf.get(name) ?? -1 };
  }

  /** Return a weight, whose text is its name and type, "conv1.weight · 8×1×3×3 float32". */
  #weight(formal, text) {
    const end = text.lastIndexOf(" · ");
    const [name, type] = end < 0 ? ["", text] : [text.slice(0, end), text.slice(end + 3)];
    return { formal, name, text: type, node: this.weights.get(name) ?? -1 };
  }
}

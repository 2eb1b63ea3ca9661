// Answers to "why not these two?": the decisions about two nodes, or the fate of each. record/node_decisions.py is the Python counterpart.

import { RowIndex } from "./row_index.js";
import { grouped } from "./number_format.js";

/** Maximum number of nodes on a path that are named; the rest is counted. */
const NAMED = 5;

/**
 * Return the decisions to show before sentences about kernels, these sentences, the decisions to show after them, and whether a decision is about both.
 * @param {import("./trace.js").Trace} trace @param {number[]} nodes @param {number[]} others @returns {{cards: number[], sentences: string[], further: number[], isCommon: boolean}}
 */
export function pairAnswer(trace, nodes, others) {
  const [numbers, renamed] = [decisionsBetween(trace, nodes, others), renamings(trace, nodes, others)];
  const fusions = numbers.filter((index) => isFusion(trace, index));
  const sentences = fusions.length ? [] : (numbers.length ? kernelAnswers : accounts)(trace, nodes, others);
  const isCommon = numbers.length > 0;
  if (nodes.length === 1 && others.length === 1) return { cards: [...renamed, ...numbers], sentences, further: [], isCommon };
  return { cards: fusions, sentences, further: [...renamed, ...numbers.filter((index) => !fusions.includes(index))], isCommon };
}

/** Return the decisions about two nodes, or about nodes of two boxes. @param {import("./trace.js").Trace} trace @param {number[]} nodes @param {number[]} others @returns {number[]} */
function decisionsBetween(trace, nodes, others) {
  const sides = [nodes, others].map((side) => withReplacements(trace, side));
  const [first, second] = sides;
  const indices = [];
  trace.decisions.forEach((decision, index) => {
    const edges = trace.declinedEdges(index, index + 1);
    const between = edges.some(([operand, reader]) => sides.some((side, at) => side.has(operand) && sides[1 - at].has(reader)));
    const isStated = trace.recording.authors?.[index] !== undefined && meet(decision.subjects, first, second);
    if (isStated || (edges.length ? between : namesBoth(trace, index, decision, first, second))) indices.push(index);
  });
  return indices;
}

/** Return the edges between two sides, as [operand, reader], that a decision did not fuse. @param {import("./trace.js").Trace} trace @param {number} index @param {number[]} nodes @param {number[]} others @returns {[number, number][]} */
export function edgesBetween(trace, index, nodes, others) {
  const sides = [nodes, others].map((side) => withReplacements(trace, side));
  return trace.declinedEdges(index, index + 1).filter(([operand, reader]) => sides.some((side, at) => side.has(operand) && sides[1 - at].has(reader)));
}

/** Return nodes with all their replacements, and the operations that each one became. @param {import("./trace.js").Trace} trace @param {number[]} nodes @returns {Set<number>} */
function withReplacements(trace, nodes) {
  const replacement = new Map(trace.recording.substitutions.map(([, old, node]) => [old, node]));
  const [pending, reached] = [[...nodes], new Set()];
  for (const node of pending) {
    if (reached.has(node)) continue;
    reached.add(node);
    if (replacement.has(node)) pending.push(replacement.get(node));
    const decision = trace.decisions[trace.nodes.gone[node]];
    if (decision?.subjects.length === 1 && decision.subjects[0] === node) pending.push(...decision.produced);
  }
  return reached;
}

/** Return the decisions that replaced a node by one with another label, or introduced it, except decisions about both. @param {import("./trace.js").Trace} trace @param {number[]} nodes @param {number[]} others @returns {number[]} */
function renamings(trace, nodes, others) {
  const { substitutions } = trace.recording;
  const replacedBy = new Map(substitutions.map(([index, old, node]) => [old, [index, node]]));
  const replaces = new Map([...substitutions].reverse().map(([index, old, node]) => [node, [index, old]]));
  const found = new Set();
  for (const node of [nodes, others].filter((side) => side.length <= NAMED).flat()) {
    for (const step of [replacedBy, replaces]) {
      for (let at = node; step.has(at); at = step.get(at)[1]) {
        const [index, following] = step.get(at);
        if (trace.label(at) !== trace.label(following)) found.add(index);
      }
    }
  }
  const between = decisionsBetween(trace, nodes, others);
  return [...found].filter((index) => !between.includes(index)).sort((one, other) => one - other);
}

/** Whether nodes contain two different ones, one of each side. @param {number[]} nodes @param {Set<number>} first @param {Set<number>} second */
function meet(nodes, first, second) {
  return nodes.some((node) => first.has(node) && nodes.some((other) => other !== node && second.has(other)));
}

function namesBoth(trace, index, decision, first, second) {
  if (trace.recording.stages[decision.stage].kind !== "rewrite") return false;
  const subjects = [...decision.subjects, ...decision.produced];
  const named = trace.sentence(index).flatMap(({ node }) => (node >= 0 ? [node] : []));
  if (decision.verdict === "applied") return meet([...subjects, ...named], first, second);
  const apart = (side, nodes, against) => subjects.some((node) => side.has(node)) && nodes.some((node) => against.has(node) && !side.has(node));
  return apart(first, named, second) || apart(second, named, first);
}

/** Return sentences on whether two nodes run in one kernel and, if not, why, and in which kernels they run. @param {import("./trace.js").Trace} trace @param {number[]} nodes @param {number[]} others @returns {string[]} */
function accounts(trace, nodes, others) {
  const final = trace.resolver(trace.decisions.length);
  const answers = new Set([...kernelAnswers(trace, nodes, others), ...nodeSentences(trace, nodes, others, final)]);
  return [...answers, ...relation(trace, nodes, others, final)];
}

/** Return a sentence about the kernel of each node; nodes that one kernel computes share a sentence. @returns {string[]} */
function nodeSentences(trace, nodes, others, final) {
  const told = (side) => side.some((node) => trace.kernelOf[final[node]] >= 0) ? side.filter((node) => trace.kernelOf[final[node]] >= 0) : side;
  const both = [...told(nodes), ...told(others)];
  const paths = pathsToReplacements(trace, both.filter((node) => trace.nodes.gone[final[node]] >= 0), final);
  const only = (node) => ([...trace.kernelsOf.of(final[node])].length === 1 ? trace.kernelOf[final[node]] : -1);
  /** @type {Map<number, Set<string>>} kernel → the names of the nodes that only it computes */ const together = new Map();
  for (const node of both) together.set(only(node), (together.get(only(node)) ?? new Set()).add(nameOf(trace, node)));
  const sentence = (node) => {
    const names = together.get(only(node));
    if (only(node) < 0 || names.size < 2) return account(trace, node, final, paths);
    return worded(trace.recording.accounts.kernel_of_several, { nodes: named([...names]).join(", "), ...kernelWords(trace, only(node)) });
  };
  return [...new Set(both.map(sentence))];
}

/** Return the label of a node, with the name of its operator, "relu (node_relu_1)", or, if several recorded operations have the label, its variable or number. @param {import("./trace.js").Trace} trace @param {number} node */
function nameOf(trace, node) {
  const { scopes } = trace.recording;
  let row = trace.nodes.scope[node];
  while (row >= 0 && !scopes[row].type) row = scopes[row].parent;
  const label = trace.label(node);
  if (row >= 0) {
    const { name } = scopes[row];
    const own = scopes.filter((each) => each.type && each.name === name).length > 1 ? boxNames(scopes, row).join(" / ") : name;
    return own === label ? label : `${label} (${own})`;
  }
  const same = namesakes(trace).get(label) ?? [];
  if (same.length < 2) return label;
  const variable = trace.variable(node);
  if (variable && same.filter((other) => trace.variable(other) === variable).length < 2) return `${label} (${variable})`;
  return same.includes(node) ? `${label} (no. ${grouped(same.indexOf(node) + 1)})` : label;
}

/** Return the names of a box and of the boxes around it, outermost first. @param {{name: string, parent: number}[]} scopes @param {number} row @returns {string[]} */
function boxNames(scopes, row) {
  const names = [];
  for (; row >= 0; row = scopes[row].parent) if (scopes[row].name) names.unshift(scopes[row].name);
  return names;
}

/** @type {WeakMap<import("./trace.js").Trace, Map<string, number[]>>} */
const NAMESAKES = new WeakMap();

/** Return label → the recorded operations that have it. @param {import("./trace.js").Trace} trace @returns {Map<string, number[]>} */
function namesakes(trace) {
  let nodesOf = NAMESAKES.get(trace);
  if (!nodesOf) {
    NAMESAKES.set(trace, (nodesOf = new Map()));
    const { kind, born, label } = trace.nodes;
    for (let node = 0; node < trace.count; node++) {
      if (kind[node] === "operation" && born[node] < 0) (nodesOf.get(label[node]) ?? nodesOf.set(label[node], []).get(label[node])).push(node);
    }
  }
  return nodesOf;
}

/** Whether a decision is about the kernels that nodes run in. @param {import("./trace.js").Trace} trace @param {number} index */
function isFusion(trace, index) {
  return trace.recording.stages[trace.decisions[index].stage].decides === "kernels";
}

/** Return sentences on whether two nodes run in one kernel and, if not, where and why their path is cut. @param {import("./trace.js").Trace} trace @param {number[]} nodes @param {number[]} others @returns {string[]} */
function kernelAnswers(trace, nodes, others) {
  const final = trace.resolver(trace.decisions.length);
  const apart = [...readFromMemory(trace, nodes, others, final), ...readFromMemory(trace, others, nodes, final)];
  if (apart.length) return readSentences(trace, apart, final);
  const together = same(trace, nodes, others, final);
  if (together) return [together];
  const edges = trace.recording.stages.some(({ decides }) => decides === "kernels") ? cut(trace, nodes, others, final) : [];
  return edges.length ? edges : nodeSentences(trace, nodes, others, final);
}

/** Return sentences about pairs [node, reader] in different kernels; pairs in the same kernels share a sentence. @param {import("./trace.js").Trace} trace @param {number[][]} pairs @returns {string[]} */
function readSentences(trace, pairs, final) {
  const { accounts: sentences, limits } = trace.recording;
  const kernels = (node) => [...trace.kernelsOf.of(final[node])];
  /** @type {Map<string, [number, number][]>} */ const between = new Map();
  for (const [node, reader] of pairs) {
    const key = `${kernels(node)} ${kernels(reader)}`;
    between.set(key, [...(between.get(key) ?? []), [node, reader]]);
  }
  return [...between.values()].flatMap((rows) => {
    const [node, reader] = rows[0];
    const texts = (sentence) => [...new Set(rows.map(([one, other]) => worded(sentence, { node: nameOf(trace, one), reader: nameOf(trace, other), limits })))];
    if (texts(sentences.reads).length === 1 || kernels(node).length > 1 || kernels(reader).length > 1) return texts(sentences.reads);
    const words = { number: grouped(kernels(node)[0] + 1), reader: grouped(kernels(reader)[0] + 1) };
    return [worded(sentences.reads_several, { ...words, pairs: named(texts(sentences.reads_for)).join(", "), limits })];
  });
}

/** Return a sentence about the first two nodes, one of each side, that run in one kernel; "" if there are none. @returns {string} */
function same(trace, nodes, others, final) {
  const first = new Map();
  for (const node of nodes) {
    for (const kernel of trace.kernelsOf.of(final[node])) if (!first.has(kernel)) first.set(kernel, node);
  }
  for (const other of others) {
    for (const kernel of trace.kernelsOf.of(final[other])) {
      const node = first.get(kernel);
      if (node !== undefined && final[node] !== final[other]) return worded(trace.recording.accounts.same, { node: nameOf(trace, node), reader: nameOf(trace, other), number: grouped(kernel + 1), count: grouped(trace.kernels.length) });
    }
  }
  return "";
}

/** Return a sentence about the first two nodes on the connecting path that run in different kernels. @returns {string[]} */
function cut(trace, nodes, others, final) {
  const { cut: sentence, reads } = trace.recording.accounts;
  for (const [readers, sources] of [[others, nodes], [nodes, others]]) {
    const resolved = (node) => final[node];
    const path = pathTo(trace, readers.map(resolved), new Set(sources.map(resolved)), resolved);
    for (let at = 0; at + 1 < path.length; at++) {
      const [node, reader] = [path[at], path[at + 1]];
      if (!isApart(trace, node, reader)) continue;
      const words = { first: nameOf(trace, node), second: nameOf(trace, reader) };
      const index = declinedFusion(trace, node, reader, final);
      const reason = index >= 0 ? trace.plainSentence(index) : worded(reads, { node: words.first, reader: words.second, limits: trace.recording.limits });
      return [worded(sentence, { node: nameOf(trace, path[0]), reader: nameOf(trace, path[path.length - 1]), ...words, reason })];
    }
    if (path.length) return [];
  }
  return [];
}

/** Return the last decision not to fuse a node and its reader, −1 if there is none. */
function declinedFusion(trace, node, reader, final) {
  for (let index = trace.decisions.length - 1; index >= 0; index--) {
    if (isFusion(trace, index) && trace.declinedEdges(index, index + 1).some(([operand, consumer]) => final[operand] === node && final[consumer] === reader)) return index;
  }
  return -1;
}

/** Describe how one node reads the other if it does so indirectly or not at all, as recorded or after equal values were merged. @returns {string[]} */
function relation(trace, nodes, others, final) {
  const { through, through_planned: planned, apart } = trace.recording.accounts;
  for (const [sentence, resolved] of [[through, (node) => node], [planned, (node) => final[node]]]) {
    for (const [readers, sources] of [[others, nodes], [nodes, others]]) {
      const path = pathTo(trace, readers.map(resolved), new Set(sources.map(resolved)), resolved);
      if (path.length > 2) return [worded(sentence, { reader: nameOf(trace, path[path.length - 1]), node: nameOf(trace, path[0]), members: named(path.slice(1, -1).map(trace.label)).join(" → ") })];
      if (path.length) return [];
    }
  }
  return [apart];
}

/** Return the first names and the last one, with the number of names omitted between them. @param {string[]} names */
function named(names) {
  const rest = names.length - NAMED;
  return rest > 1 ? [...names.slice(0, NAMED - 1), `${grouped(rest)} more`, names[names.length - 1]] : names;
}

/** Return a shortest path from a source to a reader along operands or their replacements, empty if there is none. @returns {number[]} */
function pathTo(trace, readers, sources, resolved) {
  const reached = new Map(readers.map((reader) => [reader, -1]));
  for (const [node] of reached) {
    if (sources.has(node)) {
      const path = [node];
      while (reached.get(path[path.length - 1]) >= 0) path.push(reached.get(path[path.length - 1]));
      return path;
    }
    for (const operand of trace.nodes.operands[node].map(resolved)) if (!reached.has(operand)) reached.set(operand, node);
  }
  return [];
}

/** Return the pairs of a node and a reader whose kernel reads the node from memory, in the order of the nodes, if the plan fuses. @returns {number[][]} */
function readFromMemory(trace, nodes, readers, final) {
  if (!trace.recording.stages.some(({ decides }) => decides === "kernels")) return [];
  // Iterate over operands, not pairs, because two boxes with thousands of nodes have millions of pairs.
  const places = new Map();
  nodes.forEach((node, place) => places.set(final[node], [...(places.get(final[node]) ?? []), place]));
  const pairs = readers.flatMap((reader, number) => {
    const operands = [...new Set(trace.nodes.operands[final[reader]].map((operand) => final[operand]))];
    const apart = operands.filter((operand) => isApart(trace, operand, final[reader]));
    return apart.flatMap((operand) => (places.get(operand) ?? []).map((place) => [place, number]));
  });
  pairs.sort(([place, number], [other, next]) => place - other || number - next);
  return pairs.map(([place, number]) => [nodes[place], readers[number]]);
}

/** Whether kernels compute both nodes, and no kernel computes both. @param {import("./trace.js").Trace} trace @param {number} node @param {number} reader */
function isApart(trace, node, reader) {
  if (trace.kernelOf[node] < 0 || trace.kernelOf[reader] < 0) return false;
  const own = new Set(trace.kernelsOf.of(node));
  return ![...trace.kernelsOf.of(reader)].some((kernel) => own.has(kernel));
}

function account(trace, node, final, paths) {
  const { kind, gone } = trace.nodes;
  const { accounts: sentences } = trace.recording;
  const last = final[node];
  const index = trace.kernelOf[last];
  const numbers = [...trace.kernelsOf.of(last)];
  if (numbers.length > 1) {
    const said = [...numbers.slice(0, NAMED).map((kernel) => grouped(kernel + 1)), ...(numbers.length > NAMED ? ["…"] : [])].join(", ");
    return worded(sentences.kernels, { node: nameOf(trace, node), times: grouped(numbers.length), numbers: said, count: grouped(trace.kernels.length) });
  }
  const path = index < 0 && paths.get(node);
  if (path) return replacedSentence(trace, path, [...trace.kernelsOf.of(final[path[path.length - 1]])]);
  const isLeaf = ["leaf", "input", "constant"].includes(kind[last]);
  const sentence = index >= 0 ? sentences.kernel : isLeaf ? sentences.leaf : gone[last] >= 0 ? sentences.removed : sentences.planned;
  return worded(sentence, { node: nameOf(trace, node), ...(index >= 0 ? kernelWords(trace, index) : {}) });
}

/** Return the words of a sentence about a kernel. @param {import("./trace.js").Trace} trace @param {number} kernel */
function kernelWords(trace, kernel) {
  return { number: grouped(kernel + 1), count: grouped(trace.kernels.length), members: trace.kernels[kernel].nodes.map(trace.label).join(" → ") };
}

/** Return which rule replaced a removed node, or what is computed from it, and with what; `kernels` compute the replacement of the path's end. @param {import("./trace.js").Trace} trace @param {number[]} path @param {number[]} kernels @returns {string} */
function replacedSentence(trace, path, kernels) {
  const { accounts: sentences, stages, substitutions } = trace.recording;
  const replacements = new Map([...substitutions].reverse().map(([index, old, replacement]) => [old, [index, replacement]]));
  const changed = path.find((node) => replacements.has(node));
  const [index, replacement] = replacements.get(changed);
  const { rule, stage } = trace.decisions[index];
  const words = { node: nameOf(trace, path[0]), changed: nameOf(trace, changed), rule, stage: stages[stage].name, replacement: trace.label(replacement) };
  const runs = kernels.slice(0, 1).map((kernel) => worded(sentences.replacement, kernelWords(trace, kernel)));
  return [worded(changed === path[0] ? sentences.replaced : sentences.absorbed, words), ...runs].join(" ");
}

/** Return, for each removed node, a shortest path along readers to one whose replacement is in the final graph, if a rule replaced a node on it. @param {import("./trace.js").Trace} trace @param {number[]} removed @param {ArrayLike<number>} final @returns {Map<number, number[]>} */
function pathsToReplacements(trace, removed, final) {
  const paths = new Map();
  if (!removed.length) return paths;
  const readers = new RowIndex(trace.count, (enter) => trace.nodes.operands.forEach((operands, reader) => operands.forEach((operand) => enter(final[operand], reader))));
  const replaced = new Set(trace.recording.substitutions.map(([, old]) => old));
  for (const node of removed) {
    const path = pathToReplacement(trace, node, final, readers);
    if (path.some((each) => replaced.has(each))) paths.set(node, path);
  }
  return paths;
}

function pathToReplacement(trace, node, final, readers) {
  const previous = new Map([[node, -1]]);
  for (const [current] of previous) {
    const last = final[current];
    if (trace.nodes.gone[last] < 0) {
      const path = [current];
      while (previous.get(path[path.length - 1]) >= 0) path.push(previous.get(path[path.length - 1]));
      return path.reverse();
    }
    for (const reader of readers.of(last)) if (!previous.has(reader)) previous.set(reader, current);
  }
  return [];
}

function worded(sentence, words) {
  return sentence.replace(/\{(\w+)\}/g, (_, name) => words[name]);
}

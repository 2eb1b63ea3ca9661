// Lines of the user's program that a kernel computes. record/provenance.py is the Python counterpart.

/** @typedef {import("./trace.js").Trace} Trace */

/** @type {WeakMap<Trace, Map<number, number[]>>} */
const REPLACED = new WeakMap();

/** Return one node for each line that a kernel computes, in the order of the lines; a node also has the lines of the nodes that it replaced. @param {Trace} trace @param {number} kernel @returns {number[]} */
export function kernelSources(trace, kernel) {
  const { source, operands } = trace.nodes;
  const replaced = predecessors(trace);
  const reached = new Set(trace.kernels[kernel].nodes);
  for (const node of reached) for (const before of replaced.get(node) ?? []) reached.add(before);
  /** @type {Map<number, number>} */ const nodeOf = new Map();
  for (const node of reached) if (source[node] >= 0 && operands[node].length && !nodeOf.has(source[node])) nodeOf.set(source[node], node);
  return [...nodeOf].sort(([one], [other]) => one - other).map(([, node]) => node);
}

/** Return node → the nodes that it directly replaces. @param {Trace} trace @returns {Map<number, number[]>} */
function predecessors(trace) {
  const known = REPLACED.get(trace);
  if (known) return known;
  /** @type {Map<number, number[]>} */ const replaced = new Map();
  const exact = new Set();
  const enter = (node, before, decision) => {
    if (!replaced.has(node)) replaced.set(node, []);
    for (const each of before) replaced.get(node).push(each);
    exact.add(`${decision} ${node}`);
  };
  for (const [decision, old, node] of trace.recording.substitutions) enter(node, [old], decision);
  for (const { decision, kind, members } of trace.recording.groups) {
    const { subjects } = trace.decisions[decision];
    // The members are the nodes of the first call's body, then of the second call's body, and so on.
    if (kind === "function" && subjects.length) members.forEach((node, index) => enter(node, [subjects[Math.floor(index / Math.floor(members.length / subjects.length))]], decision));
  }
  trace.nodes.born.forEach((born, node) => {
    if (born >= 0 && !exact.has(`${born} ${node}`)) enter(node, trace.decisions[born].subjects, born);
  });
  REPLACED.set(trace, replaced);
  return replaced;
}

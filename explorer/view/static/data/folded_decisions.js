// Decisions with equal sentences as one row, the costliest first.

/** @typedef {{decisions: number[], cost: number, verdict: string}} FoldedDecisions cost: total cost of declining them */

/**
 * Fold decisions with equal sentences: declined ones by cost, then applied ones in order.
 * @param {import("./trace.js").Trace} trace @param {number[]} decisions @returns {FoldedDecisions[]}
 */
export function foldedDecisions(trace, decisions) {
  /** @type {Map<string, FoldedDecisions>} */
  const alike = new Map();
  for (const index of decisions) {
    const { verdict, rule, stage, cost } = trace.decisions[index];
    const key = `${stage}\n${verdict}\n${rule}\n${trace.plainSentence(index)}`;
    const known = alike.get(key);
    if (known) {
      known.decisions.push(index);
      known.cost += cost;
    } else alike.set(key, { decisions: [index], cost, verdict });
  }
  const groups = [...alike.values()];
  for (const { decisions: members } of groups) members.sort((a, b) => trace.decisions[b].cost - trace.decisions[a].cost || a - b);
  const [declined, applied] = ["declined", "applied"].map((verdict) => groups.filter((group) => group.verdict === verdict));
  return [...declined.sort((a, b) => b.cost - a.cost || a.decisions[0] - b.decisions[0]), ...applied];
}

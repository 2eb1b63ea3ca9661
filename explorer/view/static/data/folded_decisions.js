// Decisions with equal sentences as one row, the costliest first.

/** @typedef {{decisions: number[], cost: number, bytes: number, verdict: string, isGeneral: boolean}} FoldedDecisions cost: total cost of declining them; bytes: total size of their first subjects; isGeneral: whether their sentences differ in the names of nodes */

/** number of rows with declined decisions above which those with one reason share a row */
const MANY = 20;

/**
 * Fold decisions with equal sentences: declined ones by cost and, where it is unknown, by size, then applied ones in
 * order. Many declined ones are folded by reason, whatever their nodes are.
 * @param {import("./trace.js").Trace} trace @param {number[]} decisions @returns {FoldedDecisions[]}
 */
export function foldedDecisions(trace, decisions) {
  const folded = fold(trace, decisions, (index) => trace.plainSentence(index));
  const [applied, alike] = ["applied", "declined"].map((verdict) => folded.filter((group) => group.verdict === verdict));
  const declined = alike.length > MANY ? byReason(trace, alike) : alike;
  for (const { decisions: members } of [...declined, ...applied]) members.sort((a, b) => trace.decisions[b].cost - trace.decisions[a].cost || a - b);
  return [...declined.sort((a, b) => b.cost - a.cost || b.bytes - a.bytes || a.decisions[0] - b.decisions[0]), ...applied];
}

/** Return the decisions of one stage, rule and verdict with equal texts. @param {import("./trace.js").Trace} trace @param {number[]} decisions @param {(index: number) => string} text @returns {FoldedDecisions[]} */
function fold(trace, decisions, text) {
  /** @type {Map<string, FoldedDecisions>} */
  const alike = new Map();
  for (const index of decisions) {
    const { verdict, rule, stage, cost, subjects } = trace.decisions[index];
    const key = `${stage}\n${verdict}\n${rule}\n${text(index)}`;
    let group = alike.get(key);
    if (!group) alike.set(key, (group = { decisions: [], cost: 0, bytes: 0, verdict, isGeneral: false }));
    group.decisions.push(index);
    group.cost += cost;
    group.bytes += trace.nodes.bytes[subjects[0]] ?? 0;
  }
  return [...alike.values()];
}

/** Join rows whose sentences differ only in the names of nodes. @param {import("./trace.js").Trace} trace @param {FoldedDecisions[]} groups @returns {FoldedDecisions[]} */
function byReason(trace, groups) {
  const members = new Map(groups.map((group) => [group.decisions[0], group]));
  return fold(trace, [...members.keys()], (index) => trace.generalSentence(index)).map(({ decisions: firsts, verdict }) => {
    const joined = firsts.map((first) => members.get(first));
    const sum = (name) => joined.reduce((total, group) => total + group[name], 0);
    return { decisions: joined.flatMap(({ decisions }) => decisions), cost: sum("cost"), bytes: sum("bytes"), verdict, isGeneral: joined.length > 1 };
  });
}

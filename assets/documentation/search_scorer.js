/* Order of search results: names, guides, tutorials and reference, and then pages that mention everything. */
const OTHER = "course|development|explanations|gallery|how-to-guides|model-files|packages|project|reference|stability|untrusted";
const PARTS = [
  [new RegExp(`^docs/(?!${OTHER})`), 16],
  [/^(index$|docs\/|notebooks\/|reference\/)/, 4],
];
const WORDS = (new URLSearchParams(location.search).get("q") || "").toLowerCase().match(/\w{4,}/g) || [];

var Scorer = {
  objNameMatch: 30,
  objPartialMatch: 0, // "ci" is also a part of "policies"
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,

  score: ([page, title, , , score, , kind]) => {
    if (kind === "object") return score;
    const part = PARTS.find(([pages]) => pages.test(page));
    return score + (part ? part[1] : 0) + WORDS.filter((word) => title.toLowerCase().includes(word)).length;
  },
};

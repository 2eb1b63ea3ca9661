"""Differences that follow from others, folded to one row each: renamed nodes, and many that read something else."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from explorer.record.compare.comparison import Comparison
from explorer.view.picture.difference_marks import SIGNS

FEW = 3
"""nodes that read something else are folded if there are more; also the number of rows that a folded one names"""
RENAMED = "="
"""sign of renamed nodes, which differ in nothing else"""


class Fold(NamedTuple):
    """Nodes before that differ in one way, each with its row of text."""

    sign: str
    phrase: str
    """words about them, after their number: ``renamed``"""
    nodes: tuple[int, ...]
    rows: tuple[str, ...]

    @property
    def title(self) -> str:
        """Words for several of them: ``4 nodes renamed``."""
        return f"{len(self.nodes):,} node{'s' * (len(self.nodes) > 1)} {self.phrase}"

    @property
    def summary(self) -> str:
        """The title and the first rows: ``4 nodes renamed: a → b, c → d, e → f and 1 more``."""
        rows = [row if count == 1 else f"{row} ×{count:,}" for row, count in Counter(self.rows).items()]
        rest = len(rows) - FEW
        return f"{self.title}: {', '.join(rows[:FEW])}" + (f" and {rest:,} more" if rest > 0 else "")


def folds(comparison: Comparison) -> list[Fold]:
    """Return the folded differences of a comparison that has any."""
    nodes, before, after = comparison.nodes, comparison.before, comparison.after
    folded = []
    if len(nodes.rewired) > FEW:
        rewired = sorted(nodes.rewired)
        rows = [f"{before.label(node)} {'; '.join(nodes.changed[node])}" for node in rewired]
        folded.append(Fold(SIGNS["rewired"], "read something else", tuple(rewired), tuple(rows)))
    if nodes.renamed:
        names = [f"{before.label(node)} → {after.label(nodes.pairs[node])}" for node in nodes.renamed]
        folded.append(Fold(RENAMED, "renamed", nodes.renamed, tuple(names)))
    return folded

"""Substitutions: which node took the place of which, by which decision, in an order in which views can take them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

Substitution = tuple[int, int, int]
"""number of the decision, the node replaced, the node in its place"""


def in_order(rows: Sequence[Substitution]) -> list[Substitution]:
    """Return rows in the order of their decisions, each with a node that no earlier row replaces.

    A planner may enter a replacement late, under the number of an earlier decision: the body of a call that is opened
    in turn belongs to the decision that opened the first one. Readers of what was replaced then read what stands for
    it. A row that replaces a node by itself, in the end, keeps it, for the check of recordings to refuse.
    """
    if all(before[0] <= after[0] for before, after in pairwise(rows)):
        return list(rows)
    stands: dict[int, int] = {}
    ordered = []
    # A stable sort: rows of one decision keep the order in which they were entered.
    for decision, old, new in sorted(rows, key=lambda row: row[0]):
        chain = []
        while new in stands:
            chain.append(new)
            new = stands[new]
        stands.update(dict.fromkeys(chain, new))  # so that no chain is walked twice
        if old != new:
            stands.setdefault(old, new)
        ordered.append((decision, old, new))
    return ordered

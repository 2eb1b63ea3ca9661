"""Difference marks of the nodes of two graphs, from "added" to "regrouped"; the front end receives this table.

A node has one mark, the strongest: if the node itself differs, a different kernel is not marked. Marks depend only on
the two recordings; a position only determines whether a counterpart exists, and whether kernels are chosen yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from explorer.record import Recording
from explorer.record.compare.comparison import Comparison
from explorer.view.base import font
from explorer.view.base.markup import Markup, element

Difference: TypeAlias = Literal["removed", "added", "changed", "rewired", "regrouped"]

SIGNS: Mapping[Difference, str] = {"removed": "−", "added": "+", "changed": "Δ", "rewired": "→", "regrouped": "≠"}
"""signs of the differences; colours only repeat them"""
WORDS: Mapping[Difference, str] = {
    "removed": "removed",
    "added": "added",
    "changed": "changed",
    "rewired": "reads something else",
    "regrouped": "other kernel",
}
"""words for one node"""
_MANY: Mapping[Difference, str] = {**WORDS, "rewired": "read something else", "regrouped": "in other kernels"}
"""words for several nodes, after their number"""
_MEANINGS: Mapping[Difference, str] = {
    "removed": "only in the graph before",
    "added": "only in the graph after",
    "changed": "has another operation, type, attribute or constant after",
    "rewired": "does the same after, to another operand",
    "regrouped": "is computed in another kernel",
}


class SideMarks(NamedTuple):
    """Differences of the nodes of one side."""

    absent: Difference
    """mark of nodes without a counterpart at the position"""
    standing: dict[int, Difference]
    """marks of nodes whose counterpart exists, if they differ"""
    planned: dict[int, Difference]
    """marks of nodes whose counterpart exists, once kernels are chosen"""

    def of(self, node: int, has_counterpart: bool, is_planned: bool) -> Difference | None:
        """Return the difference of a node, or None."""
        if not has_counterpart:
            return self.absent
        return (self.planned if is_planned else self.standing).get(node)


def side_marks(comparison: Comparison) -> tuple[SideMarks, SideMarks]:
    """Return the differences of both sides, before and after, at any pair of positions."""
    kernels = [match for match in comparison.kernels if not match.same]
    back = comparison.counterparts
    sides = []
    for side, recording in enumerate((comparison.before, comparison.after)):
        numbers = {number for match in kernels for number in (match.after if side else match.before)}
        schedule = recording.schedule
        regrouped = [node for number in sorted(numbers) for node in schedule.kernels[number].nodes] if schedule else ()
        rewired = comparison.nodes.rewired
        standing: dict[int, Difference] = {
            back[node] if side else node: "rewired" if node in rewired else "changed"
            for node in comparison.nodes.changed
        }
        planned: dict[int, Difference] = {**dict.fromkeys(regrouped, "regrouped"), **standing}
        sides.append(SideMarks("added" if side else "removed", standing, planned))
    return sides[0], sides[1]


def marks_json(comparison: Comparison) -> dict[str, Any]:
    """Return the signs and words of the differences, and the marks of both sides, as the front end reads them."""
    return {
        "differences": [
            {
                "kind": difference,
                "sign": sign,
                "word": WORDS[difference],
                "many": _MANY[difference],
                "meaning": _MEANINGS[difference],
            }
            for difference, sign in SIGNS.items()
        ],
        "marks": [marks._asdict() for marks in side_marks(comparison)],
    }


def differences(comparison: Comparison, positions: tuple[int, int]) -> tuple[dict[int, Difference], ...]:
    """Return for each side a map from the nodes that differ at a position to their differences."""
    back = {other: node for node, other in comparison.counterparts.items()}
    partners = comparison.counterparts, back
    recordings = comparison.before, comparison.after
    bodies = set(comparison.nodes.bodies), set(comparison.nodes.bodies.values())
    existing = [
        {node for body in bodies[side] for node in recordings[side].visible(positions[side], body)} for side in (0, 1)
    ]
    sides: list[dict[int, Difference]] = []
    for side, side_mark in enumerate(side_marks(comparison)):
        drawn = (node for node in sorted(existing[side]) if _is_drawn(recordings[side], node))
        planned, other = positions[side] == recordings[side].end, existing[1 - side]
        marks = {node: side_mark.of(node, partners[side].get(node, -1) in other, planned) for node in drawn}
        sides.append({node: difference for node, difference in marks.items() if difference})
    return tuple(sides)


def _is_drawn(recording: Recording, node: int) -> bool:
    """Return whether a node has its own slot; constants are shown inside their readers, and ports are edges."""
    return recording.nodes.kind[node] not in ("constant", "item")


def tally(kinds: Iterable[Difference]) -> str:
    """Return the number of differences of each kind: ``−2 +1 Δ3``; "" if there are none."""
    counts = Counter(kinds)
    return " ".join(f"{sign}{counts[difference]:,}" for difference, sign in SIGNS.items() if counts[difference])


def legend(kinds: Collection[Difference]) -> list[str]:
    """Return the number of differences of each kind in words: ``− 2 removed``."""
    counts = Counter(kinds)
    return [
        f"{sign} {counts[difference]:,} {_MANY[difference]}" for difference, sign in SIGNS.items() if counts[difference]
    ]


def pill(text: str, x: float, y: float) -> list[Markup]:
    """Draw a mark with its left end and middle at a point."""
    width = round(font.width(text, 9, True)) + 12
    return [
        element("rect", x=x, y=y - 7, width=width, height=14, rx=7, class_="apart"),
        element("text", text, x=x + width / 2, y=y + 3, class_="apart"),
    ]

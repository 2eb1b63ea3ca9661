"""Difference marks of nodes of two graphs: added, removed, changed or regrouped; as in compare/differences.js."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Literal, TypeAlias

from explorer.record import Recording
from explorer.record.compare.comparison import Comparison
from explorer.view.base import font
from explorer.view.base.markup import Markup, element

Difference: TypeAlias = Literal["removed", "added", "changed", "regrouped"]

SIGNS: Mapping[Difference, str] = {"removed": "−", "added": "+", "changed": "Δ", "regrouped": "≠"}
"""signs of the differences; colours only repeat them"""
WORDS: Mapping[Difference, str] = {
    "removed": "removed",
    "added": "added",
    "changed": "changed",
    "regrouped": "other kernel",
}


def differences(comparison: Comparison, positions: tuple[int, int]) -> tuple[dict[int, Difference], ...]:
    """Return for both sides the nodes at a position that differ from the other side, with their difference."""
    ends = positions == (comparison.before.end, comparison.after.end)
    back = {other: node for node, other in comparison.counterparts.items()}
    partners = comparison.counterparts, back
    recordings = comparison.before, comparison.after
    bodies = set(comparison.nodes.bodies), set(comparison.nodes.bodies.values())
    standing = [
        {node for body in bodies[side] for node in recordings[side].visible(positions[side], body)} for side in (0, 1)
    ]
    drawn = [{node for node in standing[side] if _is_drawn(recordings[side], node)} for side in (0, 1)]
    kernels = [found for found in comparison.kernels if not found.same]
    found: list[dict[int, Difference]] = []
    for side, recording in enumerate(recordings):
        schedule = recording.schedule
        apart = {n for each in kernels for n in (each.after if side else each.before)}
        regrouped = {node for number in apart for node in schedule.kernels[number].nodes} if schedule and ends else ()
        marks: dict[int, Difference] = {}
        for node in sorted(drawn[side]):
            partner = partners[side].get(node, -1)
            if partner not in standing[1 - side]:
                marks[node] = "added" if side else "removed"
            elif (partner if side else node) in comparison.nodes.changed:
                marks[node] = "changed"
            elif node in regrouped:
                marks[node] = "regrouped"
        found.append(marks)
    return tuple(found)


def _is_drawn(recording: Recording, node: int) -> bool:
    """Whether a node has a place of its own: constants are shown inside their readers, and ports are edges."""
    return recording.nodes.kind[node] not in ("constant", "item")


def tally(kinds: Iterable[Difference]) -> str:
    """Count differences: ``−2 +1 Δ3``; "" if there are none."""
    counts = Counter(kinds)
    return " ".join(f"{sign}{counts[kind]:,}" for kind, sign in SIGNS.items() if counts[kind])


def legend(kinds: Collection[Difference]) -> list[str]:
    """Return the number of differences of each kind: ``− 2 removed``."""
    counts = Counter(kinds)
    words = {**WORDS, "regrouped": "in other kernels"}
    return [f"{sign} {counts[kind]:,} {words[kind]}" for kind, sign in SIGNS.items() if counts[kind]]


def pill(text: str, x: float, y: float) -> list[Markup]:
    """Draw a mark whose left end and middle are at a point."""
    room = round(font.width(text, 9, True)) + 12
    return [
        element("rect", x=x, y=y - 7, width=room, height=14, rx=7, class_="apart"),
        element("text", text, x=x + room / 2, y=y + 3, class_="apart"),
    ]

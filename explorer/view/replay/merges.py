"""Merges: replacements of a node by an equal one that stands elsewhere, which is then marked ``×n``."""

from __future__ import annotations

from explorer.record import Nodes, Recording
from explorer.view.tree.slots import Slots


def merges(recording: Recording, slots: Slots) -> list[int]:
    """Return the rows of ``substitutions`` that replace a node by an equal one in another slot.

    Equal nodes have the same operation, type and operands, as the operands are after the decision; constants are equal
    if they are written alike.
    """
    nodes, of = recording.nodes, slots.of
    final: dict[int, int] = {}
    merged: list[int] = []
    rows = recording.substitutions
    entered = 0
    for number, (decision, old, new) in enumerate(rows):
        # Operands are compared as they are after the decision: all of its own replacements are entered before any is
        # asked about.
        while entered < len(rows) and rows[entered][0] <= decision:
            final[rows[entered][1]] = rows[entered][2]
            entered += 1
        is_moved = of[new] >= 0 and of[old] != of[new]
        is_alike = nodes.operation[old] == nodes.operation[new] and nodes.type[old] == nodes.type[new]
        if is_moved and is_alike and _operands(nodes, final, old) == _operands(nodes, final, new):
            merged.append(number)
    return merged


def copies(recording: Recording, rows: list[int], position: int) -> dict[int, int]:
    """Return node → number of equal nodes that it stands for, itself included, if any were merged by a position."""
    counts: dict[int, int] = {}
    for row in rows:
        decision, old, new = recording.substitutions[row]
        if decision < position:
            counts[new] = counts.get(new, 1) + counts.get(old, 1)
    return counts


def _operands(nodes: Nodes, final: dict[int, int], node: int) -> list[int | str]:
    """Return the operands of a node after some replacements: a constant as it is written, others by number."""
    read = [_replacement(final, operand) for operand in nodes.operands[node]]
    return [nodes.label[operand] if nodes.kind[operand] == "constant" else operand for operand in read]


def _replacement(final: dict[int, int], node: int) -> int:
    """Follow replacements to their end, and shorten the way for the next reader."""
    last = node
    while last in final:
        last = final[last]
    while node != last:
        final[node], node = last, final[node]
    return last

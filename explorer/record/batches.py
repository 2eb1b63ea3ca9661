"""Batches: the nodes that do the work of what a decision grouped, and the kernels that compute them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from explorer.record.provenance import predecessors

if TYPE_CHECKING:
    from explorer.record.recording import Recording


@dataclass(frozen=True, slots=True)
class Batch:
    """One decision that made many operations, or calls, one."""

    decision: int
    label: str
    """what the members do"""
    called: bool
    """they are calls of one function"""
    members: tuple[int, ...]
    """the nodes that it took together"""
    nodes: tuple[int, ...]
    """those that it made: what stacks operands, the work itself, what reads each member's row, and what came of them"""
    kernels: tuple[int, ...]
    """numbers of the kernels that compute any of these nodes, from 0 in the schedule"""


def batches(recording: Recording) -> list[Batch]:
    """List the batches of a recording, in the order of their decisions."""
    groups = [group for group in recording.groups if group.kind == "batch" and group.members]
    if not groups:
        return []
    made = {group.decision: place for place, group in enumerate(groups)}
    before = predecessors(recording)
    owners: dict[int, frozenset[int]] = {}
    """node → the batches, by their place, whose work it does"""
    nodes: list[list[int]] = [[] for _ in groups]
    for node, born in enumerate(recording.nodes.born):
        if born in made:
            found = frozenset([made[born]])
        else:
            # What stands for a younger node was there for a purpose of its own.
            found = frozenset().union(*[owners[old] for old in before.get(node, ()) if old < node and old in owners])
        if found:
            owners[node] = found
            for place in found:
                nodes[place].append(node)
    kernels: list[list[int]] = [[] for _ in groups]
    for number, kernel in enumerate(recording.schedule.kernels if recording.schedule else ()):
        for place in sorted({place for node in kernel.nodes for place in owners.get(node, ())}):
            kernels[place].append(number)
    return [
        Batch(
            group.decision,
            group.label.removesuffix(f" ×{len(group.members)}"),
            recording.nodes.kind[group.members[0]] == "call",
            group.members,
            tuple(nodes[place]),
            tuple(kernels[place]),
        )
        for place, group in enumerate(groups)
    ]


def together(batches: Iterable[Batch]) -> list[list[Batch]]:
    """Put batches together that one kernel computes, each in the order of its first."""
    found: list[list[Batch]] = []
    of: dict[int, list[Batch]] = {}
    """kernel → the batches that it computes, with all that belong to these"""
    for batch in batches:
        joined = [batch]
        for other in {id(of[kernel]): of[kernel] for kernel in batch.kernels if kernel in of}.values():
            joined += other
            found.remove(other)
        joined.sort(key=lambda one: one.decision)
        found.append(joined)
        of.update({kernel: joined for one in joined for kernel in one.kernels})
    return sorted(found, key=lambda joined: joined[0].decision)

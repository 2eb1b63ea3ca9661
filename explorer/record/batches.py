"""Batches: the nodes that compute a batch of operations or calls, and the kernels that compute these nodes.

A pass records that it formed a batch; later passes replace, merge and fuse its nodes. The resulting kernels of a batch
are therefore traced, node by node, in order of production. Views use this to draw batches, and the recorder to sum the
measured times of their kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from explorer.record.provenance import predecessors
from explorer.record.rows import Group, Kernel, Nodes

if TYPE_CHECKING:
    from explorer.record.recording import Recording


@dataclass(frozen=True, slots=True)
class Batch:
    """Batch of operations or calls, formed by one decision."""

    decision: int
    label: str
    """operation or function of the batched nodes"""
    called: bool
    """whether the batched nodes are calls of a function"""
    members: tuple[int, ...]
    """nodes that the batch replaces"""
    nodes: tuple[int, ...]
    """nodes that compute the batch: stacked operands, the batched operation, its rows, and later replacements of these
    """
    kernels: tuple[int, ...]
    """indices in the schedule of the kernels that compute these nodes"""


def batches(recording: Recording) -> list[Batch]:
    """List the batches of a recording, in the order of their decisions."""
    subjects = [decision.subjects for decision in recording.decisions]
    kernels = recording.schedule.kernels if recording.schedule else ()
    return trace_batches(recording.nodes, recording.groups, recording.substitutions, subjects, kernels)


def trace_batches(
    nodes: Nodes,
    all_groups: Sequence[Group],
    substitutions: Iterable[tuple[int, int, int]],
    subjects: Sequence[tuple[int, ...]],
    kernels: Sequence[Kernel],
) -> list[Batch]:
    """List the batches among the groups of a plan; ``subjects`` are the nodes of each decision.

    The recorder calls this before it creates the rows of decisions, which contain measured times of batches.
    """
    groups = [group for group in all_groups if group.kind == "batch" and group.members]
    if not groups:
        return []
    place_of = {group.decision: place for place, group in enumerate(groups)}
    replaced = predecessors(nodes, all_groups, substitutions, subjects)
    owners: dict[int, frozenset[int]] = {}
    """node → indices of the batches that it belongs to"""
    nodes_of: list[list[int]] = [[] for _ in groups]
    for node, born in enumerate(nodes.born):
        if born in place_of:
            owner_places = frozenset([place_of[born]])
        else:
            # A node that replaces a younger one existed before, for another purpose, and belongs to no batch.
            owner_places = frozenset().union(
                *[owners[old] for old in replaced.get(node, ()) if old < node and old in owners]
            )
        if owner_places:
            # Nodes are in order of production, so the batches of replaced nodes are already known.
            owners[node] = owner_places
            for place in owner_places:
                nodes_of[place].append(node)
    kernels_of: list[list[int]] = [[] for _ in groups]
    for number, kernel in enumerate(kernels):
        for place in sorted({place for node in kernel.nodes for place in owners.get(node, ())}):
            kernels_of[place].append(number)
    return [
        Batch(
            group.decision,
            group.label.removesuffix(f" ×{len(group.members)}"),
            nodes.kind[group.members[0]] == "call",
            group.members,
            tuple(nodes_of[place]),
            tuple(kernels_of[place]),
        )
        for place, group in enumerate(groups)
    ]


def together(batches: Iterable[Batch]) -> list[list[Batch]]:
    """Merge batches that share a kernel; the lists and their elements are in the order of decisions."""
    merged: list[list[Batch]] = []
    batches_of: dict[int, list[Batch]] = {}
    """kernel → merged list that contains its batches"""
    for batch in batches:
        joined = [batch]
        for neighbours in {
            id(batches_of[kernel]): batches_of[kernel] for kernel in batch.kernels if kernel in batches_of
        }.values():
            joined += neighbours
            merged.remove(neighbours)
        joined.sort(key=lambda batch: batch.decision)
        merged.append(joined)
        batches_of.update({kernel: joined for batch in joined for kernel in batch.kernels})
    return sorted(merged, key=lambda joined: joined[0].decision)

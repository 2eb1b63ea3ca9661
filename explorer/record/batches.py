"""Batches of operations or calls: the nodes that compute a batch, and the kernels that compute these nodes.

Later passes replace, merge and fuse the nodes of a batch. To find the kernels that finally compute it, its nodes are
followed through these changes, in the order in which nodes are produced. Views use the result to draw batches, and the
recorder to sum the measured times of their kernels.
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
    """Batch of operations or calls that a single decision formed."""

    decision: int
    label: str
    """name of the operation or function of the batched nodes"""
    called: bool
    """whether the batched nodes are calls of a function"""
    members: tuple[int, ...]
    """nodes that the batch replaces"""
    nodes: tuple[int, ...]
    """nodes that compute the batch: stacked operands, the batched operation, the rows of its result, and later
    replacements
    """
    kernels: tuple[int, ...]
    """indices in the schedule of the kernels that compute these nodes"""


def batches(recording: Recording) -> list[Batch]:
    """Return the batches of a recording, in the order of their decisions."""
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
    """Return the batches among the groups of a plan; ``subjects`` contains the nodes that each decision is about.

    The recorder calls this function before it creates the rows of decisions, which contain the measured times of
    batches.
    """
    groups = [group for group in all_groups if group.kind == "batch" and group.members]
    if not groups:
        return []
    batch_of = {group.decision: batch_index for batch_index, group in enumerate(groups)}
    replaced = predecessors(nodes, all_groups, substitutions, subjects)
    owners: dict[int, frozenset[int]] = {}
    """node → indices of the batches to which the node belongs"""
    nodes_of: list[list[int]] = [[] for _ in groups]
    for node, decision in enumerate(nodes.born):
        if decision in batch_of:
            batch_indices = frozenset([batch_of[decision]])
        else:
            # This replacement is older than the replaced node, had another purpose before, and belongs to no batch.
            batch_indices = frozenset().union(
                *[
                    owners[replaced_node]
                    for replaced_node in replaced.get(node, ())
                    if replaced_node < node and replaced_node in owners
                ]
            )
        if batch_indices:
            # Nodes are in order of production, so the batches of replaced nodes are already known.
            owners[node] = batch_indices
            for batch_index in batch_indices:
                nodes_of[batch_index].append(node)
    kernels_of: list[list[int]] = [[] for _ in groups]
    for kernel_index, kernel in enumerate(kernels):
        for batch_index in sorted({batch_index for node in kernel.nodes for batch_index in owners.get(node, ())}):
            kernels_of[batch_index].append(kernel_index)
    return [
        Batch(
            group.decision,
            group.label.removesuffix(f" ×{len(group.members)}"),
            nodes.kind[group.members[0]] == "call",
            group.members,
            tuple(nodes_of[batch_index]),
            tuple(kernels_of[batch_index]),
        )
        for batch_index, group in enumerate(groups)
    ]


def together(batches: Iterable[Batch]) -> list[list[Batch]]:
    """Return lists of batches that share a kernel. The lists and their elements are in the order of decisions."""
    merged: list[list[Batch]] = []
    batches_of: dict[int, list[Batch]] = {}
    """kernel → merged list of all batches that the kernel computes"""
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

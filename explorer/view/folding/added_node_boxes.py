"""Boxes of produced nodes, which reserve the space of one closed box until a pass produces the nodes.

A pass that joins products, for example, produces joined weights, the joined product and their operands. These nodes
replace nothing, so each has its own slot; without a box, these slots would separate the program's nodes in every
picture, even the first. Until a node of the box has been produced, the box takes the space of one closed box.
"""

from __future__ import annotations

from collections import defaultdict

from explorer.record import Recording
from explorer.view.tree.box_tree import Box, BoxItem, Tree
from explorer.view.tree.slots import Slots
from explorer.view.tree.topological import contractible

MIN_NODES = 8
"""minimum number of connected produced nodes for a box; fewer nodes are shown next to recorded nodes"""


def gather_produced(recording: Recording, slots: Slots, tree: Tree) -> None:
    """Put connected produced nodes that have their own slots into a nested box, unless their box has no other items."""
    born = recording.nodes.born
    loose = {slot for slot, members in enumerate(slots.nodes) if born[members[0]] >= 0}
    loose = {slot for slot in loose if tree.boxes[tree.box_of[slot]].kind != "batch"}
    groups = [group for group in _connected(loose, slots, tree) if len(group) >= MIN_NODES]
    are_one = contractible(len(slots.nodes), slots.edges, groups) if groups else []
    for group, is_one in zip(groups, are_one, strict=True):
        if not is_one:
            continue
        container, members = tree.box_of[group[0]], set(group)
        left = [item for item in tree.boxes[container].items if item.table == "box" or item.number not in members]
        if not left:  # nodes inlined for a call
            continue
        first = min(born[slots.nodes[slot][0]] for slot in group)
        stage = recording.stages[recording.decisions[first].stage].name
        box = len(tree.boxes)
        tree.boxes.append(Box("block", f"made by {stage}", container))
        tree.set_items(box, [BoxItem("slot", slot) for slot in group])
        tree.set_items(container, [*left, BoxItem("box", box)])


def _connected(loose: set[int], slots: Slots, tree: Tree) -> list[list[int]]:
    """Return the connected sets of some slots, each within one box, in ascending order."""
    joined: defaultdict[int, list[int]] = defaultdict(list)
    for producer, consumer in slots.edges:
        if producer in loose and consumer in loose and tree.box_of[producer] == tree.box_of[consumer]:
            joined[producer].append(consumer)
            joined[consumer].append(producer)
    seen: set[int] = set()
    groups = []
    for first in sorted(joined):
        if first in seen:
            continue
        group = [first]
        seen.add(first)
        # The list grows during the loop, so that all connected slots are reached without recursion.
        for slot in group:
            group += (new := [other for other in dict.fromkeys(joined[slot]) if other not in seen])
            seen.update(new)
        groups.append(sorted(group))
    return groups

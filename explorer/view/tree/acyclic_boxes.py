"""Boxes without cycles: a scope that a program enters repeatedly has a box for each visit.

A module of a file may be called twice in its parent, such as ``relu`` in a block of torch's ResNet. One box around both
calls would read the operations between them and be read by them, so no layout could draw all edges downwards.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from explorer.record import Recording
from explorer.view.tree.box_tree import BoxItem, Tree, lift
from explorer.view.tree.slots import Slots
from explorer.view.tree.topological import levels

Edges = Sequence[tuple[int, int]]


def split_visits(recording: Recording, tree: Tree, slots: Slots) -> bool:
    """Split boxes until no box reads itself through other boxes; return whether any was split."""
    edges = lift(tree, slots.recorded)
    cyclic = [box for box in tree.postorder() if _has_cycle(len(tree.boxes[box].items), edges[box])]
    if not cyclic:
        return False
    born = recording.nodes.born
    is_recorded = [born[members[0]] < 0 for members in slots.nodes]
    readers: list[list[int]] = [[] for _ in slots.nodes]
    for producer, consumer in slots.recorded:
        readers[producer].append(consumer)
    for box in cyclic:
        items = tree.boxes[box].items
        item_of = {slot: index for index, item in enumerate(items) for slot in _slots_inside(tree, item)}
        visit_of = _visits({slot: item for slot, item in item_of.items() if is_recorded[slot]}, readers)
        _move_to_readers(visit_of, item_of, readers)
        _follow_neighbours(visit_of, item_of, slots.edges)
        divided: list[BoxItem] = []
        for item in items:
            divided += _divided(tree, item.number, visit_of) if item.table == "box" else [item]
        tree.set_items(box, divided)
    return True


def _has_cycle(count: int, edges: Edges) -> bool:
    # Most edges lead to a later item, and such edges alone form no cycle.
    return any(0 <= head <= tail for tail, head in edges) and min(levels(count, edges), default=0) < 0


def _slots_inside(tree: Tree, item: BoxItem) -> list[int]:
    pending, slots = [item], []
    while pending:
        table, number = pending.pop()
        if table == "slot":
            slots.append(number)
        else:
            pending += tree.boxes[number].items
    return slots


def _visits(item_of: dict[int, int], readers: Sequence[Sequence[int]]) -> dict[int, int]:
    """Return for each slot the 0-based visit of its item in which it is computed.

    Items are computed one after another, and completely if they need nothing more from the others. If each needs
    something, the item whose slot was recorded first is computed as far as possible.
    """
    missing, foreign = defaultdict[int, int](int), defaultdict[int, int](int)
    """slot → number of operands not computed yet; item → number of these from other items"""
    for slot, item in item_of.items():
        for reader in readers[slot]:
            if reader in item_of:
                missing[reader] += 1
                foreign[item_of[reader]] += item_of[reader] != item
    ready: dict[int, list[int]] = {item: [] for item in item_of.values()}
    for slot in sorted(item_of):
        if not missing[slot]:
            ready[item_of[slot]].append(slot)
    whole = [item for item in ready if not foreign[item]]
    heapq.heapify(whole)
    partial = [(slots[0], item) for item, slots in ready.items() if slots and foreign[item]]
    heapq.heapify(partial)
    visit_of: dict[int, int] = {}
    visits = defaultdict[int, int](int)
    while whole or partial:
        first, item = (-1, heapq.heappop(whole)) if whole else heapq.heappop(partial)
        pending = ready[item]
        # Heaps do not support removal, so an entry whose slot has been visited since is skipped.
        if first in visit_of or not pending:
            continue
        # Each visit computes everything it can, because each further visit is one more box.
        while pending:
            slot = pending.pop()
            visit_of[slot] = visits[item]
            for reader in readers[slot]:
                other = item_of.get(reader)
                if other is None:
                    continue
                missing[reader] -= 1
                if not missing[reader]:
                    ready[other].append(reader)
                if other != item:
                    foreign[other] -= 1
                    if not foreign[other]:
                        heapq.heappush(whole, other)
                    elif not missing[reader]:
                        heapq.heappush(partial, (reader, other))
        visits[item] += 1
    return visit_of


def _move_to_readers(visit_of: dict[int, int], item_of: dict[int, int], readers: Sequence[Sequence[int]]) -> None:
    """Move slots that are read only by later visits of their own item to the first of these visits.

    A visit computes everything it can, so the weights of a layer's second call would be in the box of its first call.
    """
    for slot in sorted(visit_of, reverse=True):
        inside = [reader for reader in readers[slot] if reader in visit_of]
        if inside and all(item_of[reader] == item_of[slot] for reader in inside):
            visit_of[slot] = max(visit_of[slot], min(visit_of[reader] for reader in inside))


def _follow_neighbours(visit_of: dict[int, int], item_of: dict[int, int], edges: Edges) -> None:
    """Assign to each slot produced by a pass the visit of its readers or operands in the same item."""
    produced = {slot for slot in item_of if slot not in visit_of}
    visit_of.update(dict.fromkeys(produced, 0))
    neighbour_visits: dict[int, list[int]] = defaultdict(list)
    for producer, consumer in edges:
        if item_of.get(producer, -1) == item_of.get(consumer, -2):
            if producer in produced and consumer not in produced:
                neighbour_visits[producer].append(visit_of[consumer])
            elif consumer in produced and producer not in produced:
                neighbour_visits[consumer].append(visit_of[producer])
    visit_of.update({slot: min(visits) for slot, visits in neighbour_visits.items()})


def _divided(tree: Tree, box: int, visit_of: dict[int, int]) -> list[BoxItem]:
    """Divide a box, and the boxes inside it, by the visits of their slots; return a box for each visit."""
    order, pending = list[int](), [box]
    while pending:
        order.append(pending.pop())
        pending += [number for table, number in tree.boxes[order[-1]].items if table == "box"]
    if len({visit_of[number] for inner in order for table, number in tree.boxes[inner].items if table == "slot"}) == 1:
        return [BoxItem("box", box)]
    parts: dict[int, dict[int, BoxItem]] = {}
    for inner in reversed(order):
        by_visit: dict[int, list[BoxItem]] = defaultdict(list)
        for item in tree.boxes[inner].items:
            visits = {visit_of[item.number]: item} if item.table == "slot" else parts[item.number]
            for visit, part in visits.items():
                by_visit[visit].append(part)
        parts[inner] = {}
        for visit in sorted(by_visit):
            number = inner
            if parts[inner]:
                number = len(tree.boxes)
                tree.boxes.append(replace(tree.boxes[inner], items=[]))
            tree.set_items(number, by_visit[visit])
            parts[inner][visit] = BoxItem("box", number)
    return list(parts[box].values())

"""Batch boxes, which contain the nodes created by batching, next to the nodes that they replace.

Batched nodes have no scope, since no line of the program created them, so they would be scattered among the nodes that
they replace. One index of contents is used to rewrite all boxes, so that a thousand batches take linear time.
"""

from __future__ import annotations

from collections.abc import Iterable

from explorer.record import Recording
from explorer.record.batches import Batch, batches
from explorer.view.tree.box_tree import Box, BoxItem, Tree
from explorer.view.tree.slots import Slots
from explorer.view.tree.topological import contractible


def gather(recording: Recording, slots: Slots, tree: Tree) -> None:
    """Put the nodes that compute each batch into one box, next to the nodes that they replace.

    Edges of nodes that exist only between two passes are removed, since rows stacked again would form a cycle.
    """
    all_batches = batches(recording)
    if not all_batches:
        return
    nodes = recording.nodes
    produced = [
        {
            slots.of[node]
            for node in batch.nodes
            if slots.of[node] >= 0 and nodes.born[slots.nodes[slots.of[node]][0]] >= 0
        }
        for batch in all_batches
    ]
    transient: set[int] = set()
    contents = _Contents(tree)
    common_boxes = [_common_box(tree, {slots.of[node] for node in batch.members} - {-1}) for batch in all_batches]
    for numbers in _merged(all_batches, produced, common_boxes, slots):
        container = common_boxes[numbers[0]]
        items = _batch_items(tree, {slot for number in numbers for slot in produced[number]})
        if container < 0 or len(items) < 2:
            continue
        box = _batch_box(tree, container, items, [all_batches[number] for number in numbers])
        inside = [item for item in items if item != BoxItem("box", box)]
        contents.remove([*inside, BoxItem("box", box)])
        transient_items = [
            item for item in inside if item.table == "slot" and nodes.gone[slots.nodes[item.number][-1]] >= 0
        ]
        if 0 < len(transient_items) < len(items):
            inside = [
                *(item for item in inside if item not in transient_items),
                _transient_box(recording, slots, tree, box, transient_items),
            ]
            transient.update([slot for _, slot in transient_items])
        # In topological order, which boxes preserve everywhere.
        items_inside = [*contents.of(box), *inside]
        contents.put(box, sorted(items_inside, key=lambda item: _last(contents, slots, item)))
        contents.add(container, BoxItem("box", box))
    contents.close()
    if transient:
        slots.edges = [edge for edge in slots.edges if not transient.intersection(edge)]


def _batch_box(tree: Tree, container: int, items: list[BoxItem], batched: list[Batch]) -> int:
    """Return the box of some batches: the only box among the items, the batched call's box, or a new one."""
    boxes = [index for table, index in items if table == "box"]
    if len(boxes) == 1:
        (box,) = boxes
    else:
        box = len(tree.boxes)
        tree.boxes.append(Box("batch", "", container))
    tree.boxes[box].label = _label(batched)
    tree.boxes[box].batches = tuple([batch.decision for batch in batched])
    return box


def _transient_box(recording: Recording, slots: Slots, tree: Tree, container: int, items: list[BoxItem]) -> BoxItem:
    """Put nodes that exist only between two passes into a box, so that they take no space from other nodes."""
    names = [recording.nodes.label[slots.nodes[slot][0]] for _, slot in items]
    label = names[0] if len(set(names)) == 1 else f"{names[0]} … {names[-1]}"
    box = len(tree.boxes)
    tree.boxes.append(Box("stack", label, container, count=len(items)))
    tree.set_items(box, items)
    return BoxItem("box", box)


def _label(batched: list[Batch]) -> str:
    """Return the name of a batch as shown by the plan: ``mlp ×1000``."""
    names = [batch.label for batch in batched]
    name = names[0] if len(set(names)) == 1 else f"{names[0]} … {names[-1]}"
    return f"{name} ×{len(batched[0].members)}"


def _merged(
    all_batches: list[Batch], produced: list[set[int]], common_boxes: list[int], slots: Slots
) -> list[list[int]]:
    """Merge batches of operations that read each other's complete results; batches of calls already have boxes."""
    of = {slot: number for number, own in enumerate(produced) for slot in own}
    first = list(range(len(all_batches)))

    def top(number: int) -> int:
        while first[number] != number:
            # Halving the path keeps later look-ups short.
            first[number] = first[first[number]]
            number = first[number]
        return number

    for producer, consumer in slots.edges:
        tail, head = of.get(producer, -1), of.get(consumer, -1)
        if min(tail, head) < 0 or common_boxes[tail] != common_boxes[head]:
            continue
        batch, reader = all_batches[tail], all_batches[head]
        if len(batch.members) == len(reader.members) and not batch.called and not reader.called:
            lower, higher = sorted((top(tail), top(head)))
            first[higher] = lower
    joined: dict[int, list[int]] = {}
    for number in range(len(all_batches)):
        joined.setdefault(top(number), []).append(number)
    return _without_cycles(list(joined.values()), produced, slots)


def _without_cycles(joined: list[list[int]], produced: list[set[int]], slots: Slots) -> list[list[int]]:
    """Separate batches that are also connected through other nodes, since as one box they would read themselves."""
    groups = [[slot for number in numbers for slot in produced[number]] for numbers in joined]
    return [
        part
        for numbers, is_one in zip(joined, contractible(len(slots.nodes), slots.edges, groups), strict=True)
        for part in ([numbers] if is_one else [[number] for number in numbers])
    ]


def _common_box(tree: Tree, slots: Iterable[int]) -> int:
    """Return the innermost box that contains all of some slots, or −1."""
    paths: set[tuple[int, ...]] = set()
    for container in {tree.box_of[slot] for slot in slots}:
        path = [container]
        while tree.boxes[path[-1]].parent >= 0:
            path.append(tree.boxes[path[-1]].parent)
        paths.add(tuple(reversed(path)))
    common = -1
    for boxes in zip(*paths, strict=False):
        if len(set(boxes)) > 1:
            break
        common = boxes[0]
    return common


def _batch_items(tree: Tree, slots: set[int]) -> list[BoxItem]:
    """Return the boxes of batched calls that contain some of the slots, and the slots outside all of them."""
    items: dict[BoxItem, None] = {}
    for slot in sorted(slots):
        item, box = BoxItem("slot", slot), tree.box_of[slot]
        while box >= 0:
            if tree.boxes[box].kind == "batch":
                item = BoxItem("box", box)
            box = tree.boxes[box].parent
        items[item] = None
    return list(items)


class _Contents:
    """Contents of boxes while items are moved; a move takes time proportional to the number of items moved."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._items: dict[int, dict[BoxItem, None]] = {}

    def of(self, box: int) -> dict[BoxItem, None]:
        """Return the current contents of a box, in order."""
        if box not in self._items:
            self._items[box] = dict.fromkeys(self._tree.boxes[box].items)
        return self._items[box]

    def put(self, box: int, items: list[BoxItem]) -> None:
        """Set the contents of a box."""
        self._tree.set_items(box, items)
        self._items[box] = dict.fromkeys(items)

    def add(self, box: int, inner: BoxItem) -> None:
        """Append a box to another one."""
        self.of(box)[inner] = None
        self._tree.boxes[inner.number].parent = box

    def remove(self, items: list[BoxItem]) -> None:
        """Remove items from their boxes, and boxes that become empty from their parents."""
        tree = self._tree
        containers = [tree.box_of[index] if table == "slot" else tree.boxes[index].parent for table, index in items]
        for item, box in zip(items, containers, strict=True):
            self.of(box).pop(item, None)  # a new box has no parent yet
        for box in dict.fromkeys(containers):
            while not self.of(box) and tree.boxes[box].parent >= 0:
                outer = tree.boxes[box].parent
                self.of(outer).pop(BoxItem("box", box), None)
                box = outer

    def close(self) -> None:
        """Write the contents back to the tree."""
        for box, items in self._items.items():
            self._tree.set_items(box, list(items))


def _last(contents: _Contents, slots: Slots, item: BoxItem) -> int:
    """Return the last node in a slot or a box; node ids are in topological order."""
    last, inside = -1, [item]
    while inside:
        table, index = inside.pop()
        if table == "slot":
            last = max(last, slots.nodes[index][-1])
        else:
            inside += contents.of(index)
    return last

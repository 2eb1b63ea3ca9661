"""Tree of boxes around slots, built from the scopes of the user's program.

Boxes around a single item are removed. Folding then adds boxes; models, layouts and payloads are indexed by this tree.
Boxes are stored in flat lists with parent indices, since graphs may be nested deeper than Python's recursion limit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Literal, NamedTuple, TypeAlias

from explorer.record import Recording
from explorer.record.errors import OperandError
from explorer.view.tree.slots import Slots


class BoxItem(NamedTuple):
    """Item of a box: a row of the table of slots or of boxes."""

    table: Literal["slot", "box"]
    number: int


_TABLE = itemgetter(0)

Segment: TypeAlias = tuple[int, int, int, int, int]
"""part of an edge in one box: the box, the items at both ends (−1 its border) and their ports (0 at a slot)"""


@dataclass(slots=True)
class Box:
    """Container that can be opened and closed."""

    kind: str
    label: str
    parent: int
    items: list[BoxItem] = field(default_factory=list)
    count: int = 1
    """the "n" of "×n": the number of equal items that it represents"""
    open: bool = False
    type: str = ""
    """type of the represented operator of a file, or class of the represented layer; "" for other boxes"""
    scope: int = -1
    """row of its scope, or −1 if it comes from folding"""
    layer: int = -1
    """row of the layer that it represents, if recorded"""
    batches: tuple[int, ...] = ()
    """decisions that created the batches inside"""
    steps: int = 0
    """number of steps of the recurrent operator or layer that it represents; 0 for other boxes"""

    @property
    def is_operator(self) -> bool:
        """Whether it represents one operator of a file, or a layer without sublayers, and contains only nodes."""
        return self.type != "" and "box" not in map(_TABLE, self.items)


@dataclass(slots=True)
class Tree:
    """All boxes, and the box of each slot."""

    boxes: list[Box] = field(default_factory=list)
    bodies: list[int] = field(default_factory=list)
    """outermost box of each graph of the recording"""
    box_of: list[int] = field(default_factory=list)
    """innermost box around each slot"""
    open_spans: dict[int, list[tuple[int, int]]] | None = field(default=None, repr=False, compare=False)
    """intervals in which boxes are drawn open, cached by replay/contents.py"""
    row_texts: dict[int, list[tuple[int, str]]] | None = field(default=None, repr=False, compare=False)
    """texts of boxes that contain only rows of batches, cached by replay/batch_rows.py"""
    _postorder: list[int] | None = field(default=None, repr=False, compare=False)

    def set_items(self, box: int, items: list[BoxItem]) -> None:
        """Set the contents of a box."""
        # Everything derived from the nesting is now invalid.
        self._postorder = self.open_spans = self.row_texts = None
        self.boxes[box].items = items
        for table, index in items:
            if table == "slot":
                self.box_of[index] = box
            else:
                self.boxes[index].parent = box

    def postorder(self) -> Sequence[int]:
        """Return the boxes reachable from the outermost boxes, each after its inner boxes."""
        if self._postorder is None:
            order = []
            stack = self.bodies[::-1]
            while stack:
                box = stack.pop()
                order.append(box)
                stack += [index for table, index in self.boxes[box].items if table == "box"]
            # Reversed preorder, without recursion at any nesting depth.
            self._postorder = order[::-1]
        return self._postorder

    def opened_to(self, depth: int) -> set[int]:
        """Return the boxes down to a depth; 0 means none. Raise OperandError for a negative depth."""
        if not isinstance(depth, int) or depth < 0:
            raise OperandError(
                f"depth {depth!r}", rule="depth must be 0, which closes all boxes, or a greater integer", fix="depth=0"
            )
        return {box for box, inside in self._depths().items() if 0 < inside <= depth}

    @property
    def deepest(self) -> int:
        """Number of boxes around the innermost nodes; at this depth all boxes are open."""
        return max(self._depths().values(), default=0)

    def depth_of(self, opened: Collection[int]) -> int | None:
        """Return the depth down to which all boxes are open, and below which all are closed; None if there is none."""
        depths = self._depths()
        depth = max((depths.get(box, 0) for box in opened), default=0)
        opened = frozenset(opened)
        return depth if all(box in opened for box, inside in depths.items() if 0 < inside <= depth) else None

    def _depths(self) -> dict[int, int]:
        """Return the number of boxes around each box's items, including the box itself; 0 for a graph."""
        depths = dict.fromkeys(self.bodies, 0)
        for box in reversed(self.postorder()):
            if (parent := self.boxes[box].parent) >= 0:
                depths[box] = depths[parent] + 1
        return depths

    def compact(self) -> None:
        """Renumber the boxes from the outermost inwards, and drop unreachable boxes."""
        old = self.postorder()[::-1]
        outermost = set(self.bodies)
        new = {box: index for index, box in enumerate([*self.bodies, *(b for b in old if b not in outermost)])}
        boxes: list[Box] = [self.boxes[box] for box in new]
        for box in boxes:
            box.parent = new.get(box.parent, -1)
            box.items = [BoxItem("box", new[item.number]) if item.table == "box" else item for item in box.items]
        self.boxes = boxes
        self.bodies = [new[box] for box in self.bodies]
        self._postorder = None
        self.box_of = [new.get(box, -1) for box in self.box_of]


def scope_tree(recording: Recording, slots: Slots) -> Tree:
    """Build boxes for the scopes that contain at least two slots."""
    nodes, scopes = recording.nodes, recording.scopes
    depth = _scope_depths(recording)
    tree = Tree(box_of=[-1] * len(slots.nodes))
    names = [body.name for body in recording.bodies] or [""]
    for row, name in enumerate(names):
        tree.bodies.append(row)
        tree.boxes.append(Box("body" if row else "top", name or recording.title, -1))
    box_of_scope: dict[tuple[int, int], int] = {}
    layers = {scope: row for row, layer in enumerate(recording.layers) for scope in layer.scopes}
    for slot, members in enumerate(slots.nodes):
        scope = nodes.scope[members[0]]
        # Replacements may put nodes of one slot into several scopes, of which the innermost is the most informative.
        for member in members[1:]:
            if depth[nodes.scope[member]] > depth[scope]:
                scope = nodes.scope[member]
        body = nodes.body[members[0]]
        item = BoxItem("slot", slot)
        # From the slot upwards to the first scope that already has a box.
        while scope >= 0 and scopes[scope].kind != "top":
            box = box_of_scope.get((body, scope))
            known = box is not None
            if box is None:
                box = box_of_scope[body, scope] = len(tree.boxes)
                scope_box = Box(scopes[scope].kind, scope_name(recording, scope), -1, type=scopes[scope].type)
                scope_box.scope, scope_box.layer = scope, layers.get(scope, -1)
                tree.boxes.append(scope_box)
            tree.boxes[box].items.append(item)
            item = BoxItem("box", box)
            if known:
                break
            scope = scopes[scope].parent
        else:
            tree.boxes[body].items.append(item)
    drop_single(recording, slots, tree)
    return tree


def scope_name(recording: Recording, row: int) -> str:
    """Return the name of a scope; a number, such as a list index, is prefixed with the name of the list."""
    scopes, names = recording.scopes, [recording.scopes[row].name]
    while names[-1].isdecimal() and scopes[row].kind == "file" and scopes[scopes[row].parent].kind == "file":
        row = scopes[row].parent
        names.append(scopes[row].name)
    return ".".join(reversed(names))


def _scope_depths(recording: Recording) -> list[int]:
    depths: list[int] = []
    for row, scope in enumerate(recording.scopes):
        depths.append(depths[scope.parent] + 1 if 0 <= scope.parent < row else 0)
    return depths


def drop_single(recording: Recording, slots: Slots, tree: Tree) -> None:
    """Replace a box around one slot by the slot, and a box around one box by that box with both names.

    A recorded layer and the boxes around it are kept, unless the layer's only content is its parameter (a leaf).
    """
    kinds = recording.nodes.kind
    leaves = {slot for slot, members in enumerate(slots.nodes) if kinds[members[0]] in ("leaf", "input", "constant")}
    for index in tree.postorder():
        box = tree.boxes[index]
        items = []
        for item in box.items:
            child = tree.boxes[item.number] if item.table == "box" else None
            if child is None or len(child.items) > 1 or _is_kept(tree, child, leaves):
                items.append(item)
                continue
            only = child.items[0]
            if only.table == "box":
                inner_label = tree.boxes[only.number].label
                has_both = inner_label.startswith(f"{child.label}.")
                tree.boxes[only.number].label = inner_label if has_both else f"{child.label} / {inner_label}"
            items.append(only)
        tree.set_items(index, items)
        if index >= len(tree.bodies):
            continue
        while len(box.items) == 1 and box.items[0].table == "box" and box.kind == "body":
            tree.set_items(index, tree.boxes[box.items[0].number].items)


def _is_kept(tree: Tree, box: Box, leaves: Collection[int]) -> bool:
    table, index = box.items[0]
    if table == "box":
        return box.layer >= 0 or tree.boxes[index].layer >= 0
    return box.layer >= 0 and index not in leaves


class Paths:
    """Segments of edges between slots, in each box that contains one or both ends.

    ``ports`` maps box, side and slot to the port at which a slot's value crosses the top (0) or the bottom (1) of a
    box; missing keys mean port 0.
    """

    def __init__(self, tree: Tree, ports: Mapping[tuple[int, int, int], int] | None = None) -> None:
        boxes = tree.boxes
        self.ports = ports or {}
        self.box_of = tree.box_of
        """the box of each slot"""
        self.slot_index, self.box_index = [0] * len(tree.box_of), [0] * len(boxes)
        """the index of each slot, and of each box, among the items of its box"""
        self.parent, self.depth = [box.parent for box in boxes], [0] * len(boxes)
        waiting = list(tree.bodies)
        while waiting:
            index = waiting.pop()
            deeper = self.depth[index] + 1
            for index_in_box, (table, number) in enumerate(boxes[index].items):
                if table == "slot":
                    self.slot_index[number] = index_in_box
                else:
                    self.box_index[number], self.depth[number] = index_in_box, deeper
                    waiting.append(number)

    def segments(self, producer: int, consumer: int) -> Iterator[Segment]:
        """Yield the segments of an edge between two slots."""
        start, end = self.box_of[producer], self.box_of[consumer]
        tail, head = self.slot_index[producer], self.slot_index[consumer]
        out = into = 0
        while start != end:
            # The deeper end leaves its box first, until both are in the same box.
            if self.depth[start] >= self.depth[end]:
                port = self.ports.get((start, 1, producer), 0)
                yield start, tail, -1, out, port
                out, tail, start = port, self.box_index[start], self.parent[start]
            else:
                port = self.ports.get((end, 0, producer), 0)
                yield end, -1, head, port, into
                into, head, end = port, self.box_index[end], self.parent[end]
        if tail != head:
            yield start, tail, head, out, into


def lift(tree: Tree, edges: Iterable[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Return for each box its segments of edges between slots, without duplicates."""
    paths = Paths(tree)
    box_of, depth, parent = paths.box_of, paths.depth, paths.parent
    slot_index, box_index = paths.slot_index, paths.box_index
    segments_of: list[dict[tuple[int, int], None]] = [{} for _ in tree.boxes]
    # The same walk as Paths.segments, since a generator for each of 100,000 edges would take twice as long.
    for producer, consumer in edges:
        start, end, tail, head = box_of[producer], box_of[consumer], slot_index[producer], slot_index[consumer]
        while start != end:
            if depth[start] >= depth[end]:
                segments_of[start][tail, -1] = None
                tail, start = box_index[start], parent[start]
            else:
                segments_of[end][-1, head] = None
                head, end = box_index[end], parent[end]
        if tail != head:
            segments_of[start][tail, head] = None
    return [list(segments) for segments in segments_of]


def lifted(tree: Tree, slots: Slots) -> tuple[list[list[tuple[int, int]]], list[list[tuple[int, int]]]]:
    """Return for each box the segments of all edges, and of the edges that the program recorded."""
    edges = lift(tree, slots.edges)
    return edges, edges if slots.recorded is slots.edges else lift(tree, slots.recorded)

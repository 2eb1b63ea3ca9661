"""Initially open boxes: about forty items are visible, and of equal boxes only one is open."""

from __future__ import annotations

from explorer.record import Recording
from explorer.view.tree.box_tree import BoxItem, Tree
from explorer.view.tree.slots import Slots
from explorer.view.tree.structural_hash import Structure

USEFUL = 40
"""number of boxes and nodes visible at first, if opening whole boxes allows it"""

_FEW = 12
_READABLE = 8
"""maximum number of operators of a file that are shown open; if there are more, each is closed"""
_MEANT = ("function", "layer", "scope", "file", "batch", "block")


def choose_open(recording: Recording, slots: Slots, tree: Tree, recorded: list[list[tuple[int, int]]]) -> None:
    """Open boxes that people drew, from the outside in, while at most ``USEFUL`` items are visible.

    ``recorded`` are the segments, in every box, of the edges that the program recorded.

    The boxes of one parent open together; if that shows too little, those that fit. Of boxes with equal structure,
    whatever their shapes, the first opens, and others only while too little is visible.
    """
    structure = Structure(recording, slots, types=False)
    structure.enter(tree, tree.postorder(), recorded)
    operators_closed = sum(scope.type != "" for scope in recording.scopes) > _READABLE
    chooser = _OpenBoxChooser(tree, structure, _sizes(recording, slots, tree), operators_closed)
    for outermost in tree.bodies:
        chooser.open(outermost)


def _sizes(recording: Recording, slots: Slots, tree: Tree) -> list[int]:
    """Return for each box the number of items in it that the program recorded; of all, where none is.

    What passes put into a box of the program must not close it.
    """
    born = recording.nodes.born
    sizes = []
    for box in tree.boxes:
        items = [table == "box" or born[slots.nodes[number][0]] < 0 for table, number in box.items]
        sizes.append(sum(items) or len(items))
    return sizes


class _OpenBoxChooser:
    """Choice of the boxes that are open at first."""

    def __init__(self, tree: Tree, structure: Structure, sizes: list[int], operators_closed: bool) -> None:
        self._boxes, self._structure, self._operators_closed = tree.boxes, structure, operators_closed
        self._sizes = sizes
        self._seen: set[int] = set()
        self._visible = 0

    def open(self, outermost: int) -> None:
        """Open the boxes of one graph."""
        self._visible = self._sizes[outermost]
        self._boxes[outermost].open = True
        self._seen.clear()
        opened = [outermost]
        others: list[int] = []
        # The list grows while it is walked: boxes open level by level, from the outside in.
        for parent in opened:
            new: list[int] = []
            for box in self._inside(parent):
                number = self._structure.of(BoxItem("box", box))
                (others if number in self._seen else new).append(box)
                self._seen.add(number)
            opened += self._take(new)
        for parent in others:
            if self._visible < USEFUL // 2:
                others += [box for taken in self._take([parent]) for box in self._inside(taken)]

    def _inside(self, parent: int) -> list[int]:
        return [index for table, index in self._boxes[parent].items if table == "box" and self._is_meant(index)]

    def _take(self, boxes: list[int]) -> list[int]:
        """Open boxes if all of them fit, else those that fit while little is visible."""
        sizes = {box: self._sizes[box] for box in boxes}
        together = self._visible + sum(sizes.values()) - len(sizes) <= USEFUL
        for box in sorted(boxes, key=sizes.__getitem__) if together or self._visible < _FEW else ():
            # A picture of three boxes is useless: one that is twice as large as the limit is better.
            if self._visible + sizes[box] - 1 <= (USEFUL if self._visible >= _FEW else 2 * USEFUL):
                self._visible += sizes[box] - 1
                self._boxes[box].open = True
        return [box for box in boxes if self._boxes[box].open]

    def _is_meant(self, index: int) -> bool:
        """Whether to open a box unasked: boxes that people drew, and boxes that show the first of many equal ones."""
        box = self._boxes[index]
        if box.is_operator and self._operators_closed:
            return False
        if box.kind == "gradient" and any(
            table == "box" and self._boxes[inner].layer >= 0 for table, inner in box.items
        ):
            return True
        shows_first = box.kind in ("repeat", "stack") and box.items[0].table == "box"
        return box.kind in _MEANT or (shows_first and self._boxes[box.items[0].number].kind in _MEANT)

"""Which open boxes are drawn open at a position: one that holds next to nothing yet, or any more, takes no room."""

from __future__ import annotations

from collections.abc import Collection

from explorer.view.boxes import Tree
from explorer.view.state import State


def settled(tree: Tree, state: State, is_open: Collection[int]) -> set[int]:
    """Return the open boxes in which something stands; of a block more than one node: that is drawn as the node.

    A stack whose first member is not drawn open is not either.
    """
    standing = dict.fromkeys(is_open, 0)
    for slot in (*state.shown, *state.ghosts):
        box = tree.holder[slot]
        while box >= 0:
            if box in standing:
                standing[box] += 1
            box = tree.boxes[box].parent
    bodies = set(tree.bodies)
    found = {box for box, count in standing.items() if count > (tree.boxes[box].kind == "block") or box in bodies}
    for box in tree.inside_out():
        kind, first = tree.boxes[box].items[0] if tree.boxes[box].items else ("slot", -1)
        if tree.boxes[box].kind in ("stack", "repeat") and kind == "box" and first in is_open and first not in found:
            found.discard(box)
    return found

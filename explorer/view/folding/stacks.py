"""Stacks of parallel repetition: equal operations or calls, and equal subgraphs, drawn as one."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.view.folding.box_builder import FEW, PARTS, BoxBuilder
from explorer.view.folding.isomorphic import alike
from explorer.view.tree.box_tree import Box, BoxItem

LEAST = 24
"""minimum operations of a box that is searched for repetition"""

_Edges = Sequence[Sequence[tuple[int, int]]]
_Pieces = list[list[BoxItem]]
"""equal subgraphs, each with its operations in the same order"""


def stack_pieces(joiner: BoxBuilder, edges: _Edges, recorded: _Edges) -> list[int]:
    """Stack equal operations and equal subgraphs in every box; return the new boxes, each after those inside it.

    Recorded items and produced items are compared separately: ``recorded`` are the edges in every box between items
    that the program recorded, ``edges`` all of them.
    """
    tree = joiner.tree
    stacked = [(box, stacks) for box in tree.postorder() if (stacks := _find(joiner, box, edges, recorded))]
    first = len(tree.boxes)
    for box, stacks in stacked:
        inside = {item: stack for pieces in stacks for stack in [_stack(joiner, box, pieces)] for item in _flat(pieces)}
        tree.hold(box, list(dict.fromkeys([inside.get(item, item) for item in tree.boxes[box].items])))
    return [box for box in tree.postorder() if box >= first]


def _find(joiner: BoxBuilder, box: int, edges: _Edges, recorded: _Edges) -> list[_Pieces]:
    """Return the sets of equal subgraphs in a box that are worth a stack."""
    items, nodes = joiner.tree.boxes[box].items, joiner.recording.nodes
    first = {
        place: joiner.first(item.number)
        for place, item in enumerate(items)
        if item.table == "slot" and nodes.kind[joiner.first(item.number)] in ("operation", "call")
    }
    if len(first) < LEAST:
        return []

    lines = [(source.where, source.line) for source in joiner.recording.sources]

    def does(place: int) -> tuple[int, tuple[str, int] | None]:
        """Return the key of an item: items recorded at different lines are not repetitions, whoever called these."""
        row = nodes.source[first[place]]
        return joiner.structure.of(items[place]), lines[row] if row >= 0 else None

    written = {place for place, node in first.items() if nodes.born[node] < 0}
    sets = alike(len(items), recorded[box], written, does)
    sets += alike(len(items), edges[box], first.keys() - written, does)
    # A few equal operations on one level are chance; if most are equal, the program repeats them.
    if 2 * sum(len(pieces) * len(pieces[0]) for pieces in sets) < len(first):
        sets = [pieces for pieces in sets if len(pieces[0]) > 1]
    return [[[items[place] for place in piece] for piece in pieces] for pieces in sets]


def _flat(pieces: _Pieces) -> list[BoxItem]:
    return [item for piece in pieces for item in piece]


def _stack(joiner: BoxBuilder, box: int, pieces: _Pieces) -> BoxItem:
    """Put equal subgraphs into one box: the first is shown, the others operation by operation."""
    names = [joiner.operations[slot] for _, slot in pieces[0]]
    label = names[0] if names[0] == names[-1] else f"{names[0]} … {names[-1]}"
    stack = _box(joiner, "stack", label, box, len(pieces))
    if len(names) == 1:
        members = _flat(pieces)
    elif len(pieces) <= FEW:
        members = [_block(joiner, stack, number, piece) for number, piece in enumerate(pieces, 1)]
    else:
        rest = _box(joiner, "part", f"{len(pieces) - 1:,} more", stack)
        if len(pieces) <= PARTS:
            inside = [_block(joiner, rest, number, piece) for number, piece in enumerate(pieces[1:], 2)]
        else:
            inside = [
                _filled(
                    joiner, _box(joiner, "stack", name, rest, len(pieces) - 1), [piece[place] for piece in pieces[1:]]
                )
                for place, name in enumerate(names)
            ]
        members = [_block(joiner, stack, 1, pieces[0]), _filled(joiner, rest, inside)]
    return _filled(joiner, stack, members)


def _block(joiner: BoxBuilder, holder: int, number: int, piece: list[BoxItem]) -> BoxItem:
    return _filled(joiner, _box(joiner, "block", f"block {number:,}", holder), piece)


def _box(joiner: BoxBuilder, kind: str, label: str, holder: int, count: int = 1) -> int:
    return joiner.add(Box(kind, label, holder, count=count))


def _filled(joiner: BoxBuilder, box: int, items: list[BoxItem]) -> BoxItem:
    joiner.tree.hold(box, items)
    return BoxItem("box", box)

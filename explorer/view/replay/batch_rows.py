"""Texts of closed boxes that have lost their own nodes and now contain only rows of batches.

Batching removes the nodes of many calls from the graph, and inserts one batch, with an ``index`` for each
row that other nodes read. The boxes of the calls remain; without these texts they would look empty.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence

from explorer.record import Recording, Stage
from explorer.view.model.labels import now_text
from explorer.view.replay.contents import batched
from explorer.view.tree.box_tree import Tree
from explorer.view.tree.slots import Slots


def row_texts(recording: Recording, slots: Slots, tree: Tree) -> dict[int, list[tuple[int, str]]]:
    """Return for each of these boxes the positions at which its text changes, with the texts: ``now 1,000 × index0``.

    A text counts the rows in the box at the end of the stage that contains its position. The tree caches the result,
    since a page needs it for its data and for its picture.
    """
    if tree.row_texts is None:
        tree.row_texts = _row_texts(recording, slots, tree)
    return tree.row_texts


def _row_texts(recording: Recording, slots: Slots, tree: Tree) -> dict[int, list[tuple[int, str]]]:
    emptied, rows = _emptied(recording, slots, tree)
    texts: dict[int, list[tuple[int, str]]] = {box: [] for box in emptied}
    outwards = [(box, tree.boxes[box].parent) for box in tree.postorder() if box in emptied] if rows else []
    for stage in _changing(recording, emptied, rows):
        for box, labels in _standing(recording, outwards, emptied, rows, stage.last).items():
            text = now_text(labels)
            known = texts[box][-1][1] if texts[box] else ""
            if text != known:
                texts[box].append((max(emptied[box], stage.first + 1), text))
    return {box: changes for box, changes in texts.items() if changes}


def row_text(texts: Mapping[int, Sequence[tuple[int, str]]], box: int, position: int) -> str:
    """Return the text of a box at a position, or "" while it contains its own nodes."""
    return next((text for first, text in reversed(texts.get(box, ())) if first <= position), "")


def _emptied(recording: Recording, slots: Slots, tree: Tree) -> tuple[dict[int, int], list[tuple[int, int]]]:
    """Return the first position at which each box contains only rows, and the rows with their boxes."""
    born, gone, batching = recording.nodes.born, recording.nodes.gone, batched(recording)
    if not batching:
        return {}, []
    never = recording.end + 1
    positions, written = [0] * len(tree.boxes), [False] * len(tree.boxes)
    for box, members in zip(tree.box_of, slots.nodes, strict=True):
        written[box] |= born[members[0]] < 0
        own = [never if gone[node] < 0 else gone[node] + 1 for node in members if born[node] not in batching]
        positions[box] = max(positions[box], *own, 0)
    for box in tree.postorder():
        outer = tree.boxes[box].parent
        if outer >= 0:
            positions[outer] = max(positions[outer], positions[box])
            written[outer] |= written[box]
    emptied = {box: position for box, position in enumerate(positions) if written[box] and position < never}
    rows = [
        (box, node)
        for box, members in zip(tree.box_of, slots.nodes, strict=True)
        if box in emptied
        for node in members
        if born[node] in batching
    ]
    return emptied, rows


def _changing(recording: Recording, emptied: Mapping[int, int], rows: Sequence[tuple[int, int]]) -> list[Stage]:
    """Return the stages during which rows, or the boxes that contain only rows, change."""
    born, gone = recording.nodes.born, recording.nodes.gone
    # A decision's change of rows takes effect at the next position.
    changed = {decision + 1 for _, node in rows for decision in (born[node], gone[node]) if decision >= 0}
    if changed:
        changed.update(emptied.values())
    positions = sorted(changed)
    passed = [bisect_right(positions, stage.last) for stage in recording.stages]
    return [stage for stage, before, now in zip(recording.stages, [0, *passed], passed, strict=False) if now > before]


def _standing(
    recording: Recording,
    outwards: Sequence[tuple[int, int]],
    emptied: Mapping[int, int],
    rows: Sequence[tuple[int, int]],
    position: int,
) -> dict[int, Counter[str]]:
    """Count by name the rows in each box at a position; boxes with other nodes or without nodes are omitted.

    ``outwards`` are the boxes with their parents, innermost first.
    """
    nodes = recording.nodes
    counts: dict[int, Counter[str]] = {}
    for box, node in rows:
        if nodes.born[node] < position and not 0 <= nodes.gone[node] < position:
            counts.setdefault(box, Counter())[nodes.label[node]] += 1
    for box, outer in outwards:
        if box in counts and outer in emptied:
            counts.setdefault(outer, Counter()).update(counts[box])
    return {box: labels for box, labels in counts.items() if emptied[box] <= position}

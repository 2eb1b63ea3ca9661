"""Contents of boxes over time: an open box is drawn closed before it has contents, and after it has lost them.

Time is measured in *instants*: ``2 · position``, plus 1 if a stage has not decided anything yet. A removed node remains
as a ghost until the last decision of its stage, so its interval ends between the two instants of a position.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from explorer.record import Recording
from explorer.view.tree.box_tree import Tree
from explorer.view.tree.slots import Slots

Span: TypeAlias = tuple[int, int]
"""First and last instant of an interval."""


class _Stay(NamedTuple):
    """Interval of one node in a slot."""

    first: int
    last: int
    ghost: int
    """the last instant at which its ghost exists"""
    node: int


def instant_at(recording: Recording, position: int) -> int:
    """Return the instant of a static picture: at the end the last instant of its position, else the first."""
    return 2 * position + (position == recording.end)


def batched(recording: Recording) -> set[int]:
    """Return the decisions that created batches, which also produced the rows that replace the batched nodes."""
    return {group.decision for group in recording.groups if group.kind == "batch"}


def open_spans(recording: Recording, slots: Slots, tree: Tree) -> dict[int, list[Span]]:
    """Return, for each box that is not always drawn open, the intervals in which it is drawn open.

    A box needs a node inside; a block, and the first of the equal boxes of a stack, need an operation that is not a row
    of a batch. A stack is open only while its first box is. The box of a batch is open once the batch is complete and
    no call that represents its contents is left. The tree caches the result, since a page needs it for its data and
    picture.
    """
    if tree.open_spans is None:
        tree.open_spans = _open_spans(recording, slots, tree)
    return tree.open_spans


def _open_spans(recording: Recording, slots: Slots, tree: Tree) -> dict[int, list[Span]]:
    boxes, always = tree.boxes, [(0, 2 * recording.end + 1)]
    first = [_first_member(tree, box) for box in range(len(boxes))]
    members = {*first, *(number for number, box in enumerate(boxes) if box.kind == "block")}
    any_node, works, calls = _inside(recording, slots, tree)
    times: dict[int, list[Span]] = {}
    for number, box in enumerate(boxes):
        if box.parent < 0:
            continue
        spans = (works if number in members else any_node)[number]
        if first[number] >= 0:
            spans = _both(spans, works[first[number]])
        if box.kind == "batch":
            # The instant after its last decision; a mapped call is a batch from the beginning.
            complete = 2 * (max(box.batches, default=-1) + 1)
            spans = _both(spans, _others([(0, complete - 1), *calls[number]], always[0][1]))
        if spans != always:
            times[number] = spans
    return times


def drawn_open(spans: dict[int, list[Span]], wanted: Collection[int], instant: int) -> set[int]:
    """Return the boxes in ``wanted`` that are drawn open at an instant."""
    return {box for box in wanted if box not in spans or any(first <= instant <= last for first, last in spans[box])}


def _first_member(tree: Tree, box: int) -> int:
    """Return the first of the equal boxes that a box represents, or −1."""
    if tree.boxes[box].kind not in ("stack", "repeat"):
        return -1
    table, index = tree.boxes[box].items[0]
    return index if table == "box" else -1


def _inside(
    recording: Recording, slots: Slots, tree: Tree
) -> tuple[list[list[Span]], list[list[Span]], list[list[Span]]]:
    """Return for each box the intervals with any node, with an operation other than a batch row, and with a call."""
    nodes, rows, end = recording.nodes, batched(recording), 2 * recording.end + 1
    times: tuple[list[list[Span]], list[list[Span]], list[list[Span]]] = (
        [[] for _ in tree.boxes], [[] for _ in tree.boxes], [[] for _ in tree.boxes],
    )  # fmt: skip
    any_node, works, calls = times
    kinds, born, gone = nodes.kind, nodes.born, nodes.gone
    always: set[tuple[int, str]] = set()
    changing: list[tuple[int, list[int]]] = []
    for box, row in zip(tree.box_of, slots.nodes, strict=True):
        if len(row) == 1 and born[row[0]] < 0 and gone[row[0]] < 0:  # most nodes of a large graph remain until the end
            always.add((box, kinds[row[0]]))
        else:
            changing.append((box, row))
    for box, role in always:
        any_node[box] = [(0, end)]
        if role in ("operation", "call"):
            works[box] = [(0, end)]
        if role == "call":
            calls[box] = [(0, end)]
    for box, row in changing:
        for stay in _stays(recording, row, end):
            role = kinds[stay.node]
            _enter(any_node[box], (stay.first, stay.ghost), end)
            if role in ("operation", "call") and born[stay.node] not in rows:
                _enter(works[box], (stay.first, stay.ghost), end)
            if role == "call":
                _enter(calls[box], (stay.first, stay.last), end)
    for box in tree.postorder():
        outer = tree.boxes[box].parent
        for spans in times:
            spans[box] = _joined(spans[box])
            if outer >= 0:
                for span in spans[box]:
                    _enter(spans[outer], span, end)
    return times


def _stays(recording: Recording, members: list[int], end: int) -> Iterator[_Stay]:
    """Yield the intervals of a slot's nodes; the interval of a ghost ends when the next node's begins."""
    born, gone = recording.nodes.born, recording.nodes.gone
    for index, node in enumerate(members):
        first = max(0, 2 * (born[node] + 1))
        if gone[node] < 0:
            yield _Stay(first, end, end, node)
            continue
        last = 2 * gone[node] + 1
        ghost = 2 * recording.stages[recording.decisions[gone[node]].stage].last
        if index + 1 < len(members):
            # The next node of the slot replaces it before its stage has ended.
            ghost = min(ghost, 2 * born[members[index + 1]] + 1)
        yield _Stay(first, last, max(last, ghost), node)


def _enter(spans: list[Span], span: Span, end: int) -> None:
    """Add an interval to a list; an interval from the first to the last instant replaces all others."""
    if spans and spans[0] == (0, end):
        return
    if span == (0, end):
        spans.clear()
    spans.append(span)


def _joined(spans: Iterable[Span]) -> list[Span]:
    """Join intervals that overlap or follow each other."""
    joined: list[Span] = []
    for first, last in sorted(spans):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = joined[-1][0], max(joined[-1][1], last)
        else:
            joined.append((first, last))
    return joined


def _both(spans: list[Span], others: list[Span]) -> list[Span]:
    """Return the intersection of two lists of intervals."""
    met = ((max(a, c), min(b, d)) for a, b in spans for c, d in others)
    return [(first, last) for first, last in met if first <= last]


def _others(spans: list[Span], end: int) -> list[Span]:
    """Return the intervals up to the last instant that are outside all given ones."""
    left, start = [], 0
    for first, last in _joined(spans):
        if start < first:
            left.append((start, first - 1))
        start = last + 1
    return [*left, (start, end)] if start <= end else left

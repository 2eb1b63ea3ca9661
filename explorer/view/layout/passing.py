"""Edges that pass through places: they stand only while the items between their ends do not.

Where a pass removes or moves an operation, its producer and its reader meet. The edge between them is drawn straight
through the place that has become empty, instead of around it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

from explorer.view.layout.trunk import trunk
from explorer.view.model.model import Model
from explorer.view.tree.slots import source

_Span: TypeAlias = tuple[int, float]
"""positions after the first number, up to the second one"""
_ALWAYS = float("inf")


class PassingEdges:
    """Finds the edges of a model's boxes that pass through places."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @cached_property
    def _replaced(self) -> dict[int, tuple[int, int]]:
        return {old: (decision, new) for decision, old, new in self._model.recording.substitutions}

    def of(self, box: int) -> set[tuple[int, int]]:
        """Return the edges of a box whose ends are joined by a trunk, too, none of whose items stands while they do."""
        edges = self._model.edges[box]
        straight = trunk(len(self._model.tree.boxes[box].items), edges)
        behind = dict(straight)
        readers = Counter(tail for tail, _ in edges)
        passing = set()
        for tail, head in edges:
            if tail not in behind or tail < 0 or head < 0 or (tail, head) in straight:
                continue
            path = [tail, behind[tail]]
            # An item has one producer in a trunk, so the path ends, at the latest where it began.
            while path[-1] not in (head, tail) and readers[path[-1]] == 1 and path[-1] in behind:
                path.append(behind[path[-1]])
            if path[-1] == head and not self._meet(box, path):
                passing.add((tail, head))
        return passing

    def _meet(self, box: int, path: list[int]) -> bool:
        """Tell whether an item inside a path is in use while its ends are joined; True where that is not known."""
        inside = [self._slots(box, item) for item in path]
        if not all(inside):
            return True
        joined = list(self._edge_spans(inside[0], inside[-1]))
        return any(
            max(after, begin) < min(until, end)
            for slots, readers in pairwise(inside[1:])
            for begin, end in self._used(slots, readers)
            for after, until in joined
        )

    def _used(self, slots: list[int], readers: list[int]) -> Iterator[_Span]:
        """Yield the positions at which the nodes of some slots stand; removed ones stand while they are read."""
        last = max((until for _, until in self._edge_spans(slots, readers)), default=-1)
        nodes = self._model.recording.nodes
        for node in [node for slot in slots for node in self._model.slots.nodes[slot]]:
            begin, end = self._span(node)
            yield begin, end if nodes.gone[node] < 0 else min(end, last)

    def _slots(self, box: int, item: int) -> list[int]:
        """Return the slots of an item; none of the border, and of a box with boxes inside."""
        if item < 0:
            return []
        table, index = self._model.tree.boxes[box].items[item]
        if table == "slot":
            return [index]
        inside = self._model.tree.boxes[index].items
        return [number for table, number in inside] if all(table == "slot" for table, _ in inside) else []

    def _edge_spans(self, producers: Collection[int], consumers: list[int]) -> Iterator[_Span]:
        """Yield the positions at which nodes of some slots read nodes of others."""
        slots, recording = self._model.slots, self._model.recording
        for node in [node for slot in consumers for node in slots.nodes[slot]]:
            after, until = self._span(node)
            for operand in recording.nodes.operands[node]:
                begin, read = float(after), operand
                # An operand may be replaced several times while its reader stands: each stretch between two
                # replacements is asked for by itself.
                while begin < until:
                    decision, successor = self._replaced.get(read, (_ALWAYS, read))
                    if slots.of[source(recording, read)] in producers:
                        yield int(begin), min(until, decision)
                    begin, read = max(begin, decision), successor

    def _span(self, node: int) -> _Span:
        nodes = self._model.recording.nodes
        return nodes.born[node], _ALWAYS if nodes.gone[node] < 0 else nodes.gone[node]

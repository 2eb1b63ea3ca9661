"""Inference of the boxes of operators from their names, and from neighbouring operators if a name specifies no box.

Files list operators in tracing order, so the operators of a module are contiguous. Between two operators whose names
specify boxes, each box therefore begins or ends at a single position: the one at which the fewest blobs enter or leave
it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from explorer.core.memory_budget import BOXES
from explorer.net.definition.definition import NetDefinition, OperatorDefinition

Path: TypeAlias = tuple[str, ...]
_GENERATED = re.compile(r"(?:torch|F|Tensor|aten|prim|pnnx)[.:].*|(?:convbn[123]d|linearbn|pnnx_[a-z]+|pnnx)_[0-9]+")
"""pattern of generated names, in which dots do not separate boxes"""


def box_paths(definition: NetDefinition) -> dict[str, Path]:
    """Return the boxes around every operator, outermost first, keyed by operator name; the last box is the operator.

    The definition specifies the boxes, or a name such as ``layer1.0.relu`` does. An operator with a generated name
    belongs to the innermost box that it depends on and that depends on it. Before the first and after the last named
    operator of a box, an operator is inside if this minimizes the number of inputs and outputs of the box.
    """
    named = {operator.name: _is_placed(operator) for operator in definition.operators}
    paths = {operator.name: _path(operator, named[operator.name]) for operator in definition.operators}
    if all(named.values()):
        return paths
    boxes: dict[Path, int] = {}
    for path in paths.values():
        for depth in range(1, len(path)):
            boxes.setdefault(path[:depth], len(boxes))
    if not boxes:
        return paths
    # Sets of boxes are the bits of integers, since a net has thousands of operators, each inside many boxes.
    own = {name: sum(1 << boxes[path[:depth]] for depth in range(1, len(path))) for name, path in paths.items()}
    above, below = _reach(definition, own)
    # Deepest first, so that the first common box is the innermost.
    known = sorted(boxes, key=lambda path: (-len(path), boxes[path]))
    for name, is_named in named.items():
        around = above[name] & below[name]
        if not is_named and around:
            paths[name] = (*next(path for path in known if around >> boxes[path] & 1), paths[name][-1])
    for name, box in _Trace(definition, paths, named).inside().items():
        # The order of operators may refine the result of the data flow, but not contradict it.
        if box[: len(paths[name]) - 1] == paths[name][:-1]:
            paths[name] = (*box, paths[name][-1])
    return paths


def _is_placed(operator: OperatorDefinition) -> bool:
    return bool(operator.boxes) if operator.boxes is not None else not _GENERATED.fullmatch(operator.name)


def _path(operator: OperatorDefinition, placed: bool) -> Path:
    if operator.boxes is not None:
        return (*operator.boxes[:BOXES], operator.name.rpartition("/")[2] or operator.name)
    return tuple(part or "." for part in operator.name.split(".", BOXES)) if placed else (operator.name,)


def _reach(definition: NetDefinition, own: dict[str, int]) -> tuple[dict[str, int], dict[str, int]]:
    """Return two dicts from operators to bit sets: the boxes that an operator depends on, and those that depend on
    it."""
    above, below = dict.fromkeys(own, 0), dict.fromkeys(own, 0)
    order = definition.topological_order
    edges = [
        (producer, operator.name)
        for operator in order
        for blob in operator.inputs
        if (producer := definition.blobs[blob].producer) is not None
    ]
    # In topological order of readers, so that a producer's ancestors are complete when its readers use them.
    for producer, reader in edges:
        above[reader] |= above[producer] | own[producer]
    for producer, reader in reversed(edges):
        below[producer] |= below[reader] | own[reader]
    return above, below


class _Trace:
    """Operators in order, for finding the first and last operator of each box among generated names."""

    def __init__(self, definition: NetDefinition, paths: dict[str, Path], named: dict[str, bool]) -> None:
        self._definition, self._order, self._paths = definition, definition.topological_order, paths
        self._stops = [index for index, operator in enumerate(self._order) if named[operator.name]]
        self._first: dict[Path, int] = {}
        self._end: dict[Path, int] = {}
        for index in self._stops:
            for box in self._boxes(index):
                self._first.setdefault(box, index)
                self._end[box] = index + 1
        self._last_use = {blob: len(self._order) for blob in definition.outputs}
        for index, operator in enumerate(self._order):
            for blob in operator.inputs:
                self._last_use[blob] = max(index, self._last_use.get(blob, -1))

    def _boxes(self, index: int) -> list[Path]:
        path = self._paths[self._order[index].name]
        return [path[:depth] for depth in range(1, len(path))]

    def inside(self) -> dict[str, Path]:
        """Return the innermost box of each generated name that is before the first or after the last name of a box."""
        paths: dict[str, Path] = {}
        for before, after in zip([-1, *self._stops], [*self._stops, len(self._order)], strict=True):
            # Nothing is between two adjacent operators.
            if after - before < 2:
                continue
            opening = self._boxes(after) if after < len(self._order) else []
            closing = self._boxes(before) if before >= 0 else []
            shared = [box for box in closing if box in opening]
            if shared:
                # A module's operators are contiguous, so nothing else can be between two of them.
                paths.update(dict.fromkeys((self._order[index].name for index in range(before + 1, after)), shared[-1]))
            opening = [box for box in opening if self._first[box] == after]
            closing = [box for box in closing if self._end[box] == before + 1]
            self._open(opening, before + 1, after)
            self._close(closing, before + 1, self._first[opening[0]] if opening else after)
            for box in (*closing, *opening):
                # Boxes are closed before others are opened, and outer boxes before inner boxes, so the innermost box
                # remains.
                first, end = max(self._first[box], before + 1), min(self._end[box], after)
                paths.update(dict.fromkeys((self._order[index].name for index in range(first, end)), box))
        return paths

    def _open(self, boxes: Sequence[Path], first: int, last: int) -> None:
        """Select where boxes begin between ``first`` and ``last``; ties go to the last position before weights."""
        for box in boxes:
            costs = {index: cost for index, cost in self._opening(self._end[box], first) if index <= last}
            least = min(costs.values())
            equal = [index for index, cost in costs.items() if cost == least]
            # Modules with weights usually begin with them: nn.Linear, then its activation.
            weighted = [index for index in equal if self._order[index].weights]
            first = self._first[box] = max(weighted or equal)

    def _close(self, boxes: Sequence[Path], first: int, last: int) -> None:
        """Select where boxes end between ``first`` and ``last``; ties go to the last position.

        If the last element of a list contains boxes and has repeated the operators of the previous element, both the
        element and the list end there, provided that the following operators read only the element's result.
        """
        for depth, box in enumerate(boxes):
            costs = {index: cost for index, cost in self._closing(self._first[box], last) if index >= first}
            least = min(costs.values())
            last = max(index for index, cost in costs.items() if cost == least)
            # A flatten between a backbone and a head belongs to neither.
            while depth == 0 and last > first and self._reshapes(self._order[last - 1]):
                last -= 1
            if depth and box[:-1] == boxes[depth - 1]:
                end = self._repeated_end(box)
                if costs.get(end) == least and self._is_chain(end, last):
                    last = self._end[box[:-1]] = end
            self._end[box] = last

    def _repeated_end(self, box: Path) -> int:
        """Return the index at which a list element has repeated the previous element's operators; −1 if it does not."""
        before = (*box[:-1], str(int(box[-1]) - 1)) if box[-1].isdecimal() else ()
        if before not in self._end or not any(
            len(inner) > len(box) and inner[: len(box)] == box for inner in self._end
        ):
            return -1
        first, end = self._first[box], self._end[before]
        length = end - self._first[before]
        types = [operator.type for operator in self._order[first : first + length]]
        return first + length if types == [operator.type for operator in self._order[end - length : end]] else -1

    def _is_chain(self, first: int, end: int) -> bool:
        """Return whether each operator from ``first`` to ``end`` reads only the result of the previous one."""
        known = set(self._order[first - 1].outputs)
        for operator in self._order[first:end]:
            if not known.issuperset(operator.inputs):
                return False
            known.update(operator.outputs)
        return True

    def _reshapes(self, operator: OperatorDefinition) -> bool:
        """Return whether an operator only reshapes a blob; such an operator between two boxes belongs to neither."""
        blobs = [self._definition.blobs[blob].shape for blob in (*operator.inputs, *operator.outputs)]
        return not operator.weights and len(blobs) == 2 and None not in blobs and blobs[0] != blobs[1]

    def _opening(self, end: int, first: int) -> Iterator[tuple[int, int]]:
        """Yield the number of blobs that cross the border of ``index … end-1``, for indices down to ``first``."""
        entering: set[str] = set()
        leaving = 0
        # Backwards, operator by operator, so that all possible starts of a box need one pass.
        for index in range(end - 1, first - 1, -1):
            operator = self._order[index]
            entering.difference_update(operator.outputs)
            entering.update(operator.inputs)
            leaving += sum(self._last_use.get(blob, -1) >= end for blob in operator.outputs)
            yield index, len(entering) + leaving

    def _closing(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield the number of blobs that cross the border of ``first … index-1``, for indices up to ``last``."""
        outputs: set[str] = set()
        entering: set[str] = set()
        last_uses: Counter[int] = Counter()
        leaving = 0
        for index in range(first, last):
            operator = self._order[index]
            entering.update(blob for blob in operator.inputs if blob not in outputs)
            outputs.update(operator.outputs)
            for blob in operator.outputs:
                use = self._last_use.get(blob, -1)
                leaving += use > index
                last_uses[use] += use > index
            # A blob whose last reader is this operator does not leave the box if the operator is inside.
            leaving -= last_uses.pop(index, 0)
            yield index + 1, len(entering) + leaving

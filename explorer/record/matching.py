"""Which recorded nodes of two recordings are the same: by structure from the leaves up, then from the roots down."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from explorer.record.recording import Recording


@dataclass(frozen=True, slots=True)
class Matching:
    """Pairs of recorded nodes of two top graphs, and what has no partner."""

    pairs: dict[int, int]
    """node before → node after"""
    changed: tuple[int, ...]
    """the paired nodes before whose own operation, attributes, type, name or operands are others after"""
    only_before: tuple[int, ...]
    only_after: tuple[int, ...]

    @property
    def equal(self) -> bool:
        """Whether both recordings are of one graph."""
        return not (self.changed or self.only_before or self.only_after)


def match(before: Recording, after: Recording) -> Matching:
    """Pair the recorded nodes of two recordings.

    Equal structures are paired in order. Where they end, nodes of one operation that the same readers read are paired
    and are changed; last, nodes of one operation in one scope.
    """
    numbers: dict[Any, int] = {}
    owns = [_Own(recording, numbers) for recording in (before, after)]
    first, second = owns
    waiting: dict[int, deque[int]] = {}
    for node in second.recorded:
        waiting.setdefault(second.structure[node], deque()).append(node)
    pairs: dict[int, int] = {}
    for node in first.recorded:
        held = waiting.get(first.structure[node])
        if held:
            pairs[node] = held.popleft()
    taken = set(pairs.values())
    _from_roots(before, after, pairs, taken)
    _by_scope(first, second, pairs, taken)
    changed = []
    for node, other in pairs.items():
        if first.structure[node] != second.structure[other]:
            operands = [pairs.get(operand) for operand in before.nodes.operands[node]]
            if first.own[node] != second.own[other] or operands != list(after.nodes.operands[other]):
                changed.append(node)
    return Matching(
        dict(sorted(pairs.items())),
        tuple(sorted(changed)),
        tuple([node for node in first.recorded if node not in pairs]),
        tuple([node for node in second.recorded if node not in taken]),
    )


class _Own:
    """What the nodes of a recording are by themselves, and with all that lies below them, as numbers of both sides."""

    def __init__(self, recording: Recording, numbers: dict[Any, int]) -> None:
        rows = recording.nodes
        self.recording = recording
        self.recorded = [node for node in range(len(rows)) if rows.born[node] < 0 and rows.body[node] == 0]
        self.own: dict[int, int] = {}
        self.structure: dict[int, int] = {}
        inside: dict[int, list[int]] = {}
        for node, body in enumerate(rows.body):
            if body:
                inside.setdefault(body, []).append(node)
        bodies: dict[int, int] = {-1: -1}
        for body in range(len(recording.bodies) - 1, 0, -1):  # those inside a body come after it
            place = {node: at for at, node in enumerate(inside.get(body, ()))}
            key = [
                (self._key(node, bodies), [place.get(operand, -1) for operand in rows.operands[node]]) for node in place
            ]
            bodies[body] = numbers.setdefault(repr(("body", recording.bodies[body].name, key)), len(numbers))
        for node in self.recorded:
            self.own[node] = numbers.setdefault(("own", self._key(node, bodies)), len(numbers))
            below = tuple([self.structure[operand] for operand in rows.operands[node]])
            self.structure[node] = numbers.setdefault(("below", self.own[node], below), len(numbers))

    def _key(self, node: int, bodies: dict[int, int]) -> tuple[Any, ...]:
        rows, recording = self.recording.nodes, self.recording
        attributes = tuple(sorted(rows.attributes.get(node, {}).items()))
        label = "" if rows.kind[node] == "operation" else rows.label[node]
        operation = recording.operations[rows.operation[node]]
        return operation, label, recording.type_text(node), attributes, bodies.get(rows.callee[node], -2)

    def place(self, node: int) -> tuple[Any, ...]:
        """What kind of node stands in which scope."""
        recording, rows = self.recording, self.recording.nodes
        names = []
        scope = rows.scope[node]
        while scope > 0:
            names.append(recording.scopes[scope].name)
            scope = recording.scopes[scope].parent
        label = rows.label[node] if rows.kind[node] != "constant" else ""
        return tuple(names), recording.operations[rows.operation[node]], label


def _from_roots(before: Recording, after: Recording, pairs: dict[int, int], taken: set[int]) -> None:
    """Pair what equal readers read, from the roots down, past a node that one side has more."""
    pending = deque(zip(before.roots, after.roots, strict=False))
    seen = set(pending)

    def same(x: int, y: int) -> bool:
        return (
            before.operations[before.nodes.operation[x]] == after.operations[after.nodes.operation[y]]
            and before.nodes.kind[x] == after.nodes.kind[y]
        )

    while pending:
        x, y = pending.popleft()
        further: list[tuple[int, int]] = []
        if x not in pairs and y not in taken:
            if same(x, y):
                pairs[x] = y
                taken.add(y)
            else:
                inserted = [(x, operand) for operand in after.nodes.operands[y] if same(x, operand)]
                left_out = [(operand, y) for operand in before.nodes.operands[x] if same(operand, y)]
                further = inserted or left_out
        if pairs.get(x) == y:
            further = [*zip(before.nodes.operands[x], after.nodes.operands[y], strict=False)]
        for pair in further:
            if pair not in seen:
                seen.add(pair)
                pending.append(pair)


def _by_scope(first: _Own, second: _Own, pairs: dict[int, int], taken: set[int]) -> None:
    waiting: dict[Any, deque[int]] = {}
    for node in second.recorded:
        if node not in taken:
            waiting.setdefault(second.place(node), deque()).append(node)
    for node in first.recorded:
        if node not in pairs:
            held = waiting.get(first.place(node))
            if held:
                pairs[node] = held.popleft()
                taken.add(pairs[node])

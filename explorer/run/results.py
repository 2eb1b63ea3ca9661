"""Results by expression, for as long as somebody holds them: what plans with ``recall`` do not compute again.

An expression is found again by its uid, and an equal one, written later, by its value number: a hash of its operation,
its operands' numbers, and of the identity and version of the tensors' storages. It has 128 bits and is salted in each
process, so that two expressions do not have one number by chance. Numbers cost a third of a microsecond a node; they
are given only where a later graph reads the newest tensor of an earlier one, whose results are still held.
"""

from __future__ import annotations

import os
import threading
from array import array as packed
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias
from weakref import ReferenceType, ref

import numpy as np

from explorer.core.device import cpu
from explorer.core.expr import Expr
from explorer.core.function import Call
from explorer.core.operation import Operation
from explorer.core.tensor import STORED, Storage, Tensor, tensor_of
from explorer.core.types import Array
from explorer.data.protocol import Described
from explorer.plan.passes import Recall
from explorer.record.forking import renew_in_children
from explorer.run.cache import Structure

_Number: TypeAlias = tuple[int, int]
_WAITING = 8
"""evaluations whose results are not numbered yet"""
_SALT = int.from_bytes(os.urandom(7), "little")
_NONE = -1
"""in the place of the newest tensor, where an expression reads none"""

_lock = threading.RLock()
_by_uid: dict[int, dict[int, ReferenceType[Array]]] = {}
"""context → uid → the value of the expression"""
_by_number: dict[int, dict[tuple[int, _Number], ReferenceType[Array]]] = {}
"""token of the newest storage below an expression → context and number → its value"""
_operations: dict[tuple[int, _Number], frozenset[Operation]] = {}
"""context and number → the operations, so that those of an equal expression are the same"""


class _Evaluation:
    """Roots that were evaluated together, until their values are numbered or gone."""

    def __init__(
        self, known: Structure, operations: set[Operation], values: Sequence[ReferenceType[Array] | None]
    ) -> None:
        self.context = known.context
        self.leaves = _leaves(known)
        self.told, self.count = known.told, len(known.nodes)
        self.operations = frozenset(
            [operation for operation in operations if not isinstance(operation, (Call, Described))]
        )
        self.values = [(end, value) for end, value in zip(known.ends, values, strict=True) if value is not None]

    def may_be_below(self, tokens: frozenset[int]) -> bool:
        """Whether a value is held, and a graph that reads the storages of these tokens may hold its root."""
        if all(value() is None for _, value in self.values):
            return False
        if len(self.values) == 1:
            return all(token in tokens for token, _ in self.leaves)
        newest = _newest(self.told, self.count, self.leaves)
        return any(newest[end] in tokens or newest[end] == _NONE for end, _ in self.values)

    def enter(self) -> None:
        """Number the values that are held."""
        held = [(end, array) for end, array in [(end, value()) for end, value in self.values] if array is not None]
        if not held:
            return
        found = numbers(self.told, self.count, self.leaves)
        newest = _newest(self.told, self.count, self.leaves)
        for end, array in held:
            key = self.context, found[end]
            table = _by_number.setdefault(newest[end], {})
            table[key] = ref(array, _forgetting(table, key, newest[end]))
            _operations[key] = self.operations


_waiting: deque[_Evaluation] = deque()


class _Tables:
    """The tables above, which a forked process begins anew: a thread of its parent may have been about them."""

    def renew(self) -> None:
        """Recall nothing that the parent evaluated."""
        global _lock
        _lock = threading.RLock()
        for table in (_by_uid, _by_number, _operations, _waiting):
            table.clear()


_tables = _Tables()
renew_in_children(_tables)


def remember(known: Structure | None, values: Sequence[Any]) -> None:
    """Keep in mind that the roots of ``known`` were evaluated; None for a value that was recalled."""
    if known is None or not any(isinstance(value, np.ndarray) for value in values):
        return
    operations = known.operations
    if not all(operation.pure for operation in operations):
        return
    with _lock:
        number = known.context
        held: list[Any] = []
        table = _by_uid.setdefault(number, {})
        for end, value in zip(known.ends, values, strict=True):
            root = known.nodes[end]
            plain = root.operands and isinstance(value, np.ndarray) and root.type.device is cpu
            if plain:
                table[root.uid] = row = ref(value, _forgetting(table, root.uid))
                held.append(row)
            else:
                held.append(None)
        made = _Evaluation(known, operations, held)
        if made.values:
            _waiting.append(made)
            if len(_waiting) > _WAITING:
                _waiting.popleft().enter()


def recall(known: Structure | None) -> Recalled | None:
    """Values that are still held, of the roots or below them; None where there are none."""
    if known is None:
        return None
    number = known.context
    table = _by_uid.get(number)
    if not table:  # nobody holds a result of these options, an equal one either
        return None
    with _lock:
        found: dict[Expr, Array] = {}
        equal: set[int] = set()
        for uid in known.number.keys() & table.keys():
            value = _held(table.get(uid))
            if value is not None:
                found[known.nodes[known.number[uid]]] = value
        if any(known.nodes[end] not in found for end in known.ends):
            _find_equal(known, number, found, equal)
    return Recalled(found, equal) if found and _is_pure(known) else None


class Recalled:
    """Values of a graph's expressions that are there already."""

    def __init__(self, values: dict[Expr, Array], equal: set[int]) -> None:
        self.values = values
        """the arrays that somebody holds, by expression"""
        self._equal = equal

    def roots(self, roots: Sequence[Expr]) -> list[Array] | None:
        """The values of the roots, where all of them are there."""
        found = [self.values[root] for root in roots if root in self.values]
        return found if len(found) == len(roots) else None

    def as_pass(self) -> Recall:
        """The pass that takes them; it holds the memory, but not the arrays: a plan is nobody who holds a result."""
        made: dict[int, Tensor] = {}  # one for equal nodes, so that they are one leaf
        tensors = {
            node.uid: made.setdefault(id(value), tensor_of(Storage(value.view()), node.label))
            for node, value in self.values.items()
        }
        return Recall(tensors, frozenset(self._equal))


def numbers(told: bytes, count: int, leaves: Sequence[tuple[int, int]]) -> list[_Number]:
    """The value number of each node of a structure whose tensors have storages of these tokens and versions."""
    first: list[int] = []
    second: list[int] = []
    stored = iter(leaves)
    tensor = STORED.token
    for operation, operands in _rows(told, count):
        if not operands:
            leaf = next(stored) if operation == tensor else ()
            first.append(hash((_SALT, operation, leaf)))
            second.append(hash((leaf, operation, _SALT)))
        elif len(operands) == 2:
            a, b = operands
            first.append(hash((operation, first[a], first[b])))
            second.append(hash((_SALT, second[a], second[b], operation)))
        else:
            first.append(hash((operation, *[first[operand] for operand in operands])))
            second.append(hash((_SALT, *[second[operand] for operand in operands], operation)))
    return list(zip(first, second, strict=True))


def _newest(told: bytes, count: int, leaves: Sequence[tuple[int, int]]) -> list[int]:
    """Of each node the token of the newest storage below it."""
    found: list[int] = []
    stored = iter(leaves)
    tensor = STORED.token
    for operation, operands in _rows(told, count):
        if not operands:
            found.append(next(stored)[0] if operation == tensor else _NONE)
        elif len(operands) == 1:
            found.append(found[operands[0]])
        else:
            found.append(max([found[operand] for operand in operands]))
    return found


def _find_equal(known: Structure, context: int, found: dict[Expr, Array], equal: set[int]) -> None:
    leaves = _leaves(known)
    tokens = frozenset([token for token, _ in leaves])
    for made in tuple(_waiting):
        if made.may_be_below(tokens):
            _waiting.remove(made)
            made.enter()
    tables = [_by_number[token] for token in (*tokens, _NONE) if token in _by_number]
    if not tables:
        return
    for node, number in zip(known.nodes, numbers(known.told, len(known.nodes), leaves), strict=True):
        if node in found or not node.operands:
            continue
        for table in tables:
            value = _held(table.get((context, number)))
            if value is not None:
                found[node] = value
                equal.add(node.uid)


def _held(reference: ReferenceType[Array] | None) -> Array | None:
    return None if reference is None else reference()


def _forgetting(table: dict[Any, Any], key: Any, newest: int | None = None) -> Callable[[Any], None]:
    """What is done when an array goes: its row of a table, and what came with it, go too."""

    def forget(gone: Any) -> None:
        with _lock:
            if table.get(key) is gone:
                del table[key]
                if newest is not None:
                    _operations.pop(key, None)
                    if not table and _by_number.get(newest) is table:
                        del _by_number[newest]

    return forget


def _rows(told: bytes, count: int) -> Iterator[tuple[int, list[int]]]:
    """Of each node the token of its operation, and the numbers of its operands."""
    rows = packed("q")
    rows.frombytes(told)
    numbers = rows.tolist()
    at = 2 * count
    for operation, operands in zip(numbers[:count], numbers[count : 2 * count], strict=True):
        end = at + operands
        yield operation, numbers[at:end]
        at = end


def _leaves(known: Structure) -> list[tuple[int, int]]:
    return [(tensor.storage.token, tensor.storage.version) for tensor in known.tensors]


def _is_pure(known: Structure) -> bool:
    return all(operation.pure for operation in known.operations)

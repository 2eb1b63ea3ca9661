"""Results by expression, for as long as somebody holds them: what plans with ``recall`` do not compute again.

An expression is found again by its uid, and an equal one, written later, by its value number. Numbers are given only
where a later graph reads the newest tensor of an earlier one, whose results are still held.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any
from weakref import ReferenceType, ref

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Call
from explorer.core.ir.operation import Operation
from explorer.core.ir.tensor import Storage, Tensor, tensor_of
from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import Array
from explorer.data.user_data import UserData
from explorer.plan.passes import Recall
from explorer.record.fork_locks import renew_in_children
from explorer.run.plan_cache import Structure
from explorer.run.value_numbers import NO_TENSOR, Number, newest_below, numbers

_WAITING, _NODES = 8, 1 << 14
"""evaluations of several roots whose results are not numbered yet; nodes below single roots of which this is so"""
_SWEPT = 1024
"""values by uid from which on those that nobody holds are looked for"""

_lock = threading.RLock()
_by_uid: dict[int, _Values] = {}
"""context → the values of expressions"""
_by_number: dict[int, dict[tuple[int, Number], ReferenceType[Array]]] = {}
"""token of the newest storage below an expression → context and number → its value"""
_operations: dict[tuple[int, Number], frozenset[Operation]] = {}
"""context and number → the operations, so that those of an equal expression are the same"""


class _Values(dict[int, ReferenceType[Array]]):
    """uid → the value of the expression; those that nobody holds are swept out as soon as they may be half of all.

    A reference that says when its value goes would take three times as long to make.
    """

    limit = _SWEPT

    def sweep(self) -> None:
        """Forget the values that nobody holds."""
        if len(self) > self.limit:
            for uid in [uid for uid, value in self.items() if value() is None]:
                del self[uid]
            self.limit = max(2 * len(self), _SWEPT)


class _Evaluation:
    """Roots that were evaluated together, until their values are numbered or gone."""

    def __init__(self, known: Structure, ends: list[int], values: list[ReferenceType[Array]]) -> None:
        self.context, self.leaves = known.context, known.leaves
        self.told, self.count = known.told, len(known.nodes)
        self.operations = known.operations
        self.ends, self.values = ends, values
        """the numbers of roots in the structure, and their values"""
        self._below: frozenset[int] | None = None

    @property
    def newest(self) -> int:
        """The token of the newest storage below all roots."""
        return max(self.leaves.tokens, default=NO_TENSOR)

    @property
    def is_held(self) -> bool:
        """Whether somebody holds a value."""
        return any(value() is not None for value in self.values)

    def may_be_below(self, tokens: frozenset[int]) -> bool:
        """Whether a graph that reads the storages of these tokens may hold a root."""
        if self._below is None:
            below = newest_below(self.told, self.count, self.leaves)
            self._below = frozenset([below[end] for end in self.ends])
        return NO_TENSOR in self._below or not self._below.isdisjoint(tokens)

    def enter(self) -> None:
        """Number the values that are held."""
        arrays = [value() for value in self.values]
        held = [(end, array) for end, array in zip(self.ends, arrays, strict=True) if array is not None]
        if not held:
            return
        found = numbers(self.told, self.count, self.leaves)
        below = newest_below(self.told, self.count, self.leaves)
        operations = frozenset(
            [operation for operation in self.operations if not isinstance(operation, (Call, UserData))]
        )
        for end, array in held:
            key = self.context, found[end]
            table = _by_number.setdefault(below[end], {})
            table[key] = ref(array, _forgetting(table, key, below[end]))
            _operations[key] = operations


class _Waiting:
    """Evaluations whose values are not numbered yet: single roots by the newest storage below them, and others."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Let nothing wait."""
        self._single: dict[int, list[_Evaluation]] = {}
        self._nodes = 0
        self._several: deque[_Evaluation] = deque()

    def add(self, made: _Evaluation) -> None:
        """Let an evaluation wait; where too many do, the oldest of several roots, or all of one root, are numbered."""
        if len(made.values) > 1:
            self._several.append(made)
            if len(self._several) > _WAITING:
                self._several.popleft().enter()
            return
        self._single.setdefault(made.newest, []).append(made)
        self._nodes += made.count
        if self._nodes > _NODES:
            waiting, self._single, self._nodes = self._single, {}, 0
            for evaluations in waiting.values():
                for each in evaluations:
                    each.enter()

    def enter(self, tokens: frozenset[int]) -> None:
        """Number the values that may be below a graph which reads the storages of these tokens."""
        for newest in [*self._single.keys() & tokens, NO_TENSOR]:
            for single in self._single.pop(newest, ()):
                self._nodes -= single.count
                single.enter()
        for made in tuple(self._several):
            is_held = made.is_held
            if not is_held or made.may_be_below(tokens):
                self._several.remove(made)
            if is_held and made.may_be_below(tokens):
                made.enter()


_waiting = _Waiting()


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
    if known is None or not _is_pure(known):
        return
    nodes = known.nodes
    ends: list[int] = []
    held: list[ReferenceType[Array]] = []
    uids: list[int] = []
    for end, value in zip(known.ends, values, strict=True):
        root = nodes[end]
        if isinstance(value, np.ndarray) and root.operands and root.type.device is cpu:
            ends.append(end)
            uids.append(root.uid)
            held.append(ref(value))
    if ends:
        with _lock:
            table = _by_uid.setdefault(known.context, _Values())
            table.update(zip(uids, held, strict=True))
            table.sweep()
            _waiting.add(_Evaluation(known, ends, held))


def recall(known: Structure | None) -> Recalled | None:
    """Values that are still held, of the roots or below them; None where there are none."""
    if known is None:
        return None
    context = known.context
    table = _by_uid.get(context)
    if table is None:
        return None
    with _lock:
        found: dict[Expr, Array] = {}
        equal: set[int] = set()
        for uid in known.number.keys() & table.keys():
            value = _held(table.get(uid))
            if value is not None:
                found[known.nodes[known.number[uid]]] = value
        if len(found) < len(known.ends) or any(known.nodes[end] not in found for end in known.ends):
            _find_equal(known, context, found, equal)
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


def _find_equal(known: Structure, context: int, found: dict[Expr, Array], equal: set[int]) -> None:
    tokens = frozenset(known.leaves.tokens)
    _waiting.enter(tokens)
    tables = [_by_number[token] for token in [*_by_number.keys() & tokens, NO_TENSOR] if token in _by_number]
    if not tables:
        return
    for node, number in zip(known.nodes, numbers(known.told, len(known.nodes), known.leaves), strict=True):
        if node in found or not node.operands:
            continue
        for table in tables:
            value = _held(table.get((context, number)))
            if value is not None:
                found[node] = value
                equal.add(node.uid)


def _held(reference: ReferenceType[Array] | None) -> Array | None:
    return None if reference is None else reference()


def _forgetting(table: dict[Any, Any], key: Any, newest: int) -> Callable[[Any], None]:
    """What is done when an array goes: its row of a table, and what came with it, go too."""

    def forget(gone: Any) -> None:
        with _lock:
            if table.get(key) is gone:
                del table[key]
                _operations.pop(key, None)
                if not table and _by_number.get(newest) is table:
                    del _by_number[newest]

    return forget


def _is_pure(known: Structure) -> bool:
    return all(operation.pure for operation in known.operations)

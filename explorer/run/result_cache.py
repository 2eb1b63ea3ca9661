"""Result cache: values of expressions that are still referenced, so they are not computed again.

Plans with ``recall``, mainly default plans, use this cache. An expression is found by its uid, and an equal expression
recorded later by its value number. Numbering visits the whole graph, so it is deferred until a later graph reads the
newest tensor of an earlier graph with referenced results. Most results never need a number.
"""

from __future__ import annotations

import itertools
import os
import threading
from array import array as packed
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, TypeAlias
from weakref import ReferenceType, ref

import numpy as np

from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.function import Call
from explorer.core.ir.storage import Storage
from explorer.core.ir.tensor import STORED, Tensor, tensor_of
from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import Array
from explorer.data.custom_data import UserData
from explorer.plan.passes.recall import ReusableValues
from explorer.record.fork_locks import renew_in_children
from explorer.run.plan_cache import Leaves, Structure

_MAX_WAITING, _MAX_NODES = 8, 1 << 14
"""limits of deferred numbering: evaluations with several roots, and nodes below single roots"""
_MIN_SWEPT = 1024
"""number of values by uid above which dead entries are removed"""

_pure = attrgetter("pure")

_lock = threading.RLock()
"""protects the tables below; reentrant, since freeing an array may call a callback of ``_forgetting``"""
_by_uid: dict[int, _Values] = {}
"""context → values of expressions"""
_by_number: dict[int, dict[tuple[int, Number], ReferenceType[Array]]] = {}
"""token of the newest storage on which an expression depends → (context, value number) → value"""
_operations: dict[tuple[int, Number], frozenset[Operation]] = {}
"""(context, value number) → operations, which are kept alive, so an equal expression gets the same objects"""


class _Values(dict[int, ReferenceType[Array]]):
    """Values keyed by the uid of their expression; dead entries are removed when they may be half of all entries.

    Creating weak references with callbacks would take three times as long.
    """

    limit = _MIN_SWEPT

    def sweep(self) -> None:
        """Remove values that are no longer referenced."""
        if len(self) > self.limit:
            for uid in [uid for uid, value in self.items() if value() is None]:
                del self[uid]
            self.limit = max(2 * len(self), _MIN_SWEPT)


class _Evaluation:
    """Roots of one evaluation; kept until their values have value numbers, or are freed."""

    def __init__(
        self,
        graph: Structure,
        uids: Sequence[int],
        root_positions: Sequence[int],
        values: Sequence[ReferenceType[Array]],
    ) -> None:
        self.uids = uids
        """uids of the roots"""
        self.context, self.leaves = graph.context, graph.leaves
        self.encoding, self.count = graph.encoding, len(graph.nodes)
        self.operations = graph.operations
        self.ends, self.values = root_positions, values
        """positions of the roots in the structure, and the values of the roots"""
        self._below: frozenset[int] | None = None

    @property
    def newest(self) -> int:
        """Token of the newest storage on which any root depends."""
        return max(self.leaves.tokens, default=NO_TENSOR)

    @property
    def is_referenced(self) -> bool:
        """Whether any value is still referenced."""
        return any(value() is not None for value in self.values)

    def may_be_below(self, tokens: frozenset[int]) -> bool:
        """Return whether a graph that reads the storages with these tokens may contain a root."""
        if self._below is None:
            below = newest_below(self.encoding, self.count, self.leaves)
            self._below = frozenset([below[position] for position in self.ends])
        return NO_TENSOR in self._below or not self._below.isdisjoint(tokens)

    def enter(self) -> None:
        """Number the values that are still referenced, and store them under these numbers."""
        arrays = [value() for value in self.values]
        live = [(position, array) for position, array in zip(self.ends, arrays, strict=True) if array is not None]
        if not live:
            return
        value_numbers = numbers(self.encoding, self.count, self.leaves)
        newest_tokens = newest_below(self.encoding, self.count, self.leaves)
        operations = frozenset(
            [operation for operation in self.operations if not isinstance(operation, (Call, UserData))]
        )
        for position, array in live:
            key = self.context, value_numbers[position]
            table = _by_number.setdefault(newest_tokens[position], {})
            table[key] = ref(array, _forgetting(table, key, newest_tokens[position]))
            _operations[key] = operations


class _Waiting:
    """Evaluations that are not numbered yet; those with a single root are stored by their newest storage."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._latest: _Evaluation | None = None
        """last evaluation, which is stored when the next one, or a graph, needs it"""
        self._single: dict[int, list[_Evaluation]] = {}
        self._nodes = 0
        self._several: deque[_Evaluation] = deque()

    def put(self, evaluation: _Evaluation | None) -> None:
        """Store the previous evaluation by the uids of its roots, unless all its values are freed; keep this one.

        In a loop that keeps no values, nothing is stored.
        """
        previous, self._latest = self._latest, evaluation
        if previous is None or not previous.is_referenced:
            return
        table = _by_uid.get(previous.context)
        if table is None:
            table = _by_uid[previous.context] = _Values()
        table.update(zip(previous.uids, previous.values, strict=True))
        table.sweep()
        self._add(previous)

    def _add(self, evaluation: _Evaluation) -> None:
        """Add an evaluation; if a limit is exceeded, ``enter`` the oldest one, or all with a single root."""
        if len(evaluation.values) > 1:
            self._several.append(evaluation)
            if len(self._several) > _MAX_WAITING:
                self._several.popleft().enter()
            return
        self._single.setdefault(evaluation.newest, []).append(evaluation)
        self._nodes += evaluation.count
        if self._nodes > _MAX_NODES:
            waiting, self._single, self._nodes = self._single, {}, 0
            for evaluations in waiting.values():
                for queued in evaluations:
                    queued.enter()

    def enter(self, tokens: frozenset[int]) -> None:
        """Number the values that may occur in a graph that reads the storages with these tokens."""
        for newest in [*self._single.keys() & tokens, NO_TENSOR]:
            for single in self._single.pop(newest, ()):
                self._nodes -= single.count
                single.enter()
        for evaluation in tuple(self._several):
            is_referenced = evaluation.is_referenced
            if not is_referenced or evaluation.may_be_below(tokens):
                self._several.remove(evaluation)
            if is_referenced and evaluation.may_be_below(tokens):
                evaluation.enter()


_waiting = _Waiting()


class _Tables:
    """Tables of this module, emptied in a forked process."""

    def renew(self) -> None:
        """Empty the tables, since a thread of the parent process may have been changing them."""
        global _lock
        _lock = threading.RLock()
        for table in (_by_uid, _by_number, _operations, _waiting):
            table.clear()


_tables = _Tables()
renew_in_children(_tables)


def remember(graph: Structure | None, values: Sequence[Any]) -> None:
    """Keep weak references to the results of a graph's roots; None marks a recalled result."""
    if graph is None or not _is_pure(graph):
        return
    root_positions: Sequence[int] = graph.ends
    arrays = values
    roots = [graph.nodes[position] for position in root_positions]
    if not _are_results(roots, values):
        computed = [
            pair for pair in zip(roots, values, root_positions, strict=True) if _are_results(pair[:1], pair[1:2])
        ]
        if not computed:
            return
        roots, arrays, root_positions = [[*column] for column in zip(*computed, strict=True)]
    references = [ref(array) for array in arrays]
    evaluation = _Evaluation(graph, [root.uid for root in roots], root_positions, references)
    with _lock:
        _waiting.put(evaluation)


def _are_results(roots: Sequence[Expr], values: Sequence[Any]) -> bool:
    """Return whether all values are computed arrays in NumPy's memory."""
    for root, value in zip(roots, values, strict=True):
        if type(value) is not np.ndarray or not root.operands or root.type.device is not cpu:
            return False
    return True


def recall(graph: Structure | None) -> Recalled | None:
    """Return the values that are still referenced, of the roots or of nodes below them; None if there are none."""
    if graph is None:
        return None
    context = graph.context
    with _lock:
        _waiting.put(None)
        table = _by_uid.get(context)
        if table is None:
            return None
        live: dict[Expr, Array] = {}
        equal: set[int] = set()
        # First find nodes that were roots themselves, because this needs no numbering.
        for uid in graph.number.keys() & table.keys():
            value = _dereferenced(table.get(uid))
            if value is not None:
                live[graph.nodes[graph.number[uid]]] = value
        if len(live) < len(graph.ends) or any(graph.nodes[position] not in live for position in graph.ends):
            _find_equal(graph, context, live, equal)
    return Recalled(live, equal) if live and _is_pure(graph) else None


class Recalled:
    """Values of a graph's expressions that are still referenced."""

    def __init__(self, values: dict[Expr, Array], equal: set[int]) -> None:
        self.values = values
        """expression → array"""
        self._equal = equal

    def roots(self, roots: Sequence[Expr]) -> list[Array] | None:
        """Return the values of the roots; None if a value is missing."""
        values = [self.values[root] for root in roots if root in self.values]
        return values if len(values) == len(roots) else None

    def as_tensors(self) -> ReusableValues:
        """Return tensors for the recall pass, which share the arrays' memory but do not keep the arrays alive."""
        leaf_of: dict[int, Tensor] = {}  # keyed by array, so equal nodes become one leaf
        tensors = {
            node.uid: leaf_of.setdefault(id(value), tensor_of(Storage(value.view()), node.label))
            for node, value in self.values.items()
        }
        return ReusableValues(tensors, frozenset(self._equal))


def _find_equal(graph: Structure, context: int, live: dict[Expr, Array], equal: set[int]) -> None:
    """Add values of equal expressions to ``live`` by value number, and the nodes that they replace to ``equal``."""
    tokens = frozenset(graph.leaves.tokens)
    _waiting.enter(tokens)
    tables = [_by_number[token] for token in [*_by_number.keys() & tokens, NO_TENSOR] if token in _by_number]
    if not tables:
        return
    for node, value_number in zip(graph.nodes, numbers(graph.encoding, len(graph.nodes), graph.leaves), strict=True):
        if node in live or not node.operands:
            continue
        for table in tables:
            value = _dereferenced(table.get((context, value_number)))
            if value is not None:
                live[node] = value
                equal.add(node.uid)


def _dereferenced(reference: ReferenceType[Array] | None) -> Array | None:
    return None if reference is None else reference()


def _forgetting(table: dict[Any, Any], key: Any, newest: int) -> Callable[[Any], None]:
    """Return a weak reference's callback, which removes a row of a table and the rows that belong to it."""

    def forget(reference: Any) -> None:
        lock: Any = _lock
        if lock is None:  # the interpreter is shutting down, and has cleared this module
            return
        with lock:
            # The row may contain the value of an equal expression that was evaluated since then.
            if table.get(key) is reference:
                del table[key]
                _operations.pop(key, None)
                if not table and _by_number.get(newest) is table:
                    del _by_number[newest]

    return forget


def _is_pure(graph: Structure) -> bool:
    return all(map(_pure, graph.operations))


Number: TypeAlias = tuple[int, int]
NO_TENSOR = -1
"""token that stands for the newest tensor of an expression that reads no tensor"""
_SALT = int.from_bytes(os.urandom(7), "little")


def numbers(encoding: bytes, count: int, leaves: Leaves) -> list[Number]:
    """Return each node's value number; ``leaves`` are the tokens and versions of the tensors' storages."""
    first: list[int] = []
    second: list[int] = []
    stored = zip(leaves.tokens, leaves.versions, strict=True)
    tensor = STORED.token
    for operation, operands in _rows(encoding, count):
        if not operands:
            leaf = next(stored) if operation == tensor else ()
            first.append(hash((_SALT, operation, leaf)))
            # Two 64-bit hashes over different orders, because a single hash is too short to be reliable.
            second.append(hash((leaf, operation, _SALT)))
        elif len(operands) == 2:
            # Most nodes have two operands; tuples written this way are created faster than by unpacking.
            a, b = operands
            first.append(hash((operation, first[a], first[b])))
            second.append(hash((_SALT, second[a], second[b], operation)))
        else:
            first.append(hash((operation, *[first[operand] for operand in operands])))
            second.append(hash((_SALT, *[second[operand] for operand in operands], operation)))
    return list(zip(first, second, strict=True))


def newest_below(encoding: bytes, count: int, leaves: Leaves) -> list[int]:
    """Return, for each node, the token of the newest storage on which it depends."""
    newest: list[int] = []
    stored = iter(leaves.tokens)
    tensor = STORED.token
    operations, counts, operands = _columns(encoding, count)
    operand_indices = iter(operands)
    for operation, size in zip(operations, counts, strict=True):
        if size == 1:
            newest.append(newest[next(operand_indices)])
        elif size == 2:
            first, second = newest[next(operand_indices)], newest[next(operand_indices)]
            newest.append(first if first > second else second)
        elif size:
            newest.append(max([newest[operand] for operand in itertools.islice(operand_indices, size)]))
        else:
            newest.append(next(stored) if operation == tensor else NO_TENSOR)
    return newest


def _columns(encoding: bytes, count: int) -> tuple[list[int], list[int], list[int]]:
    """Return each node's operation token, each node's operand count, and the operands of all nodes."""
    rows = packed("q")
    rows.frombytes(encoding)
    integers = rows.tolist()
    return integers[:count], integers[count : 2 * count], integers[2 * count :]


def _rows(encoding: bytes, count: int) -> Iterator[tuple[int, list[int]]]:
    """Yield each node's operation token and operands."""
    operations, counts, operand_indices = _columns(encoding, count)
    start = 0
    for operation, operands in zip(operations, counts, strict=True):
        end = start + operands
        yield operation, operand_indices[start:end]
        start = end

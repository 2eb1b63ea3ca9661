"""Plan cache: programs keyed by graph structure, so graphs with a known structure are not planned again.

Planning is pure and reads no tensor elements, so equal structures have equal plans. Caching whole programs also saves
allocating memory and building runners. For each run, the values of the leaves are bound to the program. The stages and
decisions of such a run are created on request, by planning its graph.
"""

from __future__ import annotations

import threading
from array import array
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.tensor import Tensor
from explorer.plan.context import planning_context
from explorer.plan.options import Options
from explorer.record.fork_locks import renew_in_children
from explorer.run.execution.program import Program

_ENTRIES, _BYTES = 64, 1 << 27
"""limits of the cache: number of programs, and bytes of their memory and of the tensors they were planned for"""


_operation, _uid = attrgetter("operation"), attrgetter("uid")


class Leaves(NamedTuple):
    """Tokens and versions of the storages of a structure's tensors."""

    tokens: list[int]
    versions: list[int]


@dataclass(slots=True, eq=False)
class Structure:
    """Everything on which a plan depends, and the graph's tensors, whose elements do not affect the plan."""

    key: Hashable
    tensors: list[Tensor]
    leaves: Leaves
    nodes: list[Expr]
    """nodes in topological order"""
    encoding: bytes
    """rows of 64-bit integers: each node's operation token, each node's operand count, and the indices of all
    operands"""
    ends: tuple[int, ...]
    """indices of the roots in ``nodes``"""
    number: dict[int, int]
    """uid → index in ``nodes``"""
    context: int
    """number that identifies the options, rules and kernels, on which values also depend"""
    known_operations: frozenset[Operation] | None = None

    @property
    def operations(self) -> frozenset[Operation]:
        """Operations of all nodes."""
        if self.known_operations is None:
            self.known_operations = frozenset(map(_operation, self.nodes))
        return self.known_operations


def structure(roots: Sequence[Expr], options: Options) -> Structure | None:
    """Return the structure of a graph, or None if some values are known only during the run."""
    nodes = [*{root.uid: root for root in roots}.values()]
    reached = {root.uid for root in nodes}
    for node in nodes:  # grows during the loop, since operands are appended
        for operand in node.operands:
            uid = operand.uid
            if uid not in reached:
                reached.add(uid)
                nodes.append(operand)
    # uids increase in order of recording, so operands precede their readers.
    nodes.sort(key=_uid)
    position_of: dict[int, int] = {}
    rows: list[int] = []
    counts: list[int] = []
    positions: list[int] = []
    without_operands: list[Expr] = []
    for position, node in enumerate(nodes):  # one loop, because most graphs have few nodes
        position_of[node.uid] = position
        operands = node.operands
        rows.append(node.operation.token)
        counts.append(len(operands))
        if operands:
            for operand in operands:
                positions.append(position_of[operand.uid])  # noqa: PERF401 - a list per node takes longer
        else:
            without_operands.append(node)
    rows += counts
    rows += positions
    # The structure includes which tensors share a storage, because plans merge such tensors.
    storages: dict[int, int] = {}
    tensors: list[Tensor] = []
    leaves = Leaves([], [])
    for node in without_operands:
        if isinstance(node, Tensor):
            storage = node.storage
            token = storage.token
            rows.append(storages.setdefault(token, len(storages)))
            # Types are interned and never freed, so their addresses identify them in this process.
            rows.append(id(node.type))
            tensors.append(node)
            leaves.tokens.append(token)
            leaves.versions.append(storage.version)
        elif node.operation.name == "parameter":
            return None
    root_positions = tuple([position_of[root.uid] for root in roots])
    encoding = array("q", rows).tobytes()  # bytes are hashed and compared faster than a tuple
    context = planning_context(options)
    return Structure(
        (encoding, root_positions, context), tensors, leaves, nodes, encoding, root_positions, position_of, context
    )


class Entry(NamedTuple):
    """Cached program, for graphs with the structure for which it was planned."""

    program: Program
    operations: frozenset[Operation]
    slots: tuple[int | None, ...]
    """slots of the structure's tensors, in the order of the tensors"""
    nbytes: int
    """number of bytes of the program's memory, and of the tensors for which it was planned"""


def entry(program: Program, graph: Structure) -> Entry:
    """Return the cache entry for a program that was planned for ``graph``."""
    storages = {id(tensor.storage): tensor.type.nbytes for tensor in graph.tensors}
    slots = tuple([program.slots.get(tensor.uid) for tensor in graph.tensors])
    return Entry(program, graph.operations, slots, program.planned.schedule.arena + sum(storages.values()))


class PlanCache:
    """Programs keyed by structure, most recently used last.

    A run takes a program out of the cache, and is its only user until it puts the program back.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, Entry] = OrderedDict()
        self._nbytes = 0
        self._lock = threading.Lock()
        renew_in_children(self)

    def renew(self) -> None:
        """Create empty tables in a forked process, since a thread of the parent may have been changing the old ones."""
        self._entries, self._nbytes = OrderedDict(), 0
        self._lock = threading.Lock()

    def take(self, graph: Structure) -> Entry | None:
        """Take the program for a structure out of the cache and bind the tensors' values; None if there is none."""
        with self._lock:
            # Removed while the program runs, so another thread with the same structure builds its own program.
            cached = self._entries.pop(graph.key, None)
            self._nbytes -= cached.nbytes if cached is not None else 0
        if cached is not None:
            cached.program.bind_leaves(zip(cached.slots, graph.tensors, strict=True))
            graph.known_operations = cached.operations
        return cached

    def put(self, key: Hashable, cached: Entry) -> None:
        """Put a program back; remove the least recently used programs if the cache exceeds its limits."""
        # A cached program does not refer to the tensors of its last run, so the user's arrays may be freed.
        cached.program.release_leaves(cached.slots)
        if cached.nbytes > _BYTES // 2:  # too large: it would displace all others
            return
        with self._lock:
            replaced = self._entries.pop(key, None)
            self._entries[key] = cached
            self._nbytes += cached.nbytes - (replaced.nbytes if replaced is not None else 0)
            while self._nbytes > _BYTES or len(self._entries) > _ENTRIES:
                _, evicted = self._entries.popitem(last=False)
                self._nbytes -= evicted.nbytes

    def clear(self) -> None:
        """Remove all programs."""
        with self._lock:
            self._entries.clear()
            self._nbytes = 0

    def __len__(self) -> int:
        return len(self._entries)


cache = PlanCache()

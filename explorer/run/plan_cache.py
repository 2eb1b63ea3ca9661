"""Plan cache: programs by graph structure, so that a graph of a known structure is not planned again.

EvalPlan asks it before planning. Planning is pure and reads no tensor's elements, so equal structures have equal plans.
A cached entry is a whole program and not only a plan, which saves allocating memory and building runners as well; the
values of the leaves are bound to it for each run. Stages and decisions of such a run are made by planning its graph
after all, when somebody asks for them.
"""

from __future__ import annotations

import itertools
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


_uid, _operation, _operands, _token = map(attrgetter, ("uid", "operation", "operands", "token"))


class Leaves(NamedTuple):
    """Identities of the storages of a structure's tensors."""

    tokens: list[int]
    versions: list[int]


@dataclass(slots=True, eq=False)
class Structure:
    """Everything that a plan depends on, with the tensors of the graph, whose elements it does not depend on."""

    key: Hashable
    tensors: list[Tensor]
    leaves: Leaves
    nodes: list[Expr]
    """in topological order"""
    encoding: bytes
    """rows of 64-bit integers: by node the token of its operation, by node the number of its operands, their numbers"""
    ends: tuple[int, ...]
    """positions of the roots"""
    number: dict[int, int]
    """uid → position"""
    context: int
    """number of the options, rules and kernels, on which values depend too"""
    known_operations: frozenset[Operation] | None = None

    @property
    def operations(self) -> frozenset[Operation]:
        """The operations of all nodes."""
        if self.known_operations is None:
            self.known_operations = frozenset(map(_operation, self.nodes))
        return self.known_operations


def structure(roots: Sequence[Expr], options: Options) -> Structure | None:
    """Return the structure of a graph, or None if some value is given only at the run."""
    nodes_by_uid = {root.uid: root for root in roots}
    reached = [*roots]
    for node in reached:  # grows while we iterate: operands are appended
        for operand in node.operands:
            uid = operand.uid
            if uid not in nodes_by_uid:
                nodes_by_uid[uid] = operand
                reached.append(operand)
    uids = sorted(nodes_by_uid)  # uids grow with recording, so operands come before their readers
    nodes = [*map(nodes_by_uid.__getitem__, uids)]
    number = dict(zip(uids, itertools.count()))  # not strict: count() is infinite
    rows = [*map(_token, map(_operation, nodes))]
    rows += map(len, map(_operands, nodes))
    rows += map(number.__getitem__, map(_uid, itertools.chain.from_iterable(map(_operands, nodes))))
    # Which tensors share a storage belongs to the structure: a plan merges these.
    storages: dict[int, int] = {}
    tensors: list[Tensor] = []
    leaves = Leaves([], [])
    for node in [node for node in nodes if not node.operands]:
        if isinstance(node, Tensor):
            storage = node.storage
            token = storage.token
            rows.append(storages.setdefault(token, len(storages)))
            # Types are interned and never dropped, so that their addresses are their names in this process.
            rows.append(id(node.type))
            tensors.append(node)
            leaves.tokens.append(token)
            leaves.versions.append(storage.version)
        elif node.operation.name == "parameter":
            return None
    ends = tuple([number[root.uid] for root in roots])
    encoding = array("q", rows).tobytes()  # bytes are hashed and compared faster than a tuple
    context = planning_context(options)
    return Structure((encoding, ends, context), tensors, leaves, nodes, encoding, ends, number, context)


class Entry(NamedTuple):
    """Program in the cache, for graphs of the structure that it was planned for."""

    program: Program
    operations: frozenset[Operation]
    slots: tuple[int | None, ...]
    """slots of the structure's tensors, in their order"""
    nbytes: int
    """bytes of its memory, and of the tensors that it was planned for"""


def entry(program: Program, known: Structure) -> Entry:
    """Return the entry of a program that was planned for a structure."""
    storages = {id(tensor.storage): tensor.type.nbytes for tensor in known.tensors}
    slots = tuple([program.slots.get(tensor.uid) for tensor in known.tensors])
    return Entry(program, known.operations, slots, program.planned.schedule.arena + sum(storages.values()))


class PlanCache:
    """Programs by structure, most recently used last; a program taken out belongs to one run until it is put back."""

    def __init__(self) -> None:
        self._held: OrderedDict[Hashable, Entry] = OrderedDict()
        self._nbytes = 0
        self._lock = threading.Lock()
        renew_in_children(self)

    def renew(self) -> None:
        """Start empty in a forked process: a thread of its parent may have been changing the tables."""
        self._held, self._nbytes = OrderedDict(), 0
        self._lock = threading.Lock()

    def take(self, wanted: Structure) -> Entry | None:
        """Take out the program of a structure, with the values of its tensors bound; None if there is none."""
        with self._lock:
            # Out of the table while it runs: another thread with the same structure makes a program of its own.
            held = self._held.pop(wanted.key, None)
            self._nbytes -= held.nbytes if held is not None else 0
        if held is not None:
            held.program.bind_leaves(zip(held.slots, wanted.tensors, strict=True))
            wanted.known_operations = held.operations
        return held

    def put(self, key: Hashable, held: Entry) -> None:
        """Put a program back and evict the least recently used ones."""
        # A program in the cache holds no tensor of the graph that it ran for: the user's arrays may be freed.
        held.program.release_leaves(held.slots)
        if held.nbytes > _BYTES // 2:  # it would push out all others
            return
        with self._lock:
            before = self._held.pop(key, None)
            self._held[key] = held
            self._nbytes += held.nbytes - (before.nbytes if before is not None else 0)
            while self._nbytes > _BYTES or len(self._held) > _ENTRIES:
                _, gone = self._held.popitem(last=False)
                self._nbytes -= gone.nbytes

    def clear(self) -> None:
        """Remove all programs."""
        with self._lock:
            self._held.clear()
            self._nbytes = 0

    def __len__(self) -> int:
        return len(self._held)


cache = PlanCache()

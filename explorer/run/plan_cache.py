"""The plan cache: a graph of a structure that was planned before runs the program that was made then.

Planning is pure and reads no tensor's elements, so equal structures have equal plans. What is kept is the program, with
its memory; the values of the leaves are lent to it for each run. Whoever looks at the plan of such a run (its stages,
its decisions) gets the graph planned after all.
"""

from __future__ import annotations

import itertools
import threading
from array import array
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

from explorer.core.ir.expr import Expr
from explorer.core.ir.kernel_registry import kernels
from explorer.core.ir.operation import Operation
from explorer.core.ir.tensor import Tensor
from explorer.plan.planner import Options
from explorer.plan.rewrite.rule import Rule
from explorer.record.fork_locks import renew_in_children
from explorer.run.execution.program import Program

_ENTRIES, _BYTES = 64, 1 << 27
"""programs kept, the last used first, and the bytes that their memory and the tensors they were made for may have"""


_uid, _operation, _operands, _token = map(attrgetter, ("uid", "operation", "operands", "token"))


class Leaves(NamedTuple):
    """The storages of a structure's tensors."""

    tokens: list[int]
    versions: list[int]


@dataclass(slots=True, eq=False)
class Structure:
    """What a plan depends on, and the tensors that it does not depend on but for which are the same."""

    key: Hashable
    tensors: list[Tensor]
    leaves: Leaves
    nodes: list[Expr]
    """operands before what reads them"""
    told: bytes
    """rows of 64-bit integers: by node the token of its operation, by node the number of its operands, their numbers"""
    ends: tuple[int, ...]
    """the numbers of the roots"""
    number: dict[int, int]
    """uid → number"""
    context: int
    """the number of all that values depend on beside the expressions"""
    known_operations: frozenset[Operation] | None = None

    @property
    def operations(self) -> frozenset[Operation]:
        """The operations of all nodes."""
        if self.known_operations is None:
            self.known_operations = frozenset(map(_operation, self.nodes))
        return self.known_operations


def structure(roots: Sequence[Expr], options: Options) -> Structure | None:
    """Operations, types, edges, order of recording, which leaves share a storage; None where a value is given later."""
    found = {root.uid: root for root in roots}
    reached = [*roots]
    for node in reached:  # which grows
        for operand in node.operands:
            uid = operand.uid
            if uid not in found:
                found[uid] = operand
                reached.append(operand)
    uids = sorted(found)  # operands before what reads them
    nodes = [*map(found.__getitem__, uids)]
    number = dict(zip(uids, itertools.count()))  # one of them never ends
    rows = [*map(_token, map(_operation, nodes))]
    rows += map(len, map(_operands, nodes))
    rows += map(number.__getitem__, map(_uid, itertools.chain.from_iterable(map(_operands, nodes))))
    storages: dict[int, int] = {}
    tensors: list[Tensor] = []
    leaves = Leaves([], [])
    for node in [node for node in nodes if not node.operands]:
        if isinstance(node, Tensor):
            storage = node.storage
            token = storage.token
            rows.append(storages.setdefault(token, len(storages)))
            rows.append(id(node.type))
            tensors.append(node)
            leaves.tokens.append(token)
            leaves.versions.append(storage.version)
        elif node.operation.name == "parameter":
            return None
    ends = tuple([number[root.uid] for root in roots])
    told = array("q", rows).tobytes()  # hashed and compared faster than a tuple
    context = _context(options)
    return Structure((told, ends, context), tensors, leaves, nodes, told, ends, number, context)


_contexts: dict[Hashable, int] = {}
_latest: tuple[Options | None, tuple[Rule, ...], tuple[Callable[..., Any], ...], int] = None, (), (), 0
"""what a number was asked for last, and the number: options take long to hash"""


def _context(options: Options) -> int:
    """A number for options, the rules that there are, and the kernels; equal for equal ones."""
    global _latest
    rules, functions = tuple(Rule.rules), tuple(kernels.values())
    before, links_before, functions_before, number = _latest
    if options is not before or rules != links_before or functions != functions_before:
        number = _contexts.setdefault((options, rules, functions), len(_contexts))
        _latest = options, rules, functions, number
    return number


class CachedProgram:
    """A program that is kept, for graphs of the structure that it was planned for."""

    def __init__(self, program: Program, known: Structure) -> None:
        self.program, self.operations = program, known.operations
        tensors = known.tensors
        storages = {id(tensor.storage): tensor.type.nbytes for tensor in tensors}
        self.nbytes = program.planned.schedule.arena + sum(storages.values())
        """bytes of its memory, and of the tensors that it was planned for"""
        self._places = [program.slots.get(tensor.uid) for tensor in tensors]

    def bind_leaves(self, tensors: Sequence[Tensor]) -> None:
        """The values of a graph's tensors for those that it was planned for, until they are given back."""
        self.program.bind_leaves(zip(self._places, tensors, strict=True))

    def release_leaves(self) -> None:
        """Hold no graph's values."""
        self.program.release_leaves(self._places)


class PlanCache:
    """Programs by structure; who takes one out has it alone until it is put back."""

    def __init__(self) -> None:
        self._held: OrderedDict[Hashable, CachedProgram] = OrderedDict()
        self._nbytes = 0
        self._lock = threading.Lock()
        renew_in_children(self)

    def renew(self) -> None:
        """Keep nothing in a forked process: a thread of its parent may have been about it."""
        self._held, self._nbytes = OrderedDict(), 0
        self._lock = threading.Lock()

    def take(self, wanted: Structure) -> CachedProgram | None:
        """The program of a structure, with the tensors' values lent to it; None where there is none."""
        with self._lock:
            held = self._held.pop(wanted.key, None)
            self._nbytes -= held.nbytes if held is not None else 0
        if held is not None:
            held.bind_leaves(wanted.tensors)
            wanted.known_operations = held.operations
        return held

    def put(self, key: Hashable, held: CachedProgram) -> None:
        """Keep a program; those that were not used for longest go."""
        held.release_leaves()
        if held.nbytes > _BYTES // 2:
            return
        with self._lock:
            before = self._held.pop(key, None)
            self._held[key] = held
            self._nbytes += held.nbytes - (before.nbytes if before is not None else 0)
            while self._nbytes > _BYTES or len(self._held) > _ENTRIES:
                _, gone = self._held.popitem(last=False)
                self._nbytes -= gone.nbytes

    def clear(self) -> None:
        """Keep nothing."""
        with self._lock:
            self._held.clear()
            self._nbytes = 0

    def __len__(self) -> int:
        return len(self._held)


cache = PlanCache()

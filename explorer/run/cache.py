"""The plan cache: a graph of a structure that was planned before runs the program that was made then.

Planning is pure and reads no tensor's elements, so equal structures have equal plans. What is kept is the program, with
its memory; the values of the leaves are lent to it for each run. Whoever looks at the plan of such a run (its stages,
its decisions) gets the graph planned after all.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from explorer.core.expr import Expr
from explorer.core.kernels import kernels
from explorer.core.tensor import Tensor
from explorer.plan.planner import Options
from explorer.plan.rule import Link
from explorer.run.program import Program

_ENTRIES, _BYTES = 64, 1 << 27
"""programs kept, the last used first, and the bytes that their memory and the tensors they were made for may have"""


class Structure(NamedTuple):
    """What a plan depends on, and the tensors that it does not depend on but for which are the same."""

    key: Hashable
    tensors: list[Tensor]


def structure(roots: Sequence[Expr], options: Options) -> Structure | None:
    """Operations, types, edges, order of recording, which leaves share a storage; None where a value is given later."""
    found: dict[int, Expr] = {}
    stack = [*roots]
    while stack:
        node = stack.pop()
        if node.uid not in found:
            found[node.uid] = node
            stack += node.operands
    number = {uid: place for place, uid in enumerate(sorted(found))}  # operands before what reads them
    rows: list[int] = []
    storages: dict[int, int] = {}
    tensors: list[Tensor] = []
    for uid in number:
        node = found[uid]
        if node.operands:
            rows.append(id(node.operation))
            rows += [number[operand.uid] for operand in node.operands]
        elif isinstance(node, Tensor):
            rows.append(storages.setdefault(id(node.storage), -1 - len(storages)))
            rows.append(id(node.type))
            tensors.append(node)
        elif node.operation.name == "parameter":
            return None
        else:
            rows.append(id(node.operation))
    ends = tuple([number[root.uid] for root in roots])
    return Structure((tuple(rows), ends, options, tuple(Link.chain), tuple(kernels.values())), tensors)


class Held(NamedTuple):
    """A program that is kept."""

    program: Program
    tensors: list[Tensor]
    """those that it was planned for, in the order in which those of a graph like it are lent"""

    @property
    def nbytes(self) -> int:
        """Bytes of its memory, and of the tensors that it was planned for."""
        storages = {id(tensor.storage): tensor.type.nbytes for tensor in self.tensors}
        return self.program.planned.schedule.arena + sum(storages.values())


class PlanCache:
    """Programs by structure; who takes one out has it alone until it is put back."""

    def __init__(self) -> None:
        self._held: OrderedDict[Hashable, tuple[Held, int]] = OrderedDict()
        self._nbytes = 0
        self._lock = threading.Lock()

    def take(self, wanted: Structure) -> Held | None:
        """The program of a structure, with the tensors' values lent to it; None where there is none."""
        with self._lock:
            held, nbytes = self._held.pop(wanted.key, (None, 0))
            self._nbytes -= nbytes
        if held is not None:
            held.program.lend(dict(zip([tensor.uid for tensor in held.tensors], wanted.tensors, strict=True)))
        return held

    def put(self, key: Hashable, held: Held) -> None:
        """Keep a program; those that were not used for longest go."""
        held.program.give_back()
        nbytes = held.nbytes
        if nbytes > _BYTES // 2:
            return
        with self._lock:
            _, before = self._held.pop(key, (None, 0))
            self._held[key] = held, nbytes
            self._nbytes += nbytes - before
            while self._nbytes > _BYTES or len(self._held) > _ENTRIES:
                _, (_, gone) = self._held.popitem(last=False)
                self._nbytes -= gone

    def clear(self) -> None:
        """Keep nothing."""
        with self._lock:
            self._held.clear()
            self._nbytes = 0

    def __len__(self) -> int:
        return len(self._held)


cache = PlanCache()

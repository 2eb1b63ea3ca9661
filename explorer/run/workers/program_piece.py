"""Pieces of a program: kernels that run together on one worker, with values from other processes.

Every worker has the whole program and its memory, and runs the kernels of its pieces in planned order. A value from
another process is stored in its planned memory when its first reader starts. In planned order, this memory is free
then, and keeps the value until its last reader has ended (plan/passes/buffers.py).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from time import perf_counter_ns, time_ns
from typing import Any, NamedTuple

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Parameter
from explorer.core.ir.tensor import Tensor
from explorer.plan.planner import Plan
from explorer.plan.schedule.chain_tasks import bases
from explorer.record.fork_locks import renew_in_children
from explorer.run.execution.binding import Binding
from explorer.run.execution.program import Program
from explorer.run.workers.serialization import receive


class Piece(NamedTuple):
    """Kernels that one lane (a process) runs together."""

    lane: int
    """0 for the calling process; other numbers are workers"""
    kernels: tuple[int, ...]
    """indices of the kernels in planned order"""
    needs: tuple[int, ...]
    """indices of the pieces whose values this piece reads"""
    reads: tuple[int, ...]
    """uids of leaves that the piece reads: tensors, parts of tensors, and parameters"""
    outputs: tuple[int, ...]
    """uids of values that other pieces read, or that are results of the program"""


class Values(dict[int, Any]):
    """Values sent between processes, keyed by uid; on arrival they are aligned, as BLAS requires."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _aligned, (dict(self),)


class Outcome(NamedTuple):
    """Result of a piece: values by uid, times of its kernels in ns since 1970, and its worker."""

    values: Values
    began: list[int]
    ended: list[int]
    worker: str = ""
    failure: tuple[int, Exception] | None = None
    """index of the failed kernel, and its error"""


class PieceRunner:
    """Program that runs pieces, with its own memory."""

    def __init__(self, program: Program) -> None:
        self.program = program
        schedule = program.planned.schedule
        self._kernel_of = {kernel.result.uid: index for index, kernel in enumerate(schedule.kernels)}
        self._recomputed = {*bases(schedule)} | {kernel.result.uid for kernel in schedule.kernels if kernel.constant}
        """uids of values that are computed wherever they are read"""
        self._views = {kernel.result.uid for kernel in schedule.kernels if kernel.is_view}
        sent = sent_leaves(program.planned)
        self._leaves = {leaf.uid for leaf in sent}
        self._parts = {leaf.uid for leaf in sent if not has_value(leaf)}
        self._constants = [index for index, kernel in enumerate(schedule.kernels) if kernel.constant]

    def run(self, piece: Piece, sources: Iterable[Mapping[int, Any]], worker: str = "") -> Outcome:
        """Run the kernels of a piece; return its outcome, which includes a failure instead of raising it.

        ``sources`` map uids to the values that the piece reads.
        """
        program, kernels = self.program, self.program.planned.schedule.kernels
        received = {uid: value for source in sources for uid, value in source.items()}
        outcome = Outcome(Values(), [], [], worker)
        offset = time_ns() - perf_counter_ns()  # time_ns itself is less precise on some machines
        index = -1
        try:
            with np.errstate(all="ignore"):
                available = self._leaves & received.keys()
                for uid in available - self._parts:
                    self.store(uid, received[uid])
                # all other leaves are views of these
                program.bind_leaves((), {program.slots[uid]: received[uid] for uid in available & self._parts})
                for index in self._constants:
                    self._run(index)
                for index in piece.kernels:
                    for read in kernels[index].reads:
                        self._fetch(read.uid, received, available)
                    outcome.began.append(perf_counter_ns() + offset)
                    self._run(index)
                    outcome.ended.append(perf_counter_ns() + offset)
                    uid = kernels[index].result.uid
                    available.add(uid)
                    if uid in piece.outputs:
                        # Copy at once, because the next kernel may be planned into this memory.
                        outcome.values[uid] = _copied(program.values[program.slots[uid]])
        except Exception as error:
            # The user's process raises the error, with the kernel's index.
            return outcome._replace(values=Values(), failure=(index, error))
        finally:
            program.forget()
        return outcome

    def store(self, uid: int, value: Any) -> None:
        """Store a value computed by another process; copy it if runners expect it in planned memory."""
        program, slot = self.program, self.program.slots[uid]
        memory = program.values[slot]
        if memory is value:
            return
        if memory is None and uid in program.fixed_memory and uid in self._views:
            memory = program.runners[self._kernel_of[uid]][0](
                program.values
            )  # a view of planned memory is always available
        if uid in program.fixed_memory and memory is not None:
            for target, part in zip(*[x if isinstance(x, tuple) else (x,) for x in (memory, value)], strict=True):
                np.copyto(target, part)
            value = memory
        program.values[slot] = value

    def _fetch(self, uid: int, received: Mapping[int, Any], available: set[int]) -> None:
        """Make an operand available, from ``received`` or by computing it again from available operands."""
        pending = [uid]
        while pending:
            uid = pending[-1]
            index = self._kernel_of.get(uid)
            if index is None or uid in available:
                pending.pop()
            elif uid not in self._recomputed:
                self.store(uid, received[uid])
                available.add(uid)
            else:
                operand_uids = [read.uid for read in self.program.planned.schedule.kernels[index].reads]
                missing = [read for read in operand_uids if read in self._kernel_of and read not in available]
                if missing:
                    pending += missing
                    continue
                self._run(index)
                available.add(uid)

    def _run(self, index: int) -> None:
        runner, slot = self.program.runners[index]
        self.program.values[slot] = runner(self.program.values)

    def finish(self, results: Mapping[int, Any]) -> None:
        """Store results, including leaves, in the program, from which the caller takes them."""
        for uid in self._leaves:
            self.store(uid, results[uid])
        with np.errstate(all="ignore"):
            for root in self.program.planned.schedule.roots:
                available: set[int] = set()
                self._fetch(root.uid, results, available)


class Replica:
    """Program on a worker, created from its bytes for the first piece; pickled as these bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._runner: PieceRunner | None = None
        self.renew()
        renew_in_children(self)

    def renew(self) -> None:
        """Create a new lock, which protects the program's single table of values."""
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Replica, (self._data,)

    def __sizeof__(self) -> int:
        return len(self._data)

    def run(self, piece: Piece, sources: Iterable[Mapping[int, Any]], worker: str) -> Outcome:
        """Run a piece; create the program if this is the first piece."""
        with self._lock:
            if self._runner is None:
                self._runner = PieceRunner(Program(receive(self._data), Binding(rebound=True)))
            return self._runner.run(piece, sources, worker)


def _aligned(values: dict[int, Any]) -> Values:
    return Values({uid: _copied(value) for uid, value in values.items()})


def has_value(leaf: Expr) -> bool:
    """Return whether a leaf is a tensor or a parameter, not a constant or a view that the program describes."""
    return isinstance(leaf, Tensor) or isinstance(leaf.operation, Parameter)


def sent_leaves(planned: Plan) -> list[Expr]:
    """Return the leaves that can be sent: tensors, parameters, and views of a part of a tensor."""
    return [leaf for leaf in planned.schedule.leaves if has_value(leaf) or whole_of(leaf, planned) is not leaf]


def whole_of(leaf: Expr, planned: Plan) -> Expr:
    """Return the tensor of which a leaf is a part, or the leaf itself if it is not a part."""
    inputs = planned.graph.inputs
    operands = inputs[leaf.uid] if leaf.operation.view else ()
    if len(operands) != 1 or leaf.type.nbytes >= operands[0].type.nbytes:
        return leaf
    (base,) = operands
    while base.operation.view and len(inputs[base.uid]) == 1:
        (base,) = inputs[base.uid]
    return base if has_value(base) else leaf


def _copied(value: Any) -> Any:
    return tuple([np.array(part) for part in value]) if isinstance(value, tuple) else np.array(value)

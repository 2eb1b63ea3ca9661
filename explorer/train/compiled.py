"""Compiled expressions: planned once, run for any values of their parameters.

Training steps, nodes and predictions of a module are such programs. Unlike `EvalPlan`, nothing is recorded and no
result cache is asked: what counts is the time of a step of a few µs, so that memory is allocated once, at addresses
that stay the same, and operands are copied there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Parameter
from explorer.core.types.device import cpu
from explorer.core.types.device_copies import copied, fill, on_host
from explorer.core.types.tensor_type import AnyType, Array, TensorType
from explorer.plan.options import Options
from explorer.plan.passes import UpdateInPlace
from explorer.plan.passes.update_in_place import Updates
from explorer.plan.planner import plan
from explorer.record.gc_pause import gc_paused
from explorer.run.execution.executors import EXECUTORS, RegisteredExecutor
from explorer.run.execution.updating_program import UpdatingProgram
from explorer.run.runtime.marshalling import read_only

SIMPLE = EXECUTORS["simple"]


def parameter(type_: AnyType, title: str) -> Expr:
    """Record an operand for which each run has a value."""
    return Parameter(type_, title)()


class Compiled:
    """Program of some expressions over parameters: called with arrays, it returns the values of its expressions.

    Operands on another device than cpu are arrays of NumPy's or of the device itself; results there are its arrays.
    ``memory`` holds arrays of parameters that are kept elsewhere; the others are given in their order. Operands are at
    one address in every run, so that kernels find them there.

    ``updates`` are new values of parameters in ``memory``, by parameter; a call computes them and ``update`` makes
    them the values. An old value is overwritten only after everything that reads it, in this order. A call runs all
    kernels but the updates in place, and then copies each root that is a parameter or a view of one. ``update`` runs
    the updates in place, in an order in which each reads old values (plan/passes/update_in_place.py), and then copies
    the other new values, each of which is by now in memory that no update writes: that of its kernel (``spares``, by
    the address of the old value) or a copy.
    """

    def __init__(
        self,
        results: Sequence[Expr],
        parameters: Sequence[Expr],
        memory: Mapping[Expr, Any] | None = None,
        executor: RegisteredExecutor = SIMPLE,
        options: Options | None = None,
        updates: Mapping[Expr, Expr] | None = None,
        spares: dict[int, Array] | None = None,
    ) -> None:
        self._executor = executor
        held, updates, spares = {**(memory or {})}, updates or {}, {} if spares is None else spares
        roots = [*results, *updates.values()]
        self.types = [root.tensor_type for root in roots]
        types = [node.tensor_type for node in parameters]
        self._places = [type_.device.empty(type_.shape, type_.dtype) for type_ in types]
        self._fill = [np.copyto if type_.device is cpu else partial(fill, type_) for type_ in types]
        options = options or Options(lanes=self._executor.lanes)
        if updates:
            options = options.with_fields(UpdateInPlace, pairs=tuple(updates.items()))
        self._copies: list[tuple[int, TensorType, Any]] = []
        """new values in other memory: their position among the roots, their type, and the memory of the old ones"""
        self._given: list[int] = []
        """results of a step that are copied out of memory at one address, where other kernels find them"""
        self._numbers: list[int] = []
        """scalars among the results of a step, copied likewise"""
        with gc_paused():
            planned = plan(roots, options)
            computed = {
                kernel.result.uid
                for kernel in planned.schedule.kernels
                if kernel.result.type.device is cpu and not kernel.is_view
            }
            for at, (root, node) in enumerate(zip(roots, [*[None] * len(results), *updates], strict=True)):
                result = planned.graph.resolve(root)
                # Written over the parameter by its kernel: nothing is left to copy.
                if node is not None and planned.graph.notes(Updates).parameters.get(result.uid) is node:
                    continue
                if node is not None:
                    self._copies.append((at, node.tensor_type, held[node]))
                if not updates or result.uid not in computed or not isinstance(result.type, TensorType):
                    continue
                if node is None:
                    (self._given if result.shape else self._numbers).append(at)
                    held[result] = np.empty(result.shape, result.dtype)
                else:
                    # Steps for batches of several shapes share the spare memory of a parameter: only one of them runs
                    # at a time.
                    held[result] = spares.setdefault(id(held[node]), np.empty_like(held[node]))
            self._program = UpdatingProgram(planned, {**held, **dict(zip(parameters, self._places, strict=True))})
        shown = [at for at, slot in enumerate(self._program.results[: len(roots)]) if slot in self._program.borrowed]
        self._shown = [(at, self.types[at]) for at in shown if self.types[at].device is not cpu]
        """results on other devices that are an operand's memory, which the next call overwrites"""
        self._is_updating = bool(updates)
        self._results: list[Any] = []

    def __call__(self, *arrays: Any) -> list[Any]:
        """Run the program; results outside the memory are read-only. No parameter changes before ``update``."""
        for write, place, array in zip(self._fill, self._places, arrays, strict=True):
            write(place, array)
        self._executor.run(self._program, None)
        self._results = self._program.read()
        for at in self._given:
            self._results[at] = read_only(self._results[at], copied=True)
        for at in self._numbers:  # a NumPy number is a copy that nobody can change, for a tenth of the time
            self._results[at] = self._results[at][()]
        for at, type_ in self._shown:
            self._results[at] = copied(type_, self._results[at])
        if not self._is_updating:
            self._program.forget()
        return self._results

    def on_host(self, *arrays: Any) -> list[Array]:
        """Run the program and return all results as NumPy's arrays."""
        return [on_host(type_, result) for type_, result in zip(self.types, self(*arrays), strict=True)]

    def update(self) -> None:
        """Take over the new values of the last call. Raises RunError where memory runs out; else it cannot fail."""
        self._program.update()
        for at, type_, memory in self._copies:
            fill(type_, memory, self._results[at])
        # Nobody holds the results of a step that is done: the next one writes over their memory.
        self._results = []
        self._program.forget()

"""Bindings: where a program finds the values of a run, and where it stores its results.

One program class serves all kinds of run. An evaluation, a net, the body of a call and a training step differ in who
owns the memory of operands and results. A kernel whose operands and result have the same address in every run cuts its
blocks once and is bound to its arrays, so small values, and values that training keeps, have fixed memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Call, Item, Parameter
from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import Array, TensorType
from explorer.plan.passes.update_in_place import Updates
from explorer.plan.planner import Plan
from explorer.plan.schedule.schedule import Kernel

_SMALL = 1 << 14
"""maximum bytes of a copied value: less than 1 µs, where a small kernel takes several to cut its blocks"""


class Copy(NamedTuple):
    """New value that an update copies over the old value."""

    root: int
    """index among the roots"""
    type: TensorType
    old: Any


@dataclass(frozen=True, eq=False, slots=True)
class Binding:
    """Memory of a program's operands and results; by default each run supplies and returns its own arrays."""

    operands: tuple[Expr, ...] | None = None
    """parameters whose values each run is given, in order; None: all that are not in ``memory``"""
    memory: Mapping[Expr, Any] = field(default_factory=dict)
    """arrays with a fixed address: operands, whose values are copied there; other parameters, whose values the caller
    keeps there; and results, which are written there"""
    rebound: bool = False
    """whether each run may replace the plan's tensors by others, as in the plan cache and on workers"""
    within: Array | None = None
    """memory of the program that calls this program as a body; it has been granted as a whole"""
    new_values: int = 0
    """number of trailing roots that are new values of parameters, which ``update`` makes current"""
    deferred: int = 0
    """number of trailing kernels that write over parameters and therefore run in ``update``"""
    copies: tuple[Copy, ...] = ()
    """new values in separate memory"""


def copying_binding(planned: Plan) -> Binding:
    """Return a binding that copies small operands and results on entry and exit, so that their addresses are fixed."""
    schedule = planned.schedule
    roots = {root.uid for root in schedule.roots}
    operands = [leaf for leaf in schedule.leaves if isinstance(leaf.operation, Parameter)]
    written_results = [
        kernel.result for kernel in schedule.kernels if kernel.result.uid in roots and _is_written(kernel)
    ]
    return Binding(tuple(operands), {node: _memory(node) for node in [*filter(_is_small, operands), *written_results]})


def step_binding(
    planned: Plan,
    operands: Sequence[Expr],
    parameter_arrays: Mapping[Expr, Any],
    updates: Mapping[Expr, Expr],
    spares: dict[int, Array],
) -> Binding:
    """Return the binding of a compiled call, which copies operands; ``parameter_arrays`` are other parameters' arrays.

    ``updates`` maps parameters in ``parameter_arrays`` to their new values, which are the last roots of the plan. A new
    value overwrites the old one if the plan proves that possible. Otherwise it is in memory that no update writes until
    ``update`` copies it: in a spare array, keyed by the address of the old value, or in a copy. The other results of a
    step have fixed addresses too.
    """
    memory = {**parameter_arrays, **{node: _memory(node) for node in operands}}
    if not updates:
        return Binding(tuple(operands), memory)
    roots, in_place = planned.schedule.roots, planned.graph.notes(Updates).parameters
    first = len(roots) - len(updates)
    computed = {
        kernel.result.uid
        for kernel in planned.schedule.kernels
        if kernel.result.type.device is cpu and not kernel.is_view and isinstance(kernel.result.type, TensorType)
    }
    updated_results = [kernel.result for kernel in planned.schedule.kernels if kernel.result.uid in in_place]
    memory.update({root: _memory(root) for root in roots[:first] if root.uid in computed})
    memory.update({result: parameter_arrays[in_place[result.uid]] for result in updated_results})
    copies = []
    for index, (root, parameter) in enumerate(zip(roots[first:], updates, strict=True), first):
        old = parameter_arrays[parameter]
        if in_place.get(root.uid) is parameter:
            continue
        copies.append(Copy(index, parameter.tensor_type, old))
        if root.uid in computed:
            # Steps for batches of several shapes share the spare memory, since only one of them runs at a time.
            memory[root] = spares.setdefault(id(old), np.empty_like(old))
    return Binding(
        tuple(operands), memory, new_values=len(updates), deferred=len(updated_results), copies=tuple(copies)
    )


def _is_small(node: Expr) -> bool:
    type_ = node.type
    return isinstance(type_, TensorType) and type_.plain and type_.device is cpu and type_.nbytes <= _SMALL


def _is_written(kernel: Kernel) -> bool:
    """Return whether the kernel of a result writes it into given memory in every run."""
    passes_on = kernel.is_view or isinstance(kernel.result.operation, (Call, Item))
    return _is_small(kernel.result) and not passes_on and not kernel.constant


def _memory(node: Expr) -> Any:
    type_ = node.tensor_type
    return type_.device.empty(type_.shape, type_.dtype)

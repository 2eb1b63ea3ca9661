"""Bindings: where a program finds the values of a run, and where it stores its results.

Evaluations, nets, bodies of calls and training steps all run programs, but differ in who owns the memory of operands
and results. A kernel whose operands and result have the same addresses in every run divides its arrays into blocks only
once. Small values, and values that training keeps, therefore have fixed memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Call, Item, Parameter
from explorer.core.ir.tensor import Tensor
from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import Array, TensorType
from explorer.plan.passes.update_in_place import Updates
from explorer.plan.planner import Plan
from explorer.plan.schedule.schedule import Kernel

_SMALL = 1 << 14
"""maximum bytes of a copied value: copying takes less than 1 µs, dividing arrays into blocks several µs"""
_FEW = 8
"""maximum number of tensors that are copied in each run, because a loop of calls reads thousands"""


class Copy(NamedTuple):
    """New value that an update copies over the old value."""

    root: int
    """index of the new value among the roots"""
    type: TensorType
    old: Any


@dataclass(frozen=True, eq=False, slots=True)
class Binding:
    """Memory of a program's operands and results; by default, each run supplies and returns its own arrays."""

    operands: tuple[Expr, ...] | None = None
    """parameters whose values are passed to each run, in order; None: all parameters that are not in ``memory``"""
    memory: Mapping[Expr, Any] = field(default_factory=dict)
    """arrays with fixed addresses: operands, whose values are copied there; other parameters, whose values the caller
    keeps there; and results, which kernels write there
    """
    rebound: bool = False
    """whether each run may replace the plan's tensors by other tensors, as in the plan cache and on workers; tensors in
    ``memory`` are copied there
    """
    within: Array | None = None
    """memory of the program that calls this program as a body; that memory was checked against the budget as a whole"""
    new_values: int = 0
    """number of trailing roots that are new values of parameters; ``update`` makes them current"""
    deferred: int = 0
    """number of trailing kernels that overwrite parameters and therefore run in ``update``"""
    copies: tuple[Copy, ...] = ()
    """new values in separate memory, which ``update`` copies"""


def copying_binding(planned: Plan) -> Binding:
    """Return a binding that copies small operands and results on entry and exit, so their addresses are fixed."""
    operands = [leaf for leaf in planned.schedule.leaves if isinstance(leaf.operation, Parameter)]
    copied = [*filter(_is_small, operands), *_written_results(planned)]
    return Binding(tuple(operands), {node: _memory(node) for node in copied})


def rebound_binding(planned: Plan) -> Binding:
    """Return the binding of a program in the plan cache, each of whose runs has other tensors.

    If the tensors are few and small, they and the results are copied on entry and exit, so all addresses are fixed.
    """
    leaves, roots = planned.schedule.leaves, planned.schedule.roots
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    if len(tensors) > _FEW or not all(map(_is_small, tensors)):
        return Binding(rebound=True)
    # A tensor or a view of a tensor, if it is a result, needs no copy.
    if any(leaf.operands or any(leaf is root for root in roots) for leaf in leaves):
        return Binding(rebound=True)
    written = _written_results(planned)
    # Equal results, and a result and its view, share memory.
    if len(written) < len(roots) > 1:
        return Binding(rebound=True)
    return Binding(rebound=True, memory={node: _memory(node) for node in [*tensors, *written]})


def step_binding(
    planned: Plan,
    operands: Sequence[Expr],
    parameter_arrays: Mapping[Expr, Any],
    updates: Mapping[Expr, Expr],
    spares: dict[int, Array],
) -> Binding:
    """Return the binding of a compiled call, which copies the values of ``operands``.

    ``parameter_arrays`` are the arrays of other parameters. ``updates`` maps some of these parameters to their new
    values, which are the last roots of the plan. A new value overwrites the old value if the plan proves that this is
    possible. Otherwise it is stored in an array of ``spares``, keyed by the old value's address, from which ``update``
    copies it. The other results of a step have fixed addresses too.
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
            # Steps for different batch shapes share the spare memory, since only one of them runs at a time.
            memory[root] = spares.setdefault(id(old), np.empty_like(old))
    return Binding(
        tuple(operands), memory, new_values=len(updates), deferred=len(updated_results), copies=tuple(copies)
    )


def _written_results(planned: Plan) -> list[Expr]:
    """Return the small results that kernels write into given memory in every run."""
    roots = {root.uid for root in planned.schedule.roots}
    return [kernel.result for kernel in planned.schedule.kernels if kernel.result.uid in roots and _is_written(kernel)]


def _is_small(node: Expr) -> bool:
    type_ = node.type
    return isinstance(type_, TensorType) and type_.plain and type_.device is cpu and type_.nbytes <= _SMALL


def _is_written(kernel: Kernel) -> bool:
    """Return whether a kernel writes its result into given memory in every run."""
    passes_on = kernel.is_view or isinstance(kernel.result.operation, (Call, Item))
    return _is_small(kernel.result) and not passes_on and not kernel.constant


def _memory(node: Expr) -> Any:
    type_ = node.tensor_type
    return type_.device.empty(type_.shape, type_.dtype)

"""Backward pass of layers: records kept of a feed-forward, and the gradients recorded from them.

A training layer keeps a stack of forward records. Each feed-backward takes the last one and records the gradient of its
call, which is itself one call of a shared function. ``ex.grad`` does the same for expressions; layers need their own
entry because their gradients may be fed back one layer at a time, in the user's order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.errors import ExplorerError, OperandError, StateError
from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Call, Item
from explorer.core.ir.operation import WEAK, as_operands
from explorer.core.ir.recording_context import scope, state
from explorer.core.ir.tensor import tensor
from explorer.core.types.custom_dtypes import converted, is_floating
from explorer.core.types.tensor_type import AnyType, TensorType
from explorer.gradients import call_gradient
from explorer.gradients.gradient_scopes import gradient_scopes
from explorer.layers.framework.layer_base import LayerBase, PendingGradient, check_same_body
from explorer.layers.framework.ports import Ports
from explorer.ops.creation.constants import Zero


def operands(layer: LayerBase, ports: Ports) -> dict[str, Expr]:
    """Convert the inputs of a layer to expressions, by port; an error names the port."""
    values: list[Any] = []
    for port in layer.inputs:
        value = ports[port]
        if not isinstance(value, Expr) and type(value) not in WEAK:
            try:
                (value,) = as_operands((value,))
            except ExplorerError as error:
                error.add_note(f"passed to the port {port!r} of {layer!r}")
                raise
        values.append(value)
    return dict(zip(layer.inputs, as_operands(tuple(values)), strict=True))


def feed_backward(layer: LayerBase, ports: Ports) -> dict[str, Expr | None]:
    """Record the gradients of the last feed-forward's inputs, None if the layer feeds none back.

    Gradients of parameters that update are kept in ``layer.pending_gradients``.
    """
    if not layer.train:
        raise StateError(
            f"feed_backward of {layer!r}",
            rule="the layer must be made for training, because an inference layer keeps no forward records",
            fix=f"make it for training: {type(layer).__name__}({layer.name!r}, …, train=True)",
        )
    if not layer.forward_records:
        raise StateError(
            f"feed_backward of {layer!r}, which was not fed forward",
            rule="feed_backward must follow a feed_forward that has not been fed backward yet",
            fix=f"call feed_forward of {layer.name!r} first",
        )
    last = layer.forward_records[-1]
    check_same_body(layer, last.traces, "feed_backward")
    seeds = [_seed(layer, port, output, ports[port]) for port, output in last.outputs.items()]
    if all(seed is None for seed in seeds):
        raise OperandError(
            f"feed_backward of {layer!r} without any gradient",
            rule="at least one output must have a gradient; None for a port means that it has none",
            fix=f"give a gradient for {' or '.join(layer.outputs)}",
        )
    updates = layer.updates()
    wanted = [layer.feeds_back and has_gradient(value.type) for value in last.inputs.values()]
    wanted += [path in updates for path in last.parameters]
    with scope("gradient", "gradient"), scope(layer.name, "layer", type(layer).__name__, layer):
        gradients = _gradients(next(iter(last.outputs.values())), seeds, wanted)
    # Only now: where the gradients cannot be recorded, the layer can be fed backward again.
    layer.forward_records.pop()
    layer.pending_gradients.extend(
        PendingGradient(parameter, gradient, state.traces)
        for parameter, gradient in zip(last.parameters.values(), gradients[len(last.inputs) :], strict=True)
        if gradient is not None
    )
    return dict(zip(last.inputs, gradients[: len(last.inputs)], strict=True))


def _gradients(output: Expr, seeds: list[Expr | None], wanted: list[bool]) -> list[Expr | None]:
    """Return a gradient for each operand of the call that made an output, the structured zero if none reaches it."""
    # A call of several outputs is one node, and its outputs are items of it.
    node = output.operands[0] if isinstance(output.operation, Item) else output
    call = node.operation
    if not any(wanted):
        return [None] * len(wanted)
    if not isinstance(call, Call):  # a source returns the tensor that it holds, without a call
        return [seeds[0] if is_wanted else None for is_wanted in wanted]
    operands = node.operands  # captured values come last and get no gradient
    asked = (*wanted, *[False] * (len(operands) - len(wanted)))
    single = not isinstance(output.operation, Item)
    with gradient_scopes(node.scope) as enter_gradient_of:
        enter_gradient_of(node)
        gradients = call_gradient(call, seeds[0] if single and seeds[0] is not None else seeds, node, operands, asked)
    return [
        None
        if not is_wanted
        else gradient
        if gradient is not None
        else Zero(operand.shape, operand.dtype, "unreached", operand.device)()
        for is_wanted, gradient, operand in zip(wanted, gradients, operands, strict=False)
    ]


def has_gradient(type_: AnyType) -> bool:
    """Whether values of a type have gradients."""
    return isinstance(type_, TensorType) and is_floating(type_.dtype)


def _seed(layer: LayerBase, port: str, output: Expr, gradient: Any) -> Expr | None:
    """Convert the gradient of an output; raises OperandError for another type. Arrays and numbers are converted."""
    if gradient is None:
        return None
    type_ = output.tensor_type
    if isinstance(gradient, Expr):
        seed = gradient
    else:
        array = np.asarray(gradient)
        if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and not is_floating(type_.dtype)):
            raise OperandError(
                f"the gradient {gradient!r} of the output {port!r} of {layer!r}",
                rule=f"the gradient must convert to its output's type, {type_}",
                fix="give numbers of this kind; integers and booleans have no gradient",
            )
        seed = tensor(converted(array, type_.dtype), device=type_.device)
    if seed.type != type_:
        raise OperandError(
            f"the gradient {seed.type} of the output {port!r} of {layer!r}",
            rule=f"the gradient must have its output's type, {type_}",
            fix="sum or reshape it to this shape, or convert it with .astype",
        )
    return seed

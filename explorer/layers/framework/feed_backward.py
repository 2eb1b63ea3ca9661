"""Feeding backward: what was kept of a feed-forward, and the gradients made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from explorer.core.errors import ExplorerError, OperandError, StateError
from explorer.core.ir.expr import Expr, scope, state
from explorer.core.ir.function import Call, Item
from explorer.core.ir.operation import WEAK, as_operands
from explorer.core.ir.tensor import tensor
from explorer.core.types.custom_dtypes import converted, is_floating
from explorer.core.types.tensor_type import AnyType, TensorType
from explorer.grad import call_gradient
from explorer.grad.gradient_scopes import twins
from explorer.layers.framework.ports import Ports
from explorer.ops.creation.constants import Zero

if TYPE_CHECKING:
    from explorer.layers.framework.layer import Layer
    from explorer.layers.framework.parameters import Parameter


@dataclass(frozen=True, slots=True)
class ForwardRecord:
    """One feed-forward: operands and results of its call, and the functions that were being traced."""

    inputs: Mapping[str, Expr]
    parameters: Mapping[str, Parameter]
    outputs: Mapping[str, Expr]
    traces: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PendingGradient:
    """The gradient of a parameter that a feed-backward has built, and the functions that were being traced."""

    parameter: Parameter
    gradient: Expr
    traces: tuple[int, ...]

    def check(self, layer: Layer) -> None:
        """Raise StateError where the gradient belongs to another function's body than what is written now."""
        _same_body(layer, self.traces, "collecting the gradients")


def operands(layer: Layer, given: Ports) -> dict[str, Expr]:
    """The inputs of a layer as expressions, by port; an error names the port."""
    made: list[Any] = []
    for port in layer.inputs:
        value = given[port]
        if not isinstance(value, Expr) and type(value) not in WEAK:
            try:
                (value,) = as_operands((value,))
            except ExplorerError as error:
                error.add_note(f"given for the port {port!r} of {layer!r}")
                raise
        made.append(value)
    return dict(zip(layer.inputs, as_operands(tuple(made)), strict=True))


def feed_backward(layer: Layer, given: Ports) -> dict[str, Expr | None]:
    """The gradients of the last feed-forward's inputs, None where the layer feeds none back.

    Those of parameters that update are kept in ``layer.waiting``.
    """
    if not layer.train:
        raise StateError(
            f"feed_backward of {layer!r}",
            rule="a layer for inference keeps nothing to be fed backward",
            fix=f"make it for training: {type(layer).__name__}({layer.name!r}, …, train=True)",
        )
    if not layer.forward_records:
        raise StateError(
            f"feed_backward of {layer!r}, which was not fed forward",
            rule="every feed_backward answers a feed_forward, the last one first",
            fix="feed it forward first",
        )
    last = layer.forward_records[-1]
    _same_body(layer, last.traces, "feed_backward")
    seeds = [_seed(layer, port, output, given[port]) for port, output in last.outputs.items()]
    if all(seed is None for seed in seeds):
        raise OperandError(
            f"feed_backward of {layer!r} without any gradient",
            rule="one of its outputs has a gradient; None for a port says that this one has none",
            fix=f"give a gradient for {' or '.join(layer.outputs)}",
        )
    updates = layer.updates()
    wanted = [layer.feeds_back and has_gradient(value.type) for value in last.inputs.values()]
    wanted += [path in updates for path in last.parameters]
    with scope("gradient", "gradient"), scope(layer.name, "layer", type(layer).__name__, layer):
        found = _gradients(next(iter(last.outputs.values())), seeds, wanted)
    layer.forward_records.pop()
    layer.pending_gradients.extend(
        PendingGradient(parameter, gradient, state.traces)
        for parameter, gradient in zip(last.parameters.values(), found[len(last.inputs) :], strict=True)
        if gradient is not None
    )
    return dict(zip(last.inputs, found[: len(last.inputs)], strict=True))


def _gradients(output: Expr, seeds: list[Expr | None], wanted: list[bool]) -> list[Expr | None]:
    """One for each operand of the call that made an output; the structured zero where nothing reaches it."""
    made = output.operands[0] if isinstance(output.operation, Item) else output
    call = made.operation
    if not any(wanted):
        return [None] * len(wanted)
    if not isinstance(call, Call):  # a source gives the very tensor that it holds
        return [seeds[0] if yes else None for yes in wanted]
    operands = made.operands  # captured values come last, and want none
    asked = (*wanted, *[False] * (len(operands) - len(wanted)))
    single = not isinstance(output.operation, Item)
    with twins(made.scope) as twin:
        twin(made)
        found = call_gradient(call, seeds[0] if single and seeds[0] is not None else seeds, made, operands, asked)
    return [
        None
        if not yes
        else gradient
        if gradient is not None
        else Zero(operand.shape, operand.dtype, "unreached", operand.device)()
        for yes, gradient, operand in zip(wanted, found, operands, strict=False)
    ]


def has_gradient(type_: AnyType) -> bool:
    """Whether values of a type have gradients."""
    return isinstance(type_, TensorType) and is_floating(type_.dtype)


def _same_body(layer: Layer, traces: tuple[int, ...], what: str) -> None:
    if traces != state.traces:
        raise StateError(
            f"{what} of {layer!r}, which was fed in another function's body than this",
            rule="a body is recorded once and called often: what a training layer keeps inside it stays inside it",
            fix="feed forward, feed backward and collect in one function, or none; ex.grad goes through functions",
        )


def _seed(layer: Layer, port: str, output: Expr, given: Any) -> Expr | None:
    """A gradient of an output; raises OperandError for one of another type. Arrays and numbers are converted."""
    if given is None:
        return None
    type_ = output.tensor_type
    if isinstance(given, Expr):
        seed = given
    else:
        array = np.asarray(given)
        if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and not is_floating(type_.dtype)):
            raise OperandError(
                f"the gradient {given!r} of the output {port!r} of {layer!r}",
                rule=f"it converts to its output's type, {type_}",
                fix="give numbers of this kind; integers and booleans have no gradient",
            )
        seed = tensor(converted(array, type_.dtype), device=type_.device)
    if seed.type != type_:
        raise OperandError(
            f"the gradient {seed.type} of the output {port!r} of {layer!r}",
            rule=f"a gradient has its output's type, {type_}",
            fix="sum or reshape it to this shape, or convert it with .astype",
        )
    return seed

"""Feeding backward: what was kept of a feed-forward, and the gradients made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from explorer.core.errors import OperandError, StateError
from explorer.core.expr import Expr, scope
from explorer.core.function import Call, Item
from explorer.core.operation import as_operands
from explorer.core.types import AnyType, TensorType
from explorer.grad import call_gradient
from explorer.layers.port import Ports
from explorer.ops.structured import Zero

if TYPE_CHECKING:
    from explorer.layers.layer import Layer
    from explorer.layers.parameter import Parameter


@dataclass(frozen=True, slots=True)
class Pass:
    """One feed-forward: operands and results of its call."""

    inputs: Mapping[str, Expr]
    parameters: Mapping[str, Parameter]
    outputs: Mapping[str, Expr]


def feed_backward(layer: Layer, given: Ports) -> dict[str, Expr | None]:
    """The gradients of the last feed-forward's inputs, None where the layer feeds none back.

    Those of parameters that update are kept in ``layer.gradients``.
    """
    if not layer.train:
        raise StateError(
            f"feed_backward of {layer!r}",
            rule="a layer for inference keeps nothing to be fed backward",
            fix=f"make it for training: {type(layer).__name__}({layer.name!r}, …, train=True)",
        )
    if not layer.stack:
        raise StateError(
            f"feed_backward of {layer!r}, which was not fed forward",
            rule="every feed_backward answers a feed_forward, the last one first",
            fix="feed it forward first",
        )
    last = layer.stack[-1]
    seeds = [_seed(layer, port, output, given[port]) for port, output in last.outputs.items()]
    if all(seed is None for seed in seeds):
        raise OperandError(
            f"feed_backward of {layer!r} without any gradient",
            rule=f"a gradient is given for one of the outputs {', '.join(layer.outputs)}; None says that there is none",
        )
    updates = layer.updates()
    wanted = [layer.feeds_back and has_gradient(value.type) for value in last.inputs.values()]
    wanted += [path in updates for path in last.parameters]
    with scope(layer.name, "layer", type(layer).__name__), scope("gradient", "gradient"):
        found = _gradients(next(iter(last.outputs.values())), seeds, wanted)
    layer.stack.pop()
    layer.gradients += [
        (parameter, gradient)
        for parameter, gradient in zip(last.parameters.values(), found[len(last.inputs) :], strict=True)
        if gradient is not None
    ]
    return dict(zip(last.inputs, found[: len(last.inputs)], strict=True))


def _gradients(output: Expr, seeds: list[Expr | None], wanted: list[bool]) -> list[Expr | None]:
    """One for each operand of the call that made an output; the structured zero where nothing reaches it."""
    made = output.operands[0] if isinstance(output.operation, Item) else output
    call = made.operation
    if not any(wanted) or not isinstance(call, Call):
        return [None] * len(wanted)
    operands = made.operands  # captured values come last, and want none
    asked = (*wanted, *[False] * (len(operands) - len(wanted)))
    single = not isinstance(output.operation, Item)
    found = call_gradient(call, seeds[0] if single and seeds[0] is not None else seeds, made, operands, asked)
    return [
        None if not yes else gradient if gradient is not None else Zero(operand.shape, operand.dtype, "unreached")()
        for yes, gradient, operand in zip(wanted, found, operands, strict=False)
    ]


def has_gradient(kind: AnyType) -> bool:
    """Whether values of a type have gradients."""
    return isinstance(kind, TensorType) and kind.dtype.kind == "f"


def _seed(layer: Layer, port: str, output: Expr, given: Any) -> Expr | None:
    """A gradient of an output; raises OperandError for one of another shape."""
    if given is None:
        return None
    (seed,) = (given,) if isinstance(given, Expr) else as_operands((given,))
    if seed.shape != output.shape or seed.dtype != output.dtype:
        raise OperandError(
            f"the gradient {seed.type} of the output {port!r} of {layer!r}",
            rule=f"a gradient has its output's type, {output.type}",
        )
    return seed

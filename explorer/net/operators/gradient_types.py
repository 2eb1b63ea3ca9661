"""Gradient types: for each declared operator type ``X``, a type ``XGradient`` is derived from the expressions of ``X``.

An operator of a gradient type reads the forward operator's inputs and outputs, and the gradients of its outputs, and
writes gradients of its inputs. Its builder records the forward function on placeholders and differentiates it. The
placeholders and forward results are then replaced by the operator's operands, so nothing is computed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Parameter
from explorer.core.ir.recording_context import state
from explorer.core.ir.traversal import reachable, rebuild
from explorer.gradients.backward import backward
from explorer.net.operators.context import OperatorContext
from explorer.ops.creation.constants import Zero

Builder: TypeAlias = Callable[[OperatorContext], Any]
SUFFIX = "Gradient"
FORWARD_INPUTS, FORWARD_OUTPUTS, WANTED = "forward_inputs", "forward_outputs", "wanted"
"""names of arguments of a gradient operator: how many blobs the forward operator reads, how many it writes, and the
positions of the inputs whose gradients are written"""


def input_name(position: int) -> str:
    """Return the name of a gradient operator's parameter for an input of the forward operator."""
    return f"input_{position}"


def output_name(position: int) -> str:
    """Return the name of a gradient operator's parameter for an output of the forward operator."""
    return f"output_{position}"


def gradient_name(position: int) -> str:
    """Return the name of a gradient operator's parameter for the gradient of an output."""
    return f"gradient_{position}"


def gradient_builder(type: str, forward: Builder, in_place: Mapping[int, int]) -> Builder:
    """Return the builder of the gradient type of ``type``; ``in_place`` maps inputs to outputs that overwrite them."""

    def build(op: OperatorContext) -> Any:
        definition = op.definition
        input_count, output_count = op.integer(FORWARD_INPUTS), op.integer(FORWARD_OUTPUTS)
        own = {FORWARD_INPUTS, FORWARD_OUTPUTS, WANTED}
        inputs = {
            at: op.tensor(0, name) for at in range(input_count) if (name := input_name(at)) in definition.input_names
        }
        outputs = {
            at: op.tensor(0, name) for at in range(output_count) if (name := output_name(at)) in definition.input_names
        }
        seeds = {
            at: op.tensor(0, name)
            for at in range(output_count)
            if (name := gradient_name(at)) in definition.input_names
        }
        # An overwritten input has the type of the output that overwrote it.
        placeholders = [
            Parameter((inputs[at] if at in inputs else outputs[in_place.get(at, 0)]).type, input_name(at))()
            for at in range(input_count)
        ]
        forward_definition = replace(
            definition,
            type=type,
            inputs=tuple(input_name(at) for at in range(input_count)),
            input_names={},
            outputs=tuple(output_name(at) for at in range(output_count)),
            arguments={name: value for name, value in definition.arguments.items() if name not in own},
        )
        result = forward(OperatorContext(forward_definition, tuple(placeholders), op.weight))
        results = (result,) if isinstance(result, Expr) else tuple(result)
        _check_seeds(seeds, results)
        recorded = backward(
            [results[at] for at in seeds], list(seeds.values()), [placeholders[at] for at in op.integers(WANTED)]
        )
        # The outputs of the forward operator are operands, and replace the nodes that would compute them again.
        known = {results[at].uid: node for at, node in outputs.items()}
        known |= {placeholders[at].uid: node for at, node in inputs.items()}
        known |= {seed.uid: seed for seed in seeds.values()}
        needed = reachable([node for node in recorded if node is not None], stop=lambda node: node.uid in known)
        _check_inputs(type, placeholders, {node.uid for node in needed} - known.keys())
        # The gradients are recorded on placeholders, and then copied with the operator's blobs as operands.
        copies = rebuild(needed, known, lambda node: state.scope)
        gradients = tuple(
            [
                Zero(placeholders[at].shape, placeholders[at].dtype, "unreached", placeholders[at].device)()
                if node is None
                else copies[node.uid]
                for at, node in zip(op.integers(WANTED), recorded, strict=True)
            ]
        )
        return gradients[0] if len(gradients) == 1 else gradients

    build.__doc__ = f"The gradients of the inputs of {type}."
    return build


def _check_seeds(seeds: Mapping[int, Expr], outputs: Sequence[Expr]) -> None:
    """Raise OperandError if the type of a gradient differs from its output's type."""
    for at, seed in seeds.items():
        if seed.type != outputs[at].type:
            raise OperandError(
                f"a gradient {seed.type} of output {at}, which is {outputs[at].type}",
                rule="a gradient must have its output's type",
                fix="give the gradient of this output",
            )


def _check_inputs(type: str, placeholders: Sequence[Expr], needed: Collection[int]) -> None:
    """Raise OperandError if the gradient needs an input that an output has overwritten."""
    for at, placeholder in enumerate(placeholders):
        if placeholder.uid in needed:
            raise OperandError(
                f"input {at} of {type} was overwritten",
                rule=f"the gradient of {type} needs the input from which the output was computed",
                fix="write the operator's output under another name",
            )

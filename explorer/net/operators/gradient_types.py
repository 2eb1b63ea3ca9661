"""Gradient types: for each declared operator type ``X`` a type ``XGradient``, whose formula is that of X's expressions.

An operator of such a type reads what the forward operator read and wrote, and the gradients of its outputs, and writes
gradients of its inputs. Its builder records the forward function once more on placeholders, differentiates it, and puts
the operands into their places: the plan finds that they are computed already.
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
READS, WRITES, WANTED = "forward_inputs", "forward_outputs", "wanted"
"""arguments of a gradient operator: how many blobs the forward operator read and wrote, and the positions of inputs
whose gradients it writes"""


def input_name(position: int) -> str:
    """Return the name under which a gradient operator is passed an input of the forward operator."""
    return f"input_{position}"


def output_name(position: int) -> str:
    """Return the name under which a gradient operator is passed an output of the forward operator."""
    return f"output_{position}"


def gradient_name(position: int) -> str:
    """Return the name under which a gradient operator is passed the gradient of an output."""
    return f"gradient_{position}"


def gradient_builder(type: str, forward: Builder, in_place: Mapping[int, int]) -> Builder:
    """Return the builder of the gradient type of an operator type; ``in_place`` maps inputs to outputs over them."""

    def build(op: OperatorContext) -> Any:
        definition = op.definition
        reads, writes = op.integer(READS), op.integer(WRITES)
        own = {READS, WRITES, WANTED}
        inputs = {at: op.tensor(0, name) for at in range(reads) if (name := input_name(at)) in definition.input_names}
        outputs = {
            at: op.tensor(0, name) for at in range(writes) if (name := output_name(at)) in definition.input_names
        }
        seeds = {
            at: op.tensor(0, name) for at in range(writes) if (name := gradient_name(at)) in definition.input_names
        }
        # An input that was overwritten has the type of the output over it.
        places = [
            Parameter((inputs[at] if at in inputs else outputs[in_place.get(at, 0)]).type, input_name(at))()
            for at in range(reads)
        ]
        called = replace(
            definition,
            type=type,
            inputs=tuple(input_name(at) for at in range(reads)),
            input_names={},
            outputs=tuple(output_name(at) for at in range(writes)),
            arguments={name: value for name, value in definition.arguments.items() if name not in own},
        )
        result = forward(OperatorContext(called, tuple(places), op.weight))
        forwards = (result,) if isinstance(result, Expr) else tuple(result)
        _check_seeds(seeds, forwards)
        slopes = backward(
            [forwards[at] for at in seeds], list(seeds.values()), [places[at] for at in op.integers(WANTED)]
        )
        # Results of the forward operator stand for the nodes that would compute them once more.
        known = {forwards[at].uid: node for at, node in outputs.items()}
        known |= {places[at].uid: node for at, node in inputs.items()}
        known |= {seed.uid: seed for seed in seeds.values()}
        needed = reachable([slope for slope in slopes if slope is not None], stop=lambda node: node.uid in known)
        reached = {node.uid for node in needed} - known.keys()
        _check_places(type, places, reached)
        # The gradient was recorded over placeholders: its copy reads the blobs that the operator is passed.
        copies = rebuild(needed, known, lambda node: state.scope)
        gradients = tuple(
            [
                Zero(places[at].shape, places[at].dtype, "unreached", places[at].device)()
                if slope is None
                else copies[slope.uid]
                for at, slope in zip(op.integers(WANTED), slopes, strict=True)
            ]
        )
        return gradients[0] if len(gradients) == 1 else gradients

    build.__doc__ = f"The gradients of the inputs of {type}."
    return build


def _check_seeds(seeds: Mapping[int, Expr], forwards: Sequence[Expr]) -> None:
    """Refuse the gradient of an output that has another type."""
    for at, seed in seeds.items():
        if seed.type != forwards[at].type:
            raise OperandError(
                f"a gradient {seed.type} of output {at}, which is {forwards[at].type}",
                rule="a gradient must have its output's type",
                fix="give the gradient of this output",
            )


def _check_places(type: str, places: Sequence[Expr], reached: Collection[int]) -> None:
    """Refuse a gradient that needs an input which an output has overwritten."""
    for at, place in enumerate(places):
        if place.uid in reached:
            raise OperandError(
                f"input {at} of {type} is not there any more",
                rule=f"the gradient of {type} must have the input that it was computed from",
                fix="write the output of the operator under a name of its own",
            )

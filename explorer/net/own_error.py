"""Net whose operators read a reference's values, so that each result has only the error of its own operator.

The operators of the compared net are kept. Each operand that the reference has becomes an input with the reference's
value, quantized if the operand is an integer. Its quantization or casts are computed from this value, and the operators
read the result. An operator's own error is therefore the error of its quantized operands, its weights, its computation,
and the quantization of its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from explorer.core.types.tensor_type import Array
from explorer.net.definition.definition import BlobType, NetDefinition, OperatorDefinition
from explorer.net.definition.edits import reading
from explorer.net.operand_matching import CASTS, Operands


class OwnNet(NamedTuple):
    """Definition of the net, and the names that differ from the compared net's."""

    definition: NetDefinition
    inputs: Mapping[str, str]
    """operand of the compared net that has become an input → name of the input"""
    copies: Mapping[str, str]
    """name of a copied operator → name of the operator in the compared net"""


def own_net(
    operands: Operands, sources: Mapping[str, Array], outputs: Iterable[str], *, is_quantized: bool = True
) -> OwnNet:
    """Return the net that reads ``sources``, the reference's values by root, as inputs, and computes ``outputs``.

    Unless ``is_quantized``, operators read these values without their quantization.
    """
    definition = operands.definition
    blob = _unused(definition.has_blob)
    name = _unused({operator.name for operator in operands.operators}.__contains__)
    inputs = {root: blob(f"{root} of the reference") for root in sources}
    read: dict[str, str] = dict(inputs)
    """operand → what operators read in its place"""
    passed: dict[str, str] = {}
    """result of a quantization that is left out → what it reads"""
    copied: dict[str, OperatorDefinition] = {}

    def other(blob: str) -> str:
        return read.get(blob, blob)

    for form in operands.order:
        if operands.root(form) not in sources:
            continue
        for step in operands.conversions(form):
            result = step.outputs[0]
            if result in read:
                continue
            if not is_quantized and step.type not in CASTS and operands.root(form) not in operands.quantizations:
                passed[result] = passed.get(step.inputs[0]) or read[step.inputs[0]]
                if result not in operands.quantizations:
                    read[result] = passed[result]
                continue
            read[result] = blob(f"{result} of the reference")
            copied[name(f"{step.name} of the reference")] = reading(replace(step, outputs=(read[result],)), other)
    kept = [
        operator if operator.name in operands.converters else reading(operator, other)
        for operator in operands.operators
    ]
    copies = {new: operator.name for new, operator in copied.items()}
    types = {each.name: each.declared_type for each in definition.blobs.values()}
    types |= {
        new: BlobType(sources[root].shape, definition.blobs[root].dtype or sources[root].dtype.name)
        for root, new in inputs.items()
    }
    made = definition.with_program(
        [*[replace(operator, name=new) for new, operator in copied.items()], *kept],
        [*definition.inputs, *inputs.values()],
        outputs,
        types,
    )
    return OwnNet(made, inputs, copies)


def _unused(is_taken: Callable[[str], bool]) -> Callable[[str], str]:
    """Return a function that adds primes to a name until nothing else has it."""

    def name(wanted: str) -> str:
        while is_taken(wanted):
            wanted += "'"
        return wanted

    return name

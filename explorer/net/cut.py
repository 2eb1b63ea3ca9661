"""Part of a net: what lies between any operands, as a definition of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from explorer.core.errors import OperandError
from explorer.net.definition import BlobType, NetDefinition, OperatorDefinition


def cut(definition: NetDefinition, inputs: Sequence[str] | None, outputs: Sequence[str] | None) -> NetDefinition:
    """The operators that ``outputs`` need when the values of ``inputs`` are given; None stands for the net's own.

    Raises OperandError where an output needs an input of the net that is not among ``inputs``, UnknownNameError for a
    name that is no operand.
    """
    ends = tuple(definition.outputs if outputs is None else outputs)
    given = tuple(definition.inputs if inputs is None else inputs)
    if not ends:
        raise OperandError(
            "a net cut without outputs", rule="a net has an output", fix="name operands: net.cut(outputs=[…])"
        )
    for name in (*given, *ends):
        definition.blob(name)
    needed: set[str] = set()
    reached: set[str] = set()
    pending = list(ends)
    while pending:
        blob = pending.pop()
        if blob in reached:
            continue
        reached.add(blob)
        producer = definition.blob(blob).producer
        if blob in given:
            continue
        if producer is None:
            reader = ", ".join(definition.blob(blob).consumers[:3]) or "an output"
            raise OperandError(
                f"the outputs {', '.join(ends)} cut from the inputs {', '.join(given) or 'none'}",
                rule=f"they need the net's input {blob!r}, which {reader} reads",
                fix=f"add {blob!r} to the inputs, or cut further on",
            )
        if producer not in needed:
            needed.add(producer)
            pending.extend(definition.operator(producer).inputs)
    operators = [_kept(operator, given) for operator in definition.operators if operator.name in needed]
    types = {
        name: BlobType(blob.shape, blob.dtype) for name, blob in definition.blobs.items() if blob.shape is not None
    }
    kept_inputs = [name for name in given if name in reached or inputs is not None]
    return NetDefinition.of(
        definition.name, operators, kept_inputs, ends, types, source=definition.source, weights=definition.weights
    )


def _kept(operator: OperatorDefinition, given: tuple[str, ...]) -> OperatorDefinition:
    """An operator of which an output is given from outside produces it under another name that nobody reads."""
    if not set(operator.outputs) & set(given):
        return operator
    outputs = tuple(f"{blob} (cut)" if blob in given else blob for blob in operator.outputs)
    return replace(operator, outputs=outputs)

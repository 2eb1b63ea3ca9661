"""Extraction of the part of a net between given operands as a separate definition.

`net.cut` uses it, for example to run a model up to a layer. Operators and blobs keep their names, types and weights, so
values of the part and of the whole net can be compared by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from explorer.core.errors import OperandError
from explorer.net.definition.definition import BlobType, NetDefinition, OperatorDefinition


def cut(
    definition: NetDefinition,
    inputs: Sequence[str] | None,
    outputs: Sequence[str] | None,
    inferred: Mapping[str, BlobType] | None = None,
) -> NetDefinition:
    """Return the part of a definition that computes ``outputs`` from ``inputs``; None means all of the net's.

    ``inferred`` contains types of inputs whose types the file does not declare. Raise OperandError if an output needs
    another input of the net, and UnknownNameError for an unknown operand.
    """
    program = definition.ssa
    ends = program.outputs if outputs is None else tuple(definition.blob(name).name for name in outputs)
    names = program.inputs if inputs is None else tuple(_one_version(definition, name) for name in inputs)
    if not ends:
        raise OperandError(
            "a net cut without outputs", rule="a net must have an output", fix="name operands: net.cut(outputs=[…])"
        )
    needed: set[str] = set()
    reached: set[str] = set()
    pending = list(ends)
    while pending:
        blob = pending.pop()
        if blob in reached:
            continue
        reached.add(blob)
        producer = definition.blob(blob).producer
        # The caller passes its value, so its producer is not needed.
        if blob in names:
            continue
        if producer is None:
            reader = ", ".join(definition.blob(blob).consumers[:3]) or "an output"
            raise OperandError(
                f"the outputs {', '.join(ends)} cut from the inputs {', '.join(names) or 'none'}",
                rule=f"the inputs must include {blob!r}, which {reader} reads",
                fix=f"add {blob!r} to the inputs, or cut at a later operand",
            )
        if producer not in needed:
            needed.add(producer)
            pending.extend(program.operator(producer).inputs)
    operators = [_kept(operator, names) for operator in program.operators if operator.name in needed]
    types = {
        name: blob.declared_type for name, blob in definition.blobs.items() if blob.shape is not None or blob.container
    }
    types.update(inferred or {})
    kept_inputs = [name for name in names if name in reached or inputs is not None]
    return definition.with_program(operators, kept_inputs, ends, types)


def _one_version(definition: NetDefinition, name: str) -> str:
    """Return the name of an input's only version; raise OperandError if there are several."""
    versions = definition.versions(name)
    if len(versions) > 1 and definition.blob(name).blob == name:
        raise OperandError(
            f"{name!r} as an input of the cut net means {len(versions)} values\n    {definition.history(name)}",
            rule="an input must be one version of a blob",
            fix=f"name it: {', '.join(version.name for version in versions)}",
        )
    return definition.blob(name).name


def _kept(operator: OperatorDefinition, inputs: tuple[str, ...]) -> OperatorDefinition:
    """Return the operator, with outputs that are inputs of the cut net renamed to names that nothing reads."""
    if not set(operator.outputs) & set(inputs):
        return operator
    # The operator may be needed for another output, but the cut net reads its input instead of this output.
    outputs = tuple(f"{blob} (cut)" if blob in inputs else blob for blob in operator.outputs)
    return replace(operator, outputs=outputs)

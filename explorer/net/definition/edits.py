"""Edits of definitions: functions that return a new, checked definition without modifying the old one.

``ex.Net`` applies them. The declared type of a blob stays with the operator that produces the blob. If blobs are
rewritten, a plain name means the current version at that position of the program. ``x@0`` names one version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from explorer.core.errors import OperandError, UnknownNameError
from explorer.core.recursion_limit import one_deeper
from explorer.net.definition.definition import BlobType, NetDefinition, OperatorDefinition
from explorer.net.definition.operator_definition import CAPTURED, Weights, graph_error
from explorer.net.definition.ssa import split_name


def changed(
    definition: NetDefinition,
    *,
    operators: Iterable[OperatorDefinition] | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    types: Mapping[str, BlobType] | None = None,
    weights: Weights | None = None,
    renamed: Mapping[str, str] | None = None,
    renamed_blobs: Mapping[str, str] | None = None,
) -> NetDefinition:
    """Return the definition with the given fields replaced.

    ``types`` are declared types. ``renamed`` and ``renamed_blobs`` map old names of operators and blobs to new names.
    """
    names, blobs, more = renamed or {}, renamed_blobs or {}, types or {}
    # The key is the producer and the blob instead of the version, because an edit renumbers versions.
    previous = {
        (names.get(blob.producer, blob.producer) if blob.producer else None, blobs.get(blob.blob, blob.blob)): blob
        for blob in definition.blobs.values()
    }

    def type_of(own: str, blob: str, version: int, producer: str | None) -> BlobType:
        declared = more.get(own) or (more.get(blob) if version == 0 else None)
        earlier = previous.get((producer, blob))
        return declared or (earlier.declared_type if earlier else BlobType())

    return definition.with_program(
        definition.operators if operators is None else operators,
        definition.inputs if inputs is None else inputs,
        definition.outputs if outputs is None else outputs,
        rewrites=definition.rewrites,
        weights=weights,
        type_of=type_of,
    )


def reading(operator: OperatorDefinition, name: Callable[[str], str]) -> OperatorDefinition:
    """Return an operator that reads the blob ``name(blob)`` for each of its operands, also in its inner graphs."""
    captured = {blob: name(blob) for key, blob in operator.input_names.items() if key.startswith(CAPTURED)}
    is_changed = any(new != blob for blob, new in captured.items())
    return replace(
        operator,
        inputs=tuple(map(name, operator.inputs)),
        input_names={key: name(blob) for key, blob in operator.input_names.items()},
        bodies={key: _inner(body, captured) for key, body in operator.bodies.items()}
        if is_changed
        else operator.bodies,
    )


def _inner(body: NetDefinition, captured: Mapping[str, str]) -> NetDefinition:
    """Return an inner graph that reads other blobs of the enclosing net; its own blobs with these names get others."""
    names = {blob: captured[blob] for blob in body.inputs if captured.get(blob, blob) != blob}
    if not names:
        return body
    present = {blob.blob for blob in body.blobs.values()}
    taken = present | {*names.values()}
    for blob in sorted({*names.values()} & present - captured.keys()):
        own = blob
        while own in taken:
            own += "'"
        taken.add(own)
        names[blob] = own

    def name(blob: str) -> str:
        return names.get(blob, blob)

    with one_deeper(f"graph {body.name}"):
        operators = [
            replace(reading(operator, name), outputs=tuple(map(name, operator.outputs))) for operator in body.operators
        ]
    return body.with_program(
        operators,
        [*dict.fromkeys(map(name, body.inputs))],
        [*map(name, body.outputs)],
        {name(blob.name): blob.declared_type for blob in body.blobs.values()},
        rewrites=body.rewrites,
    )


def position(definition: NetDefinition, before: str | None, after: str | None) -> int:
    """Return the index at which to insert an operator: before or after the named operator, or at the end."""
    if before is not None and after is not None:
        raise OperandError(
            f"before={before!r} and after={after!r}",
            rule="only one of before and after must be given",
            fix=f"after={after!r}",
        )
    if before is None and after is None:
        return len(definition.operators)
    neighbour = definition.operator(before if before is not None else after or "")
    return definition.operators.index(neighbour) + (after is not None)


def insert(
    definition: NetDefinition, operator: OperatorDefinition, position: int, weights: Weights | None = None
) -> NetDefinition:
    """Return the definition with a new operator at this position."""
    operators = definition.operators
    return changed(definition, operators=[*operators[:position], operator, *operators[position:]], weights=weights)


def splice(
    definition: NetDefinition,
    operator: OperatorDefinition,
    blob: str,
    readers: Sequence[str] | None,
    weights: Weights | None = None,
) -> NetDefinition:
    """Return the definition with an operator after a blob, whose ``readers`` then read the operator's first output."""
    target = definition.blob(blob)
    operators, outputs = _rewired(definition, target.name, operator.outputs[0], readers)
    producer = definition.operator(target.producer) if target.producer else None
    # Directly after the producer, because a later position may read a later version of the blob.
    position = definition.operators.index(producer) + 1 if producer else 0
    return changed(
        definition, operators=[*operators[:position], operator, *operators[position:]], outputs=outputs, weights=weights
    )


def rewire(definition: NetDefinition, blob: str, to: str, readers: Sequence[str] | None = None) -> NetDefinition:
    """Return the definition in which ``readers`` of a blob read ``to`` instead; None means all readers and outputs."""
    operators, outputs = _rewired(definition, definition.blob(blob).name, to, readers)
    return plain(changed(definition, operators=operators, outputs=outputs), to)


def plain(definition: NetDefinition, read: str) -> NetDefinition:
    """Return the definition with the version name ``read`` replaced by the blob's plain name, if both mean the same."""
    blob = (split_name(read) or (read, 0))[0]
    if blob == read or not definition.rewrites:
        return definition
    operators = [
        replace(operator, inputs=tuple(blob if name == read else name for name in operator.inputs))
        if read in operator.inputs
        else operator
        for operator in definition.operators
    ]
    outputs = [blob if name == read else name for name in definition.outputs]
    return changed(definition, operators=operators, outputs=outputs)


def _rewired(
    definition: NetDefinition, own: str, to: str, readers: Sequence[str] | None
) -> tuple[list[OperatorDefinition], list[str]]:
    known = definition.blobs[own].consumers
    for name in readers or ():
        if name not in known:
            raise UnknownNameError(name, kind=f"reader of {own!r}", known=known)
    operators = []
    # Versions are compared, because the name "x" means different versions at different positions of the program.
    for operator, resolved in zip(definition.operators, definition.ssa.operators, strict=True):
        if own in resolved.inputs and (readers is None or operator.name in readers):
            pairs = zip(operator.inputs, resolved.inputs, strict=True)
            replaced = {blob: to for blob, value in pairs if value == own}
            operator = reading(operator, lambda blob, replaced=replaced: replaced.get(blob, blob))  # type: ignore[misc]
        operators.append(operator)
    ends = zip(definition.outputs, definition.ssa.outputs, strict=True)
    outputs = [to if readers is None and value == own else blob for blob, value in ends]
    return operators, outputs


def remove(definition: NetDefinition, name: str, instead: Mapping[str, str] | None = None) -> NetDefinition:
    """Return the definition without an operator; ``instead`` maps its outputs to the blobs that replace them.

    Readers of a blob written in place read its previous version. Raise an error if an output that is read has no
    replacement.
    """
    operator = definition.operator(name)
    resolved = definition.ssa.operator(name)
    replacements = dict(instead or {})
    unknown = [blob for blob in replacements if blob not in operator.outputs]
    if unknown:
        raise UnknownNameError(unknown[0], kind=f"output of operator {name!r}", known=operator.outputs)
    part = definition
    for blob, own in zip(operator.outputs, resolved.outputs, strict=True):
        readers = [reader for reader in definition.blobs[own].consumers if reader != name]
        if blob in replacements:
            operators, outputs = _rewired(part, own, replacements[blob], None)
            part = replace(part, operators=tuple(operators), outputs=tuple(outputs))
        elif (readers or own in definition.ssa.outputs) and blob not in operator.inputs:
            reader = ", ".join(map(repr, readers[:3])) or "an output of the net"
            suggestion = operator.inputs[0] if operator.inputs else "another blob"
            raise graph_error(
                definition.source,
                operator,
                f"operator {name!r} is removed, but {reader} reads {blob!r}",
                rule="every blob that is read must be an input or the output of an operator",
                fix=f"name a substitute: remove({name!r}, instead={{{blob!r}: {suggestion!r}}})",
            )
    # Checked once at the end, because the graph may be invalid between two replacements.
    edited = changed(
        definition, operators=[other for other in part.operators if other.name != name], outputs=part.outputs
    )
    for read in replacements.values():
        edited = plain(edited, read)
    return edited


def put(definition: NetDefinition, operator: OperatorDefinition, weights: Weights | None = None) -> NetDefinition:
    """Return the definition in which ``operator`` replaces the operator with the same name."""
    definition.operator(operator.name)
    operators = [operator if other.name == operator.name else other for other in definition.operators]
    return changed(definition, operators=operators, weights=weights)


def rename_operator(definition: NetDefinition, old: str, new: str) -> NetDefinition:
    """Return the definition with an operator renamed."""
    definition.operator(old)
    operators = [replace(other, name=new) if other.name == old else other for other in definition.operators]
    return changed(definition, operators=operators, renamed={old: new})


def rename_blob(definition: NetDefinition, old: str, new: str) -> NetDefinition:
    """Return the definition with all versions of a blob renamed to an unused name."""
    if not definition.has_blob(old) and any(operator.name == old for operator in definition.operators):
        fix = f"{old!r} is an operator: net.rename({old!r}, {new!r})"
        raise UnknownNameError(old, kind="blob", known=definition.blobs, fix=fix)
    version = definition.blob(old)
    if version.blob != old:
        raise OperandError(
            f"{old!r} is one version of a blob",
            rule="a blob must be renamed as a whole",
            fix=f"rename_blob({version.blob!r}, {new!r})",
        )
    if definition.has_blob(new):
        raise OperandError(
            f"{old!r} renamed to {new!r}, which exists already",
            rule="the new name must be unused",
            fix=f"rename_blob({old!r}, {new + '_2'!r})",
        )

    def name(blob: str) -> str:
        return new if blob == old else f"{new}@{blob.rpartition('@')[2]}" if blob in versions else blob

    versions = {version.name for version in definition.versions(old)}
    operators = [
        replace(reading(operator, name), outputs=tuple(map(name, operator.outputs)))
        for operator in definition.operators
    ]
    return changed(
        definition,
        operators=operators,
        inputs=[*map(name, definition.inputs)],
        outputs=[*map(name, definition.outputs)],
        renamed_blobs={old: new},
    )


def prune(definition: NetDefinition) -> NetDefinition:
    """Return the definition without the operators that no output needs."""
    program = definition.ssa
    needed, kept = set(program.outputs), set[str]()
    for operator in reversed(program.topological_order):  # readers first, so that one pass is enough
        if not needed.isdisjoint(operator.outputs):
            kept.add(operator.name)
            needed.update(operator.inputs)
    return changed(definition, operators=[operator for operator in definition.operators if operator.name in kept])

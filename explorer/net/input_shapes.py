"""Changes of the declared shapes of a net's inputs, such as of the batch size that an exporter has fixed.

The net is built with the new shapes, which computes nothing. The first operator that rejects them, or that mixes the
samples of a batch, is named. Otherwise the operands get the shapes of the build.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Shape, TensorType
from explorer.net.building.builder import Build
from explorer.net.building.example_shapes import unknown_input
from explorer.net.building.inputs import is_shape
from explorer.net.definition import edits
from explorer.net.definition.declared_types import is_open, shape_text
from explorer.net.definition.definition import BlobDefinition, BlobType, Dimension, NetDefinition
from explorer.net.definition.operator_definition import OperatorDefinition
from explorer.record.reasons import counted_text

_FIX = "export the model again with this shape, or replace the operator: net.replace(…)"


def given_shapes(definition: NetDefinition, shapes: Mapping[str, Shape] | None) -> Mapping[str, Shape]:
    """Return the shapes by input that were passed in order; raise OperandError if they are a shape without a name."""
    if shapes is None or isinstance(shapes, Mapping):
        return shapes or {}
    first, *others = definition.inputs or ("x",)
    name = f"{first!r} and {counted_text(len(others), 'other')}" if others else repr(first)
    shape = shapes if is_shape(shapes) else (8, 3, 224, 224)
    raise OperandError(
        f"resize_inputs({shapes!r})",
        rule=f"a shape must be given with the name of its input; inputs of this net: {name}",
        fix=f"net.resize_inputs({f'{first}={shape}' if first.isidentifier() else {first: shape}})",
    )


def with_input_shapes(
    definition: NetDefinition, shapes: Mapping[str, Shape], build: Callable[[NetDefinition], Build]
) -> NetDefinition:
    """Return a definition with other shapes of inputs, and of the operands that depend on them.

    ``build`` returns the build of a definition for viewing. Raise UnknownNameError for a name that is not an input, and
    OperandError for an impossible shape, or with the name of the first operator that does not accept the new shapes.
    """
    for name, shape in shapes.items():
        _check(definition, name, shape)
    # A length that the file names has the same value in all inputs.
    named = {
        length: size
        for name, shape in shapes.items()
        for length, size in zip(definition.input(name).shape or shape, shape, strict=True)
        if isinstance(length, str)
    }
    types = {}
    for name, blob in definition.blobs.items():
        bound = _bound(blob.shape, named) if blob.producer is None else None
        types[name] = _with_shape(blob, tuple(shapes[name]) if name in shapes else bound)
    before, changed = build(definition), edits.changed(definition, types=types)
    after = build(changed)
    given = ", ".join(f"input {name!r} of shape {shape_text(shape)}" for name, shape in shapes.items())
    _check_operators(definition, before, after, given, _batch(definition, shapes))
    is_closed = not is_open(changed)
    for name, blob in definition.blobs.items():
        if blob.producer is not None and blob.shape is not None:
            new = _type(after, name)
            built = new.shape if new is not None and blob.producer not in after.unsized else None
            types[name] = _with_shape(blob, _joined(blob.shape, built, named, is_closed))
    return edits.changed(definition, types=types)


def _check(definition: NetDefinition, name: str, shape: Any) -> None:
    if name not in definition.inputs:
        raise unknown_input(definition, name)
    if not is_shape(shape) or any(size < 1 for size in shape):
        raise OperandError(
            f"the shape {shape!r} of input {name!r}",
            rule="a shape must be a tuple of lengths of at least 1",
            fix=f"net.resize_inputs({{{name!r}: (8, 3, 224, 224)}})",
        )
    declared = definition.input(name).shape
    if declared is not None and len(declared) != len(shape):
        raise OperandError(
            f"the shape {shape_text(shape)} of input {name!r} {shape_text(declared)}",
            rule="an input must keep its number of axes",
            fix=f"give {counted_text(len(declared), 'length')}",
        )


def _with_shape(blob: BlobDefinition, shape: tuple[Dimension, ...] | None) -> BlobType:
    return BlobType(shape, blob.dtype, blob.container, blob.keys)


def _bound(shape: tuple[Dimension, ...] | None, named: Mapping[str, int]) -> tuple[Dimension, ...] | None:
    """Return a declared shape with the values of named lengths."""
    return shape and tuple([named.get(size, size) if isinstance(size, str) else size for size in shape])


def _joined(
    declared: tuple[Dimension, ...] | None, built: Shape | None, named: Mapping[str, int], is_closed: bool
) -> tuple[Dimension, ...] | None:
    """Return the declared shape of an operand: the built one, in which unknown lengths stay unknown."""
    if built is None or declared is None or len(declared) != len(built):
        return built if is_closed else None
    if is_closed:
        return built
    bound = _bound(declared, named) or ()
    return tuple([size if isinstance(length, int) else length for length, size in zip(bound, built, strict=True)])


def _type(build: Build, name: str) -> TensorType | None:
    value = build.values.get(name)
    return value.type if isinstance(value, Expr) and isinstance(value.type, TensorType) else None


def _batch(definition: NetDefinition, shapes: Mapping[str, Shape]) -> tuple[int, int] | None:
    """Return the old and the new batch size if only the first axis of inputs changes, and equally; else None."""
    sizes = set()
    for name, shape in shapes.items():
        old = definition.input(name).shape
        if not old or old[1:] != tuple(shape[1:]) or not isinstance(old[0], int):
            return None
        sizes.add((old[0], shape[0]))
    return sizes.pop() if len(sizes) == 1 else None


def _check_operators(
    definition: NetDefinition, before: Build, after: Build, given: str, batch: tuple[int, int] | None
) -> None:
    """Raise OperandError for the first operator that fails only with the new shapes, or that mixes samples."""
    for operator in definition.ssa.topological_order:
        problem = after.problems.get(operator.name)
        if problem is not None and operator.name not in before.problems:
            raise OperandError(
                f"{given}: {problem.given}",
                rule=f"every operator must accept the new shape; {problem.rule}",
                fix=_FIX,
            )
        if batch is not None and batch[0] != batch[1] and operator.name not in after.unsized:
            text = _mixed(operator, before, after, *batch)
            if text:
                raise OperandError(
                    f"{given}: operator {operator.name!r} ({operator.type}) {text}",
                    rule=f"the first axis must have {batch[1]} in place of {batch[0]}, one row for each sample",
                    fix=_FIX,
                )


def _mixed(operator: OperatorDefinition, before: Build, after: Build, old: int, new: int) -> str:
    """Return how an operator mixes the samples of a batch, whose first axis was ``old`` and is ``new``; else ""."""
    reads = [(_type(before, name), _type(after, name)) for name in operator.inputs]
    is_batch = any(
        one is not None and other is not None and one.shape[:1] == (old,) and other.shape[:1] == (new,)
        for one, other in reads
    )
    for name in operator.outputs:
        one, other = _type(before, name), _type(after, name)
        if one is None or other is None or not is_batch or one.shape[:1] != (old,):
            continue
        if one.shape == other.shape:
            if one.dtype.kind == "f":  # not the values of Shape
                return f"still returns {shape_text(one.shape)}"
            continue
        moved = {(a, b) for a, b in zip(one.shape, other.shape, strict=False) if a != b}
        if len(one.shape) != len(other.shape) or moved != {(old, new)}:
            return f"now returns {shape_text(other.shape)} in place of {shape_text(one.shape)}"
    return ""

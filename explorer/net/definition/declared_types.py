"""Operand types declared in a file, whose unknown lengths the given inputs determine.

Declared shapes may contain unknown lengths, named or unnamed. Nets check their inputs against the declared types. The
results of operators that cannot run have the declared types.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.types.custom_dtypes import dtype_name, is_floating, is_text
from explorer.core.types.tensor_type import Shape, TensorType, is_addressable
from explorer.net.definition.definition import BlobDefinition, Dimension, NetDefinition
from explorer.net.definition.operator_definition import matches_dtype, memory_dtype

_MAX_LISTED = 8
"""maximum number of keys listed in an error"""
_NAME = re.compile(r"[^\W\d][\w.-]*")
_NUMBER = re.compile(
    r"s\d+|unk_+\d+|.*DynamicDimension\.\d+|[A-Z].*_dim_\d+|.*_o\d+__d\d+|.*_dynamic_axes_\d+|gen_dim_\d+"
)
"""lengths that tools number: torch's exporters, ONNX's and ONNX Runtime's shape inference, tf2onnx and paddle2onnx"""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Lengths that inputs determine: one for each dimension name, and one for all unnamed unknown dimensions."""

    named: Mapping[str, int]
    unnamed: int | None
    """None if the inputs have no unnamed dimensions, or unnamed dimensions of different lengths"""

    @classmethod
    def of(cls, definition: NetDefinition, shapes: Mapping[str, Shape]) -> Lengths:
        """Return the lengths that the shapes of inputs determine; inputs without a declared shape determine none."""
        named: dict[str, int] = {}
        unnamed: set[int] = set()
        for name, shape in shapes.items():
            declared = definition.input(name).shape
            for dimension, length in zip(declared if declared is not None else (), shape, strict=False):
                if isinstance(dimension, str):
                    # The first input determines a length; check_inputs rejects inputs with different lengths.
                    named.setdefault(dimension, length)
                elif dimension is None:
                    unnamed.add(length)
        # Unnamed unknown dimensions have a common length only if all of them are equal.
        return cls(named, unnamed.pop() if len(unnamed) == 1 else None)

    def bind(self, shape: tuple[Dimension, ...]) -> Shape | None:
        """Return the shape with its unknown lengths filled in; None if one of them is still unknown."""
        lengths: list[int] = []
        for dimension in shape:
            length = (
                dimension if isinstance(dimension, int) else self.named.get(dimension) if dimension else self.unnamed
            )
            if length is None:
                return None
            lengths.append(length)
        return tuple(lengths)


def is_open(definition: NetDefinition) -> bool:
    """Return whether the net's inputs have unknown lengths."""
    declared = [definition.blob(name).shape for name in definition.inputs]
    return any(not isinstance(size, int) for shape in declared for size in shape or ())


def declared_dtype(blob: BlobDefinition) -> np.dtype[np.generic] | None:
    """Return an operand's declared dtype, as used in memory, or None."""
    return None if blob.dtype is None else memory_dtype(blob.dtype)


def bound_type(blob: BlobDefinition, lengths: Lengths) -> TensorType | None:
    """Return an operand's declared type with its unknown lengths filled in; None if it is incomplete or impossible."""
    dtype = declared_dtype(blob)
    shape = lengths.bind(blob.shape) if blob.shape is not None else None
    if shape is None or dtype is None or is_text(dtype) or not is_addressable(shape, dtype):
        return None
    return TensorType(shape, dtype)


def shape_text(shape: tuple[Dimension, ...] | None) -> str:
    """Return a declared shape as text: ``(?, 1, 8, 8)``."""
    if shape is None:
        return "any shape"
    lengths = ["?" if size is None else str(size) for size in shape]
    return f"({', '.join(lengths)}{',' * (len(lengths) == 1)})"


def is_name(size: Dimension) -> TypeGuard[str]:
    """Return whether a declared length is a meaningful name: "batch", but not "s77" or "s53//2 + 1".

    Exporters and shape inference number unnamed lengths, and write derived lengths as expressions.
    """
    return isinstance(size, str) and _NAME.fullmatch(size) is not None and _NUMBER.fullmatch(size) is None


def symbolic_text(shape: tuple[Dimension, ...]) -> str:
    """Return a declared shape for drawing, ``batch×?×64``; "scalar" without dimensions."""
    return "×".join(["?" if size is None else str(size) for size in shape]) or "scalar"


def dimension_names(shape: tuple[Dimension, ...], actual: Shape, named: Mapping[str, int]) -> tuple[str, ...]:
    """Return the declared name of each dimension of a value; "" if there is none, or if its length differs.

    ``named`` maps known names to lengths. Return an empty tuple if the value contradicts the declared shape.
    """
    if not fits(shape, actual):
        return ()
    return tuple(
        [
            size if is_name(size) and named.get(size, length) == length else ""
            for size, length in zip(shape, actual, strict=True)
        ]
    )


def disagreement(blob: BlobDefinition, type_: TensorType) -> str:
    """Return how a type contradicts the declared type of an operand, as text; "" if it does not."""
    dtype = declared_dtype(blob)
    if dtype is not None and not matches_dtype(type_.dtype, dtype):
        return f"dtype {dtype_name(type_.dtype)} where the file declares {blob.dtype if is_text(dtype) else dtype.name}"
    if blob.shape is not None and not fits(blob.shape, type_.shape):
        return f"shape {type_.shape} where the file declares {shape_text(blob.shape)}"
    return ""


def fits(declared: tuple[Dimension, ...], shape: Shape) -> bool:
    """Return whether a shape has the rank and the known lengths of a declared shape."""
    # An unknown length matches anything here; check_inputs checks each name across all inputs.
    return len(declared) == len(shape) and all(
        size == length for size, length in zip(declared, shape, strict=True) if isinstance(size, int)
    )


def check_inputs(
    definition: NetDefinition,
    types: Iterable[tuple[str, TensorType]],
    fix: str = "",
) -> None:
    """Raise OperandError if inputs contradict their declared dtypes, ranks or lengths, or each other.

    ``types`` are (name, type) pairs for all inputs and elements of sequences. ``fix`` is the fix for a wrong shape; by
    default, it is derived from both shapes.
    """
    named: dict[str, tuple[int, str]] = {}
    for name, type_ in types:
        blob = definition.input(name)
        dtype = declared_dtype(blob)
        if dtype is not None and not matches_dtype(type_.dtype, dtype):
            raise OperandError(
                _mismatch(name, type_, definition),
                rule=array_rule(blob),
                fix=f"convert it: x.astype({dtype.name!r})",
            )
        if blob.shape is None:
            continue
        if not fits(blob.shape, type_.shape):
            raise OperandError(
                _mismatch(name, type_, definition),
                rule=array_rule(blob) + "; ? is any length" * (None in blob.shape),
                fix=fix or _conversion(blob.shape, type_.shape),
            )
        for dimension, length in zip(blob.shape, type_.shape, strict=True):
            # elements of a sequence have separate lengths
            if isinstance(dimension, str) and not blob.is_sequence:
                first, where = named.setdefault(dimension, (length, name))
                if first != length:
                    raise OperandError(
                        f"{_mismatch(name, type_, definition)}, where {dimension} is {length}; "
                        f"input {where!r} has {dimension} = {first}",
                        rule=f"{array_rule(blob)}; lengths with the same name must be equal",
                        fix="pass inputs whose lengths agree",
                    )


def _conversion(declared: tuple[Dimension, ...], shape: Shape) -> str:
    """Return how to convert an array to a declared shape: by an axis for the batch, or by moving the channels' axis."""
    if fits(declared, (1, *shape)):
        return "add an axis for the batch: x[None]"
    axes = range(len(shape))
    batch, inner = axes[:1], axes[1:]
    # channels last to channels first, the reverse, and an image without a batch
    for order in ((*batch, *inner[-1:], *inner[:-1]), (*batch, *inner[1:], *inner[:1])):
        if fits(declared, tuple([shape[axis] for axis in order])):
            return f"move the channels: x.transpose({', '.join(map(str, order))})"
    if fits(declared, (1, *shape[-1:], *shape[:-1])):
        return f"move the channels: x.transpose({', '.join(map(str, (*axes[-1:], *axes[:-1])))})[None]"
    return "reshape or resize the input to that shape"


def cast_floats(definition: NetDefinition, arrays: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the arrays of inputs, cast to the declared dtype if both dtypes are floating, and a line for each cast."""
    cast, notes = dict(arrays), []
    for name, array in arrays.items():
        dtype = declared_dtype(definition.input(name))
        own = getattr(array, "dtype", None)
        if dtype is not None and own is not None and own != dtype and is_floating(own) and is_floating(dtype):
            cast[name] = array.astype(dtype)
            notes.append(f"input {name!r} of net {definition.name!r}, {dtype_name(own)} to {dtype_name(dtype)}")
    return cast, notes


def _mismatch(name: str, type_: TensorType, definition: NetDefinition) -> str:
    return f"input {name!r} of net {definition.name!r} is {dtype_name(type_.dtype)} {type_.shape}"


def array_rule(blob: BlobDefinition) -> str:
    """Return the requirement on an input's array: ``the array must be as the file says, float32 (1, ?)``."""
    dtype = declared_dtype(blob)
    rule = f"the array must be as the file says, {'numbers' if dtype is None else dtype.name} {shape_text(blob.shape)}"
    return f"{rule}, or a dict of {keys_text(blob)}" if blob.keys else rule


def keys_text(blob: BlobDefinition) -> str:
    """Return the first dictionary keys that an input represents as a string: ``'a', 'b', …``."""
    return ", ".join([*map(repr, blob.keys[:_MAX_LISTED]), *["…"] * (len(blob.keys) > _MAX_LISTED)])

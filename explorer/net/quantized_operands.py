"""Scales and zero points of a net's integer operands, which represent real numbers.

Operators on integers, such as QLinearConv of ONNX and the operators of a quantised TensorFlow Lite file, have the scale
and zero point of their operands and results as arguments or weights. Other operators, such as MaxPool and Reshape, do
not change the scale of their operand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from explorer.core.types.custom_dtypes import dtype_name
from explorer.core.types.tensor_type import Array
from explorer.net.definition.declared_types import declared_dtype
from explorer.net.definition.definition import NetDefinition, OperatorDefinition
from explorer.net.operators.context import UNNAMED

_RESULTS = ("y", "Y", "C", "Z")
"""names that a result has in the names of its scale and zero point in ONNX"""
_CONCAT = "com.microsoft.QLinearConcat"
"""operator type whose result's scale is the first input; for other types with unnamed inputs, it is the last number"""
_LINEAR = frozenset({"QuantizeLinear", "DequantizeLinear"})
_UNCHANGED = frozenset({
    "DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "Pad", "Reshape", "Resize", "Slice",
    "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze",
})  # fmt: skip
"""ONNX operator types whose results have the scale of the first operand, if they have none themselves"""


class Quantization(NamedTuple):
    """Scale and zero point of an integer operand: real = (integer - zero_point) * scale."""

    scale: Array
    """float, a scalar or one element per index of ``axis``"""
    zero_point: Array
    """integer, in the shape of the scale or a scalar"""
    axis: int | None = None

    def real(self, value: Array) -> Array:
        """Return the real numbers that integers represent, as float32."""
        wide = (value.astype(np.float64) - self._along(self.zero_point, value)) * self._along(self.scale, value)
        real: Array = wide.astype(np.float32)
        return real

    def quantized(self, value: Array, dtype: np.dtype[Any]) -> Array:
        """Return real numbers as integers, rounded half to even and clipped to the range of ``dtype``."""
        limits = np.iinfo(dtype)
        steps = np.rint(value.astype(np.float64) / self._along(self.scale, value)) + self._along(self.zero_point, value)
        integers: Array = np.clip(np.nan_to_num(steps), limits.min, limits.max).astype(dtype)
        return integers

    def _along(self, parameter: Array, value: Array) -> Array:
        wide = parameter.astype(np.float64)
        if self.axis is None or wide.size == 1:
            return wide.reshape(())
        return wide.reshape([-1 if axis == self.axis % value.ndim else 1 for axis in range(value.ndim)])

    def equals(self, other: Quantization | None) -> bool:
        """Return whether another operand has the same scale and zero point."""
        return other is not None and all(map(np.array_equal, self[:2], other[:2])) and self.axis == other.axis


def quantizations(definition: NetDefinition) -> dict[str, Quantization]:
    """Return the scale and zero point of each operand that has constant ones, by name."""
    found: dict[str, Quantization] = {}
    for operator in definition.ssa.topological_order:
        constants = _Constants(definition, operator)
        for formal, blob in operator.input_names.items():
            read = constants.of_operand(formal)
            if read is not None:
                found.setdefault(blob, read)
        for position, blob in enumerate(operator.outputs):
            written = constants.of_result(position)
            if written is None and operator.type in _UNCHANGED and operator.inputs:
                written = found.get(operator.inputs[0])
            if written is not None:
                found[blob] = written
    return found


def quantized_inputs(definition: NetDefinition, arrays: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the arrays of inputs, with floats quantized for integer inputs, and a line for each."""
    cast, notes = dict(arrays), list[str]()
    for name, array in arrays.items():
        dtype = declared_dtype(definition.input(name))
        if dtype is None or dtype.kind not in "iu" or getattr(array, "dtype", dtype).kind != "f":
            continue
        known = quantizations(definition).get(definition.blob(name).name)
        if known is not None:
            cast[name] = known.quantized(np.asarray(array), dtype)
            notes.append(f"input {name!r} of net {definition.name!r}, {array.dtype} quantized to {dtype_name(dtype)}")
    return cast, notes


class _Constants:
    """Constant arguments and weights of an operator."""

    def __init__(self, definition: NetDefinition, operator: OperatorDefinition) -> None:
        self.weights: Mapping[str, Array] = definition.weights
        self.operator = operator

    def of_operand(self, formal: str) -> Quantization | None:
        """Return the scale and zero point of an operand, by its name in the operator."""
        if not formal.startswith(UNNAMED):
            return self._named(formal)
        return self._numbered(int(formal.removeprefix(UNNAMED)) + 1)

    def of_result(self, position: int) -> Quantization | None:
        """Return the scale and zero point of the result at a position."""
        operator = self.operator
        numbers = [int(name.removeprefix(UNNAMED)) for name in operator.arguments if name.startswith(UNNAMED)]
        if numbers:
            return self._numbered(0 if operator.type == _CONCAT else max(numbers))
        formals = "output" if len(operator.outputs) == 1 else f"outputs.{position}", *_RESULTS
        return next(filter(None, map(self._named, formals)), None)

    def _named(self, formal: str) -> Quantization | None:
        arguments = self.operator.arguments
        axis = arguments.get(f"{formal}.quantized_dimension", 0)
        found = self._pair(f"{formal}.scale", f"{formal}.zero_point", axis)
        # A scale per row or per block is unknown.
        axis = arguments.get("axis", 1) if self.operator.type in _LINEAR and not arguments.get("block_size") else None
        return found or self._pair(f"{formal}_scale", f"{formal}_zero_point", axis)

    def _numbered(self, position: int) -> Quantization | None:
        return self._pair(f"{UNNAMED}{position}", f"{UNNAMED}{position + 1}", None)

    def _pair(self, scale: str, zero_point: str, axis: Any) -> Quantization | None:
        factor, zero = self._constant(scale), self._constant(zero_point)
        if factor is None or factor.dtype.kind != "f" or zero_point in self.operator.input_names:
            return None
        if factor.size != 1 and axis is None:
            return None
        return Quantization(factor, np.zeros((), np.int64) if zero is None else zero, axis if factor.size > 1 else None)

    def _constant(self, name: str) -> Array | None:
        operator = self.operator
        if name in operator.weights:
            return np.asarray(self.weights[operator.weights[name].key])
        value = operator.arguments.get(name)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return np.asarray(value) if is_number or isinstance(value, tuple) else None

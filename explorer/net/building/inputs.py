"""Conversion of a net's inputs, passed in order or by name, to arrays of the types that the file declares.

An array must have the dtype that the file requires. Only lists are converted, and only if no number changes by more
than rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from explorer.core.errors import OperandError, UnknownNameError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import Tensor
from explorer.core.types.custom_dtypes import is_text
from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import Array
from explorer.net.definition.declared_types import array_rule, declared_dtype, keys_text, shape_text
from explorer.net.definition.definition import BlobDefinition, NetDefinition
from explorer.net.definition.operator_definition import STRING
from explorer.record.reasons import counted_text

_NO_NUMBERS = "USOMm"
"""dtype kinds of strings, objects and dates"""


def named_inputs(definition: NetDefinition, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all inputs by name, in the net's order; if ``inputs`` is one dict, it maps names to values.

    Raise OperandError if an input is missing, passed twice or unexpected; UnknownNameError for an unknown name.
    """
    if len(inputs) == 1 and isinstance(inputs[0], Mapping) and not _is_dictionary(definition, inputs[0]):
        named, inputs = {**inputs[0], **named}, ()
    names = definition.inputs
    for name in named:
        if name not in names:
            raise UnknownNameError(str(name), kind=f"input of net {definition.name!r}", known=names)
    by_name = dict(zip(names, inputs, strict=False))
    repeated = [name for name in by_name if name in named]
    missing = [name for name in names if name not in by_name and name not in named]
    if len(inputs) > len(names) or repeated or missing:
        expected = ", ".join(f"{name!r} {shape_text(definition.input(name).shape)}" for name in names) or "none"
        counts = f"{counted_text(len(inputs) + len(named), 'input')} for net {definition.name!r}"
        difference = (
            f"; {repeated[0]!r} is passed twice" if repeated else f"; {missing[0]!r} is missing" if missing else ""
        )
        raise OperandError(
            counts + difference, rule=f"the inputs must be {expected}", fix="pass each once, in this order or by name"
        )
    return {name: by_name[name] if name in by_name else named[name] for name in names}


def _is_dictionary(definition: NetDefinition, value: Mapping[Any, Any]) -> bool:
    """Return whether a dict is the value of the net's only input instead of a mapping of input names to values."""
    names = definition.inputs
    return len(names) == 1 and bool(definition.input(names[0]).keys) and {*value} != {*names}


def is_shape(value: Any) -> bool:
    """Return whether a value is a shape, a tuple of lengths."""
    return isinstance(value, tuple) and all(isinstance(size, int) for size in value)


def is_symbolic(blob: BlobDefinition, value: Any) -> bool:
    """Return whether the value of an input consists of expressions or shapes rather than arrays."""
    if blob.is_sequence and isinstance(value, (tuple, list)) and not (value and is_shape(value)):
        return any(isinstance(element, Expr) or is_shape(element) for element in value)
    return isinstance(value, Expr) or is_shape(value)


def as_value(blob: BlobDefinition, value: Any) -> Any:
    """Return an input's array, the arrays of a sequence as a tuple, or None for an absent optional."""
    if value is None and blob.is_optional:
        return None
    if not blob.is_sequence:
        return as_array(blob, _in_order(blob, value) if isinstance(value, Mapping) else value)
    if not isinstance(value, (tuple, list)):
        raise OperandError(
            f"input {blob.name!r} is {value!r:.80}",
            rule=f"it must be a list of arrays{', or None' * blob.is_optional}, as the file declares {blob.container}",
            fix=f"pass a list: {{{blob.name!r}: [x, y]}}",
        )
    return tuple([as_array(blob, element) for element in value])


def _in_order(blob: BlobDefinition, value: Mapping[Any, Any]) -> list[Any]:
    """Return the values of a dictionary in the order of the keys in the file; 0 or "" replaces a missing value."""
    if not blob.keys:
        raise OperandError(f"input {blob.name!r} is a dictionary", rule=array_rule(blob))
    unknown = next((key for key in value if key not in blob.keys), None)
    if unknown is not None:
        raise OperandError(
            f"input {blob.name!r} has the key {unknown!r}",
            rule=f"keys must be among {keys_text(blob)}",
            fix="correct the key, or leave it out",
        )
    absent = "" if blob.dtype == STRING else 0
    return [value.get(key, absent) for key in blob.keys]


def as_array(blob: BlobDefinition, value: Any) -> Any:
    """Return an input's array as a read-only view; numbers and lists are converted to the declared dtype.

    A tensor on a device other than cpu is returned unchanged.
    """
    dtype = declared_dtype(blob)
    if isinstance(value, Tensor) and value.device is not cpu and blob.dtype != "bfloat16":
        return value
    if dtype is not None and is_text(dtype):
        return _strings(blob, value)
    try:
        array = np.asarray(value)
        if array.dtype.kind in _NO_NUMBERS:
            raise TypeError(f"its elements are {array.dtype}")
    except (TypeError, ValueError, OverflowError) as error:
        raise OperandError(
            f"input {blob.name!r} is not a rectangular array of numbers: {error}", rule=array_rule(blob)
        ) from None
    # Lists are converted. An array keeps its dtype, so that a wrong dtype is rejected, not converted silently.
    if dtype is not None and not _has_dtype(value):
        actual = f"{array.dtype.name} numbers" + (f" from {array.min()} to {array.max()}" if array.size else "")
        converted = _converted(array, dtype)
        if converted is None:
            fix = f"convert them first: np.asarray(…).astype({dtype.name!r})"
            raise OperandError(f"input {blob.name!r} has {actual}", rule=array_rule(blob), fix=fix)
        array = converted
    # a bfloat16 tensor is stored as float32
    if blob.dtype == "bfloat16" == array.dtype.name:
        array = array.astype(np.float32)
    # The caller's own array stays writable.
    view = array.view()
    view.flags.writeable = False
    return view


def _strings(blob: BlobDefinition, value: Any) -> Array:
    """Return an input's strings with a dtype whose length is a power of two."""
    rule = f"the array must be as the file says, strings {shape_text(blob.shape)}"
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise OperandError(f"input {blob.name!r} is not a rectangular array of strings: {error}", rule=rule) from None
    if array.dtype.kind in "OT" and all(isinstance(element, str) for element in array.flat):
        array = np.array(array.tolist(), np.str_).reshape(array.shape)
    if not is_text(array.dtype):
        raise OperandError(f"input {blob.name!r} has {array.dtype} elements", rule=rule, fix="pass str values")
    longest = int(np.strings.str_len(array).max(initial=1))
    # The input's type includes the length of NumPy's string dtype. With powers of two, few plans serve all strings.
    array = array.astype((np.str_, 1 << (longest - 1).bit_length()))
    array.flags.writeable = False
    return array


def _has_dtype(value: Any) -> bool:
    """Return whether a value is an array, or a list of samples that are arrays."""
    samples = value if isinstance(value, (list, tuple)) else ()
    return hasattr(value, "__array__") or any(getattr(sample, "ndim", 0) for sample in samples)


def _converted(array: Array, dtype: np.dtype[Any]) -> Array | None:
    """Return the numbers of a list in a dtype; None if a fraction, a sign or a magnitude would be lost.

    Numbers are rounded to the nearest value of a floating-point dtype.
    """
    if not array.size:
        return array.astype(dtype)
    name = dtype.name
    if name == "bool":
        return array if array.dtype.kind == "b" else None
    if name.lstrip("u").startswith("int"):
        limits: Any = ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]  # the package has no types
        fits = array.dtype.kind in "biu" and limits.min <= array.min() and array.max() <= limits.max
        return array.astype(dtype) if fits else None
    if array.dtype.kind == "c" and not name.startswith("complex"):
        return None
    # Infinite numbers in a list are intended; a finite number that would become infinite is a mistake.
    largest = np.max(np.abs(array), initial=0, where=np.isfinite(array))
    floats: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]  # as above
    return array.astype(dtype) if largest <= float(floats.max) else None

"""Encoders of labels and categories, which look up numbers and strings in a table of keys.

Keys and values are operands, because tables may be long and attributes are part of the cache keys of plans.
"""

from __future__ import annotations

from typing import Annotated
from typing import cast as cast_type

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.operation_examples import Example, integers
from explorer.core.ir.tensor import Tensor
from explorer.core.types.custom_dtypes import is_text
from explorer.core.types.tensor_type import AnyType, Array, TensorType
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.machine_learning.class_scores import constant, int64s, label_of, labels
from explorer.net.operators.signature import Ints, Known, Names
from explorer.ops.base import cast
from explorer.ops.manipulation.reshape import expand_dims
from explorer.record.reasons import counted_text

Table = Ints | tuple[float, ...] | tuple[str, ...] | Tensor | None
"""keys or values, from a list attribute or a tensor"""
_UNKNOWN_STRING, _UNKNOWN_NUMBER = "_Unused", -1
"""default values of elements without a key"""


class Lookup(Operation):
    """Index of each element among sorted keys, or the number of keys if the element is not a key."""

    is_complete: bool = False
    """whether running raises ValueError for an element without a key"""
    accepts_strings = True
    portable = False
    nondifferentiable = "positions are integers: they have no derivative"
    unbatchable = "each batch element may have its own keys, and elements are already a batch"
    examples = (Example(integers(4, 2, high=5), integers(6, high=1)), Example(integers(3, high=1), integers(1, high=1)))

    def infer(self, x: TensorType, keys: TensorType) -> TensorType:
        """Return int64 in the shape of ``x``."""
        if keys.rank != 1 or (keys.dtype != x.dtype and not (is_text(keys.dtype) and is_text(x.dtype))):
            raise self.refuse((x, keys), "the keys must be a list of the elements' dtype")
        return TensorType(x.shape, np.dtype(np.int64))

    def kernel(self, out: Array, x: Array, keys: Array) -> Array:
        """Find keys by binary search; NaN equals NaN."""
        out[...] = len(keys)
        if len(keys):
            positions = np.minimum(np.searchsorted(keys, x), len(keys) - 1)
            same = keys[positions] == x
            if x.dtype.kind == "f":
                same |= np.isnan(keys[positions]) & np.isnan(x)
            np.copyto(out, positions, where=same)
        if self.is_complete and np.any(out == len(keys)):
            unknown = x[out == len(keys)].ravel()[0].item()
            raise ValueError(f"{unknown!r} is not among {len(keys)} categories, and zeros=0 rejects unknown elements")
        return out

    def flops(self, result: AnyType, *types: TensorType) -> int:
        """Return the number of comparisons of a binary search."""
        return types[0].size * int(types[1].size).bit_length()


def _table(name: str, table: Table) -> Array:
    if table is None:
        raise OperandError(f"no {name}", rule=f"there must be {name}_int64s, _floats, _strings or _tensor")
    if isinstance(table, Tensor):
        return table.array.reshape(-1)
    if all(isinstance(item, int) for item in table):
        return int64s(name, cast_type("tuple[int, ...]", table))
    return np.array(table, None if isinstance(table[0], str) else np.float32)


def _default(values: Array, number: int, real: float, string: str) -> Array:
    """Return the default in the dtype of ``values``, as an array of one element."""
    default = {"i": number, "f": real, "U": string}.get(values.dtype.kind)
    if default is None:
        raise OperandError(
            f"values of {values.dtype.name}", rule="values must be strings, signed integers or real numbers"
        )
    return np.array([default], None if default is string else values.dtype)


def _encoded(x: Expr, keys: Array, values: Array, default: Array) -> Expr:
    if len(keys) != len(values):
        raise OperandError(
            f"{counted_text(len(keys), 'key')} and {counted_text(len(values), 'value')}",
            rule="each key must have a value",
        )
    order, positions = np.unique(keys, return_index=True)  # the first of several equal keys is used
    table = np.concatenate([values[positions], default])  # strings get the length of the longest string
    return label_of(table, Lookup()(x, constant(order)))


@operator("ai.onnx.ml.LabelEncoder")
def label_encoder(
    X: Expr,
    *,
    keys: Annotated[Table, Names("keys_strings", "keys_int64s", "keys_floats", "keys_tensor")] = None,
    values: Annotated[Table, Names("values_strings", "values_int64s", "values_floats", "values_tensor")] = None,
    default_tensor: Known[Array] | None = None,
    default_int64: int = _UNKNOWN_NUMBER,
    default_float: float = -0.0,
    default_string: str = _UNKNOWN_STRING,
    classes_strings: tuple[str, ...] = (),
) -> Expr:
    """Return the value of each element; in opset 1, strings are mapped to list positions, or positions to strings."""
    if classes_strings:
        positions = np.arange(len(classes_strings))
        return _mapped(X, positions, np.array(classes_strings), default_int64, default_string)
    table, results = _table("keys", keys), _table("values", values)
    if default_tensor is None:
        return _encoded(X, table, results, _default(results, default_int64, default_float, default_string))
    if default_tensor.size != 1 or default_tensor.dtype.kind != results.dtype.kind:
        raise OperandError(
            f"default_tensor of {default_tensor.size} {default_tensor.dtype.name}",
            rule="default_tensor must be one element of the values' type",
        )
    return _encoded(X, table, results, default_tensor.reshape(-1))


@operator("ai.onnx.ml.CategoryMapper")
def category_mapper(
    X: Expr,
    *,
    cats_int64s: Ints,
    cats_strings: tuple[str, ...],
    default_int64: int = _UNKNOWN_NUMBER,
    default_string: str = _UNKNOWN_STRING,
) -> Expr:
    """Return the number of each string, or the string of each number."""
    return _mapped(X, int64s("cats_int64s", cats_int64s), np.array(cats_strings), default_int64, default_string)


def _mapped(x: Expr, numbers: Array, strings: Array, default_number: int, default_string: str) -> Expr:
    keys, values = (strings, numbers) if is_text(x.dtype) else (numbers, strings)
    return _encoded(x, keys, values, _default(values, default_number, 0.0, default_string))


@operator("ai.onnx.ml.OneHotEncoder")
def one_hot_encoder(
    X: Expr, *, cats: Annotated[Ints | tuple[str, ...], Names("cats_int64s", "cats_strings")], zeros: int = 1
) -> Expr:
    """Return 1 at the index of each element's category, and 0 elsewhere.

    An unknown element gives zeros if ``zeros`` is set, and otherwise raises an error.
    """
    categories = labels(cats)
    x = X if is_text(X.dtype) else cast(X, np.dtype(np.int64))
    order = np.unique(categories)
    position = Lookup(not zeros)(x, constant(order))
    return cast(expand_dims(position, x.ndim) == constant(np.searchsorted(order, categories)), np.dtype(np.float32))

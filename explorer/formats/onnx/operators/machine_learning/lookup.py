"""Lookup of numbers and texts in a table of keys: encoders of labels and categories.

Keys and values are operands, not attributes: a table may be long, and attributes are part of the key of cached plans.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.operation_examples import Example, integers
from explorer.core.types.custom_dtypes import is_text
from explorer.core.types.tensor_type import AnyType, Array, TensorType
from explorer.formats.onnx.operators.base.operator_inputs import first
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.machine_learning.class_scores import constant, label_of, labels
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast
from explorer.ops.manipulation.reshape import expand_dims
from explorer.record.reasons import counted_text

_TYPES = {"int64s": np.int64, "floats": np.float32, "strings": np.str_}
"""dtypes of keys and values by the ends of the names of the attributes that hold them"""
_DEFAULTS = {"int64": -1, "float": -0.0, "string": "_Unused"}
"""values of elements that have no key"""


class Lookup(Operation):
    """Place of each element among sorted keys, or the number of keys where there is none."""

    is_complete: bool = False
    """an element without a key fails the run"""
    takes_text = True
    portable = False
    nondifferentiable = "places are integers: they have no derivative"
    unbatchable = "each member may have keys of its own, and elements are a batch already"
    examples = (Example(integers(4, 2, high=5), integers(6, high=1)), Example(integers(3, high=1), integers(1, high=1)))

    def infer(self, x: TensorType, keys: TensorType) -> TensorType:
        """Return int64 in the elements' shape."""
        if keys.rank != 1 or (keys.dtype != x.dtype and not (is_text(keys.dtype) and is_text(x.dtype))):
            raise self.refuse((x, keys), "the keys must be a list of the elements' dtype")
        return TensorType(x.shape, np.dtype(np.int64))

    def kernel(self, out: Array, x: Array, keys: Array) -> Array:
        """Search by halving; a missing number is like another."""
        out[...] = len(keys)
        if len(keys):
            places = np.minimum(np.searchsorted(keys, x), len(keys) - 1)
            same = keys[places] == x
            if x.dtype.kind == "f":
                same |= np.isnan(keys[places]) & np.isnan(x)
            np.copyto(out, places, where=same)
        if self.is_complete and np.any(out == len(keys)):
            unknown = x[out == len(keys)].ravel()[0].item()
            raise ValueError(f"{unknown!r} is none of {len(keys)} categories, and zeros=0 refuses others")
        return out

    def flops(self, result: AnyType, *types: TensorType) -> int:
        """Return a comparison for each halving."""
        return types[0].size * int(types[1].size).bit_length()


def _table(op: OperatorContext, side: str) -> Array:
    """Return keys or values, from a tensor or from the list of their type."""
    if f"{side}_tensor" in op.definition.weights:
        array: Array = op.weight(f"{side}_tensor").array.reshape(-1)
        return array
    present = [end for end in _TYPES if op.argument(f"{side}_{end}", ()) != ()]
    if len(present) != 1:
        raise OperandError(
            f"{len(present)} lists of {side}", rule=f"{op.definition.type} must have one of {', '.join(_TYPES)}"
        )
    value = op.argument(f"{side}_{present[0]}")
    items = value if isinstance(value, tuple) else (value,)
    wanted: Any = {"int64s": int, "floats": (int, float), "strings": str}[present[0]]
    if not all(isinstance(item, wanted) and not isinstance(item, bool) for item in items):
        raise OperandError(
            f"{side}_{present[0]}={value!r:.80}", rule=f"{op.definition.type}: {side} must be of one type"
        )
    try:
        return np.array(items, _TYPES[present[0]])
    except OverflowError as error:
        raise OperandError(f"{side}: {error}", rule=f"{op.definition.type}: {side} must fit 64 bits") from None


def _default(op: OperatorContext, values: Array) -> Array:
    if "default_tensor" in op.definition.weights:
        default: Array = op.weight("default_tensor").array.reshape(-1)
        if default.size != 1 or default.dtype.kind != values.dtype.kind:
            raise OperandError(
                f"default_tensor of {default.size} {default.dtype.name}",
                rule=f"{op.definition.type}: it must be one element of the values' type",
            )
        return default
    name = {"i": "int64", "f": "float", "U": "string"}.get(values.dtype.kind)
    if name is None:
        raise OperandError(
            f"values of {values.dtype.name}",
            rule=f"{op.definition.type}: values must be texts, or signed or real numbers",
        )
    value = op.argument(f"default_{name}", _DEFAULTS[name])
    if isinstance(value, str) is not (name == "string") or isinstance(value, (bool, tuple)):
        raise OperandError(
            f"default_{name}={value!r:.80}", rule=f"{op.definition.type}: it must be of the values' type"
        )
    if name == "int64" and not isinstance(value, int):
        raise OperandError(f"{value!r}", rule=f"{op.definition.type}: default_int64 must be an integer")
    return np.array([value], None if name == "string" else values.dtype)


def _encoded(x: Expr, keys: Array, values: Array, default: Array) -> Expr:
    if len(keys) != len(values):
        raise OperandError(
            f"{counted_text(len(keys), 'key')} and {counted_text(len(values), 'value')}",
            rule="each key must have a value",
        )
    order, places = np.unique(keys, return_index=True)  # of equal keys the first counts
    table = np.concatenate([values[places], default])  # texts get the room of the longest
    return label_of(table, Lookup()(x, constant(order)))


# the default of the values' type is read
@operator("ai.onnx.ml.LabelEncoder", ignored=("default_float", "default_int64", "default_string"))
def label_encoder(op: OperatorContext) -> Expr:
    """The value of each element's key; opset 1 numbers texts, or names numbers, by their place in a list."""
    x = first(op)
    if not op.has("classes_strings"):
        values = _table(op, "values")
        return _encoded(x, _table(op, "keys"), values, _default(op, values))
    texts = labels(op, "classes_strings")
    return _mapped(op, x, np.arange(len(texts)), texts)


@operator("ai.onnx.ml.CategoryMapper")
def category_mapper(op: OperatorContext) -> Expr:
    """The number of each text, or the text of each number."""
    return _mapped(op, first(op), labels(op, "cats_int64s"), labels(op, "cats_strings"))


def _mapped(op: OperatorContext, x: Expr, numbers: Array, texts: Array) -> Expr:
    keys, values = (texts, numbers) if is_text(x.dtype) else (numbers, texts)
    return _encoded(x, keys, values, _default(op, values))


@operator("ai.onnx.ml.OneHotEncoder")
def one_hot_encoder(op: OperatorContext) -> Expr:
    """1 at the place of each element's category, 0 elsewhere; an element of none fails unless ``zeros`` is set."""
    x, categories = first(op), labels(op, "cats_int64s", "cats_strings")
    if not is_text(x.dtype):
        x = cast(x, np.dtype(np.int64))
    order = np.unique(categories)
    place = Lookup(not op.integer("zeros", 1))(x, constant(order))
    return cast(expand_dims(place, x.ndim) == constant(np.searchsorted(order, categories)), np.dtype(np.float32))

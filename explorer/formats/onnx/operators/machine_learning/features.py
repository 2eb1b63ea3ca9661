"""Features, the columns that models read: scaled, normalised, imputed, compared with a threshold, chosen, joined.

These are operators of ai.onnx.ml, the domain for models that are not nets; converters of such pipelines write them in
front of a model.
"""

from __future__ import annotations

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.formats.onnx.operators.base.operator_inputs import first, numbers
from explorer.formats.onnx.operators.base.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import members, required
from explorer.ops.base import cast, reshape
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.unary import absolute, isnan, sqrt
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.manipulation.gather import take
from explorer.ops.reduction.reduce import max as largest
from explorer.ops.reduction.reduce import sum as total


def _features(op: OperatorContext) -> Expr:
    """Return the operand in float32, as the standard has it for all of these."""
    return cast(first(op), np.dtype(np.float32))


@operator("ai.onnx.ml.Scaler")
def scaler(op: OperatorContext) -> Expr:
    """(x − offset) · scale, with one number of each for all features, or one for each feature."""
    x = _features(op)
    return (x - _per_feature(op, "offset", x)) * _per_feature(op, "scale", x)


def _per_feature(op: OperatorContext, name: str, x: Expr) -> Expr:
    """Return an attribute that has one number for all features, or one for each, in the operand's dtype."""
    values = numbers(op, name, x.dtype)
    if values.size not in (1, x.shape[-1] if x.ndim else 1):
        raise OperandError(
            f"{name} has {values.size} numbers for {x.type}", rule=f"{name} must have one number, or one a feature"
        )
    return tensor(values)


@operator("ai.onnx.ml.Normalizer")
def normalizer(op: OperatorContext) -> Expr:
    """Rows divided by their largest element, by the sum of their magnitudes, or by their length; zeros stay."""
    x = _features(op)
    norm = op.word("norm", "MAX", ("MAX", "L1", "L2"))
    if norm == "MAX":
        size = largest(absolute(x), -1, keepdims=True)
    elif norm == "L1":
        size = total(absolute(x), -1, keepdims=True)
    else:
        size = sqrt(total(x * x, -1, keepdims=True))
    return x / where(size == 0, tensor(np.float32(1)), size)


@operator("ai.onnx.ml.ArrayFeatureExtractor")
def array_feature_extractor(op: OperatorContext) -> Expr:
    """The columns of some numbers, in their order."""
    x, places = required(op, "X"), required(op, "Y")
    if x.ndim == 0 or places.dtype.kind not in "iu":
        raise OperandError(
            f"{x.type} and {places.type}", rule="ArrayFeatureExtractor must have rows, and whole numbers of columns"
        )
    y = take(x, reshape(places, (places.size,)), x.ndim - 1)
    return reshape(y, (1, places.size)) if x.ndim == 1 else y


@operator("ai.onnx.ml.Binarizer")
def binarizer(op: OperatorContext) -> Expr:
    """1 above a threshold, else 0."""
    x = first(op)
    if x.dtype.kind not in "iuf":
        raise OperandError(f"elements of {x.dtype.name}", rule="Binarizer must have numbers as elements")
    return cast(x > np.asarray(op.number("threshold", 0.0), x.dtype), x.dtype)


@operator("ai.onnx.ml.Imputer")
def imputer(op: OperatorContext) -> Expr:
    """A number in place of another, or of missing ones: one for all features, or one for each."""
    x = first(op)
    if x.dtype.kind not in "iuf":
        raise OperandError(f"elements of {x.dtype.name}", rule="Imputer must have numbers as elements")
    end = "int64" if x.dtype.kind in "iu" else "float"
    values = _per_feature(op, f"imputed_value_{end}s", x)
    replaced = op.number(f"replaced_value_{end}", 0)
    if x.dtype.kind == "f" and replaced != replaced:  # NaN
        return where(isnan(x), values, x)
    return where(x == np.asarray(replaced, x.dtype), values, x)


@operator("ai.onnx.ml.FeatureVectorizer", ignored=("inputdimensions",))
def feature_vectorizer(op: OperatorContext) -> Expr:
    """The columns of all operands next to one another, in float32."""
    parts = [cast(part, np.dtype(np.float32)) for part in members(op, "X")]
    return concatenate([reshape(part, (part.size, 1)) if part.ndim == 1 else part for part in parts], 1)


@operator("ai.onnx.ml.DictVectorizer")
def dict_vectorizer(op: OperatorContext) -> Expr:
    """A dictionary's values in the order of the vocabulary, as a row; an array of them stands for the dictionary."""
    x, named = first(op), [name for name in ("string_vocabulary", "int64_vocabulary") if op.has(name)]
    values = op.argument(named[0]) if len(named) == 1 else ()
    keys = values if isinstance(values, tuple) else (values,)
    if len({*keys}) != len(keys) or x.shape != (len(keys),) or x.dtype.kind not in "iufU":
        raise OperandError(
            f"{len(keys)} keys for {x.type}",
            rule="DictVectorizer: there must be one vocabulary, each key once, and an element for each key",
        )
    return reshape(x, (1, x.size))


@operator("ai.onnx.ml.ZipMap")
def zip_map(op: OperatorContext) -> Expr:
    """Scores as they are, an array with a column for each label; the standard has a map of labels for each row."""
    x = first(op)
    labels = op.argument("classlabels_strings") if op.has("classlabels_strings") else op.argument("classlabels_int64s")
    count = len(labels) if isinstance(labels, tuple) else 1
    if x.ndim == 0 or x.shape[-1] != count:
        raise OperandError(f"{count} labels for {x.type}", rule="each column must have a label")
    return x

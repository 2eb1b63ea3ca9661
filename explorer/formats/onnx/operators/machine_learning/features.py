"""Preprocessing of features: scaling, normalisation, imputation, thresholds, selection and concatenation."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.types.tensor_type import Array
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.machine_learning.class_scores import Labels, labels
from explorer.net.operators.signature import Ints, Known, Names, Unused
from explorer.ops.base import cast, reshape
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.unary import absolute, isnan, sqrt
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.manipulation.gather import take
from explorer.ops.reduction.reduce import max as largest
from explorer.ops.reduction.reduce import sum as total

Vocabulary = Annotated[Ints | tuple[str, ...], Names("string_vocabulary", "int64_vocabulary")]
"""keys of a dictionary, stored in one of these attributes"""
_FLOAT32 = np.dtype(np.float32)


@operator("ai.onnx.ml.Scaler")
def scaler(X: Expr, *, offset: Known[Array], scale: Known[Array]) -> Expr:
    """Return (x − ``offset``) · ``scale``; each has one number, or one per feature."""
    x = cast(X, _FLOAT32)
    return (x - _per_feature("offset", offset, x)) * _per_feature("scale", scale, x)


def _per_feature(name: str, values: Array, x: Expr) -> Expr:
    """Return an attribute in the dtype of ``x``, after checking that it has one number, or one per feature."""
    if values.size not in (1, x.shape[-1] if x.ndim else 1):
        raise OperandError(
            f"{name} has {values.size} numbers for {x.type}", rule=f"{name} must have one number, or one per feature"
        )
    return tensor(values.reshape(-1).astype(x.dtype))


@operator("ai.onnx.ml.Normalizer")
def normalizer(X: Expr, *, norm: Literal["MAX", "L1", "L2"] = "MAX") -> Expr:
    """Divide each row by its maximum, L1 or L2 norm; rows of zeros are unchanged."""
    x = cast(X, _FLOAT32)
    if norm == "MAX":
        divisor = largest(absolute(x), -1, keepdims=True)
    elif norm == "L1":
        divisor = total(absolute(x), -1, keepdims=True)
    else:
        divisor = sqrt(total(x * x, -1, keepdims=True))
    return x / where(divisor == 0, tensor(np.float32(1)), divisor)


@operator("ai.onnx.ml.ArrayFeatureExtractor")
def array_feature_extractor(X: Expr, Y: Expr) -> Expr:
    """Return the columns of X with the indices Y."""
    if X.ndim == 0 or Y.dtype.kind not in "iu":
        raise OperandError(
            f"{X.type} and {Y.type}", rule="ArrayFeatureExtractor must have rows, and integers as column indices"
        )
    columns = take(X, reshape(Y, (Y.size,)), X.ndim - 1)
    return reshape(columns, (1, Y.size)) if X.ndim == 1 else columns


@operator("ai.onnx.ml.Binarizer")
def binarizer(X: Expr, *, threshold: float = 0.0) -> Expr:
    """Return 1 for elements above ``threshold``, and 0 otherwise."""
    _check_numbers(X)
    return cast(X > np.asarray(threshold, X.dtype), X.dtype)


def _check_numbers(x: Expr) -> None:
    if x.dtype.kind not in "iuf":
        raise OperandError(f"elements of {x.dtype.name}", rule="the elements must be numbers")


@operator("ai.onnx.ml.Imputer")
def imputer(
    X: Expr,
    *,
    imputed_value_floats: Known[Array] | None = None,
    imputed_value_int64s: Known[Array] | None = None,
    replaced_value_float: float = 0.0,
    replaced_value_int64: int = 0,
) -> Expr:
    """Replace a number or NaN with one value, or with one value per feature."""
    _check_numbers(X)
    imputed, unused, replaced = imputed_value_floats, imputed_value_int64s, replaced_value_float
    if X.dtype.kind in "iu":
        imputed, unused, replaced = imputed_value_int64s, imputed_value_floats, replaced_value_int64
    if imputed is None or unused is not None:
        raise OperandError(
            f"elements of {X.dtype.name}",
            rule="imputed_value_int64s must be given for integers, imputed_value_floats for floating-point numbers",
        )
    values = _per_feature("imputed values", imputed, X)
    return where(isnan(X) if replaced != replaced else X == np.asarray(replaced, X.dtype), values, X)  # NaN ≠ NaN


@operator("ai.onnx.ml.FeatureVectorizer")
def feature_vectorizer(*X: Expr, inputdimensions: Unused) -> Expr:
    """Concatenate the columns of all operands, in float32."""
    parts = [cast(part, _FLOAT32) for part in X]
    return concatenate([reshape(part, (part.size, 1)) if part.ndim == 1 else part for part in parts], 1)


@operator("ai.onnx.ml.DictVectorizer")
def dict_vectorizer(X: Expr, *, vocabulary: Vocabulary) -> Expr:
    """Return the values of a dictionary (given as an array) as a row, in the order of ``vocabulary``."""
    count = len(vocabulary)
    if len({*vocabulary}) != count or X.shape != (count,) or X.dtype.kind not in "iufU":
        raise OperandError(
            f"{count} keys for {X.type}",
            rule="DictVectorizer: keys must be unique, and the operand must have one element for each key",
        )
    return reshape(X, (1, X.size))


@operator("ai.onnx.ml.ZipMap")
def zip_map(X: Expr, *, classlabels: Labels) -> Expr:
    """Return the scores unchanged, one column per label; the standard would return one map per row."""
    count = len(labels(classlabels))
    if X.ndim == 0 or X.shape[-1] != count:
        raise OperandError(f"{count} labels for {X.type}", rule="each column must have a label")
    return X

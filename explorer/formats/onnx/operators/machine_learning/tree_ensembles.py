"""Builders of ensembles of decision trees: random forests, boosted trees and single trees."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.formats.common.known_inputs import is_given
from explorer.formats.onnx.operators.base.operator_inputs import numbers, rows
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.machine_learning.class_scores import (
    TRANSFORMS,
    label_of,
    labels,
    transform_of,
    transformed,
)
from explorer.formats.onnx.operators.machine_learning.decision_trees import COMBINE, DecisionTrees
from explorer.formats.onnx.operators.machine_learning.tree_tables import TreeTables, named_trees, placed_trees
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.reduction.sorting import argmax

_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
"""how trees are put together, in the order of their numbers in TreeEnsemble"""


def _rows(op: OperatorContext) -> Expr:
    """Return the operand as rows of real numbers: float64 as it is, all others in float32."""
    x = rows(op)
    return x if x.dtype == np.float64 else cast(x, np.dtype(np.float32))


def _walked(x: Expr, tables: TreeTables, targets: int, combine: str = "SUM") -> Expr:
    return DecisionTrees(targets, tables.depth, combine)(x, *map(tensor, tables.operands))


def _base(op: OperatorContext, targets: int) -> Any:
    """Return what is added to all rows: a number for each target, or one; None where there is none."""
    if not is_given(op, "base_values") and not is_given(op, "base_values_as_tensor"):
        return None
    base = numbers(op, "base_values", np.float32).astype(np.float32)
    if base.size == 0:
        return None
    if base.size not in (1, targets):
        raise OperandError(
            f"{base.size} base values for {targets} targets",
            rule="there must be one base value, or one for each target",
        )
    return base


@operator("ai.onnx.ml.TreeEnsembleRegressor", ignored=("nodes_hitrates", "nodes_hitrates_as_tensor"))
def tree_ensemble_regressor(op: OperatorContext) -> Expr:
    """The weights of the leaves that a row reaches: their sum, mean, least or largest, plus base values."""
    x, targets = _rows(op), op.integer("n_targets", 1)
    aggregate = op.word("aggregate_function", "SUM", _AGGREGATES)
    combine = aggregate if aggregate in COMBINE else "SUM"
    tables = named_trees(op, "target", x.shape[1], _count(op, targets), x.dtype, combine)
    y = cast(_walked(x, tables, targets, combine), np.dtype(np.float32))
    if aggregate == "AVERAGE":
        y = y / np.float32(max(1, len(tables.roots)))
    base = _base(op, targets)
    return transformed(y if base is None else y + tensor(base), transform_of(op))


@operator("ai.onnx.ml.TreeEnsemble", ignored=("nodes_hitrates",))
def tree_ensemble(op: OperatorContext) -> Expr:
    """The same, as opset 5 writes it: for regressors and, with an ArgMax behind it, for classifiers."""
    x, targets = _rows(op), op.integer("n_targets", 1)
    aggregate = _numbered(op, "aggregate_function", 1, _AGGREGATES)
    combine = aggregate if aggregate in COMBINE else "SUM"
    tables = placed_trees(op, x.shape[1], _count(op, targets), x.dtype, combine)
    y = _walked(x, tables, targets, combine)
    if aggregate == "AVERAGE":
        y = y / np.asarray(max(1, len(tables.roots)), y.dtype)
    return transformed(y, _numbered(op, "post_transform", 0, TRANSFORMS))


def _count(op: OperatorContext, targets: int) -> int:
    if not 1 <= targets < 1 << 31:
        raise OperandError(f"n_targets={targets}", rule=f"{op.definition.type}: there must be a target")
    return targets


def _numbered(op: OperatorContext, name: str, default: int, words: tuple[str, ...]) -> str:
    number = op.integer(name, default)
    if not 0 <= number < len(words):
        raise OperandError(f"{name}={number}", rule=f"{op.definition.type}: {name} must be in 0 … {len(words) - 1}")
    return words[number]


@operator("ai.onnx.ml.TreeEnsembleClassifier", ignored=("nodes_hitrates", "nodes_hitrates_as_tensor"))
def tree_ensemble_classifier(op: OperatorContext) -> tuple[Expr, Expr]:
    """The label of the class whose leaves weigh most, and the weights of all classes after a transform.

    Of two classes, one alone may have weights: those of the second class, probabilities if none of them is negative.
    """
    x, names = _rows(op), labels(op, "classlabels_int64s", "classlabels_strings")
    classes = len(names)
    if classes < 2:
        raise OperandError(f"{classes} label", rule=f"{op.definition.type}: there must be two labels or more")
    tables = named_trees(op, "class", x.shape[1], classes, x.dtype)
    scores = cast(_walked(x, tables, classes), np.dtype(np.float32))
    transform, base = transform_of(op), _base(op, classes)
    weighed = np.unique(numbers(op, "class_ids", np.int64))
    if classes > 2 or len(weighed) > 1:
        if base is not None:
            scores = scores + tensor(base)
        return label_of(names, argmax(scores, -1)), transformed(scores, transform)
    # Weights of one sign are taken for probabilities: then the second class begins at 0.5, else at 0.
    are_positive = bool(np.all(numbers(op, "class_weights", np.float32) >= 0))
    (column,) = weighed.tolist() or [0]
    score = scores[:, column : column + 1]
    if base is not None:
        score = score + tensor(base[column : column + 1] if base.size > 1 else base)
    label = label_of(names, cast(score[:, 0] > (0.5 if are_positive else 0.0), np.dtype(np.int64)))
    if transform == "PROBIT":
        raise OperandError(
            "PROBIT of one column", rule=f"{op.definition.type}: PROBIT must be of a column for each class"
        )
    if column == 1:
        return label, transformed(concatenate([score * 0, score], 1), transform)
    if transform == "LOGISTIC":
        return label, transformed(concatenate([-score, score], 1), transform)
    return label, concatenate([1 - score if are_positive else -score, score], 1)

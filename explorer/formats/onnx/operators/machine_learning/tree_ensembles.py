"""Builders of ensembles of decision trees: random forests, boosted trees and single trees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.core.types.tensor_type import Array
from explorer.formats.onnx.operators.base.operator_inputs import numbers, rows
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.machine_learning.class_scores import (
    TRANSFORMS,
    label_of,
    labels,
    transform_of,
    transformed,
)
from explorer.formats.onnx.operators.machine_learning.decision_trees import COMBINE, EQUAL, NAN_GOES_TRUE, DecisionTrees
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import is_given
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


MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
"""questions that a node may ask, in the order of their numbers in opset 5"""
_LEQ, _LT, _GTE, _GT, _EQ, _NEQ, _MEMBER = range(len(MODES))


@dataclass(frozen=True)
class TreeTables:
    """Nodes and trees as ``DecisionTrees`` takes them."""

    features: Array
    limits: Array
    branches: Array
    flags: Array
    weights: Array
    roots: Array
    columns: Array
    depth: int

    @property
    def operands(self) -> tuple[Array, ...]:
        """The operands behind the rows, in their order."""
        return self.features, self.limits, self.branches, self.flags, self.weights, self.roots, self.columns


def named_trees(
    op: OperatorContext, weights: str, features: int, targets: int, dtype: Any, combine: str = "SUM"
) -> TreeTables:
    """Return the tables of opsets 1 to 4, whose weights' attributes begin with ``weights``: ``class`` or ``target``."""
    trees, ids = numbers(op, "nodes_treeids", np.int64), numbers(op, "nodes_nodeids", np.int64)
    count = len(_as_long(op, "nodes_nodeids", ids, len(trees)))
    modes = op.argument("nodes_modes")
    modes = modes if isinstance(modes, tuple) else (modes,)
    if len(modes) != count or not {*modes} <= {*MODES[:_MEMBER], "LEAF"}:
        raise _misfit(op, "nodes_modes must be known comparisons, or LEAF, one for each node")
    codes = np.array([-1 if mode == "LEAF" else MODES.index(mode) for mode in modes], np.int64)
    inner = codes >= 0
    place = {pair: number for number, pair in enumerate(zip(trees.tolist(), ids.tolist(), strict=True))}

    def nodes(owners: Array, named: Array, what: str) -> Array:
        _as_long(op, what, named, len(owners))
        pairs = zip(owners.tolist(), named.tolist(), strict=True)
        indices = [place.get(pair, -1) for pair in pairs]
        if -1 in indices:
            raise _misfit(op, f"{what} must be nodes of the tree")
        return np.array(indices, np.int64)

    # A leaf leads to itself, so that rows that arrived early may go on walking with the others.
    branches = np.repeat(np.arange(count)[:, None], 2, 1)
    for side, name in enumerate(("nodes_truenodeids", "nodes_falsenodeids")):
        named = _as_long(op, name, numbers(op, name, np.int64), count)
        branches[inner, side] = nodes(trees[inner], named[inner], name)
    _, first = np.unique(trees, return_index=True)
    roots = np.sort(first)
    own = nodes(
        numbers(op, f"{weights}_treeids", np.int64), numbers(op, f"{weights}_nodeids", np.int64), f"{weights}_nodeids"
    )
    columns = numbers(op, f"{weights}_ids", np.int64)
    values = numbers(op, f"{weights}_weights", np.float32)
    if not len(own) == len(columns) == len(values):
        raise _misfit(op, f"{weights}_ids and {weights}_weights must be as many as {weights}_nodeids")
    # A tree's number in the file may be any; its place is that of its first node.
    tree_of_node = np.searchsorted(np.sort(trees[roots]), trees)
    order = np.argsort(trees[roots])
    questions = _Questions(
        numbers(op, "nodes_featureids", np.int64),
        numbers(op, "nodes_values", np.float32).astype(dtype),
        codes,
        branches,
        numbers(op, "nodes_missing_value_tracks_true", np.int64, [0] * count),
        inner,
    )
    return _tables(op, questions, roots, features, targets, (own, columns, values), order[tree_of_node], combine)


def placed_trees(op: OperatorContext, features: int, targets: int, dtype: Any, combine: str) -> TreeTables:
    """Return the tables of opset 5: inner nodes, and behind them the leaves."""
    limits = numbers(op, "nodes_splits", dtype).astype(dtype)
    inner, leaves = len(limits), numbers(op, "leaf_weights", dtype)
    codes = numbers(op, "nodes_modes", np.int64).astype(np.int64)
    columns = _as_long(op, "leaf_targetids", numbers(op, "leaf_targetids", np.int64), len(leaves))
    if len(codes) != inner or not np.all((codes >= 0) & (codes < len(MODES))):
        raise _misfit(op, f"nodes_modes must be numbers in 0 … {len(MODES) - 1}, one for each node")
    count = inner + len(leaves)
    branches = np.repeat(np.arange(count)[:, None], 2, 1)
    for side, word in enumerate(("true", "false")):
        named = _as_long(op, f"nodes_{word}nodeids", numbers(op, f"nodes_{word}nodeids", np.int64), inner)
        are_leaves = _as_long(op, f"nodes_{word}leafs", numbers(op, f"nodes_{word}leafs", np.int64), inner) != 0
        if not np.all((named >= 0) & (named < np.where(are_leaves, len(leaves), inner))):
            raise _misfit(op, f"nodes_{word}nodeids must be places of nodes, or of leaves")
        # Nodes and leaves are numbered apart in the file; here leaves follow the nodes.
        branches[:inner, side] = named + are_leaves * inner
    roots = numbers(op, "tree_roots", np.int64)
    if not np.all((roots >= 0) & (roots < inner)):
        raise _misfit(op, "tree_roots must be places of nodes")
    padding = np.zeros(len(leaves), np.int64)
    questions = _Questions(
        np.concatenate([_as_long(op, "nodes_featureids", numbers(op, "nodes_featureids", np.int64), inner), padding]),
        np.concatenate([limits, padding.astype(dtype)]),
        np.concatenate([codes, padding - 1]),
        branches,
        np.concatenate([numbers(op, "nodes_missing_value_tracks_true", np.int64, [0] * inner), padding]),
        np.arange(count) < inner,
    )
    if np.any(codes == _MEMBER):
        members = numbers(op, "membership_values", dtype).astype(dtype)
        questions = _without_members(op, questions, members)
    own = inner + np.arange(len(leaves))
    # leaves may be shared by trees, so that no tree has columns of its own
    return _tables(op, questions, roots, features, targets, (own, columns, leaves.astype(dtype)), None, combine)


@dataclass(frozen=True)
class _Questions:
    """Questions of the nodes, as the file has them."""

    features: Array
    limits: Array
    codes: Array
    branches: Array
    tracks: Array
    inner: Array


def _without_members(op: OperatorContext, questions: _Questions, members: Array) -> _Questions:
    """Return the questions with a chain of comparisons for each set: equal to the first, else to the second, …"""
    # NaN ends each set.
    ends = np.flatnonzero(np.isnan(members))
    sets = [part[~np.isnan(part)] for part in np.split(members, ends)]
    sets = [part for part in sets if len(part)]
    asked = np.flatnonzero(questions.codes == _MEMBER)
    if len(sets) != len(asked):
        raise _misfit(op, "membership_values must have a set of one number or more for each BRANCH_MEMBER")
    limits, codes, branches = questions.limits.copy(), questions.codes.copy(), questions.branches.copy()
    codes[asked] = _EQ
    rows: list[int] = []
    more_limits: list[Array] = []
    more_branches: list[list[int]] = []
    free = len(codes)
    for node, values in zip(asked.tolist(), sets, strict=True):
        limits[node] = values[0]
        true, false = branches[node].tolist()
        previous = node
        for _ in values[1:]:
            # Each "no" leads to the next member's question; the last one's keeps the way of a "no" to the set.
            if previous == node:
                branches[node, 1] = free
            else:
                more_branches[-1][1] = free
            rows.append(node)
            more_branches.append([true, false])
            previous, free = free, free + 1
        more_limits.append(values[1:])
    return _Questions(
        np.concatenate([questions.features, questions.features[rows]]),
        np.concatenate([limits, *more_limits]),
        np.concatenate([codes, codes[rows]]),
        np.concatenate([branches, np.array(more_branches, np.int64).reshape(-1, 2)]),
        np.concatenate([questions.tracks, questions.tracks[rows]]),
        np.concatenate([questions.inner, questions.inner[rows]]),
    )


def _tables(
    op: OperatorContext,
    questions: _Questions,
    roots: Array,
    features: int,
    targets: int,
    weights: tuple[Array, Array, Array],
    tree_of_node: Array | None,
    combine: str,
) -> TreeTables:
    """Return the tables, in which all questions are ``at most`` or ``equal``, and leaves lead to themselves."""
    inner, codes, count = questions.inner, questions.codes, len(questions.codes)
    feature = _as_long(op, "nodes_featureids", questions.features, count) * inner
    if not np.all((feature >= 0) & (feature < features)):
        raise _misfit(op, f"nodes_featureids must be in 0 … {features - 1}, the features that the rows have")
    limits = _as_long(op, "nodes_values", questions.limits, count).copy()
    below = inner & ((codes == _LT) | (codes == _GTE))
    # x < limit is x ≤ the number before it
    limits[below] = np.where(
        np.isneginf(limits[below]), np.nan, np.nextafter(limits[below], limits.dtype.type(-np.inf))
    )
    # The opposite question with exchanged branches, so that a walk knows two comparisons alone.
    exchanged = inner & ((codes == _GTE) | (codes == _GT) | (codes == _NEQ))
    branches = questions.branches.copy()
    branches[exchanged] = branches[exchanged, ::-1]
    tracks = (_as_long(op, "nodes_missing_value_tracks_true", questions.tracks, count) != 0) ^ exchanged
    flags = np.where(inner & ((codes == _EQ) | (codes == _NEQ)), EQUAL, 0) | np.where(tracks, NAN_GOES_TRUE, 0)
    table, columns = _weights(op, *weights, count, targets, len(roots), tree_of_node, combine)
    depth = _depth(branches, roots, inner)
    if depth > count:
        raise _misfit(op, "no node must lead back to itself")
    return TreeTables(feature, limits, branches, flags, table, roots, columns, depth)


def _weights(
    op: OperatorContext,
    nodes: Array,
    columns: Array,
    values: Array,
    count: int,
    targets: int,
    trees: int,
    tree_of_node: Array | None,
    combine: str,
) -> tuple[Array, Array]:
    """Return a row of weights for each node, and the target of each tree's first column.

    Boosted trees have weights for one target each, so that one column is enough for all of them.
    """
    if not np.all((columns >= 0) & (columns < targets)):
        raise _misfit(op, f"weights must be for targets in 0 … {targets - 1}")
    first, last = np.zeros(trees, np.int64), np.full(trees, targets - 1)
    if tree_of_node is not None:
        first, last = np.full(trees, targets - 1), np.zeros(trees, np.int64)
        np.minimum.at(first, tree_of_node[nodes], columns)
        np.maximum.at(last, tree_of_node[nodes], columns)
    width = int(max(1, (last - first + 1).max(initial=1)))
    # All rows of the table are as wide as the widest tree's: near the last target they begin earlier.
    first = np.minimum(first, targets - width)
    claim_constant(op.definition.type, count * width, values.dtype.itemsize)
    table = np.full((count, width), COMBINE[combine][1], values.dtype)  # a leaf without a weight takes no part
    offset = columns if tree_of_node is None else columns - first[tree_of_node[nodes]]
    if targets == 1:
        # as ONNX Runtime does, for which scikit-learn's exporter writes the number of a leaf once for each class
        nodes, kept = np.unique(nodes, return_index=True)
        offset, values = offset[kept], values[kept]
    # Only nodes with weights: the start of a minimum or maximum stays elsewhere.
    table[nodes, offset] = 0
    np.add.at(table, (nodes, offset), values)
    return table, first


def _depth(branches: Array, roots: Array, inner: Array) -> int:
    """Return the decisions on the longest way from a root; more than there are nodes where a way has no end."""
    level, depth = np.unique(roots[inner[roots]]), 0
    while len(level) and depth <= len(branches):
        below = np.unique(branches[level])
        level, depth = below[inner[below]], depth + 1
    return depth


def _as_long(op: OperatorContext, name: str, array: Array, count: int) -> Array:
    if len(array) != count:
        raise _misfit(op, f"{name} must have {count} numbers, one for each node or leaf")
    return array


def _misfit(op: OperatorContext, rule: str) -> OperandError:
    return OperandError("trees that do not fit together", rule=f"{op.definition.type}: {rule}")

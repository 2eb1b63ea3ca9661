"""Tree ensembles: random forests, boosted trees and single trees."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.memory_budget import claim_constant
from explorer.core.types.tensor_type import Array
from explorer.formats.onnx.operators.base.table import operator
from explorer.formats.onnx.operators.machine_learning.class_scores import (
    Labels,
    Transform,
    label_of,
    labels,
    rows,
    transformed,
)
from explorer.formats.onnx.operators.machine_learning.decision_trees import COMBINE, EQUAL, NAN_GOES_TRUE, DecisionTrees
from explorer.net.operators.signature import Ints, Known, Names, Unused
from explorer.ops.base import cast
from explorer.ops.manipulation.concat import concatenate
from explorer.ops.reduction.sorting import argmax

Aggregate = Literal["AVERAGE", "SUM", "MIN", "MAX"]
"""aggregations of trees, in the order of their codes in TreeEnsemble"""
_FLOAT32, _INT64 = np.dtype(np.float32), np.dtype(np.int64)


def _rows(x: Expr) -> Expr:
    """Return the operand as rows of real numbers; all dtypes except float64 become float32."""
    x = rows(x)
    return x if x.dtype == np.float64 else cast(x, _FLOAT32)


def _combine(aggregate: Aggregate) -> str:
    return "SUM" if aggregate == "AVERAGE" else aggregate


def _aggregated(x: Expr, tables: TreeTables, targets: int, aggregate: Aggregate) -> Expr:
    y = DecisionTrees(targets, tables.depth, _combine(aggregate))(x, *map(tensor, tables.operands))
    return y / np.asarray(max(1, len(tables.roots)), y.dtype) if aggregate == "AVERAGE" else y


@dataclass(frozen=True, kw_only=True)
class Opset1Trees:
    """Attributes of opsets 1 to 4, in which a node is identified by the id of its tree and its own id."""

    nodes_treeids: Known[Ints]
    nodes_nodeids: Known[Ints]
    nodes_featureids: Known[Ints]
    nodes_values: Annotated[Known[Array], Names("nodes_values", "nodes_values_as_tensor")]
    nodes_modes: tuple[str, ...]
    nodes_truenodeids: Known[Ints]
    nodes_falsenodeids: Known[Ints]
    nodes_missing_value_tracks_true: Known[Ints] | None = None
    nodes_hitrates: Annotated[Unused, Names("nodes_hitrates", "nodes_hitrates_as_tensor")] = None
    weights_treeids: Annotated[Known[Ints], Names("target_treeids", "class_treeids")]
    weights_nodeids: Annotated[Known[Ints], Names("target_nodeids", "class_nodeids")]
    weights_ids: Annotated[Known[Ints], Names("target_ids", "class_ids")]
    weights: Annotated[
        Known[Array], Names("target_weights", "target_weights_as_tensor", "class_weights", "class_weights_as_tensor")
    ]
    base_values: Annotated[Known[Array] | None, Names("base_values", "base_values_as_tensor")] = None

    def base(self, targets: int) -> Array | None:
        """Return the base values added to all rows, one per target or one for all; None if omitted."""
        values = self.base_values
        if values is None or values.size == 0:
            return None
        if values.size not in (1, targets):
            raise OperandError(
                f"{values.size} base values for {targets} targets",
                rule="there must be one base value, or one per target",
            )
        return _reals("base_values", values, _FLOAT32)


@operator("ai.onnx.ml.TreeEnsembleRegressor")
def tree_ensemble_regressor(
    X: Expr,
    *,
    trees: Opset1Trees,
    n_targets: int = 1,
    aggregate_function: Aggregate = "SUM",
    post_transform: Transform = "NONE",
) -> Expr:
    """Return the aggregated weights of the leaves that rows reach, plus base values."""
    x = _rows(X)
    tables = opset1_tables(trees, x, n_targets, _combine(aggregate_function))
    y = cast(_aggregated(x, tables, n_targets, aggregate_function), _FLOAT32)
    base = trees.base(n_targets)
    return transformed(y if base is None else y + tensor(base), post_transform)


@operator("ai.onnx.ml.TreeEnsembleClassifier")
def tree_ensemble_classifier(
    X: Expr, *, trees: Opset1Trees, classlabels: Labels, post_transform: Transform = "NONE"
) -> tuple[Expr, Expr]:
    """Return the label of the class with the largest weight, and the transformed weights of all classes.

    With two classes, only one of them may have weights. They are then scores of the second class, and are treated as
    probabilities if none is negative.
    """
    x, names = _rows(X), labels(classlabels)
    classes = len(names)
    if classes < 2:
        raise OperandError(f"{classes} label", rule="there must be two labels or more")
    scores = cast(_aggregated(x, opset1_tables(trees, x, classes), classes, "SUM"), _FLOAT32)
    base, weighted_classes = trees.base(classes), np.unique(trees.weights_ids)
    if classes > 2 or len(weighted_classes) > 1:
        if base is not None:
            scores = scores + tensor(base)
        return label_of(names, argmax(scores, -1)), transformed(scores, post_transform)
    # Non-negative weights are probabilities, with a threshold of 0.5 instead of 0.
    are_positive = bool(np.all(trees.weights >= 0))
    (column,) = weighted_classes.tolist() or [0]
    score = scores[:, column : column + 1]
    if base is not None:
        score = score + tensor(base[column : column + 1] if base.size > 1 else base)
    label = label_of(names, cast(score[:, 0] > (0.5 if are_positive else 0.0), _INT64))
    if post_transform == "PROBIT":
        raise OperandError("PROBIT of one column", rule="PROBIT requires a column for each class")
    if column == 1:
        return label, transformed(concatenate([score * 0, score], 1), post_transform)
    if post_transform == "LOGISTIC":
        return label, transformed(concatenate([-score, score], 1), post_transform)
    return label, concatenate([1 - score if are_positive else -score, score], 1)


MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
"""comparisons of a node, in the order of their codes in opset 5"""
_LEQ, _LT, _GTE, _GT, _EQ, _NEQ, _MEMBER = range(len(MODES))


@dataclass(frozen=True)
class TreeTables:
    """Tables of nodes and trees for ``DecisionTrees``."""

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
        """Operands of ``DecisionTrees`` that follow the rows, in order."""
        return self.features, self.limits, self.branches, self.flags, self.weights, self.roots, self.columns


def opset1_tables(given: Opset1Trees, x: Expr, targets: int, combine: str = "SUM") -> TreeTables:
    """Return the tables for attributes of opsets 1 to 4, in the dtype of the rows ``x``."""
    _check_lengths(given, len(given.nodes_treeids))
    trees, inner = np.array(given.nodes_treeids), np.array([mode != "LEAF" for mode in given.nodes_modes], bool)
    count = len(trees)
    if not {*given.nodes_modes} <= {*MODES[:_MEMBER], "LEAF"}:
        raise _mismatch("nodes_modes must be known comparisons, or LEAF")
    codes = np.array([-1 if mode == "LEAF" else MODES.index(mode) for mode in given.nodes_modes], np.int64)
    position = {pair: n for n, pair in enumerate(zip(given.nodes_treeids, given.nodes_nodeids, strict=True))}

    def positions(owners: Iterable[int], named: Iterable[int], name: str) -> Array:
        indices = [position.get(pair, -1) for pair in zip(owners, named, strict=True)]
        if -1 in indices:
            raise _mismatch(f"{name} must be nodes of the tree")
        return np.array(indices, np.int64)

    # Both branches of a leaf lead to the leaf, so that all rows descend the same number of levels.
    branches = np.repeat(np.arange(count)[:, None], 2, 1)
    for side, name in enumerate(("nodes_truenodeids", "nodes_falsenodeids")):
        named = np.array(getattr(given, name))
        branches[inner, side] = positions(trees[inner].tolist(), named[inner].tolist(), name)
    _, first = np.unique(trees, return_index=True)
    roots = np.sort(first)
    columns, values = np.array(given.weights_ids, np.int64), _reals("weights", given.weights)
    if not len(given.weights_treeids) == len(given.weights_nodeids) == len(columns) == len(values):
        raise _mismatch("each weight must have a tree, a node and a target")
    own = positions(given.weights_treeids, given.weights_nodeids, "nodes of weights")
    # Tree ids are arbitrary, so trees are ordered by their first node.
    tree_of_node = np.searchsorted(np.sort(trees[roots]), trees)
    order = np.argsort(trees[roots])
    comparisons = _Comparisons(
        np.array(given.nodes_featureids),
        _reals("nodes_values", given.nodes_values, x.dtype),
        codes,
        branches,
        _nan_is_true(given.nodes_missing_value_tracks_true, count),
        inner,
    )
    return _tables(comparisons, roots, x.shape[1], targets, (own, columns, values), order[tree_of_node], combine)


def _nan_is_true(values: Ints | None, count: int) -> Array:
    return np.zeros(count, bool) if values is None else np.array(values) != 0


@dataclass(frozen=True)
class Opset5Nodes:
    """Attributes of opset 5, in which indices identify inner nodes and leaves."""

    nodes_modes: Known[Ints]
    nodes_featureids: Known[Ints]
    nodes_splits: Known[Array]
    nodes_truenodeids: Known[Ints]
    nodes_trueleafs: Known[Ints]
    nodes_falsenodeids: Known[Ints]
    nodes_falseleafs: Known[Ints]
    nodes_missing_value_tracks_true: Known[Ints] | None = None
    nodes_hitrates: Unused = None


@operator("ai.onnx.ml.TreeEnsemble")
def tree_ensemble(
    X: Expr,
    *,
    tree_roots: Known[Ints],
    nodes: Opset5Nodes,
    membership_values: Known[Array] | None = None,
    leaf_targetids: Known[Ints],
    leaf_weights: Known[Array],
    n_targets: int = 1,
    aggregate_function: int = 1,
    post_transform: int = 0,
) -> Expr:
    """Return the aggregated leaf weights of opset 5's trees; classifiers apply ArgMax to them."""
    x = _rows(X)
    aggregate: Aggregate = _item_of_code("aggregate_function", aggregate_function, get_args(Aggregate))
    inner, codes = len(nodes.nodes_modes), np.array(nodes.nodes_modes, np.int64)
    _check_lengths(nodes, inner)
    if not np.all((codes >= 0) & (codes < len(MODES))):
        raise _mismatch(f"nodes_modes must be in 0 … {len(MODES) - 1}")
    leaves, columns = _reals("leaf_weights", leaf_weights, x.dtype), np.array(leaf_targetids, np.int64)
    if len(columns) != len(leaves):
        raise _mismatch("leaf_targetids and leaf_weights must have equal lengths")
    count, padding = inner + len(leaves), np.zeros(len(leaves), np.int64)
    branches = np.repeat(np.arange(count)[:, None], 2, 1)
    for side, branch_name in enumerate(("true", "false")):
        named = np.array(getattr(nodes, f"nodes_{branch_name}nodeids"), np.int64)
        are_leaves = np.array(getattr(nodes, f"nodes_{branch_name}leafs"), np.int64) != 0
        if not np.all((named >= 0) & (named < np.where(are_leaves, len(leaves), inner))):
            raise _mismatch(f"nodes_{branch_name}nodeids must be indices of nodes or leaves")
        # The file numbers nodes and leaves separately; here, leaves follow the nodes.
        branches[:inner, side] = named + are_leaves * inner
    roots = np.array(tree_roots, np.int64)
    if not np.all((roots >= 0) & (roots < inner)):
        raise _mismatch("tree_roots must be indices of nodes")
    comparisons = _Comparisons(
        np.concatenate([np.array(nodes.nodes_featureids, np.int64), padding]),
        np.concatenate([_reals("nodes_splits", nodes.nodes_splits, x.dtype), padding.astype(x.dtype)]),
        np.concatenate([codes, padding - 1]),
        branches,
        np.concatenate([_nan_is_true(nodes.nodes_missing_value_tracks_true, inner), padding.astype(bool)]),
        np.arange(count) < inner,
    )
    if np.any(codes == _MEMBER):
        if membership_values is None:
            raise _mismatch("membership_values must be given for BRANCH_MEMBER")
        comparisons = _without_members(comparisons, _reals("membership_values", membership_values, x.dtype))
    # trees may share leaves, so they have no separate columns
    weights = inner + np.arange(len(leaves)), columns, leaves
    tables = _tables(comparisons, roots, x.shape[1], n_targets, weights, None, _combine(aggregate))
    y = _aggregated(x, tables, n_targets, aggregate)
    return transformed(y, _item_of_code("post_transform", post_transform, get_args(Transform)))


def _item_of_code(name: str, number: int, names: tuple[Any, ...]) -> Any:
    if not 0 <= number < len(names):
        raise OperandError(f"{name}={number}", rule=f"{name} must be in 0 … {len(names) - 1}")
    return names[number]


@dataclass(frozen=True)
class _Comparisons:
    features: Array
    limits: Array
    codes: Array
    branches: Array
    nan_is_true: Array
    inner: Array


def _without_members(comparisons: _Comparisons, members: Array) -> _Comparisons:
    """Return comparisons with each set membership replaced by a chain of equality tests, one per member."""
    # NaN marks the end of a set
    ends = np.flatnonzero(np.isnan(members))
    sets = [part[~np.isnan(part)] for part in np.split(members, ends)]
    sets = [part for part in sets if len(part)]
    set_nodes = np.flatnonzero(comparisons.codes == _MEMBER)
    if len(sets) != len(set_nodes):
        raise _mismatch("membership_values must have a non-empty set for each BRANCH_MEMBER")
    limits, codes, branches = comparisons.limits.copy(), comparisons.codes.copy(), comparisons.branches.copy()
    codes[set_nodes] = _EQ
    rows: list[int] = []
    more_limits: list[Array] = []
    more_branches: list[list[int]] = []
    next_node = len(codes)
    for node, values in zip(set_nodes.tolist(), sets, strict=True):
        limits[node] = values[0]
        true, false = branches[node].tolist()
        previous = node
        for _ in values[1:]:
            # A false branch leads to the next member's test. The last one leads to the set's false branch.
            if previous == node:
                branches[node, 1] = next_node
            else:
                more_branches[-1][1] = next_node
            rows.append(node)
            more_branches.append([true, false])
            previous, next_node = next_node, next_node + 1
        more_limits.append(values[1:])
    return _Comparisons(
        np.concatenate([comparisons.features, comparisons.features[rows]]),
        np.concatenate([limits, *more_limits]),
        np.concatenate([codes, codes[rows]]),
        np.concatenate([branches, np.array(more_branches, np.int64).reshape(-1, 2)]),
        np.concatenate([comparisons.nan_is_true, comparisons.nan_is_true[rows]]),
        np.concatenate([comparisons.inner, comparisons.inner[rows]]),
    )


def _tables(
    comparisons: _Comparisons,
    roots: Array,
    features: int,
    targets: int,
    weights: tuple[Array, Array, Array],
    tree_of_node: Array | None,
    combine: str,
) -> TreeTables:
    """Return tables in which all comparisons are ≤ or =, and both branches of a leaf lead to the leaf."""
    if not 1 <= targets < 1 << 31:
        raise OperandError(f"n_targets={targets}", rule="there must be at least one target")
    inner, codes, count = comparisons.inner, comparisons.codes, len(comparisons.codes)
    feature = comparisons.features * inner
    if not np.all((feature >= 0) & (feature < features)):
        raise _mismatch(f"nodes_featureids must be in 0 … {features - 1}, the number of features of a row")
    limits = comparisons.limits.copy()
    strict = inner & ((codes == _LT) | (codes == _GTE))
    # x < limit is x ≤ the previous representable number
    limits[strict] = np.where(
        np.isneginf(limits[strict]), np.nan, np.nextafter(limits[strict], limits.dtype.type(-np.inf))
    )
    # after branches are exchanged, only two kinds of comparisons remain
    exchanged = inner & ((codes == _GTE) | (codes == _GT) | (codes == _NEQ))
    branches = comparisons.branches.copy()
    branches[exchanged] = branches[exchanged, ::-1]
    nan_is_true = comparisons.nan_is_true ^ exchanged
    flags = np.where(inner & ((codes == _EQ) | (codes == _NEQ)), EQUAL, 0) | np.where(nan_is_true, NAN_GOES_TRUE, 0)
    table, columns = _weights(*weights, count, targets, len(roots), tree_of_node, combine)
    depth = _depth(branches, roots, inner)
    if depth > count:
        raise _mismatch("nodes must not form a cycle")
    return TreeTables(feature, limits, branches, flags, table, roots, columns, depth)


def _weights(
    nodes: Array,
    columns: Array,
    values: Array,
    count: int,
    targets: int,
    trees: int,
    tree_of_node: Array | None,
    combine: str,
) -> tuple[Array, Array]:
    """Return a row of weights for each node, and the target of the first column of each tree.

    The trees of boosted models have weights for a single target, so one column is enough for them.
    """
    if not np.all((columns >= 0) & (columns < targets)):
        raise _mismatch(f"weights must be for targets in 0 … {targets - 1}")
    first, last = np.zeros(trees, np.int64), np.full(trees, targets - 1)
    if tree_of_node is not None:
        first, last = np.full(trees, targets - 1), np.zeros(trees, np.int64)
        np.minimum.at(first, tree_of_node[nodes], columns)
        np.maximum.at(last, tree_of_node[nodes], columns)
    width = int(max(1, (last - first + 1).max(initial=1)))
    # All rows are as wide as the widest tree. A row that would extend beyond the last target starts earlier.
    first = np.minimum(first, targets - width)
    claim_constant("weights of trees", count * width, values.dtype.itemsize)
    table = np.full((count, width), COMBINE[combine][1], values.dtype)
    offset = columns if tree_of_node is None else columns - first[tree_of_node[nodes]]
    if targets == 1:
        # use only the first weight, as ONNX Runtime does, because scikit-learn exporters repeat it for each class
        nodes, first_indices = np.unique(nodes, return_index=True)
        offset, values = offset[first_indices], values[first_indices]
    # Weights are added to 0; all other elements keep the aggregation's neutral value, such as ∞ for the minimum.
    table[nodes, offset] = 0
    np.add.at(table, (nodes, offset), values)
    return table, first


def _depth(branches: Array, roots: Array, inner: Array) -> int:
    """Return the number of decisions on the longest path from a root; more than the node count if there is a cycle."""
    level, depth = np.unique(roots[inner[roots]]), 0
    while len(level) and depth <= len(branches):
        children = np.unique(branches[level])
        level, depth = children[inner[children]], depth + 1
    return depth


def _check_lengths(nodes: Opset1Trees | Opset5Nodes, count: int) -> None:
    for name, values in vars(nodes).items():
        if name.startswith("nodes_") and values is not None and np.size(values) != count:
            raise _mismatch(f"{name} must have {count} numbers, one per node")


def _reals(name: str, values: Array, dtype: np.dtype[Any] | None = None) -> Array:
    """Return an attribute as a flat array of ``dtype``, by default of its own floating-point dtype."""
    if values.dtype.kind not in "iuf":
        raise OperandError(f"{name} of {values.dtype.name}", rule=f"{name} must be a list of numbers")
    return values.reshape(-1).astype(dtype or np.result_type(values.dtype, np.float16), copy=False)


def _mismatch(rule: str) -> OperandError:
    return OperandError("inconsistent tree attributes", rule=rule)

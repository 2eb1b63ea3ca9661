"""``ex.fold_trees``: computes one value for each tree, from the leaves to the root, one level of nodes at a time.

It is meant for recursive networks over parse trees (Socher et al. 2011). Calling a function at each node would record
one call per node, whereas here all nodes of a level are one mapped call, as in TensorFlow Fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from operator import not_
from typing import Any, TypeAlias

import numpy as np

from explorer.core.errors import DeclarationError, OperandError, class_text
from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import scope, single_source_line
from explorer.core.ir.tensor import tensor
from explorer.core.pytree import unflatten
from explorer.core.registry import public
from explorer.core.types.tensor_type import Array
from explorer.ops.manipulation.concat import Concatenate
from explorer.ops.manipulation.gather import Take
from explorer.ops.manipulation.slicing import Slice
from explorer.ops.mapping.map import Group, Members, check_function, column, groups, mapped, name_of
from explorer.record.gc_pause import gc_paused
from explorer.record.reasons import counted_text

__all__ = ["fold_trees"]


@public
def fold_trees(node: Callable[..., Any], trees: Sequence[Any], leaf: Callable[..., Any] | None = None) -> Any:
    """Record the values of ``trees``, which are nested tuples or lists.

    A node's value is ``node(*values of its children)``. A leaf is an array, expression or number x, and its value is
    ``leaf(x)``, or x if ``leaf`` is None. All values must have the same shape and dtype, or be containers with the same
    structure, such as the state and the memory of a TreeLSTM. All leaves are one mapped call (see ``map``), and so are
    all nodes of equal height. Return a sequence of the trees' values in order. Raises OperandError if the shapes of
    leaves or results differ.

    >>> table = ex.tensor([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0]])
    >>> trees = [((0, 1), 2), (1, 1), 2]
    >>> sums = ex.fold_trees(lambda a, b: a + b, trees, leaf=lambda number: ex.embedding(table, number))
    >>> ex.evaluate(sums)
    [array([111., 222.]), array([20., 40.]), array([100., 200.])]
    """
    check_function(node, "ex.fold_trees")
    if not isinstance(trees, (list, tuple)) or not trees:
        raise OperandError(
            f"ex.fold_trees of {trees!r}" if not trees else f"ex.fold_trees of {class_text(trees)}",
            rule="trees must be a non-empty list whose elements are leaves, or tuples or lists of trees",
            fix="ex.fold_trees(node, [((a, b), c), (a, c)])",
        )
    with gc_paused():
        steps_of_trees = forest(trees)
    with single_source_line(), scope(f"{name_of(node)} over {counted_text(len(trees), 'tree')}"):
        structure, values = _leaves(steps_of_trees, leaf)
        leaves = [_rows(value, steps_of_trees.order) for value in values]
        pool: list[list[Expr]] = [[] for _ in leaves]
        """for each tensor of a value: tensors whose rows later steps read"""
        finished = [[_part(value, len(steps_of_trees.order) - steps_of_trees.single, None)] for value in leaves]
        for step in steps_of_trees.steps:
            _compute(node, step, structure, leaves, pool, finished)
        roots = [Members([_rows(_joined(parts), steps_of_trees.roots)], range(len(trees))) for parts in finished]
    return unflatten(structure, roots)


def _leaves(steps_of_trees: Forest, leaf: Callable[..., Any] | None) -> tuple[Any, list[Expr]]:
    leaf_groups = groups([column(steps_of_trees.leaves, "ex.fold_trees")])
    if len(leaf_groups) > 1:
        raise OperandError(
            f"ex.fold_trees over leaves with {len(leaf_groups)} different shapes or dtypes",
            rule="all leaves must have the same shape and dtype",
            fix="convert them to the same shape, and to the same dtype with x.astype(np.float32)",
        )
    if leaf is None:
        ((structure, parts),) = leaf_groups[0].arguments
        return structure, parts
    check_function(leaf, "ex.fold_trees with the leaf")
    return mapped(leaf, leaf_groups[0])


def _compute(
    node: Callable[..., Any],
    step: Step,
    structure: Any,
    leaves: list[Expr],
    pool: list[list[Expr]],
    finished: list[list[Expr]],
) -> None:
    """Record one step; replace the contents of ``pool``, and append the roots to ``finished``.

    The new pool contains the step's results except for roots, followed by the rows that the step did not read.
    """
    ordered_values = [
        _rows(_joined([*parts, _part(value, *step.leaves)]), step.rows)
        for parts, value in zip(pool, leaves, strict=True)
    ]
    count, read, waiting = step.count, step.count * step.arity, step.count - step.roots
    arguments = [
        (structure, [_part(value, index, index + count) for value in ordered_values]) for index in range(0, read, count)
    ]
    result_structure, results = mapped(node, Group(range(count), arguments))
    child_types, node_types = [
        [value.tensor_type.with_shape(value.shape[1:]) for value in values] for values in (leaves, results)
    ]
    if result_structure != structure or child_types != node_types:
        raise DeclarationError(
            f"ex.fold_trees with {name_of(node)}, which returns {_types(node_types)} for {_types(child_types)}",
            rule="a node's value must have the containers, shapes and dtypes of its children's values",
            fix="use leaf= to convert the leaves to the shape and dtype of the nodes",
        )
    for index, (result, value) in enumerate(zip(results, ordered_values, strict=True)):
        pool[index] = [_part(result, 0, waiting), _part(value, read, None)]
        finished[index].append(_part(result, waiting, None))


def _types(types: list[Any]) -> str:
    return ", ".join(map(repr, types))


def _rows(value: Expr, rows: Rows) -> Expr:
    """Return the given rows of ``value``; return ``value`` itself if these are all of its rows, in order."""
    if len(rows) == value.shape[0] and np.array_equal(rows, np.arange(len(rows))):
        return value
    return Take(0)(value, tensor(rows, name="rows", device=value.device))


def _part(value: Expr, start: int, stop: int | None) -> Expr:
    stop = value.shape[0] if stop is None else stop
    if (start, stop) == (0, value.shape[0]):
        return value
    return Slice(((start, stop, 1), *[(0, size, 1) for size in value.shape[1:]]))(value)


def _joined(parts: list[Expr]) -> Expr:
    """Concatenate the parts that are not empty."""
    filled = [part for part in parts if part.shape[0]]
    return filled[0] if len(filled) == 1 else Concatenate(0)(*filled)


Rows: TypeAlias = Array
"""indices of rows or nodes, int64"""


@dataclass(frozen=True, slots=True)
class Step:
    """Nodes with the same height and number of children."""

    count: int
    """number of nodes"""
    roots: int
    """number of nodes that are roots of trees; they come last"""
    arity: int
    """number of children of each node"""
    leaves: tuple[int, int]
    """range (start, stop) of the leaves that the step reads; their rows follow the rows of the pool"""
    rows: Rows
    """row indices into pool and leaves: the first child of each node, then the second child of each node, and so on,
    then all rows that the step does not read"""


@dataclass(frozen=True, slots=True)
class Forest:
    """Steps that compute the values of trees from the leaves to the roots.

    After each step, the pool contains the step's results except for roots, followed by the rows that the step did not
    read. The finished values are the leaves that no step reads, followed by the roots of each step.
    """

    leaves: list[Any]
    """distinct leaves; numbers are compared by value, other leaves by identity"""
    order: Rows
    """indices of distinct leaves, in the order in which steps read them; leaves that are trees come last"""
    steps: list[Step]
    single: int
    """number of trees that consist of one leaf"""
    roots: Rows
    """for each tree, the row of its value in the finished values"""


def forest(trees: Sequence[Any]) -> Forest:
    """Return the steps that compute the values of ``trees``; raise OperandError for a node without children."""
    parent, leaves, leaf_nodes = _nodes(trees)
    arity = np.bincount(parent[len(trees) :], minlength=len(parent))
    first = len(trees) + np.cumsum(arity) - arity
    """number of a node's first child; see _nodes"""
    groups = [*_groups(parent, arity, leaf_nodes)]
    reader = np.full(len(parent), len(groups))
    """for each node, the step that reads its value; for a root, the number of steps"""
    for number, nodes in enumerate(groups):
        reader[first[nodes][:, None] + np.arange(arity[nodes[0]])] = number
    distinct, leaf_indices = _distinct(leaves)
    by_reader = np.argsort(reader[leaf_nodes], kind="stable")
    leaf_nodes = leaf_nodes[by_reader]
    ends = np.searchsorted(reader[leaf_nodes], np.arange(len(groups)), side="right")
    steps, pool, begin = [], np.zeros(0, np.int64), 0
    finished = [leaf_nodes[ends[-1] if groups else 0 :]]
    row_of = np.zeros(len(parent), np.int64)
    for nodes, end in zip(groups, map(int, ends), strict=True):
        is_root = parent[nodes] < 0
        # put roots last, so that the values added to the pool are one slice
        nodes = np.concatenate([nodes[~is_root], nodes[is_root]])
        roots = int(is_root.sum())
        available = np.concatenate([pool, leaf_nodes[begin:end]])
        row_of[available] = np.arange(len(available))
        each = int(arity[nodes[0]])
        read = row_of[(first[nodes] + np.arange(each)[:, None]).ravel()]
        is_kept = np.ones(len(available), bool)
        is_kept[read] = False
        kept = np.flatnonzero(is_kept)
        steps.append(Step(len(nodes), roots, each, (begin, end), np.concatenate([read, kept])))
        waiting = len(nodes) - roots
        finished.append(nodes[waiting:])
        pool, begin = np.concatenate([nodes[:waiting], available[kept]]), end
    values = np.concatenate(finished)
    row_of[values] = np.arange(len(values))
    return Forest(distinct, leaf_indices[by_reader], steps, len(finished[0]), row_of[: len(trees)])


def _nodes(trees: Sequence[Any]) -> tuple[Rows, list[Any], Rows]:
    """Number all nodes in breadth-first order, so that the children of a node have consecutive numbers.

    Returns the parent of each node (−1 for roots), the leaves, and the leaves' node numbers.
    """
    parents = [np.full(len(trees), -1)]
    leaves: list[Any] = []
    leaf_nodes: list[Rows] = []
    count, level = 0, [*trees]
    while level:
        branches = [isinstance(tree, (tuple, list)) for tree in level]
        nodes = [*compress(level, branches)]
        if not all(nodes):
            empty = next(node for node in nodes if not node)
            raise OperandError(
                f"a tree with the node {empty!r}",
                rule="each node must have a child, and a leaf must not be a tuple or list",
                fix="remove the node, or replace it with a leaf",
            )
        leaves.extend(compress(level, map(not_, branches)))
        is_branch = np.array(branches)
        leaf_nodes.append(count + np.flatnonzero(~is_branch))
        parents.append(np.repeat(count + np.flatnonzero(is_branch), np.fromiter(map(len, nodes), np.int64, len(nodes))))
        count += len(level)
        level = [*chain.from_iterable(nodes)]
    return np.concatenate(parents), leaves, np.concatenate(leaf_nodes)


def _groups(parent: Rows, arity: Rows, leaves: Rows) -> Iterator[Rows]:
    """Yield groups of nodes with the same height and number of children, in order of height."""
    unfinished = arity.copy()
    """for each node, the number of children not visited yet"""
    reached = leaves
    while True:
        parents = parent[reached]
        parents = parents[parents >= 0]
        # subtract.at, because a parent occurs once for each child, and indexing would subtract only 1
        np.subtract.at(unfinished, parents, 1)
        reached = np.unique(parents[unfinished[parents] == 0])
        if not len(reached):
            return
        arities = arity[reached]
        for each in np.unique(arities):
            yield reached[arities == each]


def _distinct(leaves: list[Any]) -> tuple[list[Any], Rows]:
    """Return the distinct leaves, and for each leaf the index of its distinct leaf.

    Numbers are compared by type and value, other leaves by identity.
    """
    number_of: dict[Any, int] = {}
    if {type(leaf) for leaf in leaves} == {int}:
        indices = [number_of.setdefault(leaf, len(number_of)) for leaf in leaves]
        return [*number_of], np.array(indices)
    keys = [(type(leaf), leaf) if isinstance(leaf, (int, float)) else id(leaf) for leaf in leaves]
    indices = [number_of.setdefault(key, len(number_of)) for key in keys]
    by_key = dict(zip(keys, leaves, strict=True))
    return [by_key[key] for key in number_of], np.array(indices)

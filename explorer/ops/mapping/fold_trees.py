"""``ex.fold_trees``: one value for each tree, computed from its leaves up, all nodes of a level at once.

Recursive networks over parse trees are written so (Socher et al. 2011; TensorFlow Fold batches them by levels, too). A
loop that calls a function at each node records one call for each; here a level is one mapped call.
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
    """Record the values of trees, which are nested tuples or lists: ``node(*values of the children)`` at each node.

    The value of a leaf is the leaf itself, an array, expression or number, or ``leaf(it)``. All values have one shape
    and dtype, or are containers of one structure with parts of one shape each, such as the state and the memory of a
    TreeLSTM. Nodes of one level, counted from the leaves, are one mapped call (see ``map``), and so are all leaves.
    Returns a sequence of the trees' values in their order. Raises OperandError for leaves or results of other shapes.

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
            rule="there must be a list of trees, each of them a leaf, or a tuple or list of trees",
            fix="ex.fold_trees(node, [((a, b), c), (a, c)])",
        )
    with gc_paused():
        taken_apart = forest(trees)
    with single_source_line(), scope(f"{name_of(node)} over {counted_text(len(trees), 'tree')}"):
        structure, values = _leaves(taken_apart, leaf)
        leaves = [_rows(value, taken_apart.order) for value in values]
        pool: list[list[Expr]] = [[] for _ in leaves]
        """for each part of a value the pieces, to be joined, of what waits for its reader"""
        finished = [[_part(value, len(taken_apart.order) - taken_apart.single, None)] for value in leaves]
        for step in taken_apart.steps:
            _compute(node, step, structure, leaves, pool, finished)
        roots = [Members([_rows(_joined(parts), taken_apart.roots)], range(len(trees))) for parts in finished]
    return unflatten(structure, roots)


def _leaves(taken_apart: Forest, leaf: Callable[..., Any] | None) -> tuple[Any, list[Expr]]:
    """Return the structure of the leaves' values, and its parts, each stacked."""
    divided = groups([column(taken_apart.leaves, "ex.fold_trees")])
    if len(divided) > 1:
        raise OperandError(
            f"ex.fold_trees over leaves of {len(divided)} shapes or dtypes",
            rule="all leaves must have one shape and dtype",
            fix="bring them to one shape before, or to one dtype: x.astype(np.float32)",
        )
    if leaf is None:
        ((structure, parts),) = divided[0].arguments
        return structure, parts
    check_function(leaf, "ex.fold_trees with the leaf")
    return mapped(leaf, divided[0])


def _compute(
    node: Callable[..., Any],
    step: Step,
    structure: Any,
    leaves: list[Expr],
    pool: list[list[Expr]],
    finished: list[list[Expr]],
) -> None:
    """Record one step; its results, and the rows that it does not read, are the next pool, and trees are finished."""
    ordered = [
        _rows(_joined([*parts, _part(value, *step.leaves)]), step.rows)
        for parts, value in zip(pool, leaves, strict=True)
    ]
    count, read, waiting = step.count, step.count * step.arity, step.count - step.roots
    arguments = [
        (structure, [_part(value, place, place + count) for value in ordered]) for place in range(0, read, count)
    ]
    of_results, results = mapped(node, Group(range(count), arguments))
    child_types, node_types = [
        [value.tensor_type.with_shape(value.shape[1:]) for value in values] for values in (leaves, results)
    ]
    if of_results != structure or child_types != node_types:
        raise DeclarationError(
            f"ex.fold_trees with {name_of(node)}, which makes {_types(node_types)} of {_types(child_types)}",
            rule="a node's value must have the containers, shapes and dtypes of its children's values",
            fix="use leaf= to bring the leaves to the shape and dtype of the nodes",
        )
    for place, (result, value) in enumerate(zip(results, ordered, strict=True)):
        pool[place] = [_part(result, 0, waiting), _part(value, read, None)]
        finished[place].append(_part(result, waiting, None))


def _types(types: list[Any]) -> str:
    return ", ".join(map(repr, types))


def _rows(value: Expr, rows: Rows) -> Expr:
    """Return rows of a value in another order; the value itself for all of them in their order."""
    if len(rows) == value.shape[0] and np.array_equal(rows, np.arange(len(rows))):
        return value
    return Take(0)(value, tensor(rows, name="rows", device=value.device))


def _part(value: Expr, start: int, stop: int | None) -> Expr:
    """Return consecutive rows of a value."""
    stop = value.shape[0] if stop is None else stop
    if (start, stop) == (0, value.shape[0]):
        return value
    return Slice(((start, stop, 1), *[(0, size, 1) for size in value.shape[1:]]))(value)


def _joined(parts: list[Expr]) -> Expr:
    """Return parts one behind the other, without those that have no rows."""
    filled = [part for part in parts if part.shape[0]]
    return filled[0] if len(filled) == 1 else Concatenate(0)(*filled)


Rows: TypeAlias = Array
"""row numbers, or numbers of nodes, int64"""


@dataclass(frozen=True, slots=True)
class Step:
    """Nodes of one height and with equally many children."""

    count: int
    """number of nodes"""
    roots: int
    """number of those that are roots of trees; they come last"""
    arity: int
    """number of children of each"""
    leaves: tuple[int, int]
    """first of the leaves that it reads, and end of them; they stand behind the pool"""
    rows: Rows
    """rows of pool and leaves: the first child of each node, then the second of each, …, then all rows that are kept"""


@dataclass(frozen=True, slots=True)
class Forest:
    """Steps of some trees, from the leaves up; after each the pool has its results, without roots, then the rows kept.

    Values of trees are the leaves that no step reads, then the roots of each step.
    """

    leaves: list[Any]
    """leaves, each once where it is the same object or number"""
    order: Rows
    """leaves in the order in which they are read, those that are trees at the end: numbers among the distinct ones"""
    steps: list[Step]
    single: int
    """number of trees that are leaves"""
    roots: Rows
    """for each tree the row of its value among those of all trees"""


def forest(trees: Sequence[Any]) -> Forest:
    """Take trees apart into steps; raises OperandError for a node without children."""
    parent, leaves, leaf_nodes = _nodes(trees)
    arity = np.bincount(parent[len(trees) :], minlength=len(parent))
    first = len(trees) + np.cumsum(arity) - arity
    """number of a node's first child: see _nodes"""
    groups = [*_groups(parent, arity, leaf_nodes)]
    reader = np.full(len(parent), len(groups))
    """step that reads a node's value; one behind the last for a tree's"""
    for number, nodes in enumerate(groups):
        reader[first[nodes][:, None] + np.arange(arity[nodes[0]])] = number
    distinct, of_leaf = _distinct(leaves)
    by_reader = np.argsort(reader[leaf_nodes], kind="stable")
    leaf_nodes = leaf_nodes[by_reader]
    ends = np.searchsorted(reader[leaf_nodes], np.arange(len(groups)), side="right")
    steps, pool, begin = [], np.zeros(0, np.int64), 0
    finished = [leaf_nodes[ends[-1] if groups else 0 :]]
    row_of = np.zeros(len(parent), np.int64)
    for nodes, end in zip(groups, map(int, ends), strict=True):
        is_root = parent[nodes] < 0
        # Roots last: their values leave the pool at once, and those that wait are one slice.
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
    return Forest(distinct, of_leaf[by_reader], steps, len(finished[0]), row_of[: len(trees)])


def _nodes(trees: Sequence[Any]) -> tuple[Rows, list[Any], Rows]:
    """Number all nodes, those of one depth after those above, so that the children of a node are consecutive.

    Returns the parent of each node, −1 for a tree; the leaves; and their numbers.
    """
    parents = [np.full(len(trees), -1)]
    leaves: list[Any] = []
    numbers: list[Rows] = []
    count, level = 0, [*trees]
    while level:
        branches = [isinstance(tree, (tuple, list)) for tree in level]
        nodes = [*compress(level, branches)]
        if not all(nodes):
            empty = next(node for node in nodes if not node)
            raise OperandError(
                f"a tree with the node {empty!r}",
                rule="a node must have a child, and a leaf must not be a tuple or list",
                fix="leave the node out, or put a leaf in its place",
            )
        leaves.extend(compress(level, map(not_, branches)))
        is_branch = np.array(branches)
        numbers.append(count + np.flatnonzero(~is_branch))
        parents.append(np.repeat(count + np.flatnonzero(is_branch), np.fromiter(map(len, nodes), np.int64, len(nodes))))
        count += len(level)
        level = [*chain.from_iterable(nodes)]
    return np.concatenate(parents), leaves, np.concatenate(numbers)


def _groups(parent: Rows, arity: Rows, leaves: Rows) -> Iterator[Rows]:
    """Yield the nodes of each height and number of children, from the lowest up."""
    unfinished = arity.copy()
    """number of children that are not yet reached"""
    below = leaves
    while True:
        above = parent[below]
        above = above[above >= 0]
        # Not by indexing: a parent stands there once for each of its children, and each must count.
        np.subtract.at(unfinished, above, 1)
        below = np.unique(above[unfinished[above] == 0])
        if not len(below):
            return
        arities = arity[below]
        for each in np.unique(arities):
            yield below[arities == each]


def _distinct(leaves: list[Any]) -> tuple[list[Any], Rows]:
    """Return leaves without repetitions, and the place of each in them.

    Numbers are equal by type and value, other leaves by identity.
    """
    number_of: dict[Any, int] = {}
    if {type(leaf) for leaf in leaves} == {int}:
        places = [number_of.setdefault(leaf, len(number_of)) for leaf in leaves]
        return [*number_of], np.array(places)
    keys = [(type(leaf), leaf) if isinstance(leaf, (int, float)) else id(leaf) for leaf in leaves]
    places = [number_of.setdefault(key, len(number_of)) for key in keys]
    by_key = dict(zip(keys, leaves, strict=True))
    return [by_key[key] for key in number_of], np.array(places)

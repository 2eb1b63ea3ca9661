"""``ex.fold_trees``: one value for each tree, computed from its leaves up, all nodes of a level at once.

Recursive networks over parse trees are written so (Socher et al. 2011; TensorFlow Fold batches them by levels, too). A
loop that calls a function at each node records one call for each; here a level is one mapped call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from explorer.core.errors import DeclarationError, OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import scope, single_source_line
from explorer.core.ir.tensor import tensor
from explorer.core.pytree import unflatten
from explorer.core.registry import public
from explorer.ops.manipulation.concat import Concatenate
from explorer.ops.manipulation.gather import Take
from explorer.ops.manipulation.slicing import Slice
from explorer.ops.mapping.forest import Forest, Level, Rows, forest
from explorer.ops.mapping.mapping import check_function, mapped, name_of
from explorer.ops.mapping.members import Members
from explorer.ops.mapping.samples import Group, column, groups


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
            f"ex.fold_trees of {trees!r}" if not trees else f"ex.fold_trees of a {type(trees).__name__}",
            rule="there must be a list of trees, each of them a leaf, or a tuple or list of trees",
            fix="ex.fold_trees(node, [((a, b), c), (a, c)])",
        )
    taken_apart = forest(trees)
    with single_source_line(), scope(f"{name_of(node)} over {len(trees)} trees"):
        structure, values = _leaves(taken_apart, leaf)
        pool = [_rows(value, taken_apart.start) for value in values]
        for level in taken_apart.levels:
            pool = _compute(node, level, structure, pool)
        roots = [Members([_rows(value, taken_apart.roots)], range(len(trees))) for value in pool]
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


def _compute(node: Callable[..., Any], level: Level, structure: Any, pool: list[Expr]) -> list[Expr]:
    """Record one level: the next pool, which has its results, and the rows of the last one that it does not read."""
    ordered = [_rows(value, level.rows) for value in pool]
    count, read = level.count, level.count * level.arity
    arguments = [
        (structure, [_part(value, place, place + count) for value in ordered]) for place in range(0, read, count)
    ]
    of_results, results = mapped(node, Group(range(count), arguments))
    wanted, given = [[value.tensor_type.with_shape(value.shape[1:]) for value in values] for values in (pool, results)]
    if of_results != structure or wanted != given:
        raise DeclarationError(
            f"ex.fold_trees with {name_of(node)}, which makes {_types(given)} of {_types(wanted)}",
            rule="a node's value must have the containers, shapes and dtypes of its children's values",
            fix="use leaf= to bring the leaves to the shape and dtype of the nodes",
        )
    if read == len(level.rows):
        return results
    return [
        Concatenate(0)(result, _part(value, read, len(level.rows)))
        for result, value in zip(results, ordered, strict=True)
    ]


def _types(types: list[Any]) -> str:
    return ", ".join(map(repr, types))


def _rows(value: Expr, rows: Rows) -> Expr:
    """Return rows of a value in another order; the value itself for all of them in their order."""
    if len(rows) == value.shape[0] and np.array_equal(rows, np.arange(len(rows))):
        return value
    return Take(0)(value, tensor(rows))


def _part(value: Expr, start: int, stop: int) -> Expr:
    """Return consecutive rows of a value."""
    if (start, stop) == (0, value.shape[0]):
        return value
    return Slice(((start, stop, 1), *[(0, size, 1) for size in value.shape[1:]]))(value)

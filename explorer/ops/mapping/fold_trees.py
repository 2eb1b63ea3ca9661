"""``ex.fold_trees``: one value for each tree, computed from its leaves up, all nodes of a level at once.

Recursive networks over parse trees are written so (Socher et al. 2011; TensorFlow Fold batches them by levels, too). A
loop that calls a function at each node records one call for each; here a level is one mapped call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from explorer.core.errors import DeclarationError, OperandError, class_text
from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import scope, single_source_line
from explorer.core.ir.tensor import tensor
from explorer.core.pytree import unflatten
from explorer.core.registry import public
from explorer.ops.manipulation.concat import Concatenate
from explorer.ops.manipulation.gather import Take
from explorer.ops.manipulation.slicing import Slice
from explorer.ops.mapping.forest import Forest, Rows, Step, forest
from explorer.ops.mapping.mapping import check_function, mapped, name_of
from explorer.ops.mapping.members import Members
from explorer.ops.mapping.samples import Group, column, groups
from explorer.record.gc_pause import gc_paused
from explorer.record.reasons import counted_text


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

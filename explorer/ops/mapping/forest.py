"""Trees of nested tuples and lists, taken apart into levels: the order in which their nodes are computed together.

A node's level is the length of the longest path down to a leaf. All nodes of a level have their children on lower ones,
so that they are computed at once. Values that are waiting for their reader stand in a *pool*, of which each level takes
the rows that it reads, and to which it adds its results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.types.tensor_type import Array

Rows: TypeAlias = Array
"""row numbers of a pool, int64"""
_HEIGHT = 40
"""a value is its height << 40 | its number, so that the largest of some has the largest height"""
_NUMBER = (1 << _HEIGHT) - 1


@dataclass(frozen=True, slots=True)
class Level:
    """Nodes of one height and with equally many children."""

    count: int
    """number of nodes"""
    arity: int
    """number of children of each"""
    rows: Rows
    """rows of the pool: the first child of each node, then the second of each, …, then all rows that are kept"""


@dataclass(frozen=True, slots=True)
class Forest:
    """Levels of some trees, from the leaves up; after each the pool holds its results, then the rows it has kept."""

    leaves: list[Any]
    """leaves, each once where it is the same object or number"""
    start: Rows
    """number of the leaf in each row of the first pool"""
    levels: list[Level]
    roots: Rows
    """rows of the trees' values in the last pool"""


def forest(trees: Sequence[Any]) -> Forest:
    """Take trees apart into levels; raises OperandError for a node without children."""
    arities, leaves = _in_order(trees)
    groups: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
    """height and number of children → the nodes' numbers, and those of their children"""
    values: list[int] = []
    for number, arity in enumerate(arities):
        if not arity:
            values.append(number)
            continue
        children = values[-arity:]
        del values[-arity:]
        height = (max(children) >> _HEIGHT) + 1
        group = groups.get((height, arity))
        if group is None:
            group = groups[height, arity] = [], []
        group[0].append(number)
        group[1].extend(children)
        values.append(height << _HEIGHT | number)
    distinct, start = _distinct(leaves)
    pool = np.flatnonzero(np.array(arities) == 0)
    return _in_pools(distinct, start, pool, groups, np.array(values) & _NUMBER)


def _in_order(trees: Sequence[Any]) -> tuple[list[int], list[Any]]:
    """Return the number of children of each node, 0 for a leaf, children before their parents; and the leaves.

    There is no recursion, since trees may be deep, and little in the loop, which runs for each node.
    """
    pending, arities, leaves = [*trees], [], []
    while pending:
        tree = pending.pop()
        if type(tree) is tuple or type(tree) is list or isinstance(tree, (tuple, list)):
            if not tree:
                raise OperandError(
                    f"a tree with the node {tree!r}",
                    rule="a node must have a child, and a leaf must not be a tuple or list",
                    fix="leave the node out, or put a leaf in its place",
                )
            arities.append(len(tree))
            pending.extend(tree)
        else:
            arities.append(0)
            leaves.append(tree)
    return arities[::-1], leaves[::-1]


def _distinct(leaves: list[Any]) -> tuple[list[Any], Rows]:
    """Return leaves without repetitions, and the place of each in them.

    Numbers are equal by type and value, other leaves by identity.
    """
    keys: list[Any] = leaves
    if {type(leaf) for leaf in leaves} != {int}:
        keys = [(type(leaf), leaf) if isinstance(leaf, (int, float)) else id(leaf) for leaf in leaves]
    number_of: dict[Any, int] = {}
    places = [number_of.setdefault(key, len(number_of)) for key in keys]
    by_key = dict(zip(keys, leaves, strict=True))
    return [by_key[key] for key in number_of], np.array(places)


def _in_pools(
    leaves: list[Any],
    start: Rows,
    pool: Rows,
    groups: dict[tuple[int, int], tuple[list[int], list[int]]],
    roots: Rows,
) -> Forest:
    """Follow the pool through all levels: ``pool`` are the numbers of the nodes whose values stand in its rows."""
    row_of = np.zeros(len(pool) + sum([len(nodes) for nodes, _ in groups.values()]), np.int64)
    levels = []
    for (_, arity), (nodes, children) in sorted(groups.items(), key=lambda pair: pair[0]):
        row_of[pool] = np.arange(len(pool))
        read = row_of[np.array(children).reshape(len(nodes), arity).T.ravel() & _NUMBER]
        is_kept = np.ones(len(pool), bool)
        is_kept[read] = False
        kept = np.flatnonzero(is_kept)
        levels.append(Level(len(nodes), arity, np.concatenate([read, kept])))
        pool = np.concatenate([np.array(nodes), pool[kept]])
    row_of[pool] = np.arange(len(pool))
    return Forest(leaves, start, levels, row_of[roots])

"""Trees of nested tuples and lists, taken apart into steps: nodes that are computed together, and the rows they read.

A node's height is the length of the longest path down to a leaf. All nodes of one height have their children below it,
so that they are computed at once. Results that wait for their reader stand in a *pool*; each step takes the rows that
it reads from there, and from the leaves, which are in the order of the steps that read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from operator import not_
from typing import Any, TypeAlias

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.types.tensor_type import Array

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

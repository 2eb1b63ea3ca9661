"""Ensembles of decision trees: the leaf that each row reaches in each tree, and the leaves' weights, put together.

All trees share one table of nodes. A node asks one question, whether a feature is at most a limit, or equal to it;
other comparisons are turned into these, with the branches exchanged (tree_ensembles.py). A leaf is its own branch, so
that all rows go down together, a level at a time, with NumPy's gathers in place of a loop over rows.
"""

from __future__ import annotations

import numpy as np

from explorer.core.ir.expr import Operation
from explorer.core.ir.operation_examples import Example, integers, real
from explorer.core.types.tensor_type import AnyType, Array, TensorType

EQUAL, NAN_GOES_TRUE = 1, 2
"""bits of a node's flags: it compares for equality; a missing feature goes the way of a true answer"""
_TOGETHER = 1 << 14
"""rows × trees that are walked at once, so that their places in the tables stay in the processor's cache"""
_PATIENCE = 4
"""levels after which rows that have reached their leaf are left out"""
COMBINE: dict[str, tuple[np.ufunc, float]] = {
    "SUM": (np.add, 0.0), "MIN": (np.minimum, np.inf), "MAX": (np.maximum, -np.inf),
}  # fmt: skip
"""how weights of several trees are put together, and what it begins with"""


class DecisionTrees(Operation):
    """Weights of the leaves that rows reach, over all trees: (n, features) → (n, targets).

    Operands behind the rows: of each node its feature, limit, two branches (if true, if false), flags and weights; of
    each tree its root, and the target of the first column of its weights.
    """

    targets: int
    depth: int
    """decisions on the longest way from a root to a leaf"""
    combine: str = "SUM"
    """SUM, MIN or MAX of the trees' weights"""
    portable = False
    nondifferentiable = "a decision is a step: its derivative is zero, or none"
    refuses_gradient = True
    unbatchable = "rows are a batch already: give it all rows at once"
    examples = (
        Example(
            real(5, 3), integers(7, high=3), real(7), integers(7, 2, high=7), integers(7, high=4), real(7, 2),
            integers(2, high=7), integers(2, high=2), targets=3, depth=3,
        ),
    )  # fmt: skip

    def infer(
        self,
        x: TensorType,
        features: TensorType,
        limits: TensorType,
        branches: TensorType,
        flags: TensorType,
        weights: TensorType,
        roots: TensorType,
        columns: TensorType,
    ) -> TensorType:
        """Return (n, targets) in the weights' dtype."""
        nodes = features.shape
        fits = x.rank == 2 and len(nodes) == 1 and limits.shape == flags.shape == nodes
        fits = fits and branches.shape == (*nodes, 2) and weights.rank == 2 and weights.shape[:1] == nodes
        if not fits or roots.rank != 1 or roots.shape != columns.shape or x.dtype != limits.dtype:
            raise self.refuse(
                (x, features, limits, branches, flags, weights, roots, columns),
                "the rows must have two axes and the limits' dtype, and the tables a row for each node or tree",
            )
        if any(table.dtype.kind not in "iu" for table in (features, branches, flags, roots, columns)):
            raise self.refuse(
                (x, features, limits, branches, flags, weights, roots, columns),
                "the tables of features, branches, flags, roots and columns must be of integers",
            )
        return TensorType((x.shape[0], self.targets), weights.dtype)

    def kernel(self, out: Array, x: Array, *tables: Array) -> Array:
        """Walk blocks of rows and trees, and put their weights together tree by tree, in the order of the trees."""
        features, limits, branches, flags, weights, roots, columns = tables
        ufunc, start = COMBINE[self.combine]
        out[...] = start
        walk = _Walk(x, features, limits, branches, flags)
        width = weights.shape[1]
        rows = max(1, min(x.shape[0], _TOGETHER))
        trees = max(1, _TOGETHER // rows)
        for first in range(0, x.shape[0], rows):
            part = out[first : first + rows]
            for tree in range(0, len(roots), trees):
                leaves = walk.leaves(first, len(part), roots[tree : tree + trees], self.depth)
                for place, column in enumerate(columns[tree : tree + trees].tolist()):
                    target = part[:, column : column + width]
                    ufunc(target, weights.take(leaves[place], 0), out=target)
        if start:
            out[out == start] = 0  # no tree has a weight for this target
        return out

    def flops(self, result: AnyType, *types: TensorType) -> int:
        """Return a comparison for each row, tree and level."""
        return types[0].shape[0] * types[6].size * self.depth


class _Walk:
    """The way of rows through trees, a level at a time."""

    def __init__(self, x: Array, features: Array, limits: Array, branches: Array, flags: Array) -> None:
        self.x, self.width = np.ascontiguousarray(x).reshape(-1), x.shape[1]
        self.features, self.limits, self.branches = features, limits, branches.reshape(-1)
        self.equal = (flags & EQUAL).astype(bool) if np.any(flags & EQUAL) else None
        tracks = flags & NAN_GOES_TRUE
        self.tracks = tracks.astype(bool) if np.any(tracks) and np.isnan(x).any() else None

    def leaves(self, first: int, count: int, roots: Array, depth: int) -> Array:
        """Return the leaves that rows from ``first`` on reach: (trees, rows) numbers of nodes."""
        nodes = np.repeat(roots.astype(np.intp), count)
        starts = np.tile(np.arange(first, first + count) * self.width, len(roots))
        return self._down(nodes, starts, depth).reshape(len(roots), count)

    def _down(self, nodes: Array, starts: Array, depth: int) -> Array:
        for level in range(depth):
            # Trees are deep for few rows: from time to time, those that have arrived are taken out.
            if level % _PATIENCE == _PATIENCE - 1:
                (inner,) = np.nonzero(self.branches.take(nodes * 2) != nodes)
                if len(inner) * 2 < len(nodes):
                    if len(inner):
                        nodes[inner] = self._down(nodes[inner], starts[inner], depth - level)
                    return nodes
            nodes = self._next(nodes, starts)
        return nodes

    def _next(self, nodes: Array, starts: Array) -> Array:
        places = self.features.take(nodes)
        places += starts
        values = self.x.take(places)
        limits = self.limits.take(nodes)
        answers = values <= limits
        if self.equal is not None:
            np.copyto(answers, values == limits, where=self.equal.take(nodes))
        if self.tracks is not None:
            np.copyto(answers, self.tracks.take(nodes), where=np.isnan(values))
        # Branches lie in pairs, the true one first: place 2 · node + 1 − answer.
        nodes = nodes * 2
        nodes += 1
        nodes -= answers
        return self.branches.take(nodes)

"""Evaluation of decision tree ensembles: each row reaches a leaf in every tree, and the leaves' weights are aggregated.

All trees share one table of nodes, which compare a feature with a limit by ≤ or =; tree_ensembles.py converts other
comparisons to these two by exchanging branches. Both branches of a leaf lead to the leaf itself, so all rows descend
together, one level at a time, with NumPy gathers instead of a loop over rows.
"""

from __future__ import annotations

import numpy as np

from explorer.core.ir.expr import Operation
from explorer.core.ir.operation_examples import Example, integers, real
from explorer.core.types.tensor_type import AnyType, Array, TensorType

EQUAL, NAN_GOES_TRUE = 1, 2
"""bits of a node's flags: the node tests equality; NaN takes the true branch"""
_BLOCK = 1 << 14
"""number of (row, tree) pairs processed together, so that their table entries stay in the cache"""
_REMOVAL_INTERVAL = 4
"""number of levels after which rows that have reached a leaf are removed"""
COMBINE: dict[str, tuple[np.ufunc, float]] = {
    "SUM": (np.add, 0.0), "MIN": (np.minimum, np.inf), "MAX": (np.maximum, -np.inf),
}  # fmt: skip
"""(ufunc, initial value) for each aggregation of weights"""


class DecisionTrees(Operation):
    """Aggregated weights of the leaves that rows reach in all trees: (n, features) → (n, targets).

    The other operands are tables: for each node, its feature, limit, branches (true, false), flags and weights; for
    each tree, its root and the target of its first weight column.
    """

    targets: int
    depth: int
    """number of decisions on the longest path from a root to a leaf"""
    combine: str = "SUM"
    """aggregation of the trees' weights: SUM, MIN or MAX"""
    portable = False
    nondifferentiable = "a decision is a step function, whose derivative is zero or undefined"
    refuses_gradient = True
    unbatchable = "rows are already a batch: pass all rows at once"
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
                "rows must have two axes and the limits' dtype, and each table must have a row for each node or tree",
            )
        if any(table.dtype.kind not in "iu" for table in (features, branches, flags, roots, columns)):
            raise self.refuse(
                (x, features, limits, branches, flags, weights, roots, columns),
                "the tables of features, branches, flags, roots and columns must be integers",
            )
        return TensorType((x.shape[0], self.targets), weights.dtype)

    def kernel(self, out: Array, x: Array, *tables: Array) -> Array:
        """Process blocks of rows and trees, aggregating weights in the order of the trees."""
        features, limits, branches, flags, weights, roots, columns = tables
        ufunc, start = COMBINE[self.combine]
        out[...] = start
        traversal = _Traversal(x, features, limits, branches, flags)
        width = weights.shape[1]
        rows = max(1, min(x.shape[0], _BLOCK))
        trees = max(1, _BLOCK // rows)
        for first in range(0, x.shape[0], rows):
            part = out[first : first + rows]
            for tree in range(0, len(roots), trees):
                leaves = traversal.leaves(first, len(part), roots[tree : tree + trees], self.depth)
                for index, column in enumerate(columns[tree : tree + trees].tolist()):
                    target = part[:, column : column + width]
                    ufunc(target, weights.take(leaves[index], 0), out=target)
        if start:
            out[out == start] = 0  # no tree has a weight for this target
        return out

    def flops(self, result: AnyType, *types: TensorType) -> int:
        """Return one comparison per row, tree and level."""
        return types[0].shape[0] * types[6].size * self.depth


class _Traversal:
    def __init__(self, x: Array, features: Array, limits: Array, branches: Array, flags: Array) -> None:
        self.x, self.width = np.ascontiguousarray(x).reshape(-1), x.shape[1]
        self.features, self.limits, self.branches = features, limits, branches.reshape(-1)
        self.equal = (flags & EQUAL).astype(bool) if np.any(flags & EQUAL) else None
        nan_is_true = flags & NAN_GOES_TRUE
        self.nan_is_true = nan_is_true.astype(bool) if np.any(nan_is_true) and np.isnan(x).any() else None

    def leaves(self, first: int, count: int, roots: Array, depth: int) -> Array:
        """Return the leaves reached by ``count`` rows, starting at row ``first``, with the shape (trees, rows)."""
        nodes = np.repeat(roots.astype(np.intp), count)
        starts = np.tile(np.arange(first, first + count) * self.width, len(roots))
        return self._descend(nodes, starts, depth).reshape(len(roots), count)

    def _descend(self, nodes: Array, starts: Array, depth: int) -> Array:
        for level in range(depth):
            # A tree may be deep only for few rows, so rows that have reached a leaf are removed periodically.
            if level % _REMOVAL_INTERVAL == _REMOVAL_INTERVAL - 1:
                (inner,) = np.nonzero(self.branches.take(nodes * 2) != nodes)
                if len(inner) * 2 < len(nodes):
                    if len(inner):
                        nodes[inner] = self._descend(nodes[inner], starts[inner], depth - level)
                    return nodes
            nodes = self._next(nodes, starts)
        return nodes

    def _next(self, nodes: Array, starts: Array) -> Array:
        indices = self.features.take(nodes)
        indices += starts
        values = self.x.take(indices)
        limits = self.limits.take(nodes)
        answers = values <= limits
        if self.equal is not None:
            np.copyto(answers, values == limits, where=self.equal.take(nodes))
        if self.nan_is_true is not None:
            np.copyto(answers, self.nan_is_true.take(nodes), where=np.isnan(values))
        # Branches are stored in pairs, the true branch first: index 2 · node + 1 − answer.
        nodes = nodes * 2
        nodes += 1
        nodes -= answers
        return self.branches.take(nodes)

"""Exponents as a graph has them: values known again by their structure, read as sums of atoms.

Two exponents cancel only if they are seen to be the same value. Dedup makes equal nodes one, but views, sums in other
shapes, and log-softmaxes of one operand stay different nodes. So values get numbers by structure, a few operations
deep, and views become places of axes (axis_places.py). `Powers` (graph_exponents.py) records exponents again.
"""

from __future__ import annotations

import math

from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import Tensor
from explorer.ops.creation.constants import Structured
from explorer.ops.elementwise.unary import Negative, Softplus
from explorer.ops.manipulation.reshape import Reshape
from explorer.ops.nn.activation import clip
from explorer.ops.nn.softmax import LogSoftmax, LogSumExp
from explorer.ops.reduction.reduce import Sum
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.rewrite.rules.algebra.axis_places import Places, at_places, below_views, groups
from explorer.plan.rewrite.rules.algebra.powers import (
    Atom,
    Exponent,
    Leaf,
    OnePlus,
    Total,
    Variable,
    added,
    moved_all,
    one_plus,
    scaled,
)

_DEPTH = 4
"""operations below a value that make up its structure: more would cost more at each value than equal ones save"""
_OPERANDS = 8
"""operands up to which an operation is known by its structure"""
_LOGARITHMS = 4
"""logarithms of sums of powers, one inside the other, that are read as atoms"""


class ExponentReader:
    """Numbers of values by structure, and exponents read from them."""

    def __init__(self, graph: PlanGraph) -> None:
        self.graph = graph
        self._numbers: dict[object, int] = {}
        """structure of a value → its number"""
        self._known: dict[int, int] = {}
        """uid → number"""
        self._values: list[Expr] = []
        """by number, the first value of a structure"""
        self._parts: dict[int, Exponent] = {}
        """number of a variable that was recorded from several atoms → these, in the places of its axes"""
        self._totals: dict[Total, list[Total]] = {}
        """the deepest of totals that are equal → the others that were met"""

    def number(self, node: Expr, depth: int = _DEPTH) -> int:
        """Return the number of a value; values of one structure, ``depth`` operations deep, have one number."""
        node = self.graph.resolve(node)
        if node.uid in self._known:
            return self._known[node.uid]
        if isinstance(node, Tensor):
            key: object = id(node.storage), node.shape
        elif isinstance(node.operation, Structured):
            key = node.operation
        elif depth and node.operands:
            key = (
                node.operation,
                *[self.number(operand, depth - 1) for operand in self.graph.operands(node)[:_OPERANDS]],
            )
            if len(node.operands) > _OPERANDS:
                key = node.uid
        else:
            key = node.uid
        number = self._numbers.setdefault(key, len(self._values))
        if number == len(self._values):
            self._values.append(node)
        if depth == _DEPTH:
            self._known[node.uid] = number
        return number

    def of(self, node: Expr, depth: int = _LOGARITHMS) -> Exponent:
        """Return the exponent that a value is, with logarithms of sums of powers inside it as atoms."""
        base, places = below_views(node, self.graph)
        operation, operands = base.operation, self.graph.operands(base)
        if not depth:
            return self._parts_at(self.number(base), places)
        if isinstance(operation, Negative):
            return scaled(self._placed(self.of(operands[0], depth - 1), places), -1)
        if isinstance(operation, (LogSoftmax, LogSumExp)) and operands[0].dtype == base.dtype and operation.axes:
            x, axes = operands[0], operation.axes
            if isinstance(operation, LogSoftmax):
                return self._placed(added(self.of(x, depth - 1), self.total(x, axes), -1), places)
            kept = [axis - x.ndim for axis in range(x.ndim) if operation.keepdims or axis not in axes]
            back = {place: index - len(kept) for index, place in enumerate(kept)}
            return self._placed(moved_all(self.total(x, axes), back), places)
        if isinstance(operation, Softplus) and operands[0].dtype == base.dtype:
            return self._placed(one_plus(self.of(operands[0], depth - 1))[1], places)
        number = self.number(base)
        return self._parts_at(number, places)

    def total(self, x: Expr, axes: tuple[int, ...]) -> Exponent:
        """Return log Σ eˣ over axes of x as an exponent; these axes have the place 0.

        Axes that x only repeats (broadcasting) add the log of their count, so x itself is summed then.
        """
        base, places = below_views(x, self.graph)
        summed = {axis - x.ndim for axis in axes}
        inner = tuple([axis for axis, place in enumerate(places) if place in summed])
        repeated = math.prod([x.shape[axis] for axis in axes]) // math.prod([base.shape[axis] for axis in inner])
        if repeated != 1:
            base, places = x, tuple([axis - x.ndim if size > 1 else 0 for axis, size in enumerate(x.shape)])
            inner = tuple([axis for axis in axes if x.shape[axis] > 1])
        if not inner:
            return self.of(x)
        total = Total(self.number(base), inner, tuple([0 if p in summed else p for p in places]))
        deepest = self._below(total)[-1]  # sums of one value, in whatever shapes, are known as one
        if deepest != total:
            self._totals.setdefault(deepest, []).append(total)
        return {deepest: 1}

    @staticmethod
    def _placed(exponent: Exponent, places: Places) -> Exponent:
        """Return the exponent of a value whose axes are at these places."""
        return moved_all(exponent, {axis - len(places): place for axis, place in enumerate(places)})

    def leaves(self, atom: Atom) -> set[Leaf]:
        """Return the values that an atom is computed from: it is NaN where one of them is."""
        if isinstance(atom, OnePlus):
            return {leaf for inner, _ in atom.exponent for leaf in self.leaves(inner)}
        places = atom.places
        if isinstance(atom, Total):
            places = tuple([1 if axis in atom.axes else place for axis, place in enumerate(places)])
        if atom.number not in self._parts:
            return {Leaf(atom.number, places)}
        return {leaf for part in self._parts_at(atom.number, places) for leaf in self.leaves(part)}

    def zero(self, leaf: Leaf) -> Expr:
        """Record 0 where a leaf is a number, at its places, and NaN where it is NaN: clip keeps NaN."""
        value = clip(self._values[leaf.number], 0.0, 0.0)
        summed = tuple([axis for axis, place in enumerate(leaf.places) if place > 0])
        if summed:
            value = Sum(summed, True)(value)
        return at_places(value, tuple([min(place, 0) for place in leaf.places]))

    def _parts_at(self, number: int, places: Places) -> Exponent:
        """Return the exponent of a numbered value with its axes at these places."""
        if number in self._parts:
            return self._placed(self._parts[number], places)
        return {Variable(number, places): 1}

    def _views(self, total: Total) -> list[Total]:
        """Return a total, and equal ones over other views of the same value."""
        return list(dict.fromkeys([*self._below(total), *self._totals.get(total, ())]))

    def _below(self, total: Total) -> list[Total]:
        """Return a total, and equal ones below reshapes that only joined its axes; the deepest is the last."""
        totals = [total]
        base = self._values[total.number]
        while isinstance(base.operation, Reshape):
            (inner,) = self.graph.operands(base)
            axes: list[int] = []
            places = [0] * inner.ndim
            for before, after in groups(inner.shape, base.shape):
                if all(axis in totals[-1].axes for axis in after):
                    axes += before
                elif len(before) == len(after) == 1:
                    places[before[0]] = totals[-1].places[after[0]]
                else:
                    return totals
            base, own = below_views(inner, self.graph)
            axis_at = {axis - inner.ndim: axis for axis in range(inner.ndim)}
            summed = tuple([i for i, place in enumerate(own) if place and axis_at[place] in axes])
            totals.append(Total(self.number(base), summed, tuple([places[axis_at[p]] if p else 0 for p in own])))
        return totals

"""Places of axes: where the axes of a value stand in another that is a view of it, or is broadcast from it.

Terms of one exponent meet in different shapes: (n,) below a sum, (n, 1) next to it. Named by places from the end, as
broadcasting counts axes, they are known as the same value without looking at the views between.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Shape
from explorer.ops.base import reshape
from explorer.ops.manipulation.reshape import BroadcastTo, Reshape, Transpose
from explorer.plan.graph.plan_graph import PlanGraph

Places: TypeAlias = "tuple[int, ...]"
"""for each axis of a value its place in another one, counted from the end (−1, −2 …); 0 for an axis of size 1"""


def below_views(node: Expr, graph: PlanGraph) -> tuple[Expr, Places]:
    """Return the value below views that only move axes, and the places of its axes in ``node``."""
    node = graph.resolve(node)
    places = [axis - node.ndim if size != 1 else 0 for axis, size in enumerate(node.shape)]
    while True:
        operation = node.operation
        if isinstance(operation, Reshape):
            inner = node
            while isinstance(inner.operation, Reshape):
                (inner,) = graph.operands(inner)
            if _squeezed(inner.shape) != _squeezed(node.shape):
                (inner,) = graph.operands(node)
                if _squeezed(inner.shape) != _squeezed(node.shape):
                    break
            left = iter([place for place in places if place])
            places = [next(left) if size != 1 else 0 for size in inner.shape]
        elif isinstance(operation, BroadcastTo):
            (inner,) = graph.operands(node)
            last = places[len(places) - inner.ndim :]
            places = [place if size != 1 else 0 for place, size in zip(last, inner.shape, strict=True)]
        elif isinstance(operation, Transpose):
            (inner,) = graph.operands(node)
            before = places
            places = [0] * len(before)
            for place, axis in zip(before, operation.axes, strict=True):
                places[axis] = place
        else:
            break
        node = inner
    return node, tuple(places)


def at_places(value: Expr, places: Places) -> Expr:
    """Record a value with its axes at places, in a shape that broadcasting aligns: the inverse of `below_views`."""
    kept = sorted([(place, axis) for axis, place in enumerate(places) if place])
    if not kept:
        return reshape(value, ())
    order = [axis for _, axis in kept]
    if order != sorted(order):
        full_order = (*order, *[axis for axis in range(value.ndim) if axis not in order])
        value, kept = Transpose(full_order)(value), [(place, index) for index, (place, _) in enumerate(kept)]
    sizes = {place: value.shape[axis] for place, axis in kept}
    return reshape(value, tuple([sizes.get(place, 1) for place in range(kept[0][0], 0)]))


def _squeezed(shape: Shape) -> Shape:
    """Return a shape without its axes of size 1."""
    return tuple([size for size in shape if size != 1])


def groups(first: Shape, second: Shape) -> list[tuple[list[int], list[int]]]:
    """Return groups of axes of two shapes of one size that hold the same elements, as small as possible.

    Axes of size 1 are left out. A group of one axis on each side was not mixed by the reshape between the shapes.

    Example: ``groups((2, 3, 4), (6, 4))`` is ``[([0, 1], [0]), ([2], [1])]``.
    """
    ahead = [(axis, size) for axis, size in enumerate(first) if size != 1]
    behind = [(axis, size) for axis, size in enumerate(second) if size != 1]
    pairs = []
    while ahead:
        a, b = [ahead.pop(0)], [behind.pop(0)]
        while (size := math.prod([s for _, s in a])) != (other := math.prod([s for _, s in b])):
            (a if size < other else b).append((ahead if size < other else behind).pop(0))
        pairs.append(([axis for axis, _ in a], [axis for axis, _ in b]))
    return pairs

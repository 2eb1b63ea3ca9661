"""Exponents of one graph: read from its values, and computed again without differences of large and equal numbers."""

from __future__ import annotations

import math
from typing import NamedTuple

from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import Tensor
from explorer.ops.creation.constants import Structured
from explorer.ops.elementwise.trigonometric_and_logs import logaddexp
from explorer.ops.elementwise.unary import Negative, Sigmoid, Softplus, softplus
from explorer.ops.manipulation.reshape import Reshape
from explorer.ops.nn.activation import clip
from explorer.ops.nn.softmax_and_loss import LogSoftmax, LogSumExp, Softmax
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
"""operations below a value by which it is known again"""
_LOGARITHMS = 4
"""logarithms of sums of powers, one inside the other, that an exponent is taken for"""
_TRIES = 64
"""products of softmaxes and sigmoids that are tried for one power"""


class Share(NamedTuple):
    """A factor between 0 and 1: a softmax at a place, or the sigmoid of ± an exponent."""

    atom: Total | OnePlus
    places: Places = ()
    sign: int = 1

    @property
    def log_factor(self) -> float:
        """The log of the number that a sigmoid is multiplied by."""
        return -self.atom.offset if isinstance(self.atom, OnePlus) and self.sign > 0 else 0.0


class Powers:
    """The exponents of one graph: values that are known again by what computes them."""

    def __init__(self, graph: PlanGraph) -> None:
        self.graph = graph
        self._numbers: dict[object, int] = {}
        self._known: dict[int, int] = {}
        self._values: list[Expr] = []
        self._parts: dict[int, Exponent] = {}
        """of a variable that was made of several atoms, these, in the places of its axes"""
        self._totals: dict[Total, list[Total]] = {}
        """by the deepest of totals that are one, the others that were met"""
        self._found: dict[frozenset[tuple[Atom, float]], list[Share] | None] = {}

    # -- from expressions ------------------------------------------------------------------------------------------

    def number(self, node: Expr, depth: int = _DEPTH) -> int:
        """The number of a value: values of one structure have one number."""
        node = self.graph.resolve(node)
        if node.uid in self._known:
            return self._known[node.uid]
        if isinstance(node, Tensor):
            key: object = id(node.storage), node.shape
        elif isinstance(node.operation, Structured):
            key = node.operation
        elif depth and node.operands:
            key = node.operation, *[self.number(operand, depth - 1) for operand in self.graph.operands(node)[:8]]
            if len(node.operands) > 8:
                key = node.uid
        else:
            key = node.uid
        found = self._numbers.setdefault(key, len(self._values))
        if found == len(self._values):
            self._values.append(node)
        if depth == _DEPTH:
            self._known[node.uid] = found
        return found

    def of(self, node: Expr, depth: int = _LOGARITHMS) -> Exponent:
        """The exponent that a value is."""
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
        """log Σ eˣ over axes, in the places that they leave empty."""
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
        """An exponent of a value whose axes are at these places."""
        return moved_all(exponent, {axis - len(places): place for axis, place in enumerate(places)})

    def leaves(self, atom: Atom) -> set[Leaf]:
        """The values that an atom is computed from: it is NaN where one of them is."""
        if isinstance(atom, OnePlus):
            return {leaf for inner, _ in atom.exponent for leaf in self.leaves(inner)}
        places = atom.places
        if isinstance(atom, Total):
            places = tuple([1 if axis in atom.axes else place for axis, place in enumerate(places)])
        if atom.number not in self._parts:
            return {Leaf(atom.number, places)}
        return {leaf for part in self._parts_at(atom.number, places) for leaf in self.leaves(part)}

    def zero(self, leaf: Leaf) -> Expr:
        """0 where a leaf is a number, at its places; NaN where it is NaN."""
        value = clip(self._values[leaf.number], 0.0, 0.0)
        summed = tuple([axis for axis, place in enumerate(leaf.places) if place > 0])
        if summed:
            value = Sum(summed, True)(value)
        return at_places(value, tuple([min(place, 0) for place in leaf.places]))

    @staticmethod
    def complement(shares: list[Share]) -> Exponent | None:
        """The exponent of 1 − s for one sigmoid s; None for other shares."""
        if len(shares) != 1 or not isinstance(shares[0].atom, OnePlus) or shares[0].atom.offset:
            return None
        atom = shares[0].atom
        return {atom: -1.0} if shares[0].sign > 0 else added(dict(atom.exponent), {atom: -1})

    # -- to expressions --------------------------------------------------------------------------------------------

    def shares(self, exponent: Exponent) -> list[Share] | None:
        """The softmaxes and sigmoids whose product is the power of an exponent; None where it is no such product."""
        if not exponent:
            return []
        if all(times > -1 or type(atom) is Variable for atom, times in exponent.items()):
            return None  # no sum of powers, nor 1 + a power, divides
        key = frozenset(exponent.items())
        if key not in self._found:
            self._found[key] = self._shares(exponent, [_TRIES])
        return self._found[key]

    def _shares(self, exponent: Exponent, left: list[int]) -> list[Share] | None:
        if not exponent:
            return []
        outer = self._outermost([atom for atom, times in exponent.items() if times <= -1])
        left[0] -= 1
        if outer is None or left[0] < 0:
            return None
        for share, part in self._options(outer, exponent):
            found = self._shares(added(exponent, part, -1), left)
            if found is not None:
                return [share, *found]
        return None

    def _options(self, atom: Total | OnePlus, exponent: Exponent) -> list[tuple[Share, Exponent]]:
        """Shares with an atom below the line, and their exponents, the likelier first."""
        if isinstance(atom, Total):
            share = self._member(atom, exponent)
            if share is None:
                return []
            return [(share, added(self._parts_at(share.atom.number, share.places), {atom: -1}))]  # type: ignore[union-attr]
        inner: Exponent = dict(atom.exponent)
        both: list[tuple[Share, Exponent]] = [
            (Share(atom, (), 1), added(inner, {atom: -1})),
            (Share(atom, (), -1), {atom: -1.0}),
        ]
        return both if any(exponent.get(part, 0) * times > 0 for part, times in inner.items()) else both[::-1]

    def _parts_at(self, number: int, places: Places) -> Exponent:
        """The exponent with a number, its axes at these places."""
        if number in self._parts:
            return self._placed(self._parts[number], places)
        return {Variable(number, places): 1}

    def _member(self, total: Total, exponent: Exponent) -> Share | None:
        """The softmax whose powers a total sums, where an exponent has the one below the other."""
        for view in self._views(total):
            base = self._values[view.number]
            plain = tuple([axis - base.ndim if size > 1 else 0 for axis, size in enumerate(base.shape)])
            for part in self._parts_at(view.number, plain):
                for atom in exponent:
                    if not isinstance(part, Variable) or not isinstance(atom, Variable) or atom.number != part.number:
                        continue
                    at = {own: place for own, place in zip(part.places, atom.places, strict=True) if own}
                    places = tuple(
                        [at.get(i - base.ndim, 0) if i in view.axes else p for i, p in enumerate(view.places)]
                    )
                    used = [place for place in places if place]
                    if not all(places[axis] for axis in view.axes) or len({*used}) < len(used):
                        continue
                    left = added(exponent, self._parts_at(view.number, places), -1)
                    if left.keys() <= exponent.keys() and _size(left) < _size(exponent):
                        return Share(view, places)
        return None

    def _views(self, total: Total) -> list[Total]:
        """A total, and the same of values that are other views of what it sums."""
        return list(dict.fromkeys([*self._below(total), *self._totals.get(total, ())]))

    def _below(self, total: Total) -> list[Total]:
        """A total, and the same over axes that were made one before it, the deepest last."""
        found = [total]
        base = self._values[total.number]
        while isinstance(base.operation, Reshape):
            (inner,) = self.graph.operands(base)
            axes: list[int] = []
            places = [0] * inner.ndim
            for before, after in groups(inner.shape, base.shape):
                if all(axis in found[-1].axes for axis in after):
                    axes += before
                elif len(before) == len(after) == 1:
                    places[before[0]] = found[-1].places[after[0]]
                else:
                    return found
            base, own = below_views(inner, self.graph)
            held = {axis - inner.ndim: axis for axis in range(inner.ndim)}
            summed = tuple([i for i, place in enumerate(own) if place and held[place] in axes])
            found.append(Total(self.number(base), summed, tuple([places[held[p]] if p else 0 for p in own])))
        return found

    def _outermost(self, atoms: list[Atom]) -> Total | OnePlus | None:
        """The atom that is made of others, if there is one, before what it is made of."""
        found = [atom for atom in atoms if not isinstance(atom, Variable)]
        return max(found, key=self._height) if found else None

    def _height(self, atom: Atom) -> int:
        if isinstance(atom, Variable):
            return 0
        inner = (
            [part for part, _ in atom.exponent] if isinstance(atom, OnePlus) else [*self._parts.get(atom.number, ())]
        )
        return 1 + max([self._height(part) for part in inner], default=0)

    def share(self, share: Share) -> Expr:
        """A share, computed."""
        if isinstance(share.atom, Total):
            return at_places(Softmax(share.atom.axes)(self._values[share.atom.number]), share.places)
        x = self._log_with(share.atom)
        if share.sign < 0:
            return Sigmoid()(-x)
        return Sigmoid()(x) * math.exp(share.log_factor) if share.atom.offset else Sigmoid()(x)

    def _log_with(self, atom: OnePlus) -> Expr:
        value = self.log(dict(atom.exponent))
        return value + atom.offset if atom.offset else value

    def log(self, exponent: Exponent) -> Expr:
        """An exponent that is not empty, computed: never by a difference of what may be large and nearly equal."""
        value = self._log(exponent)
        ((atom, times), *more) = exponent.items()
        if more or times != 1 or not isinstance(atom, Variable):
            base, places = below_views(value, self.graph)
            back = {place: axis - base.ndim for axis, place in enumerate(places) if place}
            self._parts.setdefault(self.number(base), moved_all(exponent, back))
        return value

    def _log(self, exponent: Exponent) -> Expr:
        outer = self._outermost([*exponent])
        if outer is None:
            return _sum([(self._value(atom), n) for atom, n in exponent.items() if not isinstance(atom, OnePlus)])
        times = exponent[outer]
        rest = added(exponent, {outer: -times})
        if isinstance(outer, Total):
            share = self._member(outer, exponent)
            if share is not None:
                total = share.atom
                assert isinstance(total, Total)
                left = added(rest, self._parts_at(total.number, share.places), times)
                if len(left) < len(rest):
                    p = at_places(LogSoftmax(total.axes)(self._values[total.number]), share.places)
                    return _sum([(p, -times), *([(self.log(left), 1.0)] if left else [])])
            return _sum([(self._value(outer), times), *([(self.log(rest), 1.0)] if rest else [])])
        inner = dict(outer.exponent)
        if abs(times) == 1:
            sign = -1 if times < 0 else 1
            first = scaled(rest, sign)
            return _sum([(self._log_of_two(first, added(first, inner), outer.offset), times)])
        left = added(rest, inner, times)
        if len(left) < len(rest) and not outer.offset:  # log σ(d) = −log(1 + e⁻ᵈ)
            value = softplus(-self.log(inner))
            return _sum([(value, times), *([(self.log(left), 1.0)] if left else [])])
        return _sum([(softplus(self._log_with(outer)), times), *([(self.log(rest), 1.0)] if rest else [])])

    def _log_of_two(self, a: Exponent, b: Exponent, offset: float) -> Expr:
        """log(eᵃ + eᵇ⁺ᵒᶠᶠˢᵉᵗ)."""
        if not a or (not b and not offset):
            value = self.log(a or b)
            return softplus(value + offset if offset else value)
        second: Expr | float = self.log(b) + offset if b and offset else self.log(b) if b else offset
        return logaddexp(self.log(a), second)

    def _value(self, atom: Variable | Total) -> Expr:
        base = self._values[atom.number]
        if isinstance(atom, Total):
            base = LogSumExp(atom.axes, True)(base)
        return at_places(base, atom.places)


def _size(exponent: Exponent) -> float:
    return sum(map(abs, exponent.values()))


def _sum(terms: list[tuple[Expr, float]]) -> Expr:
    """Σ number · value, positive terms first."""
    value: Expr | None = None
    for term, times in sorted(terms, key=lambda each: each[1] < 0):
        size = abs(times)
        part = term if size == 1 else term * size
        signed = -part if times < 0 and value is None else part
        value = signed if value is None else value - part if times < 0 else value + part
    assert value is not None
    return value

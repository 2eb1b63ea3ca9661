"""Formal exponents: logarithms of positive values as sums of atoms that cancel exactly, before a number is computed.

The atoms are an exponent x, the logarithm of a sum of powers (log Σ eˣ), and log(1 + eᵈ). Their differences are the
logarithms of softmaxes and sigmoids, so that powers which cannot overflow can be told from those which can.

Everything here is symbolic: coefficients are numbers of the plan, atoms name values by number and place, and no
expression is recorded before `Mantissa.value` is asked for. graph_exponents.py connects atoms with a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import NamedTuple, TypeAlias

from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Shape, broadcast_shapes
from explorer.ops.elementwise.unary import reciprocal
from explorer.plan.rewrite.rules.algebra.axis_places import Places

Exponent: TypeAlias = "dict[Atom, float]"
"""Σ coefficient · atom; no coefficient is 0"""
Frozen: TypeAlias = "tuple[tuple[Atom, float], ...]"


class Variable(NamedTuple):
    """Atom that is an exponent as the graph computes it, by its number."""

    number: int
    places: Places


class Total(NamedTuple):
    """Atom log Σ eˣ over some axes of a numbered exponent x."""

    number: int
    axes: tuple[int, ...]
    places: Places


class OnePlus(NamedTuple):
    """Atom log(1 + eᵈ⁺ᵒᶠᶠˢᵉᵗ) for an exponent d."""

    exponent: Frozen
    offset: float


class Leaf(NamedTuple):
    """A value below an exponent: its number, and where its axes stand; 1 for an axis that is summed.

    Leaves carry NaN: a power that cancels would hide that its exponent is NaN, so its leaves are remembered.
    """

    number: int
    places: Places

    def is_in(self, other: Leaf) -> bool:
        """Whether each number of the other is NaN where the one of this leaf is."""
        if self.number != other.number:
            return False
        return all(
            other_place in (own_place, 1) for own_place, other_place in zip(self.places, other.places, strict=True)
        )

    def summed(self, axes: Container[int]) -> Leaf:
        """Return the leaf of a sum over axes, which are kept."""
        return Leaf(self.number, tuple([1 if place in axes else place for place in self.places]))

    def moved(self, places: dict[int, int]) -> Leaf:
        """Return the leaf of the value with its axes at other places."""
        return Leaf(self.number, tuple([places[place] if place < 0 else place for place in self.places]))

    @property
    def axes(self) -> set[int]:
        """The axes, counted from the end, along which it varies."""
        return {place for place in self.places if place < 0}


Atom: TypeAlias = "Variable | Total | OnePlus"


def added(a: Exponent, b: Exponent, times: float = 1) -> Exponent:
    """Return ``a`` + times · ``b``; atoms whose coefficients become 0 are gone."""
    total = dict(a)
    for atom, coefficient in b.items():
        left = total.get(atom, 0) + times * coefficient
        if left:
            total[atom] = left
        else:
            total.pop(atom, None)
    return total


def scaled(a: Exponent, times: float) -> Exponent:
    """Return times · ``a``."""
    return {atom: times * coefficient for atom, coefficient in a.items()}


def axes_of(atom: Atom) -> set[int]:
    """Return the axes, counted from the end, along which an atom varies."""
    if isinstance(atom, OnePlus):
        return {axis for inner, _ in atom.exponent for axis in axes_of(inner)}
    summed = atom.axes if isinstance(atom, Total) else ()
    return {place for axis, place in enumerate(atom.places) if place and axis not in summed}


def nesting(atom: Atom) -> int:
    """Return how many sums of powers stand inside each other in an atom."""
    return 1 + max([nesting(inner) for inner, _ in atom.exponent], default=0) if isinstance(atom, OnePlus) else 0


def moved(atom: Atom, places: dict[int, int]) -> Atom:
    """Return the atom of the value with its axes at other places."""
    if isinstance(atom, OnePlus):
        return OnePlus(tuple([(moved(inner, places), times) for inner, times in atom.exponent]), atom.offset)
    summed = atom.axes if isinstance(atom, Total) else ()
    to = tuple([places[p] if p and axis not in summed else 0 for axis, p in enumerate(atom.places)])
    return Total(atom.number, atom.axes, to) if isinstance(atom, Total) else Variable(atom.number, to)


def moved_all(exponent: Exponent, places: dict[int, int]) -> Exponent:
    """Return the exponent of the value with its axes at other places."""
    return {moved(atom, places): times for atom, times in exponent.items()}


def one_plus(exponent: Exponent, offset: float = 0.0) -> tuple[bool, Exponent]:
    """Return 1 + eᵈ⁺ᵒᶠᶠˢᵉᵗ as a power, and whether it must still be multiplied by eᵒᶠᶠˢᵉᵗ.

    eᵈ is taken out where that lets d and −d have one atom, so that σ(x) and σ(−x) are seen to add up to 1.
    """
    frozen = tuple(sorted(exponent.items(), key=repr) if len(exponent) > 1 else exponent.items())
    if frozen and frozen[0][1] < 0:  # 1 + c·eᵈ = c·eᵈ·(1 + e⁻ᵈ / c)
        opposite = tuple([(atom, -times) for atom, times in frozen])
        return True, added(exponent, {OnePlus(opposite, -offset): 1})
    return False, {OnePlus(frozen, offset): 1.0}


class Mantissa:
    """Factor of a term without a power: a value that is recorded once, when it is asked for."""

    __slots__ = ("_record", "_value", "factors", "shape")

    def __init__(self, shape: Shape, record: Callable[[], Expr], factors: tuple[Mantissa, ...] = ()) -> None:
        self.shape, self.factors = shape, factors
        """the factors of a product; none of another value"""
        self._record = record
        self._value: Expr | None = None

    @classmethod
    def of(cls, value: Expr) -> Mantissa:
        """Return the mantissa of a value that is recorded already."""
        return cls(value.shape, lambda: value)

    @property
    def axes(self) -> set[int]:
        """The axes, counted from the end, along which it varies."""
        return {axis - len(self.shape) for axis, size in enumerate(self.shape) if size != 1}

    def value(self) -> Expr:
        """Return the value, recorded at the first call."""
        if self._value is None:
            self._value = self._record()
        return self._value


def times(a: Mantissa | None, b: Mantissa | None) -> Mantissa | None:
    """Return a · b, where None is 1."""
    if a is None or b is None:
        return b if a is None else a
    shape = broadcast_shapes(a.shape, b.shape)
    assert shape is not None
    return Mantissa(shape, lambda: a.value() * b.value(), (*(a.factors or (a,)), *(b.factors or (b,))))


def over(a: Mantissa | None, b: Mantissa) -> Mantissa:
    """Return a / b, where None is 1."""
    if a is None:
        return Mantissa(b.shape, lambda: reciprocal(b.value()))
    shape = broadcast_shapes(a.shape, b.shape)
    assert shape is not None
    return Mantissa(shape, lambda: a.value() / b.value())

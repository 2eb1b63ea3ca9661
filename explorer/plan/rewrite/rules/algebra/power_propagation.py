"""Powers through operations: which operations make them, and how the others carry them on.

Each function below returns the terms of an operation's result from those of its operands, or None where it has no such
form; its docstring is the formula. An operation that is not in the table ends the way of a power: its result is a
mantissa. Users' operations do, too, which costs stability in rare formulas and never correctness.
"""

from __future__ import annotations

import math

from explorer.core.ir.expr import Expr
from explorer.core.ir.operation import Operation
from explorer.core.types.tensor_type import Shape
from explorer.ops.base import broadcast_to, reshape
from explorer.ops.elementwise.arithmetic import Add, AddN, Divide, Multiply, Power, Subtract
from explorer.ops.elementwise.trigonometric_and_logs import Cosh, Rsqrt, Sinh
from explorer.ops.elementwise.unary import Exp, Negative, Reciprocal, Sigmoid, SigmoidGradient, Sqrt, Square, tanh
from explorer.ops.linalg.matmul import Matmul
from explorer.ops.manipulation.reshape import BroadcastTo, Reshape, Transpose
from explorer.ops.nn.losses import NllLossGradient
from explorer.ops.nn.softmax import Softmax, SoftmaxGradient
from explorer.ops.reduction.reduce import Mean, Sum
from explorer.plan.rewrite.matchers import constant
from explorer.plan.rewrite.rules.algebra.axis_places import groups
from explorer.plan.rewrite.rules.algebra.powers import Atom, Leaf, Mantissa, added, axes_of, moved_all, one_plus
from explorer.plan.rewrite.rules.algebra.powers import scaled as times_exponent
from explorer.plan.rewrite.rules.algebra.scaled_sums import LOG_LIMIT, Rule, Scaled, Term, Terms


def _exp(terms: Scaled, node: Expr, operands: tuple[Expr, ...]) -> Terms:
    """eˣ: a power by itself."""
    return [Term(1.0, None, terms.exponents.of(operands[0]))]


def _softmax(terms: Scaled, node: Expr, operands: tuple[Expr, ...]) -> Terms | None:
    """eˣ / Σ eˣ."""
    # the operation is a Softmax, which has axes
    exponents, axes = terms.exponents, node.operation.axes  # type: ignore[attr-defined]  # as said above
    x, total = exponents.of(operands[0]), exponents.total(operands[0], axes)
    result = terms.product(Term(1.0, None, x), Term(1.0, None, times_exponent(total, -1)))
    return None if result is None else [result]


def _sigmoid(terms: Scaled, node: Expr, operands: tuple[Expr, ...]) -> Terms:
    """1 / (1 + e⁻ˣ)."""
    x = terms.exponents.of(operands[0])
    _, below = one_plus(times_exponent(x, -1))
    return [Term(1.0, None, times_exponent(below, -1))]


def _cosh(terms: Scaled, node: Expr, operands: tuple[Expr, ...]) -> Terms:
    """(eˣ + e⁻ˣ) / 2."""
    x = terms.exponents.of(operands[0])
    return terms.plus([Term(0.5, None, x)], [Term(0.5, None, times_exponent(x, -1))])


def _sinh(terms: Scaled, node: Expr, operands: tuple[Expr, ...]) -> Terms:
    """tanh(x) · cosh(x): a power without a difference."""
    (power,) = _cosh(terms, node, operands)
    return [power._replace(mantissa=Mantissa.of(tanh(operands[0])))]


def _negative(terms: Scaled, node: Expr, operands: tuple[Expr, ...]) -> Terms:
    """−Σ terms."""
    return [term._replace(number=-term.number) for term in terms.of(operands[0])]


def _multiply(terms: Scaled, node: Expr, operands: tuple[Expr, ...]) -> Terms | None:
    """All products of terms."""
    return terms.times(terms.of(operands[0]), terms.of(operands[1]))


def _square(terms: Scaled, node: Expr, operands: tuple[Expr, ...]) -> Terms | None:
    """All products of the terms with each other."""
    own = terms.of(operands[0])
    return terms.times(own, own)


def _divide(terms: Scaled, node: Expr, operands: tuple[Expr, ...]) -> Terms | None:
    """Each term over the divisor, which must be a single one."""
    return terms.over(terms.of(operands[0]), terms.of(operands[1]))


def _reciprocal(terms: Scaled, node: Expr, operands: tuple[Expr, ...]) -> Terms | None:
    """1 over a single term."""
    return terms.over([Term(1.0, None, {})], terms.of(operands[0]))


def _power(terms: Scaled, node: Expr, operands: tuple[Expr, ...]) -> Terms | None:
    """A single term to a small constant power."""
    times = constant(operands[1], terms.graph)
    return _to_the(terms, operands[0], times) if isinstance(times, (int, float)) and abs(times) <= 4 else None


def _sqrt(terms: Scaled, node: Expr, operands: tuple[Expr, ...]) -> Terms | None:
    """A single term to the power ½."""
    return _to_the(terms, operands[0], 0.5)


def _rsqrt(terms: Scaled, node: Expr, operands: tuple[Expr, ...]) -> Terms | None:
    """A single term to the power −½."""
    return _to_the(terms, operands[0], -0.5)


def _to_the(terms: Scaled, x: Expr, times: float) -> Terms | None:
    """A single positive term to a power that is a multiple of ½: of a sum there is no such form."""
    own = terms.of(x)
    if len(own) != 1 or not own[0].pure or not times or not (2 * times).is_integer():
        return None
    # By the logarithm, because the power itself would overflow here.
    if abs(times * math.log(own[0].number)) > LOG_LIMIT:
        return None
    return [own[0]._replace(number=own[0].number ** times, exponent=times_exponent(own[0].exponent, times))]


def _add(terms: Scaled, node: Expr, operands: tuple[Expr, ...]) -> Terms | None:
    """The terms of both, merged where exponents are equal."""
    result = terms.of(operands[0])
    for operand in operands[1:]:
        result = terms.plus(result, terms.of(operand))
    return result


def _subtract(terms: Scaled, node: Expr, operands: tuple[Expr, ...]) -> Terms:
    """The terms of one and the negative terms of the other."""
    return terms.plus(terms.of(operands[0]), [term._replace(number=-term.number) for term in terms.of(operands[1])])


def _sum(terms: Scaled, node: Expr, operands: tuple[Expr, ...]) -> Terms:
    """Each term summed; axes that are not kept move the places of those before them."""
    operation, x = node.operation, operands[0]
    assert isinstance(operation, (Sum, Mean))
    result = [terms.summed(term, operation.axes, x.shape) for term in terms.of(x)]
    if not operation.keepdims:
        kept = [axis - x.ndim for axis in range(x.ndim) if axis not in operation.axes]
        to = {place: index - len(kept) for index, place in enumerate(kept)}
        result = [moved_term(term, to) for term in result]
    if isinstance(operation, Mean):
        count = math.prod([x.shape[axis] for axis in operation.axes])
        result = [term._replace(number=term.number / count) for term in result]
    return terms.merged(result)


def moved_term(term: Term, places: dict[int, int]) -> Term:
    """Return a term with its axes, but for those of size 1, at other places."""
    mantissa = None if term.mantissa is None else placed(term.mantissa, places)
    gone = frozenset([leaf.moved(places) if isinstance(leaf, Leaf) else placed(leaf, places) for leaf in term.gone])
    return term._replace(mantissa=mantissa, exponent=moved_all(term.exponent, places), gone=gone)


def placed(mantissa: Mantissa, places: dict[int, int]) -> Mantissa:
    """Return a mantissa with its axes, but for those of size 1, at other places, in the same order."""
    rank = len(mantissa.shape)
    sizes = {places[axis - rank]: size for axis, size in enumerate(mantissa.shape) if size != 1}
    shape = tuple([sizes.get(place, 1) for place in range(min(sizes, default=0), 0)])
    return mantissa if shape == mantissa.shape else Mantissa(shape, lambda: reshape(mantissa.value(), shape))


def _broadcast(terms: Scaled, node: Expr, operands: tuple[Expr, ...]) -> Terms:
    """The same terms: they broadcast with each other by places."""
    return terms.of(operands[0])


def _transpose(terms: Scaled, node: Expr, operands: tuple[Expr, ...]) -> Terms:
    """The same terms at other places."""
    # the operation is a Transpose, which has axes
    axes = node.operation.axes  # type: ignore[attr-defined]  # as said above
    to = {axis - node.ndim: place - node.ndim for place, axis in enumerate(axes)}
    result = []
    for term in terms.of(operands[0]):
        mantissa = term.mantissa
        if mantissa is not None:
            mantissa = _transposed(mantissa, axes)
        gone = frozenset([leaf.moved(to) if isinstance(leaf, Leaf) else _transposed(leaf, axes) for leaf in term.gone])
        result.append(term._replace(mantissa=mantissa, exponent=moved_all(term.exponent, to), gone=gone))
    return result


def _reshaped(mantissa: Mantissa, before: Shape, after: Shape) -> Mantissa:
    """Return a mantissa in the shape that its axes were mixed into."""
    return Mantissa(after, lambda: reshape(broadcast_to(mantissa.value(), before), after))


def _transposed(mantissa: Mantissa, axes: tuple[int, ...]) -> Mantissa:
    """Return a mantissa with its axes in another order."""
    whole = (1,) * (len(axes) - len(mantissa.shape)) + mantissa.shape
    shape = tuple([whole[axis] for axis in axes])
    return Mantissa(shape, lambda: Transpose(axes)(reshape(mantissa.value(), whole)))


def _reshape(terms: Scaled, node: Expr, operands: tuple[Expr, ...]) -> Terms:
    """The same terms at other places; axes that are mixed by the reshape make new values of their exponents."""
    (x,) = operands
    # Only axes that a reshape leaves whole have a place afterwards: groups of one axis before and one after.
    pairs = [pair for pair in groups(x.shape, node.shape) if len(pair[0]) == len(pair[1]) == 1]
    to = {before - x.ndim: after - node.ndim for (before,), (after,) in pairs}

    def reshaped_value(value: Expr) -> Expr:
        """Record a value in the shape of the result."""
        return reshape(broadcast_to(value, x.shape), node.shape)

    def stays(axes: set[int]) -> bool:
        """Whether axes are not mixed with others."""
        return axes <= to.keys()

    def reshaped(mantissa: Mantissa) -> Mantissa:
        """Return a mantissa at its new places, or in the shape of the result."""
        return placed(mantissa, to) if stays(mantissa.axes) else _reshaped(mantissa, x.shape, node.shape)

    def of_leaf(leaf: Leaf) -> Leaf | Mantissa:
        """Return a leaf at its new places, or its NaN as a mantissa."""
        if stays(leaf.axes):
            return leaf.moved(to)
        return Mantissa(node.shape, lambda: reshaped_value(terms.exponents.zero(leaf)))

    result = []
    for term in terms.of(x):
        mantissa, exponent = term.mantissa, dict[Atom, float]()
        if mantissa is not None:
            mantissa = reshaped(mantissa)
        gone = frozenset([of_leaf(leaf) if isinstance(leaf, Leaf) else reshaped(leaf) for leaf in term.gone])
        for atom, times in term.exponent.items():
            whole = {atom: 1.0}
            spread = (
                moved_all(whole, to)
                if stays(axes_of(atom))
                else terms.exponents.of(reshaped_value(terms.exponents.log(whole)))
            )
            exponent = added(exponent, spread, times)
        result.append(term._replace(mantissa=mantissa, exponent=exponent, gone=gone))
    return result


def _sigmoid_gradient(terms: Scaled, node: Expr, operands: tuple[Expr, ...]) -> Terms | None:
    """g·y·(1 − y) for y = σ(x)."""
    g, y = map(terms.of, operands)
    first = terms.times(g, y)
    rest = terms.plus([Term(1.0, None, {})], [term._replace(number=-term.number) for term in y])
    return None if first is None else terms.times(first, rest)


def _softmax_gradient(terms: Scaled, node: Expr, operands: tuple[Expr, ...]) -> Terms | None:
    """y·g − y·Σ g·y."""
    g, y = map(terms.of, operands)
    both = terms.times(g, y)
    if both is None:
        return None
    # the operation is a gradient of Softmax, which has axes
    axes = node.operation.axes  # type: ignore[attr-defined]  # as said above
    inner = [terms.summed(term, axes, node.shape, as_power=False) for term in both]
    rest = terms.times(inner, y)
    return None if rest is None else terms.merged([*both, *[term._replace(number=-term.number) for term in rest]])


def _nll_gradient(terms: Scaled, node: Expr, operands: tuple[Expr, ...]) -> Terms | None:
    """−t·g / (Σ t · p)."""
    g, truth, prediction = operands
    share = Mantissa(truth.shape, lambda: truth * (g / truth.sum()))
    return terms.over([Term(-1.0, share, {})], terms.of(prediction))


def _matmul(terms: Scaled, node: Expr, operands: tuple[Expr, ...]) -> Terms | None:
    """A product with equal numbers is a sum."""
    a, b = operands
    for x, other, last in ((a, b, 1), (b, a, 2)):
        while isinstance(other.operation, Transpose):
            (other,) = terms.graph.operands(other)
        number = constant(other, terms.graph)
        if not isinstance(number, (int, float)) or not number or other.ndim > 2:
            continue
        axis = x.ndim - min(last, x.ndim)
        result = [terms.summed(term, (axis,), x.shape) for term in terms.of(x)]
        if other.ndim == 1:
            kept = [place - x.ndim for place in range(x.ndim) if place != axis]
            to = {place: index - len(kept) for index, place in enumerate(kept)}
            result = [moved_term(term, to) for term in result]
        elif x.ndim == 1:
            result = [moved_term(term, {}) for term in result]
        return terms.times(result, [Term(float(number), None, {})])
    return None


_RULES: dict[type[Operation], Rule] = {
    Exp: _exp,
    Softmax: _softmax,
    Sigmoid: _sigmoid,
    Cosh: _cosh,
    Sinh: _sinh,
    Negative: _negative,
    Multiply: _multiply,
    Square: _square,
    Divide: _divide,
    Reciprocal: _reciprocal,
    Power: _power,
    Sqrt: _sqrt,
    Rsqrt: _rsqrt,
    Add: _add,
    AddN: _add,
    Subtract: _subtract,
    Sum: _sum,
    Mean: _sum,
    BroadcastTo: _broadcast,
    Transpose: _transpose,
    Reshape: _reshape,
    SigmoidGradient: _sigmoid_gradient,
    SoftmaxGradient: _softmax_gradient,
    NllLossGradient: _nll_gradient,
    Matmul: _matmul,
}
Scaled.rules.update(_RULES)
CARRIERS = tuple(_RULES)
"""operations through which powers are followed"""

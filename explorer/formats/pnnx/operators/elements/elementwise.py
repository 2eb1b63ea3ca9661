"""Functions of each element that pnnx leaves under torch's inner names: logarithms, angles, signs, extremes, powers."""

from __future__ import annotations

import math

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.registry import function
from explorer.formats.pnnx.operators.base.arguments import value
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.elements.expression import apply, promoted, real
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.schema import Count
from explorer.ops.base import cast
from explorer.ops.creation.constants import full
from explorer.ops.elementwise.arithmetic import where
from explorer.ops.elementwise.unary import log, sin


def _names(name: str) -> tuple[str, ...]:
    return f"aten::{name}", f"torch.{name}", f"Tensor.{name}"


def _enter_real(name: str) -> None:
    @file_operator(*_names(name), operands=Count(1, 1))
    def unary(op: OperatorContext) -> Expr:
        result: Expr = function(name)(real(op.x))
        return result

    unary.__doc__ = f"{name}, element by element; whole numbers become real ones."


for _name in ("log2", "exp2", "deg2rad", "rad2deg"):
    _enter_real(_name)


@file_operator(*_names("positive"), operands=Count(1, 1))
def positive(op: OperatorContext) -> Expr:
    """The operand itself, of any dtype but truths."""
    x = op.x
    if x.dtype.kind == "b":
        raise OperandError(f"an operand {x.type}", rule=f"{op.definition.type}: there must be numbers, and no truths")
    return x


@file_operator(*_names("sgn"), operands=Count(1, 1))
def sgn(op: OperatorContext) -> Expr:
    """−1, 0 or 1 by the sign of each element; 0 of NaN."""
    return _real_only(op, apply("sign", [op.x]))


@file_operator(*_names("angle"), operands=Count(1, 1))
def angle(op: OperatorContext) -> Expr:
    """π where an element is negative, 0 elsewhere, NaN of NaN."""
    x = real(_real_only(op, op.x))
    return where(x < 0, math.pi, where(x != x, x, full((), 0, x.dtype)))


def _real_only(op: OperatorContext, x: Expr) -> Expr:
    if x.dtype.kind == "c":
        raise OperandError(f"an operand {x.type}", rule=f"{op.definition.type}: the operand must be real")
    return x


def _enter_infinity(name: str, infinity: float) -> None:
    @file_operator(*_names(name), operands=Count(1, 1))
    def is_infinite(op: OperatorContext) -> Expr:
        x = _real_only(op, op.x)
        return x == infinity if x.dtype.kind == "f" else full(x.shape, False, bool)

    is_infinite.__doc__ = f"Whether each element is {infinity}."


_enter_infinity("isposinf", math.inf)
_enter_infinity("isneginf", -math.inf)


@file_operator(*_names("sinc"), operands=Count(1, 1))
def sinc(op: OperatorContext) -> Expr:
    """sin(πx) / (πx), 1 at 0."""
    x = real(op.x)
    arc = where(x == 0, 1, x) * math.pi
    return where(x == 0, 1, sin(arc) / arc)


@file_operator("aten::special_entr", operands=Count(1, 1))
def entropy(op: OperatorContext) -> Expr:
    """−x · log x, 0 at 0, −∞ below."""
    x = real(op.x)
    term = -x * log(where(x > 0, x, 1))
    # NaN is neither above 0 nor below
    return where(x < 0, -math.inf, where(x == 0, 0, term))


def _pair(op: OperatorContext, is_floating: bool = False) -> list[Expr]:
    """Return both operands in their common dtype, a plain number as a scalar of it."""
    values = promoted([op.operand(0, "input"), value(op, 1, "other")], is_floating)
    dtype = next((each.dtype for each in values if isinstance(each, Expr)), None)
    if dtype is None:
        raise OperandError(f"operands {values!r}", rule=f"{op.definition.type}: one of both must be a tensor")
    return [each if isinstance(each, Expr) else full((), each, dtype) for each in values]


def _enter_binary(name: str, is_floating: bool) -> None:
    @file_operator(*_names(name), operands=Count(1, 2))
    def binary(op: OperatorContext) -> Expr:
        result: Expr = function(name)(*_pair(op, is_floating))
        return result

    binary.__doc__ = f"{name}, element by element."


for _name, _is_floating in {"fmax": False, "fmin": False, "gcd": False, "lcm": False, "logaddexp2": True}.items():
    _enter_binary(_name, _is_floating)


@file_operator(*_names("xlogy"), operands=Count(1, 2))
def xlogy(op: OperatorContext) -> Expr:
    """a · log b, 0 where a is 0, NaN where b is."""
    a, b = _pair(op, is_floating=True)
    term = a * log(where(a == 0, 1, b))
    return where(b != b, b, where(a == 0, 0, term))


@file_operator(*_names("float_power"), operands=Count(1, 2))
def float_power(op: OperatorContext) -> Expr:
    """aᵇ in double precision."""
    double = np.dtype(np.float64)
    operands = [op.operand(0, "input"), value(op, 1, "exponent")]
    result: Expr = apply("pow", [cast(each, double) if isinstance(each, Expr) else float(each) for each in operands])
    return result


@file_operator(*_names("ldexp"), operands=Count(1, 2))
def ldexp(op: OperatorContext) -> Expr:
    """a · 2ᵇ."""
    result: Expr = apply("mul", [op.x, apply("pow", [2.0, value(op, 1, "other")])])
    return result

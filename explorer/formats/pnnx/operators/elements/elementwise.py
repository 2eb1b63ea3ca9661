"""Elementwise functions of one or two tensors: arithmetic, powers, angles, signs, bounds, comparisons, logic, bits.

pnnx writes them as torch functions or tensor methods at level 2, and with aten names at level 0. At level 0, they also
apply to Python numbers (sizes and indices) while the net is built.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.registry import function
from explorer.formats.pnnx.operators.base.arguments import InPlace, Number, Real, Value
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.formats.pnnx.operators.elements.expression import apply, modular, promoted, real
from explorer.names.operations import BINARY
from explorer.ops.base import cast
from explorer.ops.creation.constants import full
from explorer.ops.elementwise.arithmetic import maximum, minimum, where
from explorer.ops.elementwise.unary import absolute, log, sin
from explorer.ops.nn.activation import Clip, clip

_UNARY = """
    abs acos acosh asin asinh atan atanh ceil cos cosh erf exp expm1 floor log log10 log1p neg reciprocal round rsqrt
    sign sin sinh sqrt square tan trunc
"""
_BINARY = "mul floor_divide fmod remainder pow atan2 maximum minimum logaddexp"


def _names(name: str) -> tuple[str, ...]:
    return f"aten::{name}", f"torch.{name}", f"Tensor.{name}"


def _register_unary(name: str) -> None:
    @file_operator(f"aten::{name}", f"torch.{name}")
    def unary(input: Value) -> Any:
        return apply(name, [input])

    unary.__doc__ = f"Compute {name} of each element."


def _register_binary(name: str) -> None:
    @file_operator(f"aten::{name}", f"torch.{name}")
    def binary(input: Value, other: Value) -> Any:
        return apply(name, [input, other])

    binary.__doc__ = f"Compute {name} of pairs of elements."


for _name in _UNARY.split():
    _register_unary(_name)
for _name in _BINARY.split():
    _register_binary(_name)


def _register_sum(name: str) -> None:
    @file_operator(f"aten::{name}", f"torch.{name}")
    def scaled_sum(input: Value, other: Value, alpha: Number = 1) -> Any:
        return apply(name, [input, other if alpha == 1 else apply("mul", [other, alpha])])

    scaled_sum.__doc__ = f"Return a {'+' if name == 'add' else '−'} α · b."


_register_sum("add")
_register_sum("sub")


@file_operator("aten::div", "torch.div")
def div(input: Value, other: Value, rounding_mode: Literal["trunc", "floor"] | None = None) -> Any:
    """Return a / b; ``rounding_mode`` truncates the quotient (trunc) or rounds it down (floor)."""
    if rounding_mode is None:
        return apply("div", [input, other])
    if rounding_mode == "floor":
        return apply("floor_divide", [input, other])
    if any(isinstance(each, float) or (isinstance(each, Expr) and each.dtype.kind == "f") for each in (input, other)):
        return apply("trunc", [apply("div", [input, other])])
    # exact for integers of any size, since the remainder is subtracted first
    return apply("floor_divide", [apply("sub", [input, apply("fmod", [input, other])]), other])


def _register_real(name: str) -> None:
    @file_operator(*_names(name))
    def unary(input: Expr) -> Expr:
        result: Expr = function(name)(real(input))
        return result

    unary.__doc__ = f"Compute {name} of each element; integers are cast to float32."


for _name in ("log2", "exp2", "deg2rad", "rad2deg"):
    _register_real(_name)


@file_operator(*_names("positive"))
def positive(input: Expr) -> Expr:
    """Return the operand unchanged; raise OperandError if it is boolean."""
    if input.dtype.kind == "b":
        raise OperandError(f"an operand {input.type}", rule="the operand must not be boolean")
    return input


@file_operator(*_names("sgn"))
def sgn(input: Expr) -> Expr:
    """Return the sign of each element as −1, 0 or 1; the sign of NaN is 0."""
    return _real_only(apply("sign", [input]))


@file_operator(*_names("angle"))
def angle(input: Expr) -> Expr:
    """Return π for negative elements, NaN for NaN, and 0 for all other elements."""
    x = real(_real_only(input))
    return where(x < 0, math.pi, where(x != x, x, full((), 0, x.dtype)))


def _real_only(x: Expr) -> Expr:
    if x.dtype.kind == "c":
        raise OperandError(f"an operand {x.type}", rule="the operand must be real")
    return x


def _register_infinity(name: str, infinity: float) -> None:
    @file_operator(*_names(name))
    def is_infinite(input: Expr) -> Expr:
        x = _real_only(input)
        return x == infinity if x.dtype.kind == "f" else full(x.shape, False, bool)

    is_infinite.__doc__ = f"Test whether each element is {infinity}."


_register_infinity("isposinf", math.inf)
_register_infinity("isneginf", -math.inf)


def _register_predicate(name: str) -> None:
    @file_operator(f"torch.{name}", f"Tensor.{name}", f"aten::{name}")
    def predicate(input: Expr) -> Expr:
        result: Expr = function(name)(input)
        return result

    predicate.__doc__ = f"Compute {name} of each element."


for _name in ("isnan", "isinf", "isfinite", "signbit"):
    _register_predicate(_name)


@file_operator("aten::frac", "torch.frac")
def frac(input: Expr) -> Expr:
    """Return the fractional part of each number, with the number's sign."""
    whole: Expr = function("trunc")(input)
    return input - whole


@file_operator(*_names("sinc"))
def sinc(input: Expr) -> Expr:
    """Return sin(πx) / (πx), or 1 where x is 0."""
    x = real(input)
    arc = where(x == 0, 1, x) * math.pi
    return where(x == 0, 1, sin(arc) / arc)


@file_operator("aten::special_entr")
def entropy(input: Expr) -> Expr:
    """Return −x · log x, or 0 where x is 0, or −∞ where x is negative."""
    x = real(input)
    term = -x * log(where(x > 0, x, 1))
    # NaN is neither above nor below 0
    return where(x < 0, -math.inf, where(x == 0, 0, term))


@file_operator("aten::logit", "torch.logit")
def logit(input: Expr, eps: float | None = None) -> Expr:
    """Return log (x / (1 − x)); if ``eps`` is given, x is first clipped to the range from eps to 1 − eps."""
    x = input if eps is None else function("clip")(input, eps, 1 - eps)
    result: Expr = function("log")(x / (1 - x))
    return result


@file_operator("aten::nan_to_num", "torch.nan_to_num")
def nan_to_num(input: Expr, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Expr:
    """Replace NaN and infinite elements, by default with 0 and the limits of the dtype."""
    if input.dtype.kind != "f":
        return input
    ends = np.finfo(input.dtype)
    high = float(ends.max) if posinf is None else posinf
    low = float(ends.min) if neginf is None else neginf
    kept = where(input == math.inf, high, where(input == -math.inf, low, input))
    return where(function("isnan")(input), 0.0 if nan is None else nan, kept)


def _pair(a: Expr | Number, b: Expr | Number, is_floating: bool = False) -> list[Expr]:
    """Return both operands in their common dtype; Python numbers become scalar tensors."""
    values = promoted([a, b], is_floating)
    dtype = next((each.dtype for each in values if isinstance(each, Expr)), None)
    if dtype is None:
        raise OperandError(f"operands {values!r}", rule="one of the operands must be a tensor")
    return [each if isinstance(each, Expr) else full((), each, dtype) for each in values]


def _register_pair(name: str, is_floating: bool) -> None:
    @file_operator(*_names(name))
    def binary(input: Expr | Number, other: Expr | Number) -> Expr:
        result: Expr = function(name)(*_pair(input, other, is_floating))
        return result

    binary.__doc__ = f"Compute {name} of pairs of elements."


for _name, _is_floating in {"fmax": False, "fmin": False, "gcd": False, "lcm": False, "logaddexp2": True}.items():
    _register_pair(_name, _is_floating)


def _register_promoted(name: str) -> None:
    @file_operator(f"aten::{name}", f"torch.{name}")
    def binary(input: Expr, other: Expr | Number) -> Expr:
        x, y = promoted([input, other], is_floating=name == "copysign")
        result: Expr = function(name)(x, y)
        if name != "heaviside":
            return result
        # torch treats NaN as below 0
        return where(x != x, 0, result) if x.dtype.kind == "f" else cast(result, x.dtype)

    binary.__doc__ = f"Compute {name} of pairs of elements."


for _name in ("hypot", "copysign", "heaviside"):
    _register_promoted(_name)


@file_operator(*_names("xlogy"))
def xlogy(input: Expr | Number, other: Expr | Number) -> Expr:
    """Return a · log b, which is 0 where a is 0, and NaN where b is NaN."""
    a, b = _pair(input, other, is_floating=True)
    term = a * log(where(a == 0, 1, b))
    return where(b != b, b, where(a == 0, 0, term))


@file_operator(*_names("float_power"))
def float_power(input: Expr | Real, exponent: Expr | Real) -> Expr:
    """Return aᵇ in double precision."""
    double = np.dtype(np.float64)
    operands = [cast(each, double) if isinstance(each, Expr) else float(each) for each in (input, exponent)]
    result: Expr = apply("pow", operands)
    return result


@file_operator(*_names("ldexp"))
def ldexp(input: Expr, other: Expr | Number) -> Expr:
    """Return a · 2ᵇ."""
    result: Expr = apply("mul", [input, apply("pow", [2.0, other])])
    return result


@file_operator("aten::lerp", "torch.lerp")
def lerp(input: Expr, end: Expr, weight: Expr | Number) -> Expr:
    """Return ``input + weight · (end − input)``."""
    result: Expr = input + (end - input) * weight
    return result


@file_operator("aten::addcmul", "torch.addcmul")
def addcmul(input: Expr, tensor1: Expr, tensor2: Expr, value: Expr | Number = 1) -> Expr:
    """Return ``input + value · tensor1 · tensor2``."""
    return _added(input, tensor1 * tensor2, value)


@file_operator("aten::addcdiv", "torch.addcdiv")
def addcdiv(input: Expr, tensor1: Expr, tensor2: Expr, value: Expr | Number = 1) -> Expr:
    """Return ``input + value · tensor1 / tensor2``."""
    return _added(input, tensor1 / tensor2, value)


def _added(x: Expr, term: Expr, factor: Expr | Number) -> Expr:
    result: Expr = x + (term if not isinstance(factor, Expr) and factor == 1 else term * factor)
    return result


@file_operator("aten::isclose")
def isclose(input: Expr, other: Expr, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Expr:
    """Return whether |a − b| ≤ atol + rtol · |b|."""
    near: Expr = function("less_equal")(absolute(input - other), atol + rtol * absolute(other))
    # infinite elements are close only to themselves
    close: Expr = function("logical_or")(input == other, function("logical_and")(near, function("isfinite")(other)))
    if equal_nan:
        close = function("logical_or")(close, function("logical_and")(input != input, other != other))
    return close


@file_operator("torch.clamp", "Tensor.clamp")
def clamp(input: Expr, min: Expr | float | None = None, max: Expr | float | None = None) -> Expr:
    """Limit elements to the range from ``min`` to ``max``; None means no limit."""
    return clip(real(input) if isinstance(min, float) or isinstance(max, float) else input, min, max)


@file_operator("F.hardtanh", "nn.Hardtanh")
def hardtanh(input: Expr, *, min_val: float = -1.0, max_val: float = 1.0, inplace: InPlace) -> Expr:
    """Limit elements to the range from ``min_val`` to ``max_val``; the gradient is 1 at the limits, too."""
    return Clip(min_val, max_val, True)(
        real(input) if isinstance(min_val, float) or isinstance(max_val, float) else input
    )


@file_operator("torch.clamp_min", "Tensor.clamp_min", "aten::clamp_min")
def clamp_min(input: Expr, min: Expr | Number) -> Expr:
    """Return the maximum of each element and ``min``."""
    return maximum(*promoted([input, min]))


@file_operator("torch.clamp_max", "Tensor.clamp_max", "aten::clamp_max")
def clamp_max(input: Expr, max: Expr | Number) -> Expr:
    """Return the minimum of each element and ``max``."""
    return minimum(*promoted([input, max]))


def _register_comparison(name: str, records: str) -> None:
    @file_operator(f"torch.{name}", f"aten::{name}")
    def comparison(input: Expr, other: Expr | Number) -> Expr:
        compared: Expr = function(records)(*modular([input, other]))
        return compared

    comparison.__doc__ = f"Compute {records} of pairs of elements."


for _operation in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"):
    _register_comparison(BINARY[_operation].torch, _operation)


def _register_logic(name: str) -> None:
    @file_operator(f"torch.{name}", f"Tensor.{name}", f"aten::{name}")
    def logic(input: Expr, other: Expr) -> Expr:
        result: Expr = function(name)(_boolean(input), _boolean(other))
        return result

    logic.__doc__ = f"Compute {name} of pairs of elements; numbers other than 0 are true."


for _name in ("logical_and", "logical_or", "logical_xor"):
    _register_logic(_name)


@file_operator("torch.logical_not", "Tensor.logical_not", "aten::logical_not")
def logical_not(input: Expr) -> Expr:
    """Return whether each element is 0 or False."""
    result: Expr = function("logical_not")(_boolean(input))
    return result


def _boolean(x: Expr) -> Expr:
    return x if x.dtype.kind == "b" else x != 0


def _register_bits(name: str, operation: str) -> None:
    @file_operator(f"torch.{name}", f"Tensor.{name}", f"aten::{name}")
    def bits(input: Expr, other: Expr | Number) -> Expr:
        result: Expr = function(operation)(input, other)
        return result

    bits.__doc__ = f"Compute {name} of integers or booleans."


for _name, _operation in {
    "bitwise_and": "bitwise_and", "bitwise_or": "bitwise_or", "bitwise_xor": "bitwise_xor",
    "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift",
}.items():  # fmt: skip
    _register_bits(_name, _operation)


@file_operator("torch.bitwise_not", "Tensor.bitwise_not", "aten::bitwise_not")
def bitwise_not(input: Expr) -> Expr:
    """Invert each bit of integers, or each boolean."""
    result: Expr = function("invert")(input)
    return result

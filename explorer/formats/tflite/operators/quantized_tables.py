"""Smooth functions of quantised operands, computed with look-up tables as in TensorFlow Lite's kernels.

The table of an 8-bit function contains all 256 results. The table of a 16-bit function contains every 128th result,
shifted to balance the interpolation error, and the results in between are interpolated linearly. 16-bit sigmoids have a
special table with steps of 1/24.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.registry import function
from explorer.core.types.tensor_type import Array
from explorer.formats.tflite.operators.fixed_point import (
    Numbers,
    high_product,
    rounded_shift,
    saturated_shift,
    scaled_product,
)
from explorer.formats.tflite.operators.integer_arithmetic import (
    INT64,
    check_dtypes,
    quantized_multipliers,
    scale_and_zero_point,
)
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast
from explorer.ops.elementwise.arithmetic import minimum, where
from explorer.ops.elementwise.unary import absolute
from explorer.ops.manipulation.gather import take

_FLOAT32, _INT16 = np.float32, np.dtype(np.int16)
_SHORT = np.iinfo(np.int16)
_SHORT_BITS = 15
"""number of bits of a 16-bit integer without its sign"""
_BITS = 7
"""number of low bits of a 16-bit integer; they select a point between two table elements"""
_SIGMOID_STEPS, _MAX_MULTIPLIER = 24, 32767.0
"""number of table elements per unit of x in the sigmoid table, and the maximum multiplier for positions in it"""


def _gelu(x: Array) -> Array:
    halves = [math.erfc(-math.sqrt(0.5) * value) for value in x.reshape(-1).tolist()]
    return _FLOAT32(0.5) * x * np.array(halves, _FLOAT32).reshape(x.shape)


def _gelu_by_tanh(x: Array) -> Array:
    inner = _FLOAT32(math.sqrt(2 / math.pi)) * (x + _FLOAT32(0.044715) * x * x * x)
    return _FLOAT32(0.5) * x * (1 + np.tanh(inner.astype(np.float64)).astype(_FLOAT32))


TABLES_8_BIT: dict[str, Callable[[Array], Array]] = {
    "LOGISTIC": lambda x: 1 / (1 + np.exp(-x)),
    "TANH": np.tanh,
    "EXP": np.exp,
    "LOG": np.log,
    "RSQRT": lambda x: 1 / np.sqrt(x),
    "ELU": lambda x: np.where(x < 0, np.expm1(x), x),
    "GELU": _gelu,
    "GELU by tanh": _gelu_by_tanh,
}
"""functions in single precision for 8-bit operands, by name"""
TABLES_16_BIT: dict[str, Callable[[Array], Array]] = {"EXP": np.exp, "GELU": _gelu, "GELU by tanh": _gelu_by_tanh}
"""functions in single precision for 16-bit operands, by name"""
SIGNED = ("EXP", "LOG", "RSQRT", "ELU")
"""functions that interpreters support for int8, but not for uint8"""


def look_up(op: OperatorContext, x: Expr, name: str) -> Expr:
    """Return the function ``name`` of each element of ``x``, looked up in a table."""
    wide = name in TABLES_16_BIT or name in ("LOGISTIC", "TANH", "ABS")
    check_dtypes(op, wide=wide, signed=name in SIGNED or name == "ABS", input=x)
    (scale, zero), (own_scale, own_zero) = scale_and_zero_point(op, "input"), scale_and_zero_point(op, "output")
    if x.dtype == _INT16 and name in TABLES_16_BIT:
        return interpolate(
            interpolation_table(TABLES_16_BIT[name], float(scale), zero, float(own_scale), own_zero), cast(x, INT64)
        )
    if x.dtype == _INT16 and name != "ABS":
        return _sigmoid(x, scale, name)
    info = np.iinfo(x.dtype)
    numbers = np.arange(info.min, info.max + 1) - zero
    with np.errstate(all="ignore"):
        if name == "HARD_SWISH":
            results = _hard_swish(numbers, scale, own_scale)
        elif name == "ABS":
            results = scaled_product(np.abs(numbers), *quantized_multipliers(np.array(np.float64(scale / own_scale))))
        else:
            values = np.asarray(TABLES_8_BIT[name](numbers.astype(_FLOAT32) * scale), _FLOAT32)
            ratios = values / own_scale if name in ("LOGISTIC", "TANH") else values * (_FLOAT32(1) / own_scale)
            results = _rounded(ratios)
    # The interpreter rejects logarithms and roots of negative numbers; here, their NaN becomes the smallest integer.
    elements = np.nan_to_num(np.clip(results + own_zero, info.min, info.max), nan=info.min).astype(x.dtype)
    return take(tensor(elements, name="table"), cast(x, INT64) - int(info.min), 0)


def _hard_swish(numbers: Numbers, scale: np.float32, own_scale: np.float32) -> Numbers:
    """Return x · relu6(x + 3) / 6 for integers minus their zero point, with each step rounded to 16 bits."""
    fine = numbers << 7
    finer_scale = _FLOAT32(1 / 128) * scale
    outer, outer_shift = _short_multiplier(finer_scale / own_scale)
    inner, inner_shift = _short_multiplier(finer_scale / (_FLOAT32(3) / _FLOAT32(32768)))
    factor = _shifted(fine, inner_shift - 1) if inner_shift > 0 else fine
    factor = high_product(factor, inner, _SHORT_BITS)
    factor = _shifted(factor, 1) if inner_shift > 0 else _divided(factor, -inner_shift)
    # The factor of x is mapped from [−1, 1] to [0, 1].
    factor = (factor + (1 << _SHORT_BITS)) >> 1
    product = factor * high_product(fine, outer, _SHORT_BITS)
    return _divided(np.sign(product) * (np.abs(product) >> _SHORT_BITS), -outer_shift)


def _short_multiplier(factor: np.float32) -> tuple[int, int]:
    """Return ``factor`` as a 15-bit multiplier and an exponent: factor = multiplier · 2^(exponent − 15)."""
    multiplier, shift = quantized_multipliers(np.array(factor, np.float64))
    return min((int(multiplier) + (1 << 15)) >> 16, _SHORT.max), int(shift)


def _shifted(numbers: Numbers, bits: int) -> Numbers:
    return saturated_shift(numbers, min(bits, 2 * _SHORT_BITS), _SHORT_BITS)


def _divided(numbers: Numbers, bits: int) -> Numbers:
    """Return ``numbers`` / 2^bits; ``bits`` may be negative."""
    maximum = 2 * _SHORT_BITS
    return rounded_shift(numbers, min(bits, maximum)) if bits > 0 else numbers << min(-bits, maximum)


def interpolation_table(
    values: Callable[[Array], Array], scale: float, zero: int, own_scale: float, own_zero: int
) -> Numbers:
    """Return a table with every 128th result of a 16-bit function, shifted by half of the interpolation error.

    ``values`` is the function of real numbers. ``scale`` and ``zero`` are the operand's scale and zero point,
    ``own_scale`` and ``own_zero`` the result's.
    """
    with np.errstate(over="ignore"):
        lower, upper = [_FLOAT32(scale) * _FLOAT32(end - zero) for end in (_SHORT.min, _SHORT.max)]
        low, high = [_FLOAT32(own_scale) * _FLOAT32(end - own_zero) for end in (_SHORT.min, _SHORT.max)]
    count = (_SHORT.max - _SHORT.min + 1) >> _BITS
    steps = np.arange(count + 1, dtype=_FLOAT32)
    with np.errstate(all="ignore"):
        step, factor = (upper - lower) / _FLOAT32(count), _FLOAT32(1 << 16) / (high - low)
        ends = lower + steps * step
        results = values(ends.astype(_FLOAT32)).astype(_FLOAT32) * factor
        middles = values((ends[:-1] + step / 2).astype(_FLOAT32)).astype(_FLOAT32) * factor
        last = values(np.array([upper])).astype(_FLOAT32) * factor
        samples = _rounded(results[:-1])
        errors = _rounded((results[1:] + samples) / 2) - _rounded(middles)
        table = np.concatenate([samples - _rounded(errors / 2), _rounded(last)])
    whole: Numbers = np.nan_to_num(np.clip(table, _SHORT.min, _SHORT.max), nan=_SHORT.min).astype(np.int64)
    return whole


def interpolate(table: Numbers, number: Expr) -> Expr:
    """Return int16 results for 16-bit ``number``, interpolated linearly between elements of ``table``."""
    shift, elements = function("right_shift"), tensor(table, name="table")
    position, rest = shift(number, _BITS) + (len(table) >> 1), function("bitwise_and")(number, (1 << _BITS) - 1)
    start = take(elements, position, 0)
    slope = take(elements, position + 1, 0) - start
    return cast(start + shift(slope * rest + (1 << (_BITS - 1)), _BITS), _INT16)


def _sigmoid(x: Expr, scale: np.float32, name: str) -> Expr:
    """Return the sigmoid or hyperbolic tangent of 16-bit ``x``, from a table of sigmoids of positive numbers."""
    multiplier, left = float(scale) * 4096 * (_SIGMOID_STEPS // 8), 0
    if multiplier >= 1 << 30:
        raise OperandError(
            f"input has the scale {scale}", rule=f"{name}: the scale of an int16 input must be below 2¹⁶"
        )
    while multiplier <= _MAX_MULTIPLIER / 2 and left <= 30:
        multiplier, left = multiplier * 2, left + 1
    shift, mask = function("right_shift"), function("bitwise_and")
    position = shift(cast(x, INT64) * int(multiplier) + ((1 << left) >> 1), left)
    # tanh x = 2 · sigmoid 2x − 1, so positions in the table are doubled.
    bits = 9 if name == "LOGISTIC" else 8
    size = absolute(position)
    index = minimum(shift(size, bits), 254)
    table = tensor(_sigmoids(), name="table")
    start = take(table, index, 0)
    line = start * (1 << bits) + mask(size, (1 << bits) - 1) * (take(table, index + 1, 0) - start)
    maximum = (0x7FFF << 10) if name == "LOGISTIC" else (0xFFFF << 8)
    line = where(shift(size, bits) >= 255, maximum, line)
    if name == "LOGISTIC":
        return cast(shift(where(position >= 0, line + 512, (1 << 25) - line + 511), 10), _INT16)
    return cast(shift(where(position >= 0, line - (1 << 23) + 128, (1 << 23) - line + 127), 8), _INT16)


def _sigmoids() -> Numbers:
    """Return the 16-bit sigmoids of 0, 1/24, …, shifted by half of the interpolation error. The last one is 1."""
    values = 1 / (1 + np.exp(-np.arange(256) / _SIGMOID_STEPS))
    correction = values * (1 - values) * (2 * values - 1) / (16 * _SIGMOID_STEPS**2)
    table = np.floor((1 << 16) * (values + correction) + 0.5).astype(np.int64)
    table[-1] = (1 << 16) - 1
    return table


def _rounded(x: Array) -> Array:
    """Return the nearest integers, with halves rounded away from zero."""
    nearest: Array = np.copysign(np.floor(np.abs(x) + x.dtype.type(0.5)), x)
    return nearest

"""Smooth functions of quantised numbers, of which TensorFlow Lite's kernels make tables.

A function of 8 bits has 256 results, and each element is looked up. Of 16 bits every 128th result is in a table, moved
so that the lines between them are off to both sides alike; an element is on such a line. Sigmoids of 16 bits have a
table of their own, whose steps are 1/24.
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
from explorer.formats.tflite.operators.fixed_point import Numbers, divided, high, multiplied, saturated
from explorer.formats.tflite.operators.integer_arithmetic import INT64, of_bytes, quantized_multipliers, single
from explorer.net.operators.context import OperatorContext
from explorer.ops.base import cast
from explorer.ops.elementwise.arithmetic import minimum, where
from explorer.ops.elementwise.unary import absolute
from explorer.ops.manipulation.gather import take

_FLOAT32, _INT16 = np.float32, np.dtype(np.int16)
_SHORT = np.iinfo(np.int16)
_SHORT_BITS = 15
"""bits of a number of 16 but its sign"""
_BITS = 7
"""bits of a number of 16 between two elements of a table"""
_SIGMOID_STEPS, _MOST = 24, 32767.0
"""steps of one in the table of sigmoids, and the largest multiplier to its positions"""


def _gelu(x: Array) -> Array:
    halves = [math.erfc(-math.sqrt(0.5) * value) for value in x.reshape(-1).tolist()]
    return _FLOAT32(0.5) * x * np.array(halves, _FLOAT32).reshape(x.shape)


def _gelu_by_tanh(x: Array) -> Array:
    inner = _FLOAT32(math.sqrt(2 / math.pi)) * (x + _FLOAT32(0.044715) * x * x * x)
    return _FLOAT32(0.5) * x * (1 + np.tanh(inner.astype(np.float64)).astype(_FLOAT32))


BY_BYTES: dict[str, Callable[[Array], Array]] = {
    "LOGISTIC": lambda x: 1 / (1 + np.exp(-x)),
    "TANH": np.tanh,
    "EXP": np.exp,
    "LOG": np.log,
    "RSQRT": lambda x: 1 / np.sqrt(x),
    "ELU": lambda x: np.where(x < 0, np.expm1(x), x),
    "GELU": _gelu,
    "GELU by tanh": _gelu_by_tanh,
}
"""name → its function of single precision, for numbers of 8 bits"""
BY_LINES: dict[str, Callable[[Array], Array]] = {"EXP": np.exp, "GELU": _gelu, "GELU by tanh": _gelu_by_tanh}
"""the same for numbers of 16 bits"""
SIGNED = ("EXP", "LOG", "RSQRT", "ELU")
"""functions that interpreters have of int8, not of uint8"""


def looked_up(op: OperatorContext, x: Expr, name: str) -> Expr:
    """Return each element's result of a function, out of a table."""
    wide = name in BY_LINES or name in ("LOGISTIC", "TANH", "ABS")
    of_bytes(op, wide=wide, signed=name in SIGNED or name == "ABS", input=x)
    (scale, zero), (own_scale, own_zero) = single(op, "input"), single(op, "output")
    if x.dtype == _INT16 and name in BY_LINES:
        return between(lines(BY_LINES[name], float(scale), zero, float(own_scale), own_zero), cast(x, INT64))
    if x.dtype == _INT16 and name != "ABS":
        return _sigmoid(x, scale, name)
    info = np.iinfo(x.dtype)
    numbers = np.arange(info.min, info.max + 1) - zero
    with np.errstate(all="ignore"):
        if name == "HARD_SWISH":
            results = _hard_swish(numbers, scale, own_scale)
        elif name == "ABS":
            results = multiplied(np.abs(numbers), *quantized_multipliers(np.array(np.float64(scale / own_scale))))
        else:
            values = np.asarray(BY_BYTES[name](numbers.astype(_FLOAT32) * scale), _FLOAT32)
            ratios = values / own_scale if name in ("LOGISTIC", "TANH") else values * (_FLOAT32(1) / own_scale)
            results = _rounded(ratios)
    # NaN is a logarithm or a root of less than zero, which the interpreter refuses; it takes the least number
    table = np.nan_to_num(np.clip(results + own_zero, info.min, info.max), nan=info.min).astype(x.dtype)
    return take(tensor(table, name="table"), cast(x, INT64) - int(info.min), 0)


def _hard_swish(numbers: Numbers, scale: np.float32, own_scale: np.float32) -> Numbers:
    """Return x · relu6(x + 3) / 6 of numbers less their zero point, every step rounded to integers of 16 bits."""
    fine = numbers << 7
    finer_scale = _FLOAT32(1 / 128) * scale
    outer, outer_shift = _short_multiplier(finer_scale / own_scale)
    inner, inner_shift = _short_multiplier(finer_scale / (_FLOAT32(3) / _FLOAT32(32768)))
    share = _shifted(fine, inner_shift - 1) if inner_shift > 0 else fine
    share = high(share, inner, _SHORT_BITS)
    share = _shifted(share, 1) if inner_shift > 0 else _divided(share, -inner_shift)
    # the share of x is between −1 and 1 so far: it becomes 0 to 1
    share = (share + (1 << _SHORT_BITS)) >> 1
    product = share * high(fine, outer, _SHORT_BITS)
    return _divided(np.sign(product) * (np.abs(product) >> _SHORT_BITS), -outer_shift)


def _short_multiplier(factor: np.float32) -> tuple[int, int]:
    """Return a factor as a multiplier of 15 bits, and the power of two to multiply by after it."""
    multiplier, shift = quantized_multipliers(np.array(factor, np.float64))
    return min((int(multiplier) + (1 << 15)) >> 16, _SHORT.max), int(shift)


def _shifted(numbers: Numbers, bits: int) -> Numbers:
    return saturated(numbers, min(bits, 2 * _SHORT_BITS), _SHORT_BITS)


def _divided(numbers: Numbers, bits: int) -> Numbers:
    """Return numbers over a power of two, which may be a fraction."""
    most = 2 * _SHORT_BITS
    return divided(numbers, min(bits, most)) if bits > 0 else numbers << min(-bits, most)


def lines(values: Callable[[Array], Array], scale: float, zero: int, own_scale: float, own_zero: int) -> Numbers:
    """Return the results of a function of 16 bits at every 128th number, moved by half of the lines' error."""
    single_ = _FLOAT32
    with np.errstate(over="ignore"):
        least, most = [single_(scale) * single_(end - zero) for end in (_SHORT.min, _SHORT.max)]
        low, high = [single_(own_scale) * single_(end - own_zero) for end in (_SHORT.min, _SHORT.max)]
    count = (_SHORT.max - _SHORT.min + 1) >> _BITS
    steps = np.arange(count + 1, dtype=single_)
    with np.errstate(all="ignore"):
        step, factor = (most - least) / single_(count), single_(1 << 16) / (high - low)
        ends = least + steps * step
        results = values(ends.astype(single_)).astype(single_) * factor
        middles = values((ends[:-1] + step / 2).astype(single_)).astype(single_) * factor
        last = values(np.array([most])).astype(single_) * factor
        samples = _rounded(results[:-1])
        errors = _rounded((results[1:] + samples) / 2) - _rounded(middles)
        table = np.concatenate([samples - _rounded(errors / 2), _rounded(last)])
    whole: Numbers = np.nan_to_num(np.clip(table, _SHORT.min, _SHORT.max), nan=_SHORT.min).astype(np.int64)
    return whole


def between(table: Numbers, number: Expr) -> Expr:
    """Return the results of numbers of 16 bits on the lines between a table's elements, as int16."""
    shift, elements = function("right_shift"), tensor(table, name="table")
    position, rest = shift(number, _BITS) + (len(table) >> 1), function("bitwise_and")(number, (1 << _BITS) - 1)
    start = take(elements, position, 0)
    slope = take(elements, position + 1, 0) - start
    return cast(start + shift(slope * rest + (1 << (_BITS - 1)), _BITS), _INT16)


def _sigmoid(x: Expr, scale: np.float32, name: str) -> Expr:
    """Return sigmoids or tangents of 16 bits, by a table of the sigmoid's positive side."""
    multiplier, left = float(scale) * 4096 * (_SIGMOID_STEPS // 8), 0
    if multiplier >= 1 << 30:
        raise OperandError(f"input has the scale {scale}", rule=f"{name}: a scale of int16 must be below 2¹⁶")
    while multiplier <= _MOST / 2 and left <= 30:
        multiplier, left = multiplier * 2, left + 1
    shift, mask = function("right_shift"), function("bitwise_and")
    position = shift(cast(x, INT64) * int(multiplier) + ((1 << left) >> 1), left)
    # tanh x = 2 · sigmoid 2x − 1: it goes by the table twice as fast
    bits = 9 if name == "LOGISTIC" else 8
    size = absolute(position)
    index = minimum(shift(size, bits), 254)
    table = tensor(_sigmoids(), name="table")
    start = take(table, index, 0)
    line = start * (1 << bits) + mask(size, (1 << bits) - 1) * (take(table, index + 1, 0) - start)
    most = (0x7FFF << 10) if name == "LOGISTIC" else (0xFFFF << 8)
    line = where(shift(size, bits) >= 255, most, line)
    if name == "LOGISTIC":
        return cast(shift(where(position >= 0, line + 512, (1 << 25) - line + 511), 10), _INT16)
    return cast(shift(where(position >= 0, line - (1 << 23) + 128, (1 << 23) - line + 127), 8), _INT16)


def _sigmoids() -> Numbers:
    """Return the sigmoid of 0, 1/24, … in 16 bits, moved by half of the error of the lines between; the last is one."""
    share = 1 / (1 + np.exp(-np.arange(256) / _SIGMOID_STEPS))
    bend = share * (1 - share) * (2 * share - 1) / (16 * _SIGMOID_STEPS**2)
    table = np.floor((1 << 16) * (share + bend) + 0.5).astype(np.int64)
    table[-1] = (1 << 16) - 1
    return table


def _rounded(x: Array) -> Array:
    """Return the nearest integers, halves away from zero."""
    nearest: Array = np.copysign(np.floor(np.abs(x) + x.dtype.type(0.5)), x)
    return nearest

"""Interpreter of recorded expressions in mpmath, without overflow and cancellation."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mpmath import mp, mpf

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Call, Item
from explorer.core.ir.tensor import Tensor
from explorer.core.ir.traversal import reachable
from explorer.ops.control.scan import Scan
from explorer.ops.control.while_loop import WhileLoop
from explorer.ops.creation.constants import Full, Zero


def _each(function: Callable[..., Any], count: int = 1) -> Callable[..., Any]:
    cached = functools.lru_cache(maxsize=4096)(lambda digits, *numbers: function(*numbers))
    return np.frompyfunc(lambda *numbers: cached(mp.dps, *numbers), count, 1)


_LARGEST = mpf("1e400")
"""maximum exponent, since larger ones would exhaust the memory"""
_exp = _each(lambda x: mp.exp(x) if not abs(x) > _LARGEST else mpf("inf") if x > 0 else mpf(0))
_log = _each(lambda x: mp.log(x) if x > 0 else mpf("-inf") if x == 0 else mpf("nan"))
_sqrt, _tanh = _each(lambda x: mp.sqrt(x) if x >= 0 else mpf("nan")), _each(mp.tanh)


def _sum(x: Any, axes: tuple[int, ...] | None, keepdims: bool = True) -> Any:
    total: Any = np.add.reduce
    return np.asarray(total(x, axis=axes, keepdims=keepdims, initial=mpf(0)), object)


def _softmax(x: Any, axes: tuple[int, ...]) -> Any:
    return _exp(x) / _sum(_exp(x), axes)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + _exp(-x))


_MEANINGS: dict[str, Callable[..., Any]] = {
    "add": lambda op, a, b: a + b,
    "subtract": lambda op, a, b: a - b,
    "multiply": lambda op, a, b: a * b,
    "divide": lambda op, a, b: a / b,
    "negative": lambda op, x: -x,
    "square": lambda op, x: x * x,
    "absolute": lambda op, x: abs(x),
    "sign": lambda op, x: np.frompyfunc(mp.sign, 1, 1)(x),
    "reciprocal": lambda op, x: 1 / x,
    "power": lambda op, a, b: np.where(b == 0, mpf(1), _exp(b * _log(a))) if np.all(a >= 0) else a**b,
    "add_n": lambda op, *terms: functools.reduce(lambda a, b: a + b, terms),
    "exp": lambda op, x: _exp(x),
    "expm1": lambda op, x: _exp(x) - 1,
    "log": lambda op, x: _log(x),
    "log1p": lambda op, x: _log(1 + x),
    "log10": lambda op, x: _log(x) / mp.log(10),
    "log2": lambda op, x: _log(x) / mp.log(2),
    "sqrt": lambda op, x: _sqrt(x),
    "rsqrt": lambda op, x: 1 / _sqrt(x),
    "tanh": lambda op, x: _tanh(x),
    "cosh": lambda op, x: (_exp(x) + _exp(-x)) / 2,
    "sinh": lambda op, x: (_exp(x) - _exp(-x)) / 2,
    "sin": lambda op, x: _each(mp.sin)(x),
    "cos": lambda op, x: _each(mp.cos)(x),
    "tan": lambda op, x: _each(mp.tan)(x),
    "arctan": lambda op, x: _each(mp.atan)(x),
    "arcsinh": lambda op, x: _each(mp.asinh)(x),
    "arctanh": lambda op, x: _each(lambda x: mp.atanh(x) if abs(x) < 1 else mpf("nan"))(x),
    "sigmoid": lambda op, x: _sigmoid(x),
    "sigmoid_gradient": lambda op, g, y: g * y * (1 - y),
    "softplus": lambda op, x: _log(1 + _exp(x)),
    "logaddexp": lambda op, a, b: _log(_exp(a) + _exp(b)),
    "softmax": lambda op, x: _softmax(x, op.axes),
    "softmax_gradient": lambda op, g, y: y * (g - _sum(g * y, op.axes)),
    "log_softmax": lambda op, x: _log(_softmax(x, op.axes)),
    "logsumexp": lambda op, x: _log(_sum(_exp(x), op.axes, op.keepdims) * mpf(op.scale)),
    "log1mexp": lambda op, x: _log(1 - _exp(x)),
    "not_equal": lambda op, a, b: np.not_equal(a, b).astype(bool),
    "take_along": lambda op, x, places: np.take_along_axis(x, _places(places), op.axis),
    "take_along_gradient": lambda op, g, places: _scattered(op, g, _places(places)),
    "one_hot": lambda op, labels: _number(np.eye(op.classes)[_places(labels)]),
    "take": lambda op, x, places: np.take(x, _places(places), op.axis),
    "nll_loss": lambda op, t, p: -_sum(t * _log(p), None, False) / _sum(t, None, False),
    "nll_loss_gradient": lambda op, g, t, p: -g * t / (p * _sum(t, None, False)),
    "sum": lambda op, x: _sum(x, op.axes, op.keepdims),
    "mean": lambda op, x: _sum(x, op.axes, op.keepdims) / math.prod([x.shape[axis] for axis in op.axes]),
    "max": lambda op, x: np.maximum.reduce(x, axis=op.axes, keepdims=op.keepdims),
    "min": lambda op, x: np.minimum.reduce(x, axis=op.axes, keepdims=op.keepdims),
    "maximum": lambda op, a, b: np.maximum(a, b),
    "minimum": lambda op, a, b: np.minimum(a, b),
    "fmax": lambda op, a, b: np.maximum(a, b),
    "fmin": lambda op, a, b: np.minimum(a, b),
    "relu": lambda op, x: np.maximum(x, mpf(0)),
    "equal": lambda op, a, b: np.equal(a, b).astype(bool),
    "greater": lambda op, a, b: np.greater(a, b).astype(bool),
    "less": lambda op, a, b: np.less(a, b).astype(bool),
    "where": lambda op, c, a, b: np.where(c.astype(bool), a, b),
    "matmul": lambda op, a, b: np.matmul(a, b),
    "cast": lambda op, x: _number(x),
    "stack": lambda op, *members: np.stack(members),
}


def _places(x: Any) -> Any:
    return np.asarray(x, float).astype(int)


def _scattered(op: Any, g: Any, places: Any) -> Any:
    """Scatter the gradient of selected elements along an axis, adding values at equal indices."""
    shape = (*g.shape[: op.axis], op.length, *g.shape[op.axis + 1 :])
    result = np.full(shape, mpf(0))
    for index in np.ndindex(g.shape):
        place = (*index[: op.axis], places[index] % op.length, *index[op.axis + 1 :])
        result[place] += g[index]
    return result


def _number(x: Any) -> Any:
    return np.asarray(np.frompyfunc(lambda v: v if isinstance(v, mpf) else mpf(float(v)), 1, 1)(x), object)


def exact(roots: Sequence[Expr], digits: int, given: dict[int, Any] | None = None) -> list[Any]:
    """Return the values of expressions as written, in the given number of decimal digits.

    ``given`` maps uids of tensors to values, which may have more digits than the tensors.
    """
    with mp.workdps(digits):
        return [np.asarray(value, object) for value in _values(roots, {**(given or {})})]


def _values(roots: Sequence[Expr], values: dict[int, Any]) -> list[Any]:
    for node in reachable(roots, stop=lambda n: n.uid in values):
        if node.uid not in values:
            values[node.uid] = _value(node, [values[operand.uid] for operand in node.operands])
    return [values[root.uid] for root in roots]


def _value(node: Expr, operands: list[Any]) -> Any:
    operation = node.operation
    if isinstance(node, Tensor):
        return _number(node.array)
    if isinstance(operation, (Full, Zero)):
        return _number(np.asarray(operation.compute()))
    if isinstance(operation, (Scan, WhileLoop)):
        raise NotImplementedError(f"{operation.name} in mpmath")
    if isinstance(operation, Call):
        body = operation.body
        inputs = [n.uid for n in (*body.parameters, *body.captured)]
        result = _values(body.outputs, dict(zip(inputs, operands, strict=True)))
        return result[0] if len(result) == 1 else tuple(result)
    if isinstance(operation, Item):
        return operands[0][operation.index]
    if operation.name in _MEANINGS:
        return np.asarray(_MEANINGS[operation.name](operation, *operands), object)
    if operation.view:
        return operation.kernel(None, *operands)
    if operation.linear and "conv" not in operation.name:  # BLAS computes these kernels
        given = [
            _places(value) if operand.dtype.kind in "iu" else value
            for operand, value in zip(node.operands, operands, strict=True)
        ]
        return operation.kernel(np.full(node.shape, mpf(0)), *given)
    raise NotImplementedError(f"{operation.name} in mpmath")

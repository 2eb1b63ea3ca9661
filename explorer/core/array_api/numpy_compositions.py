"""NumPy functions that are recorded as several operations, and suggestions for unsupported functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from string import ascii_letters
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.registry import functions


def _at_least(axes: int, array: Any) -> Any:
    """Return an array with at least ``axes`` axes; missing axes are prepended with size 1."""
    return functions["reshape"](array, (1,) * (axes - np.ndim(array)) + np.shape(array))


def _hstack(tup: Sequence[Any]) -> Any:
    arrays = [_at_least(1, array) for array in tup]
    return functions["concatenate"](arrays, axis=0 if arrays[0].ndim == 1 else 1)


def _einsum(*operands: Any, policies: Any = ()) -> Any:
    """Record np.einsum in either form: with an equation, or with a list of axis indices after each operand."""
    if operands and not isinstance(operands[0], str):
        count = len(operands) // 2
        result = [f"->{_letters(axes)}" for axes in operands[2 * count :]]
        operands = (",".join(map(_letters, operands[1::2][:count])) + "".join(result), *operands[::2][:count])
    return functions["einsum"](*operands, policies=policies)


def _letters(axes: Any) -> str:
    """Return one letter per axis index, for an einsum equation."""
    if not isinstance(axes, (list, tuple)) or not all(n is Ellipsis or n in range(len(ascii_letters)) for n in axes):
        raise OperandError(
            f"np.einsum of an operand and {axes!r:.80}",
            rule="without an equation, each operand must be followed by a list of axis indices from 0 to 51",
            fix='np.einsum("ij,jk->ik", a, b), or np.einsum(a, [0, 1], b, [1, 2], [0, 2])',
        )
    return "".join("..." if n is Ellipsis else ascii_letters[n] for n in axes)


def _round(a: Any) -> Any:
    return a if a.dtype.kind in "iu" else functions["round_half_even"](a)


COMPOSED: Mapping[str, Callable[..., Any]] = {
    "around": _round,
    "column_stack": lambda tup: functions["concatenate"](
        [functions["reshape"](x, (-1, 1)) if np.ndim(x) < 2 else x for x in tup], axis=1
    ),
    "einsum": _einsum,
    "fix": lambda x: functions["trunc"](x),
    "fliplr": lambda m: functions["flip"](m, axis=1),
    "flipud": lambda m: functions["flip"](m, axis=0),
    "hstack": _hstack,
    "inner": lambda a, b: functions["tensordot"](a, b, axes=(-1, -1)) if np.ndim(a) and np.ndim(b) else a * b,
    "matrix_transpose": lambda x: functions["moveaxis"](x, -1, -2),
    "outer": lambda a, b: functions["reshape"](a, (-1, 1)) * functions["reshape"](b, (1, -1)),
    "ravel": lambda a: functions["flatten"](a),
    "round": _round,
    "swapaxes": lambda a, axis1, axis2: (
        a
        if (axis1 - axis2) % (a.ndim or 1) == 0 and a.ndim
        else functions["moveaxis"](a, (axis1, axis2), (axis2, axis1))
    ),
    "vstack": lambda tup: functions["concatenate"]([_at_least(2, array) for array in tup], axis=0),
}
"""NumPy function → function that records it"""

_NAN = "ex.where(ex.isnan(x), 0, x)"
_PARTS = "slices of it: x[:2], x[2:]"

HINTS: Mapping[str, str] = {
    **dict.fromkeys(("append", "block", "dstack", "insert"), "ex.concatenate([a, b], axis)"),
    **dict.fromkeys(("array_split", "delete", "dsplit", "hsplit", "split", "unstack", "vsplit"), _PARTS),
    **dict.fromkeys(("atleast_1d", "atleast_2d", "atleast_3d"), "ex.expand_dims(x, axis)"),
    **dict.fromkeys(("diag", "diagonal", "linalg.diagonal"), 'ex.einsum("ii->i", x)'),
    **dict.fromkeys(("trace", "linalg.trace"), 'ex.einsum("ii->", x)'),
    **dict.fromkeys(("vdot", "linalg.vecdot"), "ex.sum(a * b, axis)"),
    **dict.fromkeys(("median", "percentile", "quantile"), "ex.sort(x, axis), and an index of it"),
    **dict.fromkeys(("partition", "argpartition"), "ex.topk(x, k)"),
    **dict.fromkeys(("diff", "ediff1d"), "x[1:] - x[:-1]"),
    **dict.fromkeys(("cumprod", "cumulative_prod"), "ex.scan"),
    **dict.fromkeys(("allclose", "isclose"), "ex.absolute(a - b) <= tolerance"),
    **dict.fromkeys(("array_equal", "array_equiv"), "ex.all(a == b)"),
    **dict.fromkeys(("nan_to_num", "nansum", "nancumsum"), _NAN),
    **dict.fromkeys(("nanmax", "nanargmax"), "ex.max(ex.where(ex.isnan(x), -np.inf, x), axis)"),
    **dict.fromkeys(("nanmin", "nanargmin"), "ex.min(ex.where(ex.isnan(x), np.inf, x), axis)"),
    **dict.fromkeys(("nanmean", "nanvar", "nanstd"), f"ex.sum({_NAN}, axis) / ex.sum(~ex.isnan(x), axis)"),
    **dict.fromkeys(("broadcast_arrays", "full_like", "meshgrid"), "ex.broadcast_to(x, shape)"),
    **dict.fromkeys(("choose", "piecewise", "select"), "ex.where(condition, x, y)"),
    **dict.fromkeys(("convolve", "correlate"), "ex.conv1d(x, weight)"),
    **dict.fromkeys(("isneginf", "isposinf"), "ex.isinf(x) & (x > 0)"),
    **dict.fromkeys(("digitize", "searchsorted"), "ex.sum(x[..., None] >= edges, axis=-1)"),
    **dict.fromkeys(("linalg.norm", "linalg.vector_norm"), "ex.vector_norm(x, axis=axis)"),
    **dict.fromkeys(("rollaxis", "linalg.matrix_transpose"), "ex.moveaxis(x, source, destination)"),
    **dict.fromkeys(("apply_along_axis", "apply_over_axes"), "ex.map(function, x)"),
    "astype": "x.astype(dtype)",
    "average": "ex.sum(x * w, axis) / ex.sum(w, axis)",
    "copy": "x itself, which never changes",
    "count_nonzero": "ex.sum(x != 0, axis)",
    "cov": "y @ y.T / (n - 1), where y = x - ex.mean(x, axis=1, keepdims=True)",
    "cumulative_sum": "ex.cumsum(x, axis)",
    "empty_like": "np.zeros_like(x)",
    "interp": "ex.interpolate",
    "kron": 'ex.einsum("ij,kl->ikjl", a, b), reshaped',
    "linalg.matmul": "a @ b",
    "linalg.matrix_power": "x @ x",
    "linalg.outer": "np.outer(a, b)",
    "linalg.tensordot": "ex.tensordot(a, b, axes)",
    "polyval": "(a * x + b) * x + c",
    "ptp": "ex.max(x, axis) - ex.min(x, axis)",
    "rot90": "ex.flip(ex.transpose(x), axis)",
}
"""unsupported NumPy function → suggestion for the error message"""

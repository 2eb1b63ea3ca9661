"""NumPy functions that are recorded as several operations, and suggestions for unsupported functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from string import ascii_letters
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.registry import functions
from explorer.core.types.tensor_type import broadcast_shapes


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


def _slice(x: Any, axis: int, *bounds: int | None) -> Any:
    """Return a slice of an expression along one axis."""
    return x[(slice(None),) * (axis % x.ndim) + (slice(*bounds),)]


def _axis_size(x: Any, axis: int) -> int:
    if not -x.ndim <= axis < x.ndim:
        raise OperandError(
            f"axis {axis} of {x.type}",
            rule=f"the axis must be in {-x.ndim} … {x.ndim - 1}" if x.ndim else "a scalar has no axes",
            fix="axis=0",
        )
    size: int = x.shape[axis]
    return size


def _array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    size = _axis_size(ary, axis)
    if np.ndim(indices_or_sections):
        bounds = [0, *map(int, indices_or_sections), size]
    else:
        count = int(indices_or_sections)
        if count <= 0:
            raise OperandError(f"{count} parts", rule="there must be at least one part", fix="np.array_split(x, 2)")
        bounds = [min(part, size % count) + part * (size // count) for part in range(count + 1)]
    return [_slice(ary, axis, start, stop) for start, stop in pairwise(bounds)]


def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    size = _axis_size(ary, axis)
    if not np.ndim(indices_or_sections) and (indices_or_sections <= 0 or size % indices_or_sections):
        raise OperandError(
            f"{indices_or_sections} equal parts of axis {axis} with {size} elements",
            rule="the number of parts must divide the number of elements",
            fix="np.array_split makes unequal parts",
        )
    return _array_split(ary, indices_or_sections, axis)


def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """Return the slices of an expression along an axis, without this axis."""
    size = _axis_size(x, axis)
    return tuple(x[(slice(None),) * (axis % x.ndim) + (index,)] for index in range(size))


def _diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    if n == 0:
        return a
    _axis_size(a, axis)
    if n < 0:
        raise OperandError(f"n={n}", rule="n must be an integer of at least 0", fix="np.diff(x)")
    ends = [None if end is None else _end(a, end, axis) for end in (prepend, append)]
    parts = [part for part in (ends[0], a, ends[1]) if part is not None]
    result = functions["concatenate"](parts, axis=axis) if len(parts) > 1 else a
    subtract = functions["not_equal" if result.dtype == np.bool_ else "subtract"]
    for _ in range(n):
        result = subtract(_slice(result, axis, 1, None), _slice(result, axis, None, -1))
    return result


def _end(a: Any, end: Any, axis: int) -> Any:
    """Return what np.diff adds at an end of an axis; a number is repeated along the other axes."""
    if np.ndim(end):
        return end
    shape = list(a.shape)
    shape[axis] = 1
    return functions["broadcast_to"](end if hasattr(end, "dtype") else np.asarray(end), tuple(shape))


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return the diagonals of the matrices in two axes, as the last axis."""
    if a.ndim < 2:
        raise OperandError(f"the diagonal of {a.type}", rule="there must be two or more axes", fix="np.diag(x)")
    moved = functions["moveaxis"](a, (axis1, axis2), (-2, -1))
    rows, columns = moved.shape[-2:]
    above, right = max(-offset, 0), max(offset, 0)
    steps = np.arange(max(0, min(rows - above, columns - right)))
    return moved[..., steps + above, steps + right]


def _diag(v: Any, k: int = 0) -> Any:
    if v.ndim == 2:
        return diagonal(v, k)
    if v.ndim != 1:
        raise OperandError(f"np.diag of {v.type}", rule="v must be a vector or a matrix", fix="np.diagonal(x)")
    padded = functions["pad"](v, (max(k, 0), max(-k, 0)))
    return functions["where"](np.eye(padded.size, k=k, dtype=bool), padded, np.zeros((), v.dtype))


def _outer_of_vectors(x1: Any, x2: Any) -> Any:
    for operand in (x1, x2):
        if np.ndim(operand) != 1:
            raise OperandError(
                f"np.linalg.outer of shape {np.shape(operand)}",
                rule="the operands must be vectors",
                fix="np.outer(a, b)",
            )
    return functions["reshape"](x1, (-1, 1)) * functions["reshape"](x2, (1, -1))


def _rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    _axis_size(a, axis)
    if start < 0:
        start += a.ndim
    return functions["moveaxis"](a, axis, start - (axis % a.ndim < start))


def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return functions["sum"](diagonal(a, offset, axis1, axis2), axis=-1)


def count_nonzero(a: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the number of elements that are not zero."""
    return functions["sum"](a if a.dtype == np.bool_ else a != 0, axis=axis, keepdims=keepdims)


def _accumulated(x: Any, axis: int | None, along: Callable[[Any, int], Any], first: int, initial: bool) -> Any:
    """Return an accumulation along an axis (None: of all elements), with the start value ``first`` if wanted."""
    if axis is None or not x.ndim:
        _axis_size(x := functions["flatten"](x), axis := axis or 0)
    result = along(x, axis)
    if not initial:
        return result
    shape = tuple(1 if index == axis % x.ndim else size for index, size in enumerate(x.shape))
    return functions["concatenate"]([np.full(shape, first, result.dtype), result], axis=axis)


def _products(x: Any, axis: int) -> Any:
    size = _axis_size(x, axis)
    x = functions["cast"](x, functions["prod"](x).dtype)
    if size < 2:
        return x
    rows = functions["moveaxis"](x, axis, 0)

    def step(product: Any, row: Any) -> tuple[Any, Any]:
        product = product * row
        return product, product

    _, products = functions["scan"](step, rows[0], rows[1:])
    return functions["moveaxis"](functions["concatenate"]([rows[:1], products]), 0, axis)


def _cumprod(a: Any, axis: int | None = None) -> Any:
    return _accumulated(a, axis, _products, 1, initial=False)


def _one_axis(x: Any, axis: int | None) -> int | None:
    """Return the axis of the standard's accumulations, which is optional only if there is at most one."""
    if axis is None and x.ndim > 1:
        raise OperandError(f"an accumulation of {x.type} without axis", rule="axis must be given", fix="axis=0")
    return axis


def cumulative_sum(x: Any, axis: int | None = None, include_initial: bool = False) -> Any:
    """Return the sums of the first elements along an axis, starting with 0 if ``include_initial``."""
    sums = functions["cumsum"]
    return _accumulated(x, _one_axis(x, axis), lambda x, axis: sums(x, axis=axis), 0, include_initial)


def cumulative_prod(x: Any, axis: int | None = None, include_initial: bool = False) -> Any:
    """Return the products of the first elements along an axis, starting with 1 if ``include_initial``."""
    return _accumulated(x, _one_axis(x, axis), _products, 1, include_initial)


def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Record np.linalg.norm of vectors, and the Frobenius norm of matrices."""
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    frobenius = ord is None or (ord == "fro" and len(axes) == 2)
    if not frobenius and (len(axes) != 1 or isinstance(ord, str)):
        raise OperandError(
            f"the norm {ord!r} of {x.type} over the axes {axes}",
            rule='the norm must be one of vectors (one axis), or the Frobenius norm (ord=None or "fro")',
            fix="np.linalg.norm(x, axis=-1)",
        )
    return vector_norm(x, axes, keepdims, 2 if frobenius else ord)


def vector_norm(x: Any, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Any:
    """Return the norm of the vectors along one or several axes; integers are converted to float64."""
    if x.dtype.kind in "biu":
        x = functions["cast"](x, np.float64)
    magnitudes = functions["absolute"](x) if x.dtype.kind == "c" else x
    return functions["vector_norm"](magnitudes, ord, axis=axis, keepdims=keepdims)


def _broadcast_arrays(*args: Any) -> tuple[Any, ...]:
    shapes = [np.shape(array) for array in args]
    shape = broadcast_shapes(*shapes)
    if shape is None:
        raise OperandError(
            f"broadcast_arrays of shapes {', '.join(map(str, shapes))}",
            rule="sizes must be equal or 1, with shapes aligned at their last axes",
            fix="x.reshape(…) or x[:, None] aligns axes",
        )
    return tuple(functions["broadcast_to"](array, shape) for array in args)


def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """Return the indices at which the elements of ``v`` keep the vector ``a`` sorted; all pairs are compared."""
    if side not in ("left", "right"):
        raise OperandError(f"side={side!r}", rule='side must be "left" or "right"', fix='side="left"')
    if np.ndim(a) != 1:
        raise OperandError(
            f"searchsorted in shape {np.shape(a)}", rule="the sorted operand must be a vector", fix="x.flatten()"
        )
    v = v if hasattr(v, "dtype") else np.asarray(v)
    if "c" in (v.dtype.kind, a.dtype.kind if hasattr(a, "dtype") else np.asarray(a).dtype.kind):
        raise OperandError("searchsorted of complex numbers", rule="both operands must be real", fix="ex.real_part(x)")
    rows = a if sorter is None else functions["take"](a, sorter, axis=0)
    columns = functions["expand_dims"](v, -1)
    is_below = functions["less" if side == "left" else "less_equal"](rows, columns)
    if v.dtype.kind not in "biu":  # NaN is sorted last
        is_number = rows == rows if side == "left" else True
        is_below = functions["logical_or"](is_below, functions["logical_and"](columns != columns, is_number))
    return functions["sum"](is_below, axis=-1)


def vecdot(x1: Any, x2: Any, axis: int = -1) -> Any:
    """Return the sums of products along an axis, of the complex conjugate of ``x1`` and of ``x2``."""
    if x1.dtype.kind == "c":
        x1 = functions["conjugate"](x1)
    left, right = (functions["moveaxis"](x, axis, -1)[..., None] for x in (x1, x2))
    return functions["matmul"](left.mT, right)[..., 0, 0]


def meshgrid(*xi: Any, indexing: str = "xy") -> tuple[Any, ...]:
    """Return coordinates of the points of a grid; ``indexing`` is "xy", which swaps the first two axes, or "ij"."""
    if indexing not in ("xy", "ij"):
        raise OperandError(f"indexing={indexing!r}", rule='indexing must be "xy" or "ij"', fix='indexing="ij"')
    axes = list(range(len(xi)))
    if indexing == "xy":
        axes[:2] = axes[1::-1]
    sizes = [(1,) * axis + (-1,) + (1,) * (len(xi) - 1 - axis) for axis in axes]
    return _broadcast_arrays(*[functions["reshape"](x, size) for x, size in zip(xi, sizes, strict=True)])


def _at_least_each(axes: int) -> Callable[..., Any]:
    def at_least(*arys: Any) -> Any:
        results = tuple(array if np.ndim(array) >= axes else _at_least(axes, array) for array in arys)
        return results[0] if len(results) == 1 else results

    return at_least


def _append(arr: Any, values: Any, axis: int | None = None) -> Any:
    return functions["concatenate"]([arr, values], axis=axis)


COMPOSED: Mapping[str, Callable[..., Any]] = {
    "append": _append,
    "around": _round,
    "array_split": _array_split,
    "atleast_1d": _at_least_each(1),
    "atleast_2d": _at_least_each(2),
    "broadcast_arrays": _broadcast_arrays,
    "column_stack": lambda tup: functions["concatenate"](
        [functions["reshape"](x, (-1, 1)) if np.ndim(x) < 2 else x for x in tup], axis=1
    ),
    "copy": lambda a: a,
    "count_nonzero": count_nonzero,
    "cumprod": _cumprod,
    "cumulative_prod": cumulative_prod,
    "cumulative_sum": cumulative_sum,
    "diag": _diag,
    "diagonal": diagonal,
    "diff": _diff,
    "einsum": _einsum,
    "fix": lambda x: functions["trunc"](x),
    "fliplr": lambda m: functions["flip"](m, axis=1),
    "flipud": lambda m: functions["flip"](m, axis=0),
    "hstack": _hstack,
    "imag": lambda val: functions["imaginary_part"](val),
    "inner": lambda a, b: functions["tensordot"](a, b, axes=(-1, -1)) if np.ndim(a) and np.ndim(b) else a * b,
    "linalg.diagonal": lambda x, offset=0: diagonal(x, offset, -2, -1),
    "linalg.matmul": lambda x1, x2: functions["matmul"](x1, x2),
    "linalg.matrix_transpose": lambda x: functions["moveaxis"](x, -1, -2),
    "linalg.norm": _norm,
    "linalg.outer": _outer_of_vectors,
    "linalg.tensordot": lambda x1, x2, axes=2: functions["tensordot"](x1, x2, axes),
    "linalg.trace": lambda x, offset=0: _trace(x, offset, -2, -1),
    "linalg.vecdot": vecdot,
    "linalg.vector_norm": vector_norm,
    "matrix_transpose": lambda x: functions["moveaxis"](x, -1, -2),
    "meshgrid": meshgrid,
    "outer": lambda a, b: functions["reshape"](a, (-1, 1)) * functions["reshape"](b, (1, -1)),
    "ptp": lambda a, axis=None, keepdims=False: (
        functions["max"](a, axis, keepdims) - functions["min"](a, axis, keepdims)
    ),
    "ravel": lambda a: functions["flatten"](a),
    "real": lambda val: functions["real_part"](val),
    "round": _round,
    "rollaxis": _rollaxis,
    "searchsorted": searchsorted,
    "split": _split,
    "swapaxes": lambda a, axis1, axis2: (
        a
        if (axis1 - axis2) % (a.ndim or 1) == 0 and a.ndim
        else functions["moveaxis"](a, (axis1, axis2), (axis2, axis1))
    ),
    "trace": _trace,
    "unstack": unstack,
    "vstack": lambda tup: functions["concatenate"]([_at_least(2, array) for array in tup], axis=0),
}
"""NumPy function → function that records it"""

_NAN = "ex.where(ex.isnan(x), 0, x)"
_PARTS = "slices of it: x[:2], x[2:]"

HINTS: Mapping[str, str] = {
    **dict.fromkeys(("block", "dstack", "insert"), "ex.concatenate([a, b], axis)"),
    **dict.fromkeys(("delete", "dsplit", "hsplit", "vsplit"), _PARTS),
    "atleast_3d": "ex.expand_dims(x, axis)",
    "vdot": "np.linalg.vecdot(a, b)",
    **dict.fromkeys(("median", "percentile", "quantile"), "ex.sort(x, axis), and an index of it"),
    **dict.fromkeys(("partition", "argpartition"), "ex.topk(x, k)"),
    "ediff1d": "np.diff(x)",
    **dict.fromkeys(("allclose", "isclose"), "ex.absolute(a - b) <= tolerance"),
    **dict.fromkeys(("array_equal", "array_equiv"), "ex.all(a == b)"),
    **dict.fromkeys(("nan_to_num", "nansum", "nancumsum"), _NAN),
    **dict.fromkeys(("nanmax", "nanargmax"), "ex.max(ex.where(ex.isnan(x), -np.inf, x), axis)"),
    **dict.fromkeys(("nanmin", "nanargmin"), "ex.min(ex.where(ex.isnan(x), np.inf, x), axis)"),
    **dict.fromkeys(("nanmean", "nanvar", "nanstd"), f"ex.sum({_NAN}, axis) / ex.sum(~ex.isnan(x), axis)"),
    "full_like": "ex.broadcast_to(value, x.shape)",
    **dict.fromkeys(("choose", "piecewise", "select"), "ex.where(condition, x, y)"),
    **dict.fromkeys(("convolve", "correlate"), "ex.conv1d(x, weight)"),
    **dict.fromkeys(("isneginf", "isposinf"), "ex.isinf(x) & (x > 0)"),
    "digitize": 'np.searchsorted(edges, x, side="right")',
    **dict.fromkeys(("apply_along_axis", "apply_over_axes"), "ex.map(function, x)"),
    "astype": "x.astype(dtype)",
    "average": "ex.sum(x * w, axis) / ex.sum(w, axis)",
    "cov": "y @ y.T / (n - 1), where y = x - ex.mean(x, axis=1, keepdims=True)",
    "empty_like": "np.zeros_like(x)",
    "interp": "ex.interpolate",
    "kron": 'ex.einsum("ij,kl->ikjl", a, b), reshaped',
    "linalg.matrix_power": "x @ x",
    "polyval": "(a * x + b) * x + c",
    "rot90": "ex.flip(ex.transpose(x), axis)",
}
"""unsupported NumPy function → suggestion for the error message"""

"""Functions of the standard that reduce, accumulate, search and sort."""

from __future__ import annotations

from typing import Any

from explorer.core.array_api import numpy_compositions as compositions
from explorer.core.ir.expr import Expr
from explorer.core.registry import functions

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "argsort",
    "count_nonzero",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "max",
    "mean",
    "min",
    "prod",
    "searchsorted",
    "sort",
    "std",
    "sum",
    "var",
    "where",
]

_Axes = int | tuple[int, ...] | None


def _reduced(name: str, x: Expr, dtype: Any = None, **options: Any) -> Expr:
    result: Expr = functions[name](x if dtype is None else functions["cast"](x, dtype), **options)
    return result if dtype is None or result.dtype == dtype else functions["cast"](result, dtype)


def sum(x: Expr, /, *, axis: _Axes = None, dtype: Any = None, keepdims: bool = False) -> Expr:
    """Return the sum over axes; narrow integers are added as int64 or uint64 unless ``dtype`` is given."""
    return _reduced("sum", x, dtype, axis=axis, keepdims=keepdims)


def prod(x: Expr, /, *, axis: _Axes = None, dtype: Any = None, keepdims: bool = False) -> Expr:
    """Return the product over axes; narrow integers are multiplied as int64 or uint64 unless ``dtype`` is given."""
    return _reduced("prod", x, dtype, axis=axis, keepdims=keepdims)


def max(x: Expr, /, *, axis: _Axes = None, keepdims: bool = False) -> Expr:
    """Return the maximum over axes."""
    return _reduced("max", x, axis=axis, keepdims=keepdims)


def min(x: Expr, /, *, axis: _Axes = None, keepdims: bool = False) -> Expr:
    """Return the minimum over axes."""
    return _reduced("min", x, axis=axis, keepdims=keepdims)


def mean(x: Expr, /, *, axis: _Axes = None, keepdims: bool = False) -> Expr:
    """Return the mean over axes."""
    return _reduced("mean", x, axis=axis, keepdims=keepdims)


def std(x: Expr, /, *, axis: _Axes = None, correction: float = 0.0, keepdims: bool = False) -> Expr:
    """Return the standard deviation over axes; ``correction`` is subtracted from the number of elements."""
    return _reduced("std", x, axis=axis, ddof=correction, keepdims=keepdims)


def var(x: Expr, /, *, axis: _Axes = None, correction: float = 0.0, keepdims: bool = False) -> Expr:
    """Return the variance over axes; ``correction`` is subtracted from the number of elements."""
    return _reduced("var", x, axis=axis, ddof=correction, keepdims=keepdims)


def all(x: Expr, /, *, axis: _Axes = None, keepdims: bool = False) -> Expr:
    """Return whether all elements along axes are not zero."""
    return _reduced("all", x, axis=axis, keepdims=keepdims)


def any(x: Expr, /, *, axis: _Axes = None, keepdims: bool = False) -> Expr:
    """Return whether an element along axes is not zero."""
    return _reduced("any", x, axis=axis, keepdims=keepdims)


def count_nonzero(x: Expr, /, *, axis: _Axes = None, keepdims: bool = False) -> Expr:
    """Return the number of elements along axes that are not zero."""
    result: Expr = compositions.count_nonzero(x, axis, keepdims)
    return result


def cumulative_sum(x: Expr, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Expr:
    """Return the sums of the first elements along an axis, starting with 0 if ``include_initial``."""
    result: Expr = compositions.cumulative_sum(_cast(x, dtype), axis, include_initial)
    return _cast(result, dtype)


def cumulative_prod(x: Expr, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Expr:
    """Return the products of the first elements along an axis, starting with 1 if ``include_initial``."""
    result: Expr = compositions.cumulative_prod(_cast(x, dtype), axis, include_initial)
    return _cast(result, dtype)


def diff(x: Expr, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Expr:
    """Return the differences of neighbours along an axis, ``n`` times."""
    result: Expr = compositions.COMPOSED["diff"](x, n, axis, prepend, append)
    return result


def argmax(x: Expr, /, *, axis: int | None = None, keepdims: bool = False) -> Expr:
    """Return the index of the first maximum along an axis (None: of all elements)."""
    return _reduced("argmax", x, axis=axis, keepdims=keepdims)


def argmin(x: Expr, /, *, axis: int | None = None, keepdims: bool = False) -> Expr:
    """Return the index of the first minimum along an axis (None: of all elements)."""
    return _reduced("argmin", x, axis=axis, keepdims=keepdims)


def sort(x: Expr, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Expr:
    """Return the sorted elements along an axis; the order of equal elements is always kept."""
    return _reduced("sort", x, axis=axis, descending=descending)


def argsort(x: Expr, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Expr:
    """Return the indices that sort the elements along an axis; the order of equal elements is always kept."""
    return _reduced("argsort", x, axis=axis, descending=descending)


def where(condition: Expr, x1: Any, x2: Any, /) -> Expr:
    """Return elements of ``x1`` where the condition is True, and of ``x2`` elsewhere."""
    result: Expr = functions["where"](condition, x1, x2)
    return result


def searchsorted(x1: Expr, x2: Any, /, *, side: str = "left", sorter: Expr | None = None) -> Expr:
    """Return the indices at which the elements of ``x2`` keep the vector ``x1`` sorted; all pairs are compared."""
    result: Expr = compositions.searchsorted(x1, x2, side, sorter)
    return result


def _cast(x: Expr, dtype: Any) -> Expr:
    return x if dtype is None or x.dtype == dtype else functions["cast"](x, dtype)

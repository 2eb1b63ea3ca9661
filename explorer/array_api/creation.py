"""Creation functions of the standard: each returns an expression whose value is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from explorer.core.array_api.numpy_compositions import meshgrid as _meshgrid
from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.core.registry import functions
from explorer.core.types.device import Device, as_device
from explorer.ops.creation import constants

__all__ = [
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]

_Device = Device | str | None


def asarray(obj: Any, /, *, dtype: Any = None, device: _Device = None, copy: bool | None = None) -> Expr:
    """Return an array, a number or a nested list as an expression; an expression itself is not copied.

    ``copy=False`` is an error for anything else, because an expression never shares elements that may change.
    """
    if isinstance(obj, Expr):
        result = obj if dtype is None or obj.dtype == dtype else functions["cast"](obj, dtype)
    else:
        if copy is False:
            raise OperandError(
                f"asarray of {type(obj).__name__} with copy=False",
                rule="the elements must be copied, because an expression never changes",
                fix="omit copy",
            )
        if isinstance(obj, (list, tuple)) and _contains_expression(obj):
            obj = np.asarray(obj)
        result = tensor(obj if dtype is None else _computed(np.asarray, obj, dtype=dtype), name="asarray")
    return _placed(result, device)


def _contains_expression(values: list[Any] | tuple[Any, ...]) -> bool:
    return any(
        isinstance(value, Expr) or (isinstance(value, (list, tuple)) and _contains_expression(value))
        for value in values
    )


def from_dlpack(x: Any, /, *, device: _Device = None, copy: bool | None = None) -> Expr:
    """Return an array of another library, such as torch, as an expression with a copy of its elements."""
    if copy is False:
        return asarray(x, copy=copy)
    return asarray(x if isinstance(x, Expr) else np.from_dlpack(x), device=device)


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: Any = None, device: _Device = None
) -> Expr:
    """Return the numbers from ``start`` (0 if only one number is given) to ``stop``, without ``stop``."""
    if stop is None:
        start, stop = 0, start
    return asarray(_computed(np.arange, start, stop, step, dtype=dtype), device=device)


def linspace(
    start: complex, stop: complex, /, num: int, *, dtype: Any = None, device: _Device = None, endpoint: bool = True
) -> Expr:
    """Return ``num`` numbers with equal distances from ``start`` to ``stop``."""
    return asarray(_computed(np.linspace, start, stop, num, endpoint=endpoint, dtype=dtype), device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: _Device = None) -> Expr:
    """Return a matrix with ones on the diagonal ``k``, and zeros elsewhere."""
    return asarray(_computed(np.eye, n_rows, n_cols, k, dtype=dtype or np.float64), device=device)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: _Device = None) -> Expr:
    """Return an expression of a shape with equal elements; the default dtype is NumPy's for the value."""
    if isinstance(fill_value, Expr):
        value = asarray(fill_value, dtype=dtype, device=device)
        result: Expr = functions["broadcast_to"](value, _shape(shape))
        return result
    element = np.asarray(fill_value).dtype if dtype is None else np.dtype(dtype)
    return _placed(constants.full(_shape(shape), fill_value, element), device)


def zeros(shape: Any, *, dtype: Any = None, device: _Device = None) -> Expr:
    """Return zeros of a shape; the default dtype is float64."""
    return _placed(constants.zeros(_shape(shape), np.dtype(dtype or np.float64)), device)


def ones(shape: Any, *, dtype: Any = None, device: _Device = None) -> Expr:
    """Return ones of a shape; the default dtype is float64."""
    element = np.dtype(dtype or np.float64)
    return _placed(constants.full(_shape(shape), np.ones((), element).item(), element), device)


def empty(shape: Any, *, dtype: Any = None, device: _Device = None) -> Expr:
    """Return an expression of a shape, whose elements are zeros."""
    return zeros(shape, dtype=dtype, device=device)


def full_like(x: Expr, /, fill_value: Any, *, dtype: Any = None, device: _Device = None) -> Expr:
    """Return equal elements in the shape and the dtype of ``x``."""
    return full(x.shape, fill_value, dtype=x.dtype if dtype is None else dtype, device=device or x.device)


def zeros_like(x: Expr, /, *, dtype: Any = None, device: _Device = None) -> Expr:
    """Return zeros in the shape and the dtype of ``x``."""
    return zeros(x.shape, dtype=x.dtype if dtype is None else dtype, device=device or x.device)


def ones_like(x: Expr, /, *, dtype: Any = None, device: _Device = None) -> Expr:
    """Return ones in the shape and the dtype of ``x``."""
    return ones(x.shape, dtype=x.dtype if dtype is None else dtype, device=device or x.device)


def empty_like(x: Expr, /, *, dtype: Any = None, device: _Device = None) -> Expr:
    """Return zeros in the shape and the dtype of ``x``."""
    return zeros_like(x, dtype=dtype, device=device)


def meshgrid(*arrays: Expr, indexing: str = "xy") -> tuple[Expr, ...]:
    """Return coordinates of the points of a grid; ``indexing`` is "xy", which swaps the first two axes, or "ij"."""
    return _meshgrid(*arrays, indexing=indexing)


def tril(x: Expr, /, *, k: int = 0) -> Expr:
    """Return the elements on and below the diagonal ``k`` of matrices, and zeros above it."""
    result: Expr = functions["tril"](x, k)
    return result


def triu(x: Expr, /, *, k: int = 0) -> Expr:
    """Return the elements on and above the diagonal ``k`` of matrices, and zeros below it."""
    result: Expr = functions["triu"](x, k)
    return result


def _computed(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return an array that NumPy computes; its errors become OperandErrors."""
    try:
        return function(*arguments, **options)
    except (TypeError, ValueError, OverflowError, ZeroDivisionError) as error:
        name = function.__name__
        raise OperandError(
            f"{name}: {error}", rule=f"the arguments must be those of np.{name}", fix=f"help(np.{name})"
        ) from None


def _shape(shape: Any) -> tuple[int, ...]:
    return tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)


def _placed(x: Expr, device: _Device) -> Expr:
    """Return an expression on a device, as it is if it is there."""
    return x if device is None or as_device(device, "device") is x.device else x.to_device(device)

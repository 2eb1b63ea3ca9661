"""Functions of the standard that arrange, repeat and select elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from explorer.core.array_api.numpy_compositions import COMPOSED
from explorer.core.array_api.numpy_compositions import unstack as _unstack
from explorer.core.ir.expr import Expr
from explorer.core.registry import functions

__all__ = [
    "broadcast_arrays",
    "broadcast_to",
    "concat",
    "expand_dims",
    "flip",
    "moveaxis",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "squeeze",
    "stack",
    "take",
    "take_along_axis",
    "tile",
    "unstack",
]


def broadcast_arrays(*arrays: Expr) -> tuple[Expr, ...]:
    """Return the arrays in the shape to which they broadcast together."""
    results: tuple[Expr, ...] = COMPOSED["broadcast_arrays"](*arrays)
    return results


def broadcast_to(x: Expr, /, shape: tuple[int, ...]) -> Expr:
    """Repeat elements along axes of size 1, and along new axes, so that the result has a shape."""
    return _recorded("broadcast_to", x, shape)


def concat(arrays: Sequence[Expr], /, *, axis: int | None = 0) -> Expr:
    """Join arrays along an axis (None: flattened)."""
    return _recorded("concatenate", list(arrays), axis=axis)


def expand_dims(x: Expr, /, *, axis: int = 0) -> Expr:
    """Insert an axis of size 1."""
    return _recorded("expand_dims", x, axis)


def flip(x: Expr, /, *, axis: int | tuple[int, ...] | None = None) -> Expr:
    """Reverse the order of elements along axes (None: all)."""
    return _recorded("flip", x, axis=axis)


def moveaxis(x: Expr, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Expr:
    """Move axes to other positions, and keep the order of all others."""
    return _recorded("moveaxis", x, source, destination)


def permute_dims(x: Expr, /, axes: tuple[int, ...]) -> Expr:
    """Permute the axes."""
    return _recorded("transpose", x, axes)


def repeat(x: Expr, repeats: int, /, *, axis: int | None = None) -> Expr:
    """Repeat each element along an axis (None: flattened) a fixed number of times."""
    return _recorded("repeat", x, repeats, axis=axis)


def reshape(x: Expr, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Expr:
    """Return the same elements in another shape; ``copy`` has no effect, because an expression never changes."""
    return _recorded("reshape", x, shape)


def roll(x: Expr, /, shift: int | tuple[int, ...], *, axis: int | tuple[int, ...] | None = None) -> Expr:
    """Move elements along axes; elements that leave an end enter at the other one."""
    return _recorded("roll", x, shift, axis=axis)


def squeeze(x: Expr, /, axis: int | tuple[int, ...]) -> Expr:
    """Remove axes of size 1."""
    return _recorded("squeeze", x, axis)


def stack(arrays: Sequence[Expr], /, *, axis: int = 0) -> Expr:
    """Join arrays of one shape along a new axis."""
    return _recorded("stack", list(arrays), axis=axis)


def take(x: Expr, indices: Any, /, *, axis: int | None = None) -> Expr:
    """Return the elements with the given indices along an axis, which is optional for vectors."""
    return _recorded("take", x, indices, axis=axis)


def take_along_axis(x: Expr, indices: Any, /, *, axis: int = -1) -> Expr:
    """Return for each position the element with the given index along an axis."""
    return _recorded("take_along_axis", x, indices, axis=axis)


def tile(x: Expr, repetitions: tuple[int, ...], /) -> Expr:
    """Repeat an array along each axis."""
    return _recorded("tile", x, repetitions)


def unstack(x: Expr, /, *, axis: int = 0) -> tuple[Expr, ...]:
    """Return the slices along an axis, without this axis."""
    return _unstack(x, axis)


def _recorded(name: str, *arguments: Any, **options: Any) -> Expr:
    result: Expr = functions[name](*arguments, **options)
    return result

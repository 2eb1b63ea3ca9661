"""Laws that must hold for random operands, and the error for a broken law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.core.errors import ExplorerError
from explorer.core.types.tensor_type import Array
from explorer.testing.laws.cases import Case


class LawError(ExplorerError, AssertionError):
    """Error for a broken law, with the operands and both values."""


@dataclass(frozen=True, slots=True)
class Law:
    """Statement about an operation, checked on each of its cases."""

    name: str
    applies: Callable[[Case], bool]
    """whether the law applies to the operation of a case"""
    check: Callable[[Case], int]
    """returns the number of compared values; raises LawError if a case breaks the law"""


def number(value: Any) -> str:
    """Return a number as text with four digits."""
    scalar = value.item() if isinstance(value, np.generic | np.ndarray) else value
    return f"{scalar:.4g}" if isinstance(scalar, int | float | complex) and type(scalar) is not bool else str(scalar)


def elements_text(case: Case, operands: list[Array], index: tuple[int, ...]) -> str:
    """Return the operands' elements at an index, such as ``x = 1.3``, for scalars and operands of that shape."""
    elements = []
    for name, array in zip(case.operand_names, operands, strict=True):
        if array.shape == operands[0].shape and len(index) == array.ndim:
            elements.append(f"{name} = {number(array[index])}")
        elif array.size == 1:
            elements.append(f"{name} = {number(array.reshape(()))}")
    return ", ".join(elements)


def agree(
    left: Any,
    right: Any,
    *,
    names: tuple[str, str],
    at: str | Callable[[tuple[int, ...]], str],
    rtol: float = 0.0,
    atol: float = 0.0,
) -> int:
    """Return the number of elements of two arrays; raise LawError if the arrays differ by more than a tolerance.

    The message shows the element that differs most; ``names`` describe the values, and ``at`` the position. NaN equals
    NaN.
    """
    first, second = np.asarray(left), np.asarray(right)
    if first.shape != second.shape:
        raise LawError(f"{names[0]} of shape {first.shape}, {names[1]} of shape {second.shape}")
    with np.errstate(all="ignore"):
        equal = _equal(first, second, rtol, atol)
        if equal.all():
            return int(first.size)
        distance = np.abs(np.subtract(first, second, dtype=np.result_type(first, second, "f8")))
    deviation = np.where(equal, -1.0, np.nan_to_num(distance, nan=np.inf))
    index = tuple(int(position) for position in np.unravel_index(np.argmax(deviation), first.shape))
    where = (at if isinstance(at, str) else at(index)) or (f"[{', '.join(map(str, index))}]" if index else "")
    raise LawError(
        f"{f'at {where}: ' if where else ''}{names[0]} {number(first[index])}, {names[1]} {number(second[index])}"
    )


def _equal(first: Array, second: Array, rtol: float, atol: float) -> Array:
    if rtol or atol:
        return np.asarray(np.isclose(first, second, rtol=rtol, atol=atol, equal_nan=True))
    same = np.asarray(first == second)
    if first.dtype.kind in "fc" and second.dtype.kind in "fc":
        same |= np.isnan(first) & np.isnan(second)
    return same


def needs(is_met: bool, text: str) -> None:
    """Raise LawError with a message unless a condition is met."""
    if not is_met:
        raise LawError(text)

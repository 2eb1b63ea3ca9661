"""Memory layout of arrays, and C expressions of offsets in arrays that are broadcast along some axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

Strides: TypeAlias = tuple[tuple[int, int], ...]
"""(axis, distance of adjacent elements along it, in elements), from the innermost axis in memory to the outermost"""


def joined(axes: Iterable[tuple[int, bool]]) -> list[tuple[int, bool]]:
    """Join consecutive axes along which an array has elements, or is broadcast; leave out axes of size 1.

    Each axis is (size, whether the array has elements along it).
    """
    result: list[tuple[int, bool]] = []
    for size, present in axes:
        if size != 1:
            if result and result[-1][1] == present:
                size *= result.pop()[0]
            result.append((size, present))
    return result


def distances(shape: Sequence[int], order: Iterable[int]) -> Strides:
    """Return the strides of contiguous elements for those axes that are longer than one.

    ``order`` are the axes from the outermost to the innermost in memory.
    """
    step, result = 1, []
    for axis in reversed([*order]):
        if shape[axis] > 1:
            result.append((axis, step))
            step *= shape[axis]
    return tuple(result)


def offset(axes: Iterable[tuple[int, bool]], variable: str, step: int = 1) -> str:
    """Return the offset of an element as a C expression, or "" if it is always 0.

    Args:
        axes: (size, whether the array has elements along the axis), from the outermost to the innermost.
        variable: C variable that counts the elements of all axes.
        step: distance of two elements along the innermost axis along which there are any.
    """
    after, terms = 1, []
    runs = joined(axes)
    for number in range(len(runs) - 1, -1, -1):
        size, present = runs[number]
        if present:
            position = f"{variable} / {after}" if after > 1 else variable
            if number:
                position = f"{position} % {size}"
            if step > 1:
                position = f"({position}) * {step}" if position != variable else f"{variable} * {step}"
            terms.append(position)
            step *= size
        after *= size
    return " + ".join(reversed(terms))

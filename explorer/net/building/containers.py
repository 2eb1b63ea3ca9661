"""Sequences and optionals among a net's values: tuples of elements, and None for an absent value.

Each value of a net is a leaf (an expression or an array), a tuple of leaves, or None. This module flattens and rebuilds
these values. Tuples are never nested, because a file may nest and share plain lists so deeply that visiting all of them
would not end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

EXAMPLE_LENGTH = 2
"""assumed number of elements of a sequence if a net is drawn without inputs"""


def leaves(values: Iterable[Any]) -> list[Any]:
    """Return the leaves of all values in order; an absent value has none."""
    parts: list[Any] = []
    for value in values:
        if isinstance(value, tuple):
            parts.extend(value)
        elif value is not None:
            parts.append(value)
    return parts


def named_leaves(values: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return the leaves of values, each with the name of its value."""
    return [(name, leaf) for name, value in values.items() for leaf in leaves([value])]


def key_of(values: Iterable[Any], key: Callable[[Any], Any]) -> Any:
    """Return a hashable key of ``values``, in which ``key(leaf)`` stands for each leaf."""
    return tuple([
        tuple(map(key, value)) if isinstance(value, tuple) else None if value is None else ("leaf", key(value))
        for value in values
    ])  # fmt: skip


def with_leaves(values: Mapping[str, Any], replaced: Iterable[Any]) -> dict[str, Any]:
    """Return the values with their leaves replaced by ``replaced``, in the order of ``leaves``."""
    following: Iterator[Any] = iter(replaced)
    return {
        name: tuple([next(following) for _ in value])
        if isinstance(value, tuple)
        else None
        if value is None
        else next(following)
        for name, value in values.items()
    }


def each_leaf(name: str, value: Any, function: Callable[[str, Any], Any]) -> Any:
    """Return a value with each leaf replaced by ``function(name, leaf)``; elements are named ``x[0]``, ``x[1]``, …"""
    if value is None:
        return None
    if isinstance(value, tuple):
        return tuple([function(f"{name}[{index}]", element) for index, element in enumerate(value)])
    return function(name, value)

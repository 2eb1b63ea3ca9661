"""Nested containers of expressions: tuples, lists and dicts, taken apart and put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any


def flatten(value: Any) -> tuple[list[Any], Any]:
    """The leaves of nested tuples, lists and dicts in order, and the structure that holds them (hashable)."""
    leaves: list[Any] = []
    return leaves, _take(value, leaves)


def _take(value: Any, leaves: list[Any]) -> Any:
    if isinstance(value, (tuple, list)):
        kind = type(value) if type(value) in (tuple, list) or hasattr(value, "_fields") else tuple
        return kind, tuple(_take(item, leaves) for item in value)
    if isinstance(value, dict):
        return dict, tuple((key, _take(item, leaves)) for key, item in value.items())
    leaves.append(value)
    return None


def unflatten(structure: Any, leaves: Iterable[Any]) -> Any:
    """The nested value of a structure, with these leaves."""
    return _put(structure, iter(leaves))


def _put(structure: Any, leaves: Iterator[Any]) -> Any:
    if structure is None:
        return next(leaves)
    kind, parts = structure
    if kind is dict:
        return {key: _put(part, leaves) for key, part in parts}
    items = [_put(part, leaves) for part in parts]
    return kind(*items) if hasattr(kind, "_fields") else kind(items)


def map_structure(function: Callable[[Any], Any], value: Any) -> Any:
    """The same nested containers with the function's results for leaves."""
    leaves, structure = flatten(value)
    return unflatten(structure, map(function, leaves))

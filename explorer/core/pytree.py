"""Pytrees: nested tuples, lists and dicts of expressions, flattened to leaves and rebuilt from them.

The structure is hashable and contains no leaves, so calls with equally structured arguments share a traced body.
Recursion is safe, because it follows the user's containers and not a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any


class Container:
    """Base class of explorer's containers.

    ``leaves`` are its values, and the hashable ``layout`` rebuilds a container from other leaves. This is not an
    abstract class, because instance checks of abstract classes are several times slower.
    """

    __slots__ = ()
    leaves: Sequence[Any]
    layout: Callable[[list[Any]], Any]


def flatten(value: Any) -> tuple[list[Any], Any]:
    """Return the leaves of nested tuples, lists and dicts in order, and the hashable structure."""
    leaves: list[Any] = []
    return leaves, _flatten_into(value, leaves)


_CONTAINERS = (tuple, list, dict, Container)


def _flatten_into(value: Any, leaves: list[Any]) -> Any:
    if isinstance(value, (tuple, list)):
        # Named tuples are rebuilt from their fields. Other tuple subclasses may not accept an iterable, so they become
        # tuples.
        container = type(value) if type(value) in (tuple, list) or hasattr(value, "_fields") else tuple
        parts: list[Any] = []
        for item in value:  # no Python call per leaf, because there may be thousands of leaves
            if isinstance(item, _CONTAINERS):
                parts.append(_flatten_into(item, leaves))
            else:
                parts.append(None)
                leaves.append(item)
        return container, tuple(parts)
    if isinstance(value, dict):
        return dict, tuple((key, _flatten_into(item, leaves)) for key, item in value.items())
    if isinstance(value, Container):
        leaves.extend(value.leaves)
        return value.layout, (None,) * len(value.leaves)
    leaves.append(value)
    return None


def unflatten(structure: Any, leaves: Iterable[Any]) -> Any:
    """Rebuild the nested value from its structure and its leaves."""
    return _rebuild(structure, iter(leaves))


def _rebuild(structure: Any, leaves: Iterator[Any]) -> Any:
    if structure is None:
        return next(leaves)
    container, parts = structure
    if container is dict:
        return {key: _rebuild(part, leaves) for key, part in parts}
    items = [next(leaves) if part is None else _rebuild(part, leaves) for part in parts]
    return container(*items) if hasattr(container, "_fields") else container(items)


def map_structure(function: Callable[[Any], Any], value: Any) -> Any:
    """Return the same nested containers with ``function`` applied to each leaf."""
    leaves, structure = flatten(value)
    return unflatten(structure, map(function, leaves))

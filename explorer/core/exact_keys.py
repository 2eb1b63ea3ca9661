"""Keys that are equal only if types and bits are equal: 1, 1.0 and True differ, and so do 0.0 and −0.0.

They identify interned operations and traced bodies. With Python's equality, the constants 1 and True, or 0.0 and −0.0,
would become a single operation, and both nodes would get the value of whichever was recorded first.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from explorer.core.shape import Sizes

_PLAIN = frozenset((int, str))
"""types whose values never equal a value of a different type"""
_TUPLES = frozenset((tuple,))
_COMPARED_BY_BITS = frozenset((int, str, bool, type(None)))
"""types whose equal values have equal bits"""

_bits = struct.Struct("<d").pack


def exact(value: Any) -> Any:
    """Return a key for an attribute or argument, hashable if the value is. NaNs with the same bits are equal."""
    cls = type(value)
    if cls in _COMPARED_BY_BITS:
        return cls, value
    if cls is Sizes:
        cls, value = tuple, tuple(value)
    if cls is tuple:  # such tuples often contain many numbers, or pairs of numbers
        kinds = {*map(type, value)}
        if kinds == _TUPLES:
            # Sets of types are built in C, so thousands of numbers need no Python call each.
            kinds = {*map(type, itertools.chain.from_iterable(value))}
        if kinds <= _PLAIN:
            return _PLAIN, value
    if isinstance(value, tuple):
        return cls, tuple([exact(item) for item in value])
    if isinstance(value, np.dtype):
        return cls, value
    if isinstance(value, np.generic):
        return cls, value.dtype, value.tobytes()
    if isinstance(value, float):
        return cls, _bits(value)
    if isinstance(value, complex):
        return cls, _bits(value.real), _bits(value.imag)
    # Use vars, because a plain subclass of a dataclass may have additional fields, which its base's == ignores.
    declared = vars(cls).get("__dataclass_params__")
    if declared is not None and declared.eq and declared.frozen:
        return cls, tuple([exact(getattr(value, item.name)) for item in fields(cls)])
    return cls, value


def attribute_key(value: Any) -> Any:
    """Return a key that compares hashable values, lists and dicts by content, and other objects by identity."""
    if isinstance(value, Mapping):
        return type(value), tuple([(name, attribute_key(item)) for name, item in value.items()])
    if isinstance(value, list | tuple):
        return type(value), tuple(map(attribute_key, value))
    key = exact(value)
    try:
        hash(key)
    except TypeError:
        return _ByIdentity(value)
    return key


class _ByIdentity:
    """Key of an object compared by identity, which keeps the object alive."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)

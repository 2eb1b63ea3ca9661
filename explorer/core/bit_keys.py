"""Keys that are equal only for equal types and bits: 1, 1.0 and True differ, and so do 0.0 and −0.0."""

from __future__ import annotations

import itertools
import struct
from dataclasses import fields
from typing import Any

import numpy as np

from explorer.core.shape import Sizes

_PLAIN = frozenset((int, str))
"""types of values that are equal to none of another type"""
_WHOLE = frozenset((int, str, bool, type(None)))
"""types of values that are equal only where their bits are"""

_bits = struct.Struct("<d").pack


def exact(value: Any) -> Any:
    """A stand-in for an attribute or argument that is hashable where the value is; NaN equals NaN of the same bits."""
    kind = type(value)
    if kind in _WHOLE or isinstance(value, np.dtype):
        return kind, value
    if kind is Sizes:
        kind, value = tuple, tuple(value)
    if kind is tuple:  # often of many numbers, or of pairs of them
        kinds = {*map(type, value)}
        if kinds == {tuple}:
            kinds = {*map(type, itertools.chain.from_iterable(value))}
        if kinds <= _PLAIN:
            return _PLAIN, value
    if isinstance(value, tuple):
        return kind, tuple([exact(item) for item in value])
    if isinstance(value, np.generic):
        return kind, value.dtype, value.tobytes()
    if isinstance(value, float):
        return kind, _bits(value)
    if isinstance(value, complex):
        return kind, _bits(value.real), _bits(value.imag)
    declared = vars(kind).get("__dataclass_params__")
    if declared is not None and declared.eq and declared.frozen:  # equal where its fields are
        return kind, tuple([exact(getattr(value, item.name)) for item in fields(kind)])
    return kind, value

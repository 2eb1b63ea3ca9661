"""Keys of attributes and static arguments: equal for equal types and bits, at any depth of nested tuples."""

from __future__ import annotations

import enum
import itertools
from typing import Any, NamedTuple

import numpy as np

from explorer.core.exact_keys import exact


class Pair(NamedTuple):
    left: Any
    right: Any


class Number(enum.IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


LEAVES: list[Any] = [1, 1.0, True, "1", np.int64(1), np.float32(1), Number.ONE, Text("1"), None, 0, 0.0, -0.0, False]
LEAVES += [
    np.float32(0),
    np.float32(-0.0),
    np.float32("nan"),
    float("nan"),
    -float("nan"),
    1 + 0j,
    complex(1, -0.0),
    b"1",
    (),
]


def nested(leaf: Any) -> list[Any]:
    """Return nested tuples around a value, some with only numbers."""
    return [
        leaf,
        (leaf,),
        ((leaf,),),
        (((leaf,),),),
        (leaf, leaf),
        Pair(leaf, leaf),
        (Pair(leaf, leaf),),
        ((1, 2), (3, leaf)),
        (1, (leaf,)),
        ((leaf,), 1),
        ((), (leaf,)),
    ]


def types_and_bits(value: Any) -> Any:
    """Return the type and bits of a value, recursively."""
    if isinstance(value, tuple):
        return type(value), tuple([types_and_bits(part) for part in value])
    bits = np.asarray(value).tobytes() if isinstance(value, (float, complex, np.generic)) else value
    return type(value), bits


def test_keys_are_equal_if_and_only_if_types_and_bits_are_equal() -> None:
    values = [value for leaf in LEAVES for value in nested(leaf)]
    for one, other in itertools.combinations(values, 2):
        same = exact(one) == exact(other)
        assert same == (types_and_bits(one) == types_and_bits(other)), (one, other)
        assert not same or hash(exact(one)) == hash(exact(other))

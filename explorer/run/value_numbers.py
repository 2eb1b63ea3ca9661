"""Value numbers: hashes by which equal expressions are recognised.

A number is a hash of an expression's operation, its operands' numbers, and the identity and version of the tensors'
storages. It has 128 bits and is salted per process, so that two expressions do not share one by chance.
"""

from __future__ import annotations

import itertools
import os
from array import array as packed
from collections.abc import Iterator
from typing import TypeAlias

from explorer.core.ir.tensor import STORED
from explorer.run.plan_cache import Leaves

Number: TypeAlias = tuple[int, int]
NO_TENSOR = -1
"""stands for the newest tensor of an expression that reads none"""
_SALT = int.from_bytes(os.urandom(7), "little")


def numbers(encoding: bytes, count: int, leaves: Leaves) -> list[Number]:
    """Return the value number of each node of a structure whose tensors have storages of these tokens and versions."""
    first: list[int] = []
    second: list[int] = []
    stored = zip(leaves.tokens, leaves.versions, strict=True)
    tensor = STORED.token
    for operation, operands in _rows(encoding, count):
        if not operands:
            leaf = next(stored) if operation == tensor else ()
            first.append(hash((_SALT, operation, leaf)))
            # Two hashes of 64 bits over different orders: Python's hash of one tuple is too short to rest on.
            second.append(hash((leaf, operation, _SALT)))
        elif len(operands) == 2:
            # Most nodes have two operands, and these tuples are made faster than unpacked ones.
            a, b = operands
            first.append(hash((operation, first[a], first[b])))
            second.append(hash((_SALT, second[a], second[b], operation)))
        else:
            first.append(hash((operation, *[first[operand] for operand in operands])))
            second.append(hash((_SALT, *[second[operand] for operand in operands], operation)))
    return list(zip(first, second, strict=True))


def newest_below(encoding: bytes, count: int, leaves: Leaves) -> list[int]:
    """Return for each node the token of the newest storage that it depends on."""
    newest: list[int] = []
    stored = iter(leaves.tokens)
    tensor = STORED.token
    operations, counts, operands = _columns(encoding, count)
    below = iter(operands)
    for operation, size in zip(operations, counts, strict=True):
        if size == 1:
            newest.append(newest[next(below)])
        elif size == 2:
            first, second = newest[next(below)], newest[next(below)]
            newest.append(first if first > second else second)
        elif size:
            newest.append(max([newest[operand] for operand in itertools.islice(below, size)]))
        else:
            newest.append(next(stored) if operation == tensor else NO_TENSOR)
    return newest


def _columns(encoding: bytes, count: int) -> tuple[list[int], list[int], list[int]]:
    """Return each node's operation token and operand count, then the concatenated operands of all nodes."""
    rows = packed("q")
    rows.frombytes(encoding)
    numbers = rows.tolist()
    return numbers[:count], numbers[count : 2 * count], numbers[2 * count :]


def _rows(encoding: bytes, count: int) -> Iterator[tuple[int, list[int]]]:
    """Yield each node's operation token and its operands."""
    operations, counts, numbers = _columns(encoding, count)
    at = 0
    for operation, operands in zip(operations, counts, strict=True):
        end = at + operands
        yield operation, numbers[at:end]
        at = end

"""Conversion between arrays and the little-endian bytes in files, including dtypes that NumPy lacks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.core.errors import OperandError
from explorer.net.definition.operator_definition import memory_dtype

NARROW_BITS = {"int2": 2, "uint2": 2, "int4": 4, "uint4": 4, "float4_e2m1fn": 4}
"""bits of one element for dtypes with several elements in a byte; the first element is in the lowest bits"""


def stored_bytes(dtype: str, count: int) -> int:
    """Return the size in bytes of ``count`` stored elements of ``dtype``."""
    if dtype in NARROW_BITS:
        return -(-count * NARROW_BITS[dtype] // 8)
    return count * (2 if dtype == "bfloat16" else memory_dtype(dtype).itemsize)


def decode(raw: NDArray[np.uint8], dtype: str) -> NDArray[Any]:
    """Return the elements in raw bytes as a vector; bfloat16 is widened exactly to float32.

    If ``dtype`` is narrower than a byte, all elements in the last byte are included, even unused ones.
    """
    if dtype == "bfloat16":
        # bfloat16 is the upper half of a float32, so appending 16 zero bits is exact
        return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)
    if dtype == "bool":
        # not a view, because bytes other than 0 and 1 would give booleans that equal neither True nor False
        return raw.astype(np.bool_)
    if dtype in NARROW_BITS:
        bits = NARROW_BITS[dtype]
        parts = raw[:, None] >> np.arange(0, 8, bits, dtype=np.uint8) & np.uint8((1 << bits) - 1)
        return parts.reshape(-1).view(memory_dtype(dtype))
    native = memory_dtype(dtype)
    if native.itemsize == 1:
        return raw.view(native)
    array: NDArray[Any] = raw.view(native.newbyteorder("<")).astype(native, copy=False)
    return array


def encode(array: NDArray[Any], dtype: str, name: str) -> NDArray[Any]:
    """Return ``array`` as a little-endian, row-major array in the file's encoding of ``dtype``.

    Raise OperandError if the array has another dtype, or values that ``dtype`` cannot represent.
    """
    native = memory_dtype(dtype)
    if array.dtype.name != native.name:
        raise OperandError(
            f"weight {name!r} is {array.dtype.name}",
            rule=f"the array must be {dtype}, as the definition declares",
            fix="correct the declaration, or convert the array",
        )
    dense = np.ascontiguousarray(array, native).reshape(array.shape)
    if dtype in NARROW_BITS:
        return _packed(dense.reshape(-1).view(np.uint8), NARROW_BITS[dtype])
    if dtype != "bfloat16":
        return dense if native.itemsize == 1 else dense.astype(native.newbyteorder("<"), copy=False)
    bits = dense.view(np.uint32)
    # bfloat16 is the upper half of a float32, so the lower half would be lost
    if np.any(bits & 0xFFFF):
        raise OperandError(
            f"weight {name!r} has values that bfloat16 cannot represent",
            rule="a weight must be representable in its declared dtype",
            fix="declare the weight as float32, or round it first",
        )
    return (bits >> 16).astype("<u2")


def _packed(elements: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """Pack elements of ``bits`` bits into bytes; the first element of a byte is stored in its lowest bits."""
    per_byte = 8 // bits
    padded = np.zeros(-(-elements.size // per_byte) * per_byte, np.uint8)
    padded[: elements.size] = elements & ((1 << bits) - 1)
    rows = padded.reshape(-1, per_byte) << np.arange(0, 8, bits, dtype=np.uint8)
    packed: NDArray[np.uint8] = np.bitwise_or.reduce(rows, axis=1)
    return packed

"""Elements of arrays as files store them: little-endian bytes, among them dtypes that NumPy lacks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def decode(raw: NDArray[np.uint8], dtype: str) -> NDArray[Any]:
    """Return the elements in raw bytes, one axis long; bfloat16 is widened to float32, exactly."""
    if dtype == "bfloat16":
        # bfloat16 is the upper half of a float32: 16 zero bits make it one, without rounding
        return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)
    if dtype == "bool":
        # not a view: a byte other than 0 and 1 would be a boolean that equals neither True nor False
        return raw.astype(np.bool_)
    native: np.dtype[Any] = np.dtype(dtype)
    array: NDArray[Any] = raw.view(native.newbyteorder("<")).astype(native, copy=False)
    return array

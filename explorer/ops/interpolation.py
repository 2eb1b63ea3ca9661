"""Linear interpolation between two tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.ir.examples import Example, real
from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Array
from explorer.ops.base import Elementwise


class Interpolate(Elementwise):
    """a·weight + b·(1 − weight): a where the weight is 1, b where it is 0 (MetaNN: Interpolate)."""

    weight, examples = (
        4,
        (
            Example(real(2, 3), real(2, 3), real(2, 3, low=0.0)),
            Example(real(2, 1), real(3), real()),
            Example(real(), real(2, 2), real(2, low=0.0)),
        ),
    )

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        found = np.result_type(*dtypes)
        if found.kind == "b":
            raise self.refuse_dtypes(dtypes, "operands are numbers", "choose between truth values with ex.where")
        return found

    def kernel(self, out: Array, a: Array, b: Array, weight: Array) -> Array:
        rest = b * np.subtract(1, weight, dtype=np.result_type(weight, out.dtype))
        np.multiply(a, weight, out=out)
        np.add(out, rest, out=out)
        return out

    def gradient(self, g: Expr, y: Expr, a: Expr, b: Expr, weight: Expr) -> tuple[Expr, Expr, Expr]:
        return g * weight, g * (1 - weight), g * (a - b)


interpolate = Interpolate()

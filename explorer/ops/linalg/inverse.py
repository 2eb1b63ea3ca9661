"""Inverses of square matrices.

(ONNX: com.microsoft.Inverse; PNNX: torch.inverse, torch.linalg.inv.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr, Operation, as_operands
from explorer.core.ir.operation_examples import Example, real
from explorer.core.registry import public
from explorer.core.types.tensor_type import AnyType, Array, TensorType
from explorer.ops.base import float_dtype
from explorer.ops.linalg.matmul import matmul, swap

__all__ = ["inverse"]


class Inverse(Operation):
    """Inverses of the matrices in the last two axes. A singular matrix raises RunError when the kernel runs."""

    accumulates = True
    examples = (
        Example(real(1, 1, low=0.5, high=2.0)),
        Example(real(3, 1, 1, low=0.5, high=2.0)),
    )

    def infer(self, x: TensorType) -> TensorType:
        if x.rank < 2 or x.shape[-1] != x.shape[-2]:
            raise self.refuse(
                (x,), "the last two axes must have equal sizes, because only square matrices have an inverse"
            )
        return TensorType(x.shape, float_dtype(x.dtype))

    def kernel(self, out: Array, x: Array) -> Array:
        try:
            np.copyto(out, np.linalg.inv(x.astype(out.dtype, copy=False)))
        except np.linalg.LinAlgError as error:
            raise ValueError("a matrix is singular, so it has no inverse") from error
        return out

    def workspace(self, x: TensorType) -> int:
        return 4 * x.size * self.infer(x).dtype.itemsize

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (-matmul(matmul(swap(y), g), swap(y)),)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return self(x)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 2 * types[0].size * types[0].shape[-1]


@public
def inverse(x: Any) -> Expr:
    """Invert square matrices: (…, n, n) → (…, n, n). Integers become floating.

    A singular matrix raises RunError when the kernel runs, because its values are not known earlier.

    >>> ex.evaluate(ex.inverse(np.array([[2.0, 0.0], [0.0, 4.0]])))
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    return Inverse()(*as_operands((x,)))

"""Reductions and products whose partial results have a wider dtype than the result.

``AccumulationPolicy.dtype`` selects the wider dtype. Wrapping the operation has two advantages over an attribute: no
operation needs code for wider dtypes, and rewrite rules, which match classes, ignore wrapped operations.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.operation_examples import Example, real
from explorer.core.ir.policy_operations import under
from explorer.core.ir.recording_context import state
from explorer.core.types.custom_dtypes import is_floating
from explorer.core.types.tensor_type import AnyType, Array, TensorType
from explorer.ops.accumulation_dtype import AccumulationPolicy
from explorer.ops.linalg.matmul import Matmul
from explorer.ops.reduction.reduce import Mean, Sum


class AccumulatedIn(Operation):
    """Operation whose partial results have a wider dtype; the final result has the operation's own dtype.

    Reductions convert elements as they read them, whereas the operands of matrix products are converted first.
    """

    operation: Operation
    dtype: np.dtype[Any]
    examples: ClassVar[tuple[Example, ...]] = (
        Example(real(2, 3, 4, dtype="float32"), operation=Sum((0, 2)), dtype=np.dtype(np.float64)),
        Example(real(2, 3), operation=Mean((1,), True), dtype=np.dtype(np.float32)),
        Example(real(5, 2, 3, dtype="float32"), real(3, 4), operation=Matmul(), dtype=np.dtype(np.float64)),
    )

    @property
    def label(self) -> str:
        return f"{self.operation.label} in {self.dtype.name}"

    def infer(self, *types: TensorType) -> AnyType:
        return self.operation.type_of(types)

    def kernel(self, out: Array, *operands: Array) -> Array:
        wide = self.partial_dtype(out.dtype)
        if wide == out.dtype:
            result: Array = self.operation.kernel(out, *operands)
            return result
        wide_result = np.empty(out.shape, wide, like=out)
        if self.operation.reduced_axes is None:
            operands = tuple([operand.astype(wide) for operand in operands])
        np.copyto(out, self.operation.kernel(wide_result, *operands), casting="same_kind")
        return out

    @property
    def reduced_axes(self) -> tuple[int, ...] | None:
        return self.operation.reduced_axes

    @property
    def combine_ufunc(self) -> np.ufunc | None:
        return self.operation.combine_ufunc

    def partial_dtype(self, result: np.dtype[Any]) -> np.dtype[Any]:
        """Return the policy's dtype, or the dtype ``result`` if that is wider or not floating."""
        return (
            np.result_type(result, self.dtype)
            if is_floating(result) or result.kind == "c"
            else self.operation.partial_dtype(result)
        )

    def partial_reduce(self, out: Array, x: Array, axes: tuple[int, ...]) -> Any:
        return self.operation.partial_reduce(out, x, axes)

    def finalize(self, out: Array, joined: Array, count: int) -> Any:
        return self.operation.finalize(out, joined, count)

    def gradient(self, upstream: Any, result: Any, *operands: Any) -> tuple[Expr | None, ...]:
        with under({**state.policies, AccumulationPolicy.dtype: AccumulationPolicy.dtype(self.dtype)}):
            return self.operation.gradient(
                upstream, result, *operands
            )  # the gradient's sums accumulate in this dtype too

    def batch(self, size: int, batched: tuple[bool, ...], *operands: Expr) -> Expr:
        with under({**state.policies, AccumulationPolicy.dtype: AccumulationPolicy.dtype(self.dtype)}):
            return self.operation.batch(size, batched, *operands)

    def flops(self, result: AnyType, *types: AnyType) -> int:
        return self.operation.flops(result, *types)

    def workspace(self, *types: TensorType) -> int:
        type_ = self.infer(*types)
        assert isinstance(type_, TensorType)
        read = () if self.operation.reduced_axes is not None else types
        return sum([tensor_type.size for tensor_type in (type_, *read)]) * self.partial_dtype(type_.dtype).itemsize

"""Operation without a batching rule."""

from __future__ import annotations

from typing import Any

import explorer as ex


class Backwards(ex.Operation):
    """Reverse x; the operation cannot be batched."""

    nondifferentiable = "a test"
    unbatchable = "rows would be mixed {together}"
    examples = (ex.Example(ex.real(3)),)

    def infer(self, x: ex.TensorType) -> ex.TensorType:
        return x

    def kernel(self, out: Any, x: Any) -> Any:
        out[...] = x[::-1]
        return out

    def flops(self, result: Any, *types: Any) -> int:
        return 0

"""Copies between devices, each recorded as a node.

No operation copies its operands to another device implicitly, because copies are slow. Users decide when to copy, and
plans show the copies. In the backward pass the gradient is copied back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr, Operation, as_operands
from explorer.core.ir.operation_examples import Example, real
from explorer.core.registry import public
from explorer.core.types.device import Device, as_device, cpu
from explorer.core.types.tensor_type import AnyType, Array, TensorType

__all__ = ["to_device"]


class ToDevice(Operation):
    """Copy of a tensor to another device."""

    device: Device
    changes_device = True
    linear = True
    takes_elements = True
    examples = (Example(real(2, 3), device=cpu), Example(real(), device=cpu))

    def infer(self, x: TensorType) -> TensorType:
        return TensorType(x.shape, x.dtype, self.device)

    def kernel(self, out: Array, x: Array) -> Array:
        np.copyto(out, x)
        return out

    def gradient(self, g: Expr, y: Expr, x: Expr) -> tuple[Expr]:
        return (g if g.device is x.device else to_device(g, x.device),)

    def batch(self, size: int, batched: tuple[bool, ...], x: Expr) -> Expr:
        return self(x)

    def flops(self, result: AnyType, *types: TensorType) -> int:
        return 0

    @property
    def label(self) -> str:
        return f"to {self.device.name}"


@public
def to_device(x: Any, device: Device | str) -> Expr:
    """Copy ``x`` to ``device``, a Device or its name; plans and graphs show the copy.

    >>> ex.to_device(ex.tensor([1.0]), ex.cpu).type.device.name
    'cpu'
    """
    (x,) = as_operands((x,))
    return ToDevice(as_device(device, "to_device"))(x)

"""Optimizer options for any update rule: coupled or decoupled weight decay, and clipping by norm.

They are recorded in the step, like the rule, so the plan fuses and shows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import scope
from explorer.core.types.device import Device, cpu
from explorer.ops.base import cast
from explorer.ops.elementwise.arithmetic import minimum
from explorer.ops.elementwise.unary import sqrt
from explorer.ops.manipulation.device_copy import to_device
from explorer.ops.nn.hyperparameters import NOT_NEGATIVE, Range, check_numbers

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_NORM_EPSILON = 1e-6
"""number that is added to the norm before division, so zero gradients stay zero (torch.nn.utils.clip_grad_norm_)"""


@dataclass(frozen=True)
class GradientOptions:
    """Weight decay and clipping; a value of 0 disables them.

    If the joint Euclidean norm of all gradients exceeds ``clip_norm``, they are scaled down to it. ``weight_decay``
    times the parameter is added to each gradient. With ``decoupled``, each parameter is instead multiplied by
    1 − rate · weight_decay before the rule is applied (AdamW: Loshchilov and Hutter, 2019).
    """

    ranges: ClassVar[Mapping[str, Range]] = {"weight_decay": NOT_NEGATIVE, "clip_norm": NOT_NEGATIVE}
    weight_decay: float = 0.0
    decoupled: bool = False
    clip_norm: float = 0.0

    def __post_init__(self) -> None:
        check_numbers(self, "Optimizer")

    def clipped(self, gradients: Mapping[str, Expr]) -> dict[str, Expr]:
        """Record all gradients by name, scaled down if their joint norm is too large."""
        if not self.clip_norm or not gradients:
            return dict(gradients)
        with scope("clip"):
            return self._clipped(gradients)

    def with_decay(self, gradient: Expr, value: Expr) -> Expr:
        """Record the gradient for the rule, including the decay of ``value`` unless it is decoupled."""
        return gradient + value * self.weight_decay if self.weight_decay and not self.decoupled else gradient

    def decayed(self, value: Expr, rate: Expr) -> Expr:
        """Record the value for the rule, reduced by decoupled decay; ``rate`` has the value's dtype and device."""
        return value * (1.0 - rate * self.weight_decay) if self.decays_values else value

    @property
    def decays_values(self) -> bool:
        """Whether decay changes parameters directly, apart from the rule."""
        return self.decoupled and self.weight_decay > 0

    def _clipped(self, gradients: Mapping[str, Expr]) -> dict[str, Expr]:
        total: Any = 0.0
        for gradient in gradients.values():
            # float64, so no small contribution is lost, and float16 squares do not overflow (at 256).
            widened = gradient if gradient.dtype.itemsize > 2 else cast(gradient, _FLOAT32)
            square = cast((widened * widened).sum(), _FLOAT64)
            total = total + (square if square.device is cpu else to_device(square, cpu))
        factor = minimum(self.clip_norm / (sqrt(total) + _NORM_EPSILON), 1.0)
        factors = scalars(factor, gradients.values())
        return {name: gradient * factors[gradient.dtype, gradient.device] for name, gradient in gradients.items()}


Scalars = Mapping[tuple[Any, Device], Expr]
"""(dtype, device) → the same number with this dtype and on this device"""


def scalars(cpu_scalar: Expr, values: Iterable[Expr]) -> Scalars:
    """Record a float64 scalar on cpu once for each dtype and device of ``values``."""
    recorded: dict[tuple[Any, Device], Expr] = {}
    for dtype, device in dict.fromkeys([(value.dtype, value.device) for value in values]):
        scalar = cast(cpu_scalar, dtype)
        recorded[dtype, device] = scalar if device is cpu else to_device(scalar, device)
    return recorded

"""Numbers of a training step, such as its learning rate, as the updates of parameters read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from explorer.core.ir.expr import Expr
from explorer.core.types.device import Device, cpu
from explorer.ops.base import cast
from explorer.ops.manipulation.device_copy import to_device

Scalars = Mapping[tuple[Any, Device], Expr]
"""the same number by dtype and device"""


def scalars(number: Expr, values: Iterable[Expr]) -> Scalars:
    """Record a float64 scalar of cpu in each dtype and on each device of some values.

    Once for each, not for each value: thousands of parameters usually have one dtype and one device.
    """
    recorded: dict[tuple[Any, Device], Expr] = {}
    for dtype, device in dict.fromkeys([(value.dtype, value.device) for value in values]):
        scalar = cast(number, dtype)
        recorded[dtype, device] = scalar if device is cpu else to_device(scalar, device)
    return recorded

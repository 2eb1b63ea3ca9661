"""Padding modules, and the equivalent function."""

from __future__ import annotations

from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.pnnx.operators.base.arguments import Number
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.signature import Ints
from explorer.ops.manipulation.padding import pad

MODES = {"constant": "constant", "zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
"""NumPy's name of each of torch's modes"""


def padded(x: Expr, mode: str, sides: Ints, value: Any = 0) -> Expr:
    """Pad x; ``sides`` are in torch's order: before and after the last axis, then the second to last, and so on."""
    if mode not in MODES:
        raise OperandError(f"mode={mode!r}", rule=f"the mode must be one of {', '.join(MODES)}")
    if len(sides) % 2 or len(sides) > 2 * x.ndim:
        raise OperandError(
            f"padding {sides} of {x.type}", rule="padding must have two widths for each axis, the last axis first"
        )
    pairs = [(sides[i], sides[i + 1]) for i in range(0, len(sides), 2)]
    widths = (*[(0, 0)] * (x.ndim - len(pairs)), *reversed(pairs))
    return pad(x, widths, MODES[mode], value) if MODES[mode] == "constant" else pad(x, widths, MODES[mode])


@file_operator("F.pad")
def pad_(input: Expr, pad: Ints, mode: str = "constant", value: Number | None = None) -> Expr:
    """Pad the last axes by ``pad``."""
    return padded(input, mode, pad, 0 if value is None else value)


def _register(name: str, mode: str, axes: int) -> None:
    @file_operator(f"nn.{name}{axes}d")
    def module(input: Expr, *, padding: Ints, value: float = 0) -> Expr:
        return padded(input, mode, padding * 2 * axes if len(padding) == 1 else padding, value)

    module.__doc__ = f"Pad the last axes with the mode {mode}."


for _name, _mode in {
    "ZeroPad": "constant", "ConstantPad": "constant", "ReflectionPad": "reflect", "ReplicationPad": "replicate",
    "CircularPad": "circular",
}.items():  # fmt: skip
    for _axes in (1, 2, 3):
        _register(_name, _mode, _axes)

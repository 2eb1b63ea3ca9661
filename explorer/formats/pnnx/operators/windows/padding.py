"""Padding: modules and the function of the same meaning."""

from __future__ import annotations

from typing import Any

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.formats.pnnx.operators.base.table import file_operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.manipulation.padding import pad

MODES = {"constant": "constant", "zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
"""torch's words for NumPy's"""


def padded(op: OperatorContext, mode: str, sides: tuple[int, ...], value: Any = 0) -> Expr:
    """The first operand padded; sides are torch's: before and after for the last axis, then for the one before it."""
    x = op.x
    if mode not in MODES:
        raise OperandError(f"mode={mode!r}", rule=f"{op.definition.type}: the mode must be one of {', '.join(MODES)}")
    if len(sides) % 2 or len(sides) > 2 * x.ndim:
        raise OperandError(
            f"padding {sides} of {x.type}", rule="there must be two widths for each axis, the last axis first"
        )
    pairs = [(sides[i], sides[i + 1]) for i in range(0, len(sides), 2)]
    widths = (*[(0, 0)] * (x.ndim - len(pairs)), *reversed(pairs))
    return pad(x, widths, MODES[mode], value) if MODES[mode] == "constant" else pad(x, widths, MODES[mode])


@file_operator("F.pad")
def pad_(op: OperatorContext) -> Expr:
    """Elements before and after those of the last axes."""
    value = op.argument("value", None)
    if not isinstance(value, (bool, int, float, complex, type(None))):
        raise OperandError(f"value={value!r}", rule="F.pad: value must be a number")
    return padded(op, op.argument("mode", "constant"), op.integers("pad"), 0 if value is None else value)


def _enter(name: str, mode: str) -> None:
    @file_operator(*[f"nn.{name}{axes}d" for axes in (1, 2, 3)])
    def module(op: OperatorContext) -> Expr:
        axes = int(op.definition.type[-2])
        sides = op.integers("padding")
        return padded(op, mode, sides * 2 * axes if len(sides) == 1 else sides, op.number("value", 0))

    module.__doc__ = f"Elements before and after those of the last axes: {mode}."


for _name, _mode in {
    "ZeroPad": "constant", "ConstantPad": "constant", "ReflectionPad": "reflect", "ReplicationPad": "replicate",
    "CircularPad": "circular",
}.items():  # fmt: skip
    _enter(_name, _mode)

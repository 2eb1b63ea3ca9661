"""Einstein's sums."""

from __future__ import annotations

from explorer.core.expr import Expr
from explorer.formats.onnx.operators.table import operator
from explorer.formats.onnx.operators.values import members
from explorer.net.context import OperatorContext
from explorer.ops.einsum import einsum


@operator("Einsum")
def einsum_(op: OperatorContext) -> Expr:
    """The sum that ``equation`` writes; pairs of operands become matrix products."""
    return einsum(str(op.argument("equation")), *members(op, "Inputs"))

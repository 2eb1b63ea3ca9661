"""Einstein's sums."""

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.formats.onnx.operators.operator_inputs import members
from explorer.formats.onnx.operators.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.ops.linalg.einsum import einsum


@operator("Einsum")
def einsum_(op: OperatorContext) -> Expr:
    """The sum that ``equation`` writes; pairs of operands become matrix products."""
    return einsum(str(op.argument("equation")), *members(op, "Inputs"))

"""IF and WHILE: inner graphs as branches and turns."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import scope
from explorer.formats.tflite.operators.table import operator
from explorer.net.operators.context import OperatorContext
from explorer.net.operators.known_inputs import is_given, is_known, members, required, value_of
from explorer.ops.base import reshape
from explorer.ops.control.cond import cond
from explorer.ops.control.while_loop import while_loop


@operator("IF")
def if_(op: OperatorContext) -> Any:
    """A choice between two graphs of the operands."""
    condition = _truth(op, required(op, "cond"))
    values = members(op, "inputs") if is_given(op, "inputs.0") else ()
    if is_known(condition):
        taken = bool(value_of(condition).all())
        name = "then" if taken else "else"
        with scope(f"{name}: cond is always {taken}", "file"):
            return tuple(op.body(name)(values))
    then, otherwise = op.body("then"), op.body("else")
    return tuple(
        cond(
            condition,
            lambda *values: tuple(then(values)),
            lambda *values: tuple(otherwise(values)),
            *values,
            name=op.definition.name,
        )
    )


@operator("WHILE")
def while_(op: OperatorContext) -> Any:
    """Turns of the graph body over the operands, as long as the graph cond gives True."""
    goes_on, turn = op.body("cond"), op.body("body")

    def again(state: tuple[Expr, ...]) -> Expr:
        (truth,) = goes_on(state)
        return _truth(op, truth)

    return tuple(
        while_loop(again, lambda state: tuple(turn(state)), tuple(members(op, "inputs")), name=op.definition.name)
    )


def _truth(op: OperatorContext, value: Expr) -> Expr:
    if value.size != 1 or value.dtype != np.bool_:
        raise OperandError(f"cond is {value.type}", rule=f"{op.definition.type}: the condition must be one truth value")
    return reshape(value, ())

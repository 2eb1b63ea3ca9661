"""Operators with inner graphs: branches, loop bodies, and decompositions."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import scope
from explorer.formats.tflite.operators.table import operator
from explorer.net.operators.context import BuildBody, OperatorContext
from explorer.net.operators.known_inputs import is_known, value_of
from explorer.net.operators.signature import Unused
from explorer.ops.base import reshape
from explorer.ops.control.cond import cond as choose
from explorer.ops.control.while_loop import while_loop


@operator("IF")
def if_(op: OperatorContext, cond: Expr, *inputs: Expr) -> Any:
    """Return the results of the graph ``then`` for ``inputs`` if ``cond`` is true, else of the graph ``else``."""
    condition = _scalar(cond)
    if is_known(condition):
        taken = bool(value_of(condition).all())
        name = "then" if taken else "else"
        with scope(f"{name}: cond is always {taken}", "file"):
            return tuple(op.body(name)(inputs))
    then, otherwise = op.body("then"), op.body("else")
    return tuple(
        choose(
            condition,
            lambda *values: tuple(then(values)),
            lambda *values: tuple(otherwise(values)),
            *inputs,
            name=op.definition.name,
        )
    )


@operator("WHILE")
def while_(op: OperatorContext, *inputs: Expr, cond: BuildBody, body: BuildBody) -> Any:
    """Repeat the graph ``body`` while the graph ``cond`` returns True; return the last values of ``inputs``."""

    def condition(state: tuple[Expr, ...]) -> Expr:
        (result,) = cond(state)
        return _scalar(result)

    return tuple(while_loop(condition, lambda state: tuple(body(state)), inputs, name=op.definition.name))


@operator("STABLEHLO_COMPOSITE")
def composite(
    *inputs: Expr,
    decomposition: BuildBody,
    name: Unused = "",  # a label: the graph computes the results
    version: Unused = 1,
    composite_attributes: Unused = (),
    composite_attributes_format: Unused = 0,
) -> Any:
    """Return the results of the graph ``decomposition``, which computes the operator from simpler ones."""
    return tuple(decomposition(inputs))


def _scalar(value: Expr) -> Expr:
    if value.size != 1 or value.dtype != np.bool_:
        raise OperandError(f"cond is {value.type}", rule="the condition must be one boolean")
    return reshape(value, ())

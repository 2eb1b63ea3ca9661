"""Handles of registered expressions, which provide the values once their plan has run.

A handle outlives the plan's registrations. It contains the value, or the reason why there is none. Later plans may
reuse the value while the handle exists.
"""

from __future__ import annotations

from typing import Any

from explorer.core.attributes import as_written
from explorer.core.errors import OperandError, StateError, class_text
from explorer.core.ir.expr import Expr
from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import Array


def expression_of(value: Any) -> Expr:
    """Return the expression for data; raise OperandError for a value that is neither data nor an expression."""
    expr = as_written(value)
    if not isinstance(expr, Expr):
        raise OperandError(
            f"register of {class_text(expr)}",
            rule="the argument must be an expression",
            fix="register each: handles = [plan.register(y) for y in results]"
            if isinstance(expr, (list, tuple))
            else "wrap it: ex.tensor(value)",
        )
    return expr


class Handle:
    """Value of a registered expression; ``data()`` returns it once the plan has run.

    >>> plan = ex.EvalPlan()
    >>> handle = plan.register(ex.tensor([1.0, 2.0]) * 2)
    >>> handle
    <handle of multiply: waiting>
    >>> plan = plan.eval()
    >>> handle.data()
    array([2., 4.])
    """

    __slots__ = ("_failure", "_value", "expr")

    def __init__(self, expr: Expr) -> None:
        self.expr = expr
        self._value: Array | None = None
        self._failure = ""

    def data(self) -> Array:
        """Return the value as a read-only array; raise StateError before eval(), or if the run failed."""
        if self._failure:
            raise StateError(
                f"the value of {self.expr!r}, whose run ended with {self._failure}",
                rule="the run must succeed; a failed one clears the registrations",
                fix="handle = plan.register(expression), then plan.eval()",
            )
        if self._value is None:
            device = self.expr.type.device
            hint = "" if device is cpu else f"; eval_register() registered in ex.default_plan({device.name})"
            raise StateError(
                f"the value of {self.expr!r} before its evaluation",
                rule="the plan must run before its handles are read",
                fix=f"call plan.eval() first{hint}",
            )
        return self._value

    def __repr__(self) -> str:
        return f"<handle of {self.expr.operation.label}: {'evaluated' if self._value is not None else 'waiting'}>"

"""Handles: promises of values, kept when a plan has run."""

from __future__ import annotations

from explorer.core.errors import StateError
from explorer.core.ir.expr import Expr
from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import Array


class Handle:
    """A promise of a value: ``data()`` gives it once the plan has run."""

    __slots__ = ("_failure", "_value", "expr")

    def __init__(self, expr: Expr) -> None:
        self.expr = expr
        self._value: Array | None = None
        self._failure = ""

    def data(self) -> Array:
        """The value, which nobody can write to; raises StateError before eval(), or when it failed."""
        if self._failure:
            raise StateError(
                f"the value of {self.expr!r}, whose run ended with {self._failure}",
                rule="a run that fails gives no values and empties the registrations",
                fix="register the expression again: handle = plan.register(expression), then plan.eval()",
            )
        if self._value is None:
            device = self.expr.type.device
            own = "" if device is cpu else f"; eval_register() registered in ex.default_plan({device.name})"
            raise StateError(
                f"the value of {self.expr!r} before its evaluation",
                rule="a handle has a value once its plan has run",
                fix=f"call plan.eval() first{own}",
            )
        return self._value

    def __repr__(self) -> str:
        return f"<handle of {self.expr.operation.label}: {'evaluated' if self._value is not None else 'waiting'}>"

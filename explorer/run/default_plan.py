"""The default plans of a thread, one for each device, and evaluation by them."""

from __future__ import annotations

import threading
from typing import Any

from explorer.core.ir.expr import Expr
from explorer.core.pytree import flatten, unflatten
from explorer.core.types.device import Device, check_device, cpu
from explorer.run.evalplan import EvalPlan
from explorer.run.handle import Handle


class _Default(threading.local):
    def __init__(self) -> None:
        self.plans: dict[Device, EvalPlan] = {}


_default = _Default()


def default_plan(device: Device = cpu) -> EvalPlan:
    """The thread's own plan of a device, which ``expression.eval_register()`` registers in."""
    check_device(device)
    if device not in _default.plans:
        _default.plans[device] = EvalPlan(device=device, recall=True)
    return _default.plans[device]


def eval_register(value: Any) -> Handle:
    """Register an expression, or data, in the thread's default plan of its device (MetaNN: EvalRegister)."""
    expr = value.__expr__() if hasattr(type(value), "__expr__") else value
    return default_plan(expr.type.device if isinstance(expr, Expr) else cpu).register(expr)


def evaluate(value: Any, **options: Any) -> Any:
    """The value of an expression, or of every expression in nested tuples, lists and dicts: read-only arrays.

    NumPy makes none of them writable, since later evaluations may hand them out again; write to ``result.copy()``.
    All of them are evaluated in the thread's default plan, together with what ``eval_register()`` registered there, and
    taken again while somebody holds the result (MetaNN: Evaluate). With ``options``, which are those of EvalPlan, they
    have a plan of their own. What is no expression stays.
    """
    leaves, structure = flatten(value)
    expressions = {
        place: leaf if isinstance(leaf, Expr) else leaf.__expr__()
        for place, leaf in enumerate(leaves)
        if isinstance(leaf, Expr) or hasattr(type(leaf), "__expr__")
    }
    if options:
        leaves = _evaluated(leaves, expressions, EvalPlan(**{"record": "off", **options}))
        return unflatten(structure, leaves)
    devices = dict.fromkeys([expr.type.device for expr in expressions.values()])
    for device in devices:
        own = expressions
        if len(devices) > 1:
            own = {place: expr for place, expr in expressions.items() if expr.type.device is device}
        leaves = _evaluated(leaves, own, _idle_plan(device))
    return unflatten(structure, leaves)


def _evaluated(leaves: list[Any], expressions: dict[int, Expr], plan: EvalPlan) -> list[Any]:
    """Leaves with the values of these expressions in their places."""
    handles = [plan.register(expr) for expr in expressions.values()]
    plan.eval()
    values = [*leaves]
    for place, handle in zip(expressions, handles, strict=True):
        values[place] = handle.data()
    return values


def _idle_plan(device: Device) -> EvalPlan:
    """The thread's default plan; another one for a kernel that evaluates while it runs."""
    found = default_plan(device)
    return EvalPlan(device=device, recall=True) if found.running else found

"""The default plans of a thread, one for each device, and evaluation by them."""

from __future__ import annotations

import threading
from typing import Any

from explorer.core.device import Device, check_device, cpu
from explorer.core.expr import Expr
from explorer.core.structure import flatten, unflatten
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
    handles: dict[int, Handle] = {}
    expressions = {
        place: leaf.__expr__() if hasattr(type(leaf), "__expr__") else leaf
        for place, leaf in enumerate(leaves)
        if isinstance(leaf, Expr) or hasattr(type(leaf), "__expr__")
    }
    own = EvalPlan(**{"record": "off", **options}) if options else None
    for device in dict.fromkeys([expr.type.device for expr in expressions.values()]):
        evaluation = own or _idle_plan(device)
        for place, expr in expressions.items():
            if own is not None or expr.type.device is device:
                handles[place] = evaluation.register(expr)
        evaluation.eval()
        if own is not None:
            break
    return unflatten(
        structure, [handles[place].data() if place in handles else leaf for place, leaf in enumerate(leaves)]
    )


def _idle_plan(device: Device) -> EvalPlan:
    """The thread's default plan; another one for a kernel that evaluates while it runs."""
    found = default_plan(device)
    return EvalPlan(device=device, recall=True) if found.running else found

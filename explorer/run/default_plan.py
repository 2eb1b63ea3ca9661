"""Default plans of a thread, one per device, and evaluation with them.

With default plans, `ex.evaluate` and the methods of expressions need no explicit plan. Each thread has its own, since
only one thread at a time may run a plan. Each device has its own, since a plan's results are on its device.
"""

from __future__ import annotations

import threading
from typing import Any, Unpack, overload

from explorer.core.argument_checks import named, options_of
from explorer.core.attributes import as_written, stands_for_expression
from explorer.core.ir.expr import Expr
from explorer.core.pytree import flatten, unflatten
from explorer.core.types.device import Device, check_device, cpu
from explorer.core.types.tensor_type import Array
from explorer.run.evalplan import EvalPlan, PlanOptions
from explorer.run.handle import Handle


class _Default(threading.local):
    """Default plans of one thread, keyed by device."""

    def __init__(self) -> None:
        self.plans: dict[Device, EvalPlan] = {}


_default = _Default()


@named
def default_plan(device: Device = cpu) -> EvalPlan:
    """Return the current thread's plan for ``device``.

    ``expression.eval_register()`` registers expressions in this plan.

    >>> ex.default_plan() is ex.default_plan()
    True
    """
    check_device(device)
    if device not in _default.plans:
        _default.plans[device] = EvalPlan(device=device, recall=True)
    return _default.plans[device]


def eval_register(value: Any) -> Handle:
    """Register an expression, or data, in the thread's default plan for its device (MetaNN: EvalRegister).

    >>> first, second = ex.eval_register(ex.tensor([1.0]) + 1), ex.eval_register(ex.tensor([2.0]) + 1)
    >>> plan = ex.default_plan().eval()
    >>> first.data(), second.data()
    (array([2.]), array([3.]))
    """
    expr = as_written(value)
    return default_plan(expr.type.device if isinstance(expr, Expr) else cpu).register(expr)


@overload
def evaluate(value: Expr, **options: Unpack[PlanOptions]) -> Array: ...


@overload
def evaluate(value: Any, **options: Unpack[PlanOptions]) -> Any: ...


@options_of(PlanOptions)
def evaluate(value: Any, **options: Unpack[PlanOptions]) -> Any:
    """Evaluate an expression, or every expression in nested tuples, lists and dicts; return read-only arrays.

    The results cannot be made writable, because later evaluations may return the same arrays; modify ``result.copy()``
    instead. All expressions are evaluated in the thread's default plan, together with the expressions registered by
    ``eval_register()``. Results are reused while references to them exist (MetaNN: Evaluate). If ``options`` (the
    options of EvalPlan) are given, a separate plan is used. Values that are not expressions are returned unchanged.

    >>> x = ex.tensor([1.0, 2.0])
    >>> ex.evaluate({"twice": 2 * x, "sum": x.sum()})
    {'twice': array([2., 4.]), 'sum': array(3.)}
    """
    leaves, structure = flatten(value)
    expressions = {
        index: leaf if isinstance(leaf, Expr) else as_written(leaf)
        for index, leaf in enumerate(leaves)
        if isinstance(leaf, Expr) or stands_for_expression(leaf)
    }
    if options:
        settings: PlanOptions = {"record": "off", **options}
        leaves = _evaluated(leaves, expressions, EvalPlan(**settings))
        return unflatten(structure, leaves)
    devices = dict.fromkeys([expr.type.device for expr in expressions.values()])
    # A default plan belongs to one device, so expressions are evaluated device by device.
    for device in devices:
        on_device = expressions
        if len(devices) > 1:
            on_device = {index: expr for index, expr in expressions.items() if expr.type.device is device}
        leaves = _evaluated(leaves, on_device, _idle_plan(device))
    return unflatten(structure, leaves)


def _evaluated(leaves: list[Any], expressions: dict[int, Expr], plan: EvalPlan) -> list[Any]:
    """Return ``leaves`` with each expression replaced by its value."""
    if not expressions:
        return leaves
    # all at once, because there may be thousands
    registered: Handle | tuple[Handle, ...] = plan.register(*expressions.values())
    handles = registered if isinstance(registered, tuple) else (registered,)
    plan.eval()
    values = [*leaves]
    for index, handle in zip(expressions, handles, strict=True):
        values[index] = handle.data()
    return values


def _idle_plan(device: Device) -> EvalPlan:
    """Return the thread's default plan, or a new plan if the default plan is running.

    The default plan is running if one of its kernels evaluates an expression.
    """
    default = default_plan(device)
    return EvalPlan(device=device, recall=True) if default.running else default

"""Program of which recording and planning are measured."""

from __future__ import annotations

from typing import Any

import numpy as np

import explorer as ex


def program(tanh: Any, x: Any, count: int) -> Any:
    """Return a chain of additions, products and tanh, in which every third node also reads the input."""
    y = x
    for index in range(count // 3):
        y = tanh(y * x + x) if index % 2 else tanh(x + y) * y
    return y


def record(count: int) -> ex.Expr:
    """Record in explorer: operations, types, scope and line of every node."""
    result: ex.Expr = program(ex.tanh, ex.tensor(np.ones(8, np.float32)), count)
    return result


def prepare(root: ex.Expr) -> None:
    """Plan in explorer: every pass, every decision."""
    plan = ex.EvalPlan()
    plan.register(root)
    plan.prepare()

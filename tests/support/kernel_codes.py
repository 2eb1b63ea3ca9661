"""Plans with compiled kernels, their C code, and the reasons why kernels have none."""

from __future__ import annotations

from typing import Any

import explorer as ex
from explorer.plan.codegen.kernel_code import KernelCode
from explorer.plan.planner import Plan


def planned(roots: ex.Expr | list[ex.Expr], **options: Any) -> ex.EvalPlan:
    """Return the prepared plan of an expression, or of several, with native kernels."""
    plan = ex.EvalPlan(kernels="native", **options)
    for root in roots if isinstance(roots, list) else [roots]:
        plan.register(root)
    return plan.prepare()


def codes(root: ex.Expr | list[ex.Expr], **options: Any) -> list[KernelCode]:
    """Return the code of the kernels of an expression, or of several."""
    plan: Plan = planned(root, **options).planned
    return [kernel.code for kernel in plan.schedule.kernels if kernel.code is not None]


def declined(root: ex.Expr | list[ex.Expr], **options: Any) -> list[str]:
    """Return the codes of the declined decisions of the stage codegen."""
    recording = planned(root, **options).recording
    return [row.code for row in recording.decisions if row.rule == "CompiledLoop" and row.verdict == "declined"]

"""Errors of failed kernels, with the operation, its operands and the user's line.

A kernel only knows arrays, so this information is added here for every executor. The kernel's own error becomes the
cause of the new error.
"""

from __future__ import annotations

from explorer.core.errors import ExplorerError, RunError
from explorer.core.ir.expr import Expr
from explorer.plan.planner import Plan
from explorer.run.kernels.runners import Runner

_KINDS = {"file": "operator", "layer": "layer"}
"""kind of a box → word for this kind in messages"""


def failure(planned: Plan, index: int, runner: Runner, error: Exception, failed: Expr | None = None) -> RunError:
    """Return the error for a failed kernel, with the operation, its operand types, its box and the user's line.

    The operation is ``failed``, or else the one stored by the runner.
    """
    kernel = planned.schedule.kernels[index]
    failed = getattr(runner, "failed", None) if failed is None else failed
    node = kernel.result if failed is None else failed
    operand_types = ", ".join([repr(operand.type) for operand in planned.graph.inputs[node.uid]])
    location = node.location
    where = f" recorded at {location.where} line {location.line}" if location is not None else ""
    where += f": {location.text}" if location is not None and location.text else ""
    # Eight operations suffice to find a kernel in the panel; a fused chain may have hundreds.
    names = " · ".join([member.operation.label for member in kernel.nodes[:8]]) + " · …" * (len(kernel.nodes) > 8)
    fused = f" (in the kernel {names})" if len(kernel.nodes) > 1 else ""
    cause, rule, fix = (
        (error.given, error.rule, error.fix) if isinstance(error, ExplorerError) else (str(error), "", "")
    )
    message = f"{type(error).__name__}: {cause}" if cause else type(error).__name__
    description = f"{node.operation.label} of ({operand_types}){fused}{_box(node)}{where}"
    return RunError(f"{description}: {message}", rule=rule, fix=fix)


def _box(node: Expr) -> str:
    """Return part of a sentence that names the innermost layer, or operator of a net, that contains a node."""
    box = node.scope
    while box is not None and not (box.kind in _KINDS and box.type):
        box = box.parent
    return "" if box is None else f" in the {_KINDS[box.kind]} {box.name!r} ({box.type})"

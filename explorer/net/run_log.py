"""The log of a net's run, for the standard library's ``logging``: each operator with its shapes and its time.

``Net.run`` makes one only where the logger lets DEBUG through. It watches a run from outside, so that runs without a
log pay nothing, and the program that runs is the same one.
"""

from __future__ import annotations

import logging
from time import perf_counter_ns

from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import Scope
from explorer.core.types.custom_dtypes import dtype_name
from explorer.core.types.tensor_type import AnyType, TupleType
from explorer.net.building.builder import NetBuilder
from explorer.run.execution.program import Program

_logger = logging.getLogger("explorer.net")


class RunLog:
    """An observer of a run that logs a line a kernel: the operators that it computes, their operands, result, time."""

    def __init__(self, program: Program, builder: NetBuilder) -> None:
        operators = builder.definition.operators
        self._kernels = program.planned.schedule.kernels
        self._operators = {id(builder.scope(operator)): operator.name for operator in operators}
        self._began = [0] * len(self._kernels)

    def before_kernel(self, index: int) -> None:
        """Note when a kernel begins."""
        self._began[index] = perf_counter_ns()

    def after_kernel(self, index: int) -> None:
        """Log a kernel that has run."""
        micros = (perf_counter_ns() - self._began[index]) / 1000
        kernel = self._kernels[index]
        names = dict.fromkeys(self._name(node) for node in kernel.nodes)
        operands = ", ".join(_text(node.type) for node in kernel.reads) or "nothing"
        _logger.debug("%s: %s → %s, %.1f µs", " + ".join(names), operands, _text(kernel.result.type), micros)

    def _name(self, node: Expr) -> str:
        """The operator that recorded a node, quoted; the node's operation where no operator did."""
        scope: Scope | None = node.scope
        while scope is not None and id(scope) not in self._operators:
            scope = scope.parent
        return repr(self._operators[id(scope)]) if scope is not None else node.operation.label


def _text(type_: AnyType) -> str:
    if isinstance(type_, TupleType):
        return f"({', '.join(map(_text, type_.parts))})"
    return f"{dtype_name(type_.dtype)} {type_.shape}"


def run_log(program: Program, builder: NetBuilder) -> RunLog | None:
    """The log of a run; None where the logger "explorer.net" leaves out DEBUG."""
    return RunLog(program, builder) if _logger.isEnabledFor(logging.DEBUG) else None

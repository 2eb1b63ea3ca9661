"""Kernel whose operations run one after another on whole arrays: rows that C code computes if there is a compiler."""

from __future__ import annotations

from typing import Any

from explorer.core.ir.expr import Expr, kernel_of
from explorer.core.types.device import cpu
from explorer.plan.schedule.schedule import Kernel
from explorer.run.kernels.runners import Operands, Values, copy_into
from explorer.run.runtime.memory import allocate


class InSequence:
    """Operations of a kernel, of which each computes its whole result; the last one writes into planned memory."""

    def __init__(self, kernel: Kernel, operands: Operands, slots: dict[int, int], out: Any) -> None:
        self._kernel, self._out = kernel, out
        self._steps = [
            (node, kernel_of(node.operation, cpu, node.type, *[each.type for each in operands(node)]), operands(node))
            for node in kernel.nodes
        ]
        self._reads = [(read.uid, slots[read.uid]) for read in kernel.reads]
        self.failed: Expr | None = None
        """the operation that raised an error in the last run"""

    def __call__(self, values: Values) -> Any:
        """Compute the result from the table of values."""
        self.failed = None
        result = self._kernel.result
        known = {uid: values[slot] for uid, slot in self._reads}
        for node, function, operands in self._steps:
            memory = self._out if node is result else None
            if memory is None:
                memory = allocate(node.type, node is result and self._kernel.channels_last)
            try:
                known[node.uid] = copy_into(memory, function(memory, *[known[each.uid] for each in operands]))
            except Exception:
                self.failed = node
                raise
        return known[result.uid]

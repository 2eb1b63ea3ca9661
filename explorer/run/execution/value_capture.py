"""Watching a run: every value is summarised as it is made, those too that fusion removed or a batch holds."""

from __future__ import annotations

from typing import Any

from explorer.record import Summary
from explorer.run.execution.program import Program
from explorer.run.execution.value_summary import summarize


class Watch:
    """Summaries of all values by uid; what is inside a kernel is computed for it, each by its own kernel.

    Executors call ``before`` and ``after`` on the thread that runs the kernel, outside of its time.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._kernels = program.planned.schedule.kernels
        self.found: dict[int, Summary] = {}
        self._rows: dict[int, list[tuple[int, int]]] = {}
        """uid of a value → the uids of nodes whose values are its members, and their indices"""
        graph = program.planned.graph
        for uid, (whole, index) in graph.rows.items():
            self._rows.setdefault(graph.resolve(whole).uid, []).append((uid, index))
        for leaf in program.planned.schedule.leaves:
            self._note(leaf)

    def before(self, index: int) -> None:
        """The kernel of this number is about to run: its operands are there, and may be written over."""
        kernel = self._kernels[index]
        if len(kernel.nodes) == 1:
            return
        program, inputs = self._program, self._program.planned.graph.inputs
        made: dict[int, Any] = {}
        for node in kernel.nodes[:-1]:
            operands = [
                made[o.uid] if o.uid in made else program.values[program.slots[o.uid]] for o in inputs[node.uid]
            ]
            made[node.uid] = node.operation.compute(*operands)
            self._tell(node.uid, made[node.uid])

    def after(self, index: int) -> None:
        """The kernel of this number has run: its result is there."""
        self._note(self._kernels[index].result)

    def _note(self, node: Any) -> None:
        value = self._program.values[self._program.slots[node.uid]]
        if value is not None and not isinstance(value, tuple):
            self._tell(node.uid, node.type.device.read(value))

    def _tell(self, uid: int, value: Any) -> None:
        self.found[uid] = summarize(value)
        for row, index in self._rows.get(uid, ()):
            self.found[row] = summarize(value[index])

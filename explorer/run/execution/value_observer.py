"""Observer of values: hands on each value of a run as it is computed, those inside fused kernels too.

Values are seen while they are in memory: keeping them all would undo the plan of the memory, whose places are used
again as the run goes on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from explorer.core.ir.expr import Expr
from explorer.core.ir.kernel_registry import kernel_of
from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import Array, TensorType
from explorer.run.execution.program import Program


class ValueObserver(ABC):
    """Observer of all values by uid; those inside a fused kernel are computed separately, each by its own kernel.

    Executors call ``before_kernel`` and ``after_kernel`` on the thread that runs the kernel, outside of its measured
    time.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._kernels = program.planned.schedule.kernels
        self._rows: dict[int, list[tuple[int, int]]] = {}
        """uid of a batched value → (uid, index) of the nodes that are its rows"""
        graph = program.planned.graph
        for uid, (whole, index) in graph.batch_member_of.items():
            self._rows.setdefault(graph.resolve(whole).uid, []).append((uid, index))
        for leaf in program.planned.schedule.leaves:
            self._see(leaf)

    @abstractmethod
    def value(self, uid: int, value: Array) -> None:
        """Take a value, which is valid during the call alone."""

    def before_kernel(self, index: int) -> None:
        """Hand on the values inside a kernel that is about to run, while its operands are valid."""
        kernel = self._kernels[index]
        if len(kernel.nodes) == 1:
            return
        program, inputs = self._program, self._program.planned.graph.inputs
        values_inside: dict[int, Any] = {}
        # Before the kernel runs, since it may write over its operands.
        for node in kernel.nodes[:-1]:
            operands = [
                values_inside[o.uid] if o.uid in values_inside else program.values[program.slots[o.uid]]
                for o in inputs[node.uid]
            ]
            values_inside[node.uid] = _computed(node, operands)
            self._hand_on(node.uid, node.type.device.read(values_inside[node.uid]))

    def after_kernel(self, index: int) -> None:
        """Hand on the result of a kernel."""
        self._see(self._kernels[index].result)

    def _see(self, node: Expr) -> None:
        value = self._program.values[self._program.slots[node.uid]]
        # Outputs of a tuple are seen as items, one by one. None is a constant that was dropped after its last reader.
        if value is not None and not isinstance(value, tuple):
            self._hand_on(node.uid, node.type.device.read(value))

    def _hand_on(self, uid: int, value: Any) -> None:
        self.value(uid, value)
        for row, index in self._rows.get(uid, ()):
            self.value(row, value[index])


def _computed(node: Expr, operands: list[Any]) -> Any:
    """Return the value of a node inside a kernel, computed by its own kernel on its device."""
    type_ = node.type
    if type_.device is cpu or not isinstance(type_, TensorType):
        return node.operation.compute(*operands)
    with type_.device.switch_to_device():
        memory = type_.device.empty(type_.shape, type_.dtype)
        result = kernel_of(node.operation, type_.device)(memory, *operands)
    return memory if result is None else result

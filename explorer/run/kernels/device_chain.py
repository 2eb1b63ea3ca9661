"""Elementwise chains on a device: operations one after the other, over registers in the device's memory.

The device decides how it computes an operation, so that nothing is cut into blocks. Values between operations share as
few arrays as on cpu, and these are freed with the kernel.
"""

from __future__ import annotations

from typing import Any

from explorer.core.ir.expr import Expr
from explorer.core.ir.kernel_registry import kernel_of, kernels
from explorer.core.types.tensor_type import TensorType
from explorer.plan.schedule.blocked_kernel import RESULT
from explorer.plan.schedule.schedule import Kernel
from explorer.run.kernels.runners import Operands, Values
from explorer.run.runtime.device_runners import check_shapes, kept_in


class DeviceChain:
    """Chain of elementwise operations on one device."""

    def __init__(self, kernel: Kernel, operands: Operands, slots: dict[int, int], out: Any = None) -> None:
        type_, blocks = kernel.result.type, kernel.blocks
        assert isinstance(type_, TensorType)
        assert blocks is not None
        self._type, self._device, self._registers = type_, type_.device, blocks.registers
        self._out = out
        """memory of the result; None allocates it in each run"""
        self.failed: Expr | None = None
        """the operation that raised in the last run"""
        self._reads = [slots[read.uid] for read in kernel.reads]
        place_of = {read.uid: place for place, read in enumerate(kernel.reads)}
        result = len(place_of)
        self._program: list[tuple[Any, list[int], int, bool, Expr]] = []
        for step, register in zip(blocks.steps, blocks.targets, strict=True):
            sources = [place_of[operand.uid] for operand in operands(step)]
            place_of[step.uid] = target = result if register == RESULT else result + 1 + register
            # NumPy's kernels may write over what they read, where the operation says so; a user's may not.
            is_fresh = (type(step.operation), self._device) in kernels and target in sources
            self._program.append((kernel_of(step.operation, self._device), sources, target, is_fresh, step))

    def __call__(self, values: Values) -> Any:
        """Run the operations; the result has memory of its own, unless a place for it was given."""
        device, shape = self._device, self._type.shape
        step = self._program[0][-1]
        try:
            with device.switch_to_device():
                places = [values[slot] for slot in self._reads]
                places.append(device.empty(shape, self._type.dtype) if self._out is None else self._out)
                places += [device.empty(shape, dtype) for dtype in self._registers]
                for kernel, sources, target, is_fresh, step in self._program:
                    out = device.empty(shape, step.dtype) if is_fresh else places[target]
                    returned = kernel(out, *[places[source] for source in sources])
                    places[target] = out if returned is None else returned
                    check_shapes(step.operation, device, (places[target],), [shape])
        except Exception:
            self.failed = step
            raise
        result = places[len(self._reads)]
        return result if self._out is None else kept_in(self._out, result, device)

"""Elementwise chains on a GPU: one kernel, compiled from the chain's own source.

A chain of n operations would start n kernels, each of which reads and writes device memory; one compiled kernel
(cuda_source.py) does neither between them. Where a chain has no source, `DeviceChain` runs it step by step.
"""

from __future__ import annotations

from typing import Any

from explorer.core.ir.expr import Expr
from explorer.core.ir.kernel_registry import kernels
from explorer.core.types.cuda import Cuda
from explorer.core.types.tensor_type import TensorType
from explorer.plan.schedule.schedule import Kernel
from explorer.run.kernels.cuda_source import source_of
from explorer.run.kernels.device_chain import DeviceChain
from explorer.run.kernels.runners import Operands, Values

_MOST_READS = 24
"""most operands of a compiled kernel: their shapes and strides are parameters, which have 4 KB"""


class CompiledChain:
    """Chain of elementwise operations in one kernel of a GPU."""

    def __init__(self, kernel: Kernel, source: str, slots: dict[int, int], out: Any = None) -> None:
        type_ = kernel.result.type
        assert isinstance(type_, TensorType)
        assert isinstance(type_.device, Cuda)
        self._type, self._device = type_, type_.device
        self._reads = [slots[read.uid] for read in kernel.reads]
        self._kernel = self._device.elementwise_kernel([read.dtype for read in kernel.reads], type_.dtype, source)
        self._last, self._out = kernel.nodes[-1], out
        self.failed: Expr | None = None
        """the operation that raised in the last run: the last one stands for all of them"""

    def __call__(self, values: Values) -> Any:
        """Run the kernel; the result has memory of its own, unless a place for it was given."""
        try:
            with self._device.switch_to_device():
                out = self._device.empty(self._type.shape, self._type.dtype) if self._out is None else self._out
                self._kernel(*[values[slot] for slot in self._reads], out)
        except Exception:
            self.failed = self._last
            raise
        return out


def chain_on_device(
    kernel: Kernel, operands: Operands, slots: dict[int, int], out: Any = None
) -> CompiledChain | DeviceChain:
    """Return the runner of a chain on a device: one compiled kernel on a GPU, where each operation has a source.

    A kernel that a user registered for the device is called, and not compiled.
    """
    blocks, device = kernel.blocks, kernel.result.type.device
    assert blocks is not None
    is_users = any((type(step.operation), device) in kernels for step in blocks.steps)
    if isinstance(device, Cuda) and not is_users and len(kernel.reads) <= _MOST_READS:
        source = source_of(blocks.steps, operands, kernel.reads)
        if source is not None:
            return CompiledChain(kernel, source, slots, out)
    return DeviceChain(kernel, operands, slots, out)

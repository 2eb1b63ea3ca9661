"""Blocked kernels: the operations run block by block, so that values between them stay in the cache."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from explorer.core.ir.expr import Expr
from explorer.core.types.tensor_type import Array, Shape
from explorer.plan.schedule.schedule import Kernel
from explorer.run.kernels.runners import BoundBlock, BoundStep, Steps, Values, run_all
from explorer.run.runtime.memory import allocate
from explorer.run.runtime.thread_pool import worth_sharing


class BlockedRunner(ABC):
    """Kernel whose steps run over blocks; independent blocks may run at the same time.

    ``fixed_memory``: operands and result are at the same addresses in every run, so that blocks are cut only once.
    ``whole``: shape and memory order of a result that fits into one block.
    """

    def __init__(
        self,
        kernel: Kernel,
        steps: Steps,
        slots: dict[int, int],
        out: Array | None,
        fixed_memory: bool,
        whole: tuple[Shape, tuple[int, ...]] | None,
    ) -> None:
        self._kind, self._out, self._last = kernel.result.type, out, kernel.channels_last
        self._steps = steps
        self._reads = [slots[read.uid] for read in steps.reads]
        self._fixed_memory = fixed_memory
        self.shared = worth_sharing(kernel)
        self._whole = None if whole is None else steps.register_file(*whole)
        self._tasks: list[Callable[[], None]] = []

    @property
    def failed(self) -> Expr | None:
        """The operation that raised in the last run."""
        return self._steps.failed

    def __call__(self, values: Values) -> Array:
        """Compute the result from the table of values."""
        self._steps.failed = None
        out: Array = allocate(self._kind, self._last) if self._out is None else self._out
        tasks = self._tasks
        # Kept tasks are cut over arrays at fixed addresses; all others are cut anew over the arrays of this run.
        if not tasks:
            inputs = [values[slot] for slot in self._reads]
            # A small result is one block: nothing is cut.
            if self._whole is None:
                tasks = self._cut(inputs, out)
            elif self._fixed_memory:
                tasks = [self._steps.over(inputs, out, self._whole)]
            else:
                self._steps.run([*inputs, out, *self._whole()])
                return out
            if self._fixed_memory:
                self._tasks = tasks
        run_all(tasks, self.shared)
        return out

    def bound_steps(self) -> list[BoundStep] | None:
        """Return the steps of a kernel of one block over arrays that stay where they are; None for any other."""
        (task,) = self._tasks if len(self._tasks) == 1 else (None,)
        return task.bound_steps() if isinstance(task, BoundBlock) else None

    @abstractmethod
    def _cut(self, inputs: list[Array], out: Array) -> list[Callable[[], None]]:
        """Return one task for each block."""

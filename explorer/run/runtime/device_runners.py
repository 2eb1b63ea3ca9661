"""Runners on devices other than cpu, and copies between devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from explorer.core.errors import DeclarationError
from explorer.core.ir.operation import Operation
from explorer.core.types.device import Device
from explorer.core.types.tensor_type import AnyType, TensorType, TupleType
from explorer.run.runtime.memory import allocate

Runner: TypeAlias = Callable[[list[Any]], Any]


def device_copy(source: int, origin: Device, type_: TensorType, out: Any) -> Runner:
    """From one device to another, through NumPy's memory."""

    def run(values: list[Any]) -> Any:
        memory = allocate(type_) if out is None else out
        type_.device.write(memory, origin.read(values[source]))
        return memory

    return run


def run_on_device(operation: Operation, kernel: Callable[..., Any], sources: list[int], type_: AnyType) -> Runner:
    """One operation on another device: its kernel writes into the memory that it is given, or returns its own."""
    parts = type_.parts if isinstance(type_, TupleType) else (type_,)
    shapes = [part.shape for part in parts]

    def run(values: list[Any]) -> Any:
        memory: Any = None if operation.view else allocate(type_)
        made = kernel(memory, *[values[source] for source in sources])
        found: Any = memory if made is None else made
        given = [tuple(part.shape) for part in (found if isinstance(type_, TupleType) else (found,))]
        if given != shapes:
            raise DeclarationError(
                f"the kernel of {operation.name} on {parts[0].device.name} gave the shapes {given}",
                rule=f"it gives what the operation infers: {shapes}",
                fix="correct the kernel",
            )
        return found

    return run


class FreeAfter:
    """A kernel after which values of other devices are read no more: their memory is given back."""

    def __init__(self, runner: Runner, slots: Sequence[int]) -> None:
        self._runner = runner
        self.drops = [*getattr(runner, "drops", ()), *slots]

    def __call__(self, values: list[Any]) -> Any:
        """The result."""
        value = self._runner(values)
        for slot in self.drops:
            values[slot] = None
        return value

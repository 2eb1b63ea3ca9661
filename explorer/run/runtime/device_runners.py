"""Runners on devices other than cpu, and copies between devices.

A kernel on such a device starts work and returns before the work is done, so times are correct only if a runner waits
(`FinishAfter`). Results are not stored in the cpu's arena; their memory is freed as soon as their last reader has been
started.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from explorer.core.errors import DeclarationError, RunError
from explorer.core.ir.expr import Expr, Operation
from explorer.core.types.device import Device, cpu
from explorer.core.types.tensor_type import AnyType, Shape, TensorType, TupleType
from explorer.plan.schedule.schedule import Schedule
from explorer.run.runtime.memory import allocate

Runner: TypeAlias = Callable[[list[Any]], Any]


def device_copy(source: int, origin: Device, type_: TensorType, out: Any) -> Runner:
    """Return a runner that copies a value to another device, with the method of the device ``origin``."""

    def run(values: list[Any]) -> Any:
        memory = allocate(type_) if out is None else out
        with origin.switch_to_device():
            origin.copy(values[source], memory, type_.device)
        return memory

    return run


def run_on_device(
    operation: Operation, kernel: Callable[..., Any], sources: list[int], type_: AnyType, out: Any = None
) -> Runner:
    """Return a runner for an operation on another device, whose result is in ``out`` or in new memory."""
    parts = type_.parts if isinstance(type_, TupleType) else (type_,)
    shapes = [part.shape for part in parts]
    device = type_.device

    def run(values: list[Any]) -> Any:
        with device.switch_to_device():
            memory: Any = None if operation.view else allocate(type_) if out is None else out
            returned = kernel(memory, *[values[source] for source in sources])
        result: Any = memory if returned is None else returned
        check_shapes(operation, device, result if isinstance(type_, TupleType) else (result,), shapes)
        return result if out is None else kept_in(out, result, device)

    return run


def kept_in(out: Any, result: Any, device: Device) -> Any:
    """Return ``out``, copying the result into it if the kernel returned other memory."""
    if result is not out:
        with device.switch_to_device():
            device.copy(result, out, device)
    return out


def check_shapes(operation: Operation, device: Device, results: Sequence[Any], shapes: list[Shape]) -> None:
    """Raise DeclarationError if a kernel's results do not have the shapes that the operation infers.

    Every run is checked, since device kernels are user code and may allocate their results.
    """
    result_shapes = [tuple(part.shape) for part in results]
    if result_shapes != shapes:
        raise DeclarationError(
            f"the kernel of {operation.name} on {device.name} gave the shapes {result_shapes}",
            rule=f"the shapes must be those that the operation infers: {shapes}",
            fix=f"return arrays of the shapes {shapes} from the kernel",
        )


class FreeAfter:
    """Kernel after which values on other devices are released, because it is their last reader."""

    def __init__(self, runner: Runner, slots: Sequence[int]) -> None:
        self._runner = runner
        self.drops = [*getattr(runner, "drops", ()), *slots]

    @property
    def failed(self) -> Expr | None:
        """The operation that raised an error in the last run, if the kernel stores it."""
        return getattr(self._runner, "failed", None)

    def __call__(self, values: list[Any]) -> Any:
        """Run the kernel, then clear the slots of the values."""
        value = self._runner(values)
        for slot in self.drops:
            values[slot] = None
        return value


def freeing(
    runners: Sequence[tuple[Runner, int]], schedule: Schedule, slots: dict[int, int]
) -> list[tuple[Runner, int]]:
    """Return a schedule's runners, which release values on other devices after their last reader.

    ``slots`` maps uids to slots.
    """
    owned: dict[int, list[int]] = {}
    """uid of a memory owner on another device → slots that refer to the owner's memory"""
    owner: dict[int, int] = {}
    freed: list[tuple[Runner, int]] = []
    for (runner, slot), kernel, placement in zip(runners, schedule.kernels, schedule.placements, strict=True):
        result = kernel.result
        if result.type.device is not cpu and not kernel.constant:
            viewed = kernel.reads[0].uid if kernel.is_view and kernel.reads else result.uid
            owner[result.uid] = owner.get(viewed, viewed)
            owned.setdefault(owner[result.uid], []).append(slots[result.uid])
        # All slots that refer to the memory, because a single remaining view would keep it alive.
        drops = [drop for node in placement.frees for drop in owned.pop(node.uid, ()) if node is not result]
        freed.append((FreeAfter(runner, drops) if drops else runner, slot))
    return freed


class FinishAfter:
    """Kernel that ends only when its device has finished, so its measured time is correct."""

    def __init__(self, runner: Runner, device: Device) -> None:
        self._runner, self._device = runner, device
        self.drops: Sequence[int] = getattr(runner, "drops", ())

    @property
    def failed(self) -> Expr | None:
        """The operation that raised an error in the last run, if the kernel stores it."""
        return getattr(self._runner, "failed", None)

    def __call__(self, values: list[Any]) -> Any:
        """Run the kernel, and wait until its device has finished."""
        value = self._runner(values)
        finish(self._device)
        return value


def finishing(runners: Sequence[tuple[Runner, int]], schedule: Schedule) -> list[tuple[Runner, int]]:
    """Return a schedule's runners; those on devices other than cpu wait for their device."""
    devices = [kernel.result.type.device for kernel in schedule.kernels]
    return [
        (runner if device is cpu else FinishAfter(runner, device), slot)
        for (runner, slot), device in zip(runners, devices, strict=True)
    ]


def devices_of(schedule: Schedule) -> list[Device]:
    """Return the devices other than cpu that a schedule uses, in the order of their first kernels."""
    used = dict.fromkeys([kernel.result.type.device for kernel in schedule.kernels])
    return [device for device in used if device is not cpu]


def finish(device: Device) -> None:
    """Wait for ``device``; raise RunError if work that was started on it has failed."""
    if not device.finish():
        raise RunError(
            f"the device {device.name} did not finish",
            rule="all kernels that were started on a device must succeed",
            fix=f"see the device's own log; ex.device({device.name!r}).finish() asks again",
        )

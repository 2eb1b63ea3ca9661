"""Devices: memory with its own kernels.

A plan allocates arrays (``empty``), copies them (``copy``), runs kernels (in ``switch_to_device``), and waits for
results (``finish``). If NumPy can address the device's arrays (``addressable``), views of buffers are NumPy views.
Kernels are registered separately (``ex.kernel``), so a new device can start with a few operations. If NumPy's functions
compute with its arrays (``runs_numpy``), it supports most operations at once.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from explorer.core.argument_checks import check_type, named_methods
from explorer.core.attributes import check_names
from explorer.core.errors import DeclarationError, OperandError, StateError
from explorer.core.registry import Registry

_logger = logging.getLogger("explorer.device")
_INSTALL = "pip install 'explorer-graphs[cuda]' ([cuda13] for CUDA 13), on a machine with an NVIDIA GPU and its driver"
_ALIGNMENT = 64
"""bytes of a cache line, and of the widest vector registers"""


@named_methods
class Device:
    """Device with its own memory. Operations need a kernel for each device on which they run (``ex.kernel``).

    By default, a device uses NumPy's memory. A subclass with other memory overrides ``new`` and ``delete`` or, if its
    arrays are not NumPy arrays, ``empty``, ``write`` and ``read``. There is one object per name: if its class is
    declared again, the object changes to the new class and keeps its arrays and kernels.

    >>> class Board(ex.Device):
    ...     "An accelerator board; here its memory is NumPy's."
    >>> x = ex.tensor([1.0, 2.0], device=Board("second board"))
    >>> x.device
    Device('second board')
    >>> ex.evaluate(x.to_device(ex.cpu) + 1)
    array([2., 3.])
    """

    __slots__ = ("name",)
    name: str
    addressable: ClassVar[bool] = True
    """whether the device's arrays are NumPy arrays, so views need no kernel"""
    runs_numpy: ClassVar[bool] = False
    """whether NumPy's functions compute with the device's arrays (NEP 13 and NEP 18), as they do with CuPy's.
    Operations whose kernels only call such functions (``Operation.portable``) then need no separate kernel."""
    _has_blocks: ClassVar[bool] = False
    """whether the device has its own memory, in whose blocks arrays are allocated"""

    def __init_subclass__(cls) -> None:
        check_names(cls, Device, "the device")
        cls._has_blocks = cls.new is not Device.new or cls.delete is not Device.delete

    def __new__(cls, name: str, *arguments: Any, **options: Any) -> Device:
        """Return the device called ``name``; a repeated declaration returns the same object."""
        declared = _devices.get(name)
        if declared is None:
            return object.__new__(cls)
        known_class = type(declared)
        if (known_class.__module__, known_class.__qualname__) != (cls.__module__, cls.__qualname__):
            raise DeclarationError(
                f"a second device {name!r}", rule="a device's name must be unique", fix=f"use device({name!r})"
            )
        # change the object in place, because arrays and kernels refer to it
        declared.__class__ = cls
        return declared

    def __init__(self, name: str) -> None:
        self.name = name
        _devices[name] = self

    # -- memory ----------------------------------------------------------------------------------------------------

    def new(self, nbytes: int) -> Any:
        """Return ``nbytes`` bytes of uninitialised memory; NumPy memory is aligned to 64 bytes."""
        # a negative size would return part of the alignment padding
        if not (isinstance(nbytes, (int, np.integer)) and nbytes >= 0):
            raise OperandError(
                f"new({nbytes!r})", rule="a number of bytes must be an integer of 0 or more", fix="ex.cpu.new(64)"
            )
        # NumPy itself may align to only 16 bytes
        block = np.empty(nbytes + _ALIGNMENT, np.uint8)
        start = -block.ctypes.data % _ALIGNMENT
        return block[start : start + nbytes]

    def delete(self, memory: Any) -> None:
        """Free memory that ``new`` returned; NumPy memory is freed with its last reference instead.

        Callers that allocate with ``ex.Block`` need not call this method, because the block's last owner does.
        """

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return an uninitialised array on the device, in a block if the device overrides ``new`` or ``delete``."""
        if not self._has_blocks:
            return np.empty(shape, dtype)
        return Block(self, math.prod(shape) * dtype.itemsize).array(shape, dtype)

    # -- copies ----------------------------------------------------------------------------------------------------

    def write(self, array: Any, values: NDArray[Any]) -> None:
        """Copy the NumPy array ``values`` into ``array``, a device array with the same shape and dtype."""
        np.copyto(array, values)

    def read(self, array: Any) -> NDArray[Any]:
        """Return the values of a device array as a NumPy array, which may share its memory."""
        values: NDArray[Any] = array
        return values

    def put(self, values: NDArray[Any]) -> Any:
        """Copy a NumPy array to a new device array, and return it."""
        target = self.empty(values.shape, values.dtype)
        self.write(target, values)
        return target

    def copy(self, source: Any, target: Any, to: Device | None = None) -> None:
        """Copy ``source``, an array on this device, into ``target``, an array on device ``to`` (None: this device).

        Both must have the same shape and dtype. The copy passes through NumPy's memory, unless a device overrides this
        method with a faster path. Raises OperandError if shape or dtype differ.
        """
        destination = self if to is None else to
        # Device arrays may lack shape and dtype, because only the device's methods read and write them.
        has_types = all(hasattr(array, "shape") and hasattr(array, "dtype") for array in (source, target))
        if has_types and (source.shape != target.shape or source.dtype != target.dtype):
            raise OperandError(
                f"a copy of {source.shape} {source.dtype} on {self.name} into {target.shape} {target.dtype} on "
                f"{destination.name}",
                rule="source and target must have the same shape and dtype, since a copy converts nothing",
                fix="target = device.empty(source.shape, source.dtype)",
            )
        destination.write(target, self.read(source))

    def copy_bytes(self, source: Any, target: Any, nbytes: int, to: Device | None = None) -> None:
        """Copy the first ``nbytes`` bytes of ``source``, memory of this device, to ``target``, memory of device ``to``.

        If ``to`` is None, it is this device. Raises OperandError if either memory has fewer than ``nbytes`` bytes.
        """
        for role, memory in (("source", source), ("target", target)):
            if not 0 <= nbytes <= memory.nbytes:
                raise OperandError(
                    f"{nbytes} bytes to copy, and a {role} of {memory.nbytes}",
                    rule="source and target must have at least as many bytes as are copied",
                    fix=f"nbytes={min(source.nbytes, target.nbytes)}",
                )
        self.copy(_bytes(source)[:nbytes], _bytes(target)[:nbytes], to)

    # -- running ---------------------------------------------------------------------------------------------------

    def switch_to_device(self) -> AbstractContextManager[Any]:
        """Return a context in which this is the thread's current device; the device's kernels run in it."""
        return nullcontext(self)

    def finish(self) -> bool:
        """Wait until all work started on the device has finished; return whether all of it succeeded.

        NumPy kernels have already finished when they return. A plan waits for its devices before it returns results.
        """
        return True

    def rng(self, seed: int) -> Any:
        """Return a random number generator with NumPy's interface that draws on the device.

        It is for custom kernels. Operations such as ``ex.random_normal`` do not use it, because they draw the same
        numbers on every device.
        """
        check_type(seed, "seed", int, "an integer", "seed=0")
        if seed < 0:
            raise OperandError(f"seed={seed}", rule="seed must be 0 or more", fix="seed=0")
        return np.random.Generator(np.random.Philox(seed))

    def __repr__(self) -> str:
        return f"Device({self.name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.name,)


_devices: Registry[str, Device] = Registry("device")
cpu = Device("cpu")


class Cuda(Device):
    """NVIDIA GPU: ``ex.device("cuda")`` or ``ex.device("cuda:1")``. Uses CuPy, which is imported on first use.

    Arrays are CuPy arrays, which NumPy's functions accept, so operations need no second kernel. Memory comes from
    CuPy's pool. The only other GPU code is in run/kernels/device_chain.py, for fused chains.
    """

    __slots__ = ("_cupy", "number")
    addressable = False
    runs_numpy = True
    number: int
    """index of the GPU in the driver's order"""

    def __init__(self, name: str, number: int, cupy: Any) -> None:
        super().__init__(name)
        self.number, self._cupy = number, cupy

    def new(self, nbytes: int) -> Any:
        """Return ``nbytes`` bytes of uninitialised memory as a CuPy array, which returns to CuPy's pool after its last
        use."""
        return self.empty((nbytes,), np.dtype(np.uint8))

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """Return an uninitialised CuPy array."""
        with self.switch_to_device():
            return self._cupy.empty(shape, dtype)

    def write(self, array: Any, values: NDArray[Any]) -> None:
        """Copy the NumPy array ``values`` into ``array`` on the GPU."""
        with self.switch_to_device():
            array.set(np.asarray(values, order="C"))

    def read(self, array: Any) -> NDArray[Any]:
        """Return a copy of ``array`` in NumPy's memory, after all previously started work."""
        with self.switch_to_device():
            values: NDArray[Any] = self._cupy.asnumpy(array)
        return values

    def copy(self, source: Any, target: Any, to: Device | None = None) -> None:
        """Copy an array to this or another device; copies between GPUs bypass NumPy's memory."""
        if (to is None or isinstance(to, Cuda)) and (source.shape, source.dtype) == (target.shape, target.dtype):
            with (to or self).switch_to_device():
                target[...] = source
        else:
            super().copy(source, target, to)

    def switch_to_device(self) -> Any:
        """Return a context in which CuPy uses this GPU."""
        return self._cupy.cuda.Device(self.number)

    def elementwise_kernel(
        self, operands: Sequence[np.dtype[Any]], result: np.dtype[Any], source: str, functions: str = ""
    ) -> Callable[..., Any]:
        """Return an elementwise kernel made from C statements, in which a0, a1, … are the operands' elements.

        ``out`` is the result's element, and ``functions`` is the source of functions that the statements call. The
        kernel is called with the operand arrays, which are broadcast, and the result array. Products are rounded before
        they are added, as in separate operations.
        """
        parameters = ", ".join([f"{dtype.name} a{index}" for index, dtype in enumerate(operands)])
        compiled: Callable[..., Any] = self._cupy.ElementwiseKernel(
            parameters, f"{result.name} out", source, "explorer_chain", options=("--fmad=false",), preamble=functions
        )
        return compiled

    def finish(self) -> bool:
        """Wait for the GPU; if a kernel failed, log the reason to "explorer.device" and return False."""
        try:
            self._cupy.cuda.Device(self.number).synchronize()
        except self._cupy.cuda.runtime.CUDARuntimeError as error:
            _logger.error("%s: %s", self.name, error)
            return False
        return True

    def rng(self, seed: int) -> Any:
        """Return CuPy's generator, which draws on the GPU."""
        check_type(seed, "seed", int, "an integer", "seed=0")
        with self.switch_to_device():
            return self._cupy.random.Generator(self._cupy.random.Philox4x3210(seed))


def device(name: str) -> Device:
    """Return the device called ``name``; raise UnknownNameError if it was not declared.

    ``cuda``, or ``cuda:1`` for the second GPU, needs CuPy (``pip install 'explorer-graphs[cuda]'``, or ``[cuda13]`` for
    CUDA 13). Raises StateError if CuPy or the GPU is missing.

    >>> ex.device("cpu") is ex.cpu
    True
    """
    if name not in _devices and re.fullmatch(r"cuda(:\d+)?", str(name)):
        return _cuda(name)
    return _devices.find(name)


def _cuda(name: str) -> Device:
    """Declare the GPU called ``cuda`` or ``cuda:1``; raise StateError if CuPy or the GPU is missing."""
    index = int(name.partition(":")[2] or 0)
    try:
        cupy = import_module("cupy")  # importing CuPy takes a second, and few machines have a GPU
    except ImportError as error:
        raise StateError(f"the device {name!r}: {error}", rule="CuPy must be installed", fix=_INSTALL) from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise StateError(f"the device {name!r}: {error}", rule="CUDA must find a GPU", fix=_INSTALL) from error
    if index >= count:
        raise StateError(
            f"the device {name!r}",
            rule=f"the index must be less than {count}, the number of GPUs",
            fix='ex.device("cuda")',
        )
    return Cuda(name, index, cupy)


def _bytes(memory: Any) -> Any:
    if memory.size and not memory.flags.c_contiguous:
        raise OperandError(
            f"bytes of an array of shape {memory.shape} with strides {memory.strides}",
            rule="bytes must be copied from and to contiguous arrays",
            fix="device.copy(source, target) copies any array",
        )
    return memory.reshape(-1).view(np.uint8)


def check_device(device: Any) -> None:
    """Raise OperandError if ``device`` is not a device."""
    check_type(device, "device", Device, "a device, or None", 'device=ex.cpu, or ex.device("name")')


def as_device(device_or_name: Any, what: str) -> Device:
    """Return a device, given the device itself or its name.

    Raises OperandError for other types, and UnknownNameError for an unknown name.
    """
    if isinstance(device_or_name, Device):
        return device_or_name
    if isinstance(device_or_name, str):
        return device(device_or_name)
    raise OperandError(
        f"{what} with {device_or_name!r}", rule="the device must be a device or its name", fix='ex.cpu, or "cuda"'
    )


class Allocator(Protocol):
    """Methods that a block needs from a device."""

    name: str

    def new(self, nbytes: int) -> Any:
        """Return ``nbytes`` bytes of memory."""

    def delete(self, memory: Any) -> None:
        """Free memory that ``new`` returned."""


@named_methods
class Block:
    """Memory of ``nbytes`` bytes from ``device.new``, freed with ``device.delete`` when its last owner is deleted.

    Owners are the block itself, arrays in the memory, views of these arrays, tensors and results. ``destruct`` is
    called with the memory before it is freed, to destroy the values in it. ``memory`` is existing memory to use
    instead, such as an array of objects. If NumPy can address the memory, ``np.asarray(block)`` is an array of its
    bytes.

    >>> block = ex.Block(ex.cpu, 24)
    >>> x = block.array((2, 3), np.float32)
    >>> x[:] = 1
    >>> float(x.sum()), block
    (6.0, <block of 24 bytes on cpu>)
    """

    __slots__ = ("__weakref__", "_destruct", "device", "memory", "nbytes")

    def __init__(
        self, device: Allocator, nbytes: int, destruct: Callable[[Any], None] | None = None, memory: Any = None
    ) -> None:
        self._destruct: Callable[[Any], None] | None = None
        self.memory: Any = None
        self.device, self.nbytes = device, nbytes
        self.memory = device.new(nbytes) if memory is None else memory
        self._destruct = destruct

    @property
    def __array_interface__(self) -> dict[str, Any]:
        # arrays in the memory, and views of them, keep a reference to the block
        if isinstance(self.memory, np.ndarray) and self.memory.dtype.hasobject:
            raise OperandError(
                f"the bytes of {self!r}, which holds objects",
                rule="references must not be read as bytes",
                fix="block.memory is the array of the objects",
            )
        memory = np.frombuffer(self.memory, np.uint8) if self.nbytes else np.empty(0, np.uint8)
        interface: dict[str, Any] = memory.__array_interface__
        return interface

    def array(self, shape: tuple[int, ...], dtype: Any, offset: int = 0) -> NDArray[Any]:
        """Return a NumPy array that starts at byte ``offset``; raise OperandError if it exceeds the block."""
        exact = np.dtype(dtype)
        nbytes = math.prod(shape) * exact.itemsize
        if offset < 0 or offset + nbytes > self.nbytes:
            raise OperandError(
                f"an array of {nbytes} bytes at byte {offset} of a block of {self.nbytes}",
                rule="an array must be within its block",
                fix=f"Block(device, {max(0, offset) + nbytes})",
            )
        array: NDArray[Any] = np.asarray(self)[offset : offset + nbytes].view(exact).reshape(shape)
        return array

    def __del__(self) -> None:
        # clear the attribute first, so that a failing or interrupted destructor does not free the memory twice
        memory, self.memory = self.memory, None
        if memory is None:
            return
        try:
            if self._destruct is not None:
                self._destruct(memory)
        finally:
            self.device.delete(memory)

    def __repr__(self) -> str:
        return f"<block of {self.nbytes} bytes on {self.device.name}>"

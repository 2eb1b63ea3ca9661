"""Runner of a compiled kernel: one call of a C function, or one per part that threads share."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Container, Sequence
from typing import Any

import numpy as np

from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import Array
from explorer.plan.codegen.indexing import distances
from explorer.plan.codegen.kernel_code import KernelCode, OperandCopy
from explorer.plan.schedule.schedule import Kernel
from explorer.run.kernels.elementwise_chain import flattened
from explorer.run.kernels.runners import BoundStep, Runner, Values, run_all
from explorer.run.native.library import Function, Library
from explorer.run.native.native_call import NativeCall, address_of, native_call
from explorer.run.runtime.memory import allocate
from explorer.run.runtime.thread_pool import worth_sharing

_PART = 1 << 18
"""minimum number of elements in a part of a kernel that threads share"""


class NativeKernel:
    """Kernel that a C function computes.

    ``numpy`` computes the kernel if it could not be compiled. Operands in another memory layout than the code requires,
    such as views, are copied. With ``fixed_memory``, operands and result have the same addresses in every run.
    ``constants`` are the uids of operands that are the same in every run.
    """

    def __init__(
        self,
        kernel: Kernel,
        code: KernelCode,
        library: Library,
        slots: dict[int, int],
        out: Array | None,
        fixed_memory: bool,
        numpy: Runner,
        constants: Container[int] = (),
    ) -> None:
        self._kernel, self._code, self._library = kernel, code, library
        self._reads = [slots[read.uid] for read in code.reads]
        self._out, self._numpy = out, numpy
        self._constants = {index for index, read in enumerate(code.reads) if read.uid in constants}
        self._kept: dict[int, Array] = {}
        """copies of constants in the layout that the code requires, by the index of the operand"""
        self._direct: list[tuple[int, ...]] = []
        """strides of operands and result with which the last call needed no copies"""
        self._fixed_memory = fixed_memory
        self._step = max(1, _PART // code.row)
        """number of iterations in a part"""
        self.shared = worth_sharing(kernel) and code.length > self._step
        self._function: _BoundFunction | None = None
        """the calls of the function; None before the first run"""
        self._bound: _BoundFunction | None = None
        """the same calls, if all operands have fixed addresses"""
        self._uses_numpy = False
        """whether the last run used ``numpy``"""

    @property
    def failed(self) -> Any:
        """The operation that raised an error in the last run; C code raises none."""
        return getattr(self._numpy, "failed", None) if self._uses_numpy else None

    def __call__(self, values: Values) -> Any:
        """Compute the result from the table of values."""
        bound = self._bound
        if bound is None:
            if (bound := self._function) is None:
                function = self._library.functions.get(self._code.name)  # waits for the compiler
                if function is None:
                    self._uses_numpy = True
                    return self._numpy(values)
                bound = self._function = _BoundFunction(function, len(self._reads) + 1, self._parts)
            out = self._result()
            given = [*[values[slot] for slot in self._reads], out]
            arrays = self._arranged(given)
            bound.write(arrays)
            if arrays[-1] is not out:
                run_all(bound.tasks, self.shared)
                np.copyto(out, arrays[-1])
                return out
            if self._fixed_memory and all(
                array is each or index in self._kept
                for index, (array, each) in enumerate(zip(arrays, given, strict=True))
            ):
                self._bound = bound
        else:
            out = self._result()
            if out is not self._out:
                bound.write_to(out)
        run_all(bound.tasks, self.shared)
        return out  # ``arrays`` is alive until here

    def _result(self) -> Array:
        if self._out is not None:
            return self._out
        memory: Array = allocate(self._kernel.result.type, self._kernel.channels_last)
        return memory

    def bound_steps(self) -> list[BoundStep] | None:
        """Return the call of a kernel at fixed addresses that threads do not share, else None."""
        if self._uses_numpy:
            bound_steps: Callable[[], list[BoundStep] | None] | None = getattr(self._numpy, "bound_steps", None)
            return None if bound_steps is None else bound_steps()
        if self._bound is None or self._out is None or len(self._bound.tasks) != 1:
            return None
        return [(self._bound.tasks[0], None, None)]

    def _arranged(self, given: list[Array]) -> list[Array]:
        """Return operands and result in the memory layout that the code requires; copies of constants are kept."""
        strides = [array.strides for array in given]
        if strides == self._direct and all(array.flags.aligned for array in given):
            return given
        arrays = given if self._code.is_flat and self._have_one_layout(given) else self._copied(given)
        if all(array is each for array, each in zip(arrays, given, strict=True)):
            self._direct = strides
        return arrays

    def _copied(self, given: list[Array]) -> list[Array]:
        arrays = []
        packed = {each.operand: each for each in self._code.packed}
        for index, (array, strides) in enumerate(zip(given, self._code.strides, strict=True)):
            kept = self._kept.get(index)
            if kept is None:
                kept = packed_copy(array, packed[index]) if index in packed else arranged(array, strides)
                if kept is not array and index in self._constants:
                    self._kept[index] = kept
            arrays.append(kept)
        return arrays

    def _have_one_layout(self, given: list[Array]) -> bool:
        """Return whether operands have the memory layout of the result, which may be any if the code is one loop."""
        *inputs, out = [
            array if strides else array[(0,) * array.ndim]
            for array, strides in zip(given, self._code.strides, strict=True)
        ]
        return all(array.flags.aligned for array in given) and flattened(inputs, out) is not None

    @functools.cached_property
    def _parts(self) -> list[tuple[int, int]]:
        """First and last iteration of each part."""
        length = self._code.length
        step = self._step if self.shared else length
        return [(first, min(first + step, length)) for first in range(0, length, step)]


class _BoundFunction:
    """Calls of a C function on arrays, one for each part; the last array is the result."""

    def __init__(self, function: Function, count: int, parts: Sequence[tuple[int, int]]) -> None:
        self._addresses = (ctypes.c_void_p * count)()
        self.tasks: list[NativeCall] = [native_call(function, self._addresses, part) for part in parts]

    def write(self, arrays: Sequence[Array]) -> None:
        """Set the addresses of all arrays."""
        self._addresses[:] = [*map(address_of, arrays)]

    def write_to(self, out: Array) -> None:
        """Write the result to ``out`` from now on, which has the memory layout of the previous result."""
        self._addresses[-1] = address_of(out)


def arranged(array: Array, required: Sequence[tuple[int, int]]) -> Array:
    """Return an array, or a copy if it has another memory layout than required: (axis, distance in elements)."""
    if array.flags.aligned and all(array.strides[axis] == step * array.itemsize for axis, step in required):
        return array
    distance = dict(required)
    steps = [distance.get(axis, 0) for axis in range(array.ndim)]
    ends = [(max(size, 1) - 1) * step for size, step in zip(array.shape, steps, strict=True)]
    # distances of a view can be negative or 0, or leave gaps, which the code skips
    memory = np.empty(1 + sum(map(abs, ends)), array.dtype)
    first = -sum([min(end, 0) for end in ends])
    strides = [step * array.itemsize for step in steps]
    copy: Array = np.ndarray(array.shape, array.dtype, memory, first * array.itemsize, strides)
    np.copyto(copy, array)
    return copy


def packed_copy(array: Array, packed: OperandCopy) -> Array:
    """Return an operand in its packed layout. The last block of columns is filled with zeros."""
    if packed.transform is not None:
        array = packed.transform(array)
    if not packed.has_blocks:
        return arranged(array, distances(array.shape, packed.order))
    array = array.transpose(packed.order)
    count, columns = math.prod(array.shape[: packed.stacked]), array.shape[-1]
    rows, block = math.prod(array.shape[packed.stacked : -1]), 64 // array.itemsize
    filled = np.zeros((count, rows, -(-columns // block), block), array.dtype)
    filled.reshape(count, rows, -1)[:, :, :columns] = array.reshape(count, rows, columns)
    shape = (count, filled.shape[2], rows, block)
    copy = np.ndarray(shape, array.dtype, cpu.new(filled.nbytes))
    copy[...] = filled.swapaxes(1, 2)
    return copy

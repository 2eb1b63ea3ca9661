"""Runner of a scan whose steps are C functions, and matrix products that BLAS computes.

Without products of BLAS, Python makes one call for all steps.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import Tensor
from explorer.core.types.tensor_type import Array, TensorType
from explorer.plan.codegen.kernel_code import OperandCopy, StepFunction, StepsCode
from explorer.plan.codegen.steps import keeps_rows
from explorer.run.kernels.runners import Runner, Values, single
from explorer.run.native.library import Function, Library
from explorer.run.native.native_kernel import packed_copy
from explorer.run.runtime.memory import allocate

_STEPS = 4096
"""maximum number of steps whose addresses are computed at once"""
_PART = 1 << 22
"""maximum number of elements that one call of a function computes, so that an interrupt ends a run"""

_Part: TypeAlias = Callable[[int], object]
"""function that computes a part of a step, given its number"""


class NativeSteps:
    """Scan whose steps the functions and products of ``code`` compute; ``numpy`` builds the runner without them.

    ``constants`` are the indices of operands that are the same in every run.
    """

    def __init__(
        self,
        code: StepsCode,
        library: Library,
        sources: Sequence[int],
        constants: Container[int],
        numpy: Callable[[], Runner],
    ) -> None:
        self._code, self._library, self._sources = code, library, sources
        self._numpy = functools.cache(numpy)
        body = code.body
        first = body.scan.states + len(body.scan.axes)
        self._captured = [*enumerate(body.parameters)][first:]
        self._constant = {node.uid for index, node in self._captured if index in constants}
        for node in code.invariant:
            if all(operand.uid in self._constant for operand in body.inputs.get(node.uid, ())):
                self._constant.add(node.uid)
        self._kept: dict[int, Array] = {}
        """uid → array of values that are the same in every run"""
        self._memory = _Memory(code, self._constant)
        self._layouts = [_layout(function, code) for function in code.functions]

    def __call__(self, values: Values) -> Any:
        """Compute the last states and the stacked outputs from the table of values."""
        functions = self._library.functions  # the first call waits for the compiler
        if not functions:
            return self._numpy()(values)
        scan, outputs = self._code.body.scan, self._code.body.outputs
        memory = self._memory
        memory.begin([values[source] for source in self._sources], self._same_in_all_steps(values))
        size = max([node.tensor_type.size for node in outputs])
        together = max(1, min(_STEPS, _PART // size))
        for first in range(0, scan.length, together):
            steps = range(first, min(first + together, scan.length))
            calls = [
                _StepCalls(functions[each.function.name], each.function.length, each.addresses(memory, steps))
                for each in self._layouts
            ]
            if len(calls) < len(self._code.parts):
                _run(self._code, memory, steps, calls)
            elif len(calls) == 1:
                calls[0].function(calls[0].table.ctypes.data, 0, len(steps))
            else:
                table = _table(calls, len(steps))
                run_calls = self._library.run_calls
                assert run_calls is not None
                run_calls(table.ctypes.data, 0, table.size // len(_CALL))
        results = memory.results()
        return tuple(results) if len(results) > 1 else results[0]

    def _same_in_all_steps(self, values: Values) -> dict[int, Array]:
        """Return the arrays of captured values, and of values computed from them, by uid."""
        arrays = {**self._kept}
        for index, node in self._captured:
            if node.uid not in arrays:
                self._add(arrays, node, values[self._sources[index]])
        for node in self._code.invariant:
            if node.uid not in arrays:
                self._add(arrays, node, self._value(node, arrays))
        return arrays

    def _add(self, arrays: dict[int, Array], node: Expr, value: Any) -> None:
        array = arrays[node.uid] = np.require(value, requirements=["C", "A"])
        if node.uid in self._constant:
            self._kept[node.uid] = array

    def _value(self, node: Expr, arrays: dict[int, Array]) -> Any:
        """Return the value of a node that is the same in all steps."""
        if isinstance(node, Tensor):
            return node.storage.array
        operands = self._code.body.inputs[node.uid]
        runner = single(node.operation, [*range(len(operands))], node.type, None, [each.type for each in operands])
        return runner([arrays[operand.uid] for operand in operands])


class _StepCalls(NamedTuple):
    """Calls of a function, with a row of addresses for each step."""

    function: Function
    length: int
    """number of parts that a call computes; 0 if a call computes one step"""
    table: Array

    @property
    def stop(self) -> int:
        """Last argument of a call for one step."""
        return max(self.length, 1)


_CALL = ("function", "arrays", "start", "stop")
"""fields of the struct ``call`` in the C code of ``RUN_CALLS`` (library.py), which all have 8 bytes"""


def _table(calls: Sequence[_StepCalls], steps: int) -> Array:
    """Return the structs of the calls of all functions in all steps."""
    table: Array = np.zeros((steps, len(calls), len(_CALL)), np.int64)
    for part, call in enumerate(calls):
        function = ctypes.cast(call.function, ctypes.c_void_p).value  # type: ignore[arg-type]
        table[:, part, 0], table[:, part, 3] = function, call.stop
        table[:, part, 1] = call.table.ctypes.data + np.arange(steps) * call.table.strides[0]
    return table


def _run(code: StepsCode, memory: _Memory, steps: range, calls: Sequence[_StepCalls]) -> None:
    """Run the parts of some steps, of which BLAS computes some."""
    remaining = iter(calls)
    parts = [
        _call(next(remaining), steps.start) if isinstance(part, StepFunction) else memory.product(part)
        for part in code.parts
    ]
    for step in steps:
        for compute in parts:
            compute(step)


def _call(call: _StepCalls, first: int) -> _Part:
    function, stop, distance = call.function, call.stop, call.table.strides[0]
    start = call.table.ctypes.data - first * distance
    return lambda step: function(start + step * distance, 0, stop)


class _Memory:
    """Arrays that the steps read and write.

    Two arrays contain each state in turn, so that a step can read the state before it in any order. Results have their
    own memory in each run.
    """

    def __init__(self, code: StepsCode, constants: Container[int]) -> None:
        """Allocate the memory of states; ``constants`` are the uids of values that are the same in every run."""
        body, scan = code.body, code.body.scan
        self._body, self._scan = body, scan
        self._arrays: dict[int, Array] = {}
        """uid → array of elements, of values that are the same in all steps, of products and of their operands"""
        self._computed: dict[int, Array] = {}
        self._products: dict[int, tuple[list[Array], _Part]] = {}
        self._constants = constants
        self._packed: dict[int, Array] = {}
        """uid → copy of a matrix in blocks of columns"""
        self._states: list[Array] = []
        self._outputs: list[Array] = []
        self._state_of = {node.uid: index for index, node in enumerate(body.parameters[: scan.states])}
        self._elements = body.parameters[scan.states : scan.states + len(scan.axes)]
        self._sequences = {node.uid for node in self._elements}

    def begin(self, operands: Sequence[Any], arrays: Mapping[int, Array]) -> None:
        """Set the operands of a run; ``arrays`` are the values that are the same in all steps."""
        body, scan = self._body, self._scan
        states, sequences, _ = scan.parts(operands)
        if not self._states:
            self._states = [np.empty((2, *node.shape), node.dtype) for node in body.outputs[: scan.states]]
        for memory, state in zip(self._states, states, strict=True):
            memory[0] = state
        self._arrays = {**self._computed, **arrays}
        self._packed = {uid: copy for uid, copy in self._packed.items() if uid in self._constants}
        for node, sequence, axis in zip(self._elements, sequences, scan.axes, strict=True):
            self._arrays[node.uid] = _steps_first(sequence, axis)
        self._outputs = [
            _stacked(node.tensor_type, scan.length, axis)
            for node, axis in zip(body.outputs[scan.states :], scan.out_axes, strict=True)
        ]

    def array(self, node: Expr) -> Array:
        """Return the array of a value; a state or element has a first axis for the steps."""
        if (index := self._state_of.get(node.uid)) is not None:
            return self._states[index]
        array = self._arrays.get(node.uid)
        if array is None:
            array = self._arrays[node.uid] = self._computed[node.uid] = allocate(node.tensor_type)
        return array

    def packed(self, node: Expr, packed: OperandCopy) -> Array:
        """Return the packed copy of a matrix, which is kept for later runs if the matrix is constant."""
        copy = self._packed.get(node.uid)
        if copy is None:
            copy = self._packed[node.uid] = packed_copy(self.array(node), packed)
        return copy

    def target(self, target: Expr | int) -> Array:
        """Return the array to which a function writes."""
        if not isinstance(target, int):
            return self.array(target)
        return self._states[target] if target < self._scan.states else self._outputs[target - self._scan.states]

    def product(self, node: Expr) -> _Part:
        """Return the function that computes a product in one step."""
        operands, out = self._body.inputs[node.uid], self.array(node)
        multiply: Callable[..., Any] = np.dot if max([each.ndim for each in operands]) <= 2 else np.matmul
        if not self._sequences.isdisjoint([each.uid for each in operands]):
            return lambda step: multiply(*[self._at(each, step) for each in operands], out)
        arrays = [self.array(each) for each in operands]
        known, product = self._products.get(node.uid, ([], None))
        if product is None or any(each is not other for each, other in zip(arrays, known, strict=True)):
            calls = [functools.partial(multiply, *[self._at(each, step) for each in operands], out) for step in (0, 1)]
            product = lambda step: calls[step & 1]()  # noqa: E731
            self._products[node.uid] = arrays, product
        return product

    def _at(self, node: Expr, step: int) -> Array:
        array = self.array(node)
        if node.uid in self._state_of:
            return array[step & 1]  # type: ignore[no-any-return]
        if node.uid in self._sequences:
            return array[-1 - step if self._scan.reverse else step]  # type: ignore[no-any-return]
        return array

    def results(self) -> list[Array]:
        """Return the last states and the stacked outputs."""
        scan, last = self._scan, self._scan.length & 1
        stacks = [
            np.ascontiguousarray(np.moveaxis(steps, 0, axis)) if axis else steps
            for steps, axis in zip(self._outputs, scan.out_axes, strict=True)
        ]
        self._outputs = []
        return [*[state[last].copy() for state in self._states], *stacks]


class _Layout:
    """Addresses of values: in step i, the first one + i · stride, plus ``alternate`` in every other step.

    ``odd`` is 0 or 1 for each value: the first step with another address. If the last element is the first step,
    ``reverse`` is added, which is the distance between them.
    """

    def __init__(self, function: StepFunction, strides: Array, alternate: Array, odd: Array, reverse: Array) -> None:
        self.function, self._strides = function, strides
        self._alternate, self._odd, self._reverse = alternate, odd, reverse
        self._table: Array | None = None
        self._steps = range(0)
        self._first = alternate
        """addresses in the last run"""

    def addresses(self, memory: _Memory, steps: range) -> Array:
        """Return a row of addresses for each step."""
        arrays = [*map(memory.array, self.function.reads), *map(memory.target, self.function.writes)]
        for packed in self.function.packed:
            arrays[packed.operand] = memory.packed(self.function.reads[packed.operand], packed)
        first = np.array([array.__array_interface__["data"][0] for array in arrays], np.intp)
        if self._table is None or steps != self._steps:
            number = np.arange(steps.start, steps.stop, dtype=np.intp)[:, None]
            start = first + self._reverse
            self._table = start + number * self._strides + ((number + self._odd) & 1) * self._alternate
        else:
            self._table += first - self._first
        self._steps, self._first = steps, first
        return self._table


def _layout(function: StepFunction, code: StepsCode) -> _Layout:
    """Return where a function finds values in each step."""
    scan, parameters, outputs = code.body.scan, code.body.parameters, code.body.outputs
    position = {node.uid: index for index, node in enumerate(parameters[: scan.states + len(scan.axes)])}
    rows = []
    for value, is_read in [*[(read, True) for read in function.reads], *[(write, False) for write in function.writes]]:
        index = value if isinstance(value, int) else position.get(value.uid)
        if index is None:
            rows.append((0, 0, 0))
        elif index < scan.states:
            rows.append((0, parameters[index].tensor_type.nbytes, 0 if is_read else 1))
        elif is_read:
            rows.append((_step_bytes(parameters[index].tensor_type, scan.axes[index - scan.states]), 0, 0))
        else:
            rows.append((_step_bytes(outputs[index].tensor_type, scan.out_axes[index - scan.states]), 0, 0))
    strides, alternate, odd = np.array(rows, np.intp).T
    if scan.reverse:
        return _Layout(function, -strides, alternate, odd, (scan.length - 1) * strides)
    return _Layout(function, strides, alternate, odd, 0 * strides)


def _step_bytes(type_: TensorType, axis: int) -> int:
    """Return the distance in bytes between the elements of two steps, with the memory layout of ``_steps_first``."""
    if axis and keeps_rows(axis, len(type_.shape)):
        return type_.shape[-1] * type_.dtype.itemsize
    return type_.nbytes


def _stacked(type_: TensorType, length: int, axis: int) -> Array:
    """Return memory for the output of all steps, with the memory layout of ``_steps_first``."""
    if keeps_rows(axis, len(type_.shape)):
        stack = np.empty((*type_.shape[:axis], length, *type_.shape[axis:]), type_.dtype)
        return np.moveaxis(stack, axis, 0) if axis else stack
    return np.empty((length, *type_.shape), type_.dtype)


def _steps_first(sequence: Array, axis: int) -> Array:
    """Return a sequence with the step axis first, and with adjacent numbers in the rows of a step."""
    if keeps_rows(axis, sequence.ndim - 1):
        in_rows = np.require(sequence, requirements=["C", "A"])
        return np.moveaxis(in_rows, axis, 0) if axis else in_rows
    return np.ascontiguousarray(np.moveaxis(sequence, axis, 0))

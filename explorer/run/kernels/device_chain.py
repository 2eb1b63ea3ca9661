"""Chains of elementwise operations on devices other than cpu, compiled to one kernel on a GPU.

A single kernel saves kernel starts and passes through device memory. If an operation has no source to compile,
`DeviceChain` runs the operations one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr, Operation, kernel_of, kernels
from explorer.core.types.device import Cuda
from explorer.core.types.tensor_type import TensorType
from explorer.ops.base import Elementwise, Ufunc
from explorer.ops.elementwise.arithmetic import Comparison, Select
from explorer.ops.manipulation.reshape import Cast
from explorer.plan.codegen.elements import has_expression
from explorer.plan.schedule.blocked_kernel import RESULT
from explorer.plan.schedule.schedule import Kernel
from explorer.run.kernels.runners import Operands, Values
from explorer.run.runtime.device_runners import check_shapes, kept_in

_MAX_READS = 24
"""maximum number of operands of a compiled kernel, whose parameters, with shapes and strides, are limited to 4 KB"""


class CompiledChain:
    """Chain of elementwise operations, compiled to one GPU kernel."""

    def __init__(self, kernel: Kernel, source: str, slots: dict[int, int], out: Any = None) -> None:
        type_ = kernel.result.type
        assert isinstance(type_, TensorType)
        assert isinstance(type_.device, Cuda)
        self._type, self._device = type_, type_.device
        self._reads = [slots[read.uid] for read in kernel.reads]
        self._kernel = self._device.elementwise_kernel(
            [read.dtype for read in kernel.reads], type_.dtype, source, FUNCTIONS
        )
        self._last, self._out = kernel.nodes[-1], out
        self.failed: Expr | None = None
        """the operation that raised an error in the last run; the chain's last operation represents all of them"""

    def __call__(self, values: Values) -> Any:
        """Run the kernel; the result is in new memory, unless memory for it was given."""
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
    """Return the runner of a chain on a device; on a GPU, one compiled kernel if every operation has a source.

    A kernel that a user registered for the device is called, not compiled.
    """
    blocks, device = kernel.blocks, kernel.result.type.device
    assert blocks is not None
    is_users = any((type(step.operation), device) in kernels for step in blocks.steps)
    if isinstance(device, Cuda) and not is_users and len(kernel.reads) <= _MAX_READS:
        source = source_of(blocks.steps, operands, kernel.reads)
        if source is not None:
            return CompiledChain(kernel, source, slots, out)
    return DeviceChain(kernel, operands, slots, out)


class DeviceChain:
    """Chain of elementwise operations on one device, run one by one."""

    def __init__(self, kernel: Kernel, operands: Operands, slots: dict[int, int], out: Any = None) -> None:
        type_, blocks = kernel.result.type, kernel.blocks
        assert isinstance(type_, TensorType)
        assert blocks is not None
        self._type, self._device, self._registers = type_, type_.device, blocks.registers
        self._out = out
        """memory of the result; if it is None, each run allocates memory"""
        self.failed: Expr | None = None
        """the operation that raised an error in the last run"""
        self._reads = [slots[read.uid] for read in kernel.reads]
        index_of = {read.uid: index for index, read in enumerate(kernel.reads)}
        result = len(index_of)
        self._program: list[tuple[Any, list[int], int, bool, Expr]] = []
        for step, register in zip(blocks.steps, blocks.targets, strict=True):
            sources = [index_of[operand.uid] for operand in operands(step)]
            index_of[step.uid] = target = result if register == RESULT else result + 1 + register
            # The operation may allow NumPy's kernels to overwrite operands; users' kernels must not.
            is_fresh = (type(step.operation), self._device) in kernels and target in sources
            self._program.append((kernel_of(step.operation, self._device), sources, target, is_fresh, step))

    def __call__(self, values: Values) -> Any:
        """Run the operations; the result is in new memory, unless memory for it was given."""
        device, shape = self._device, self._type.shape
        step = self._program[0][-1]
        try:
            with device.switch_to_device():
                arrays = [values[slot] for slot in self._reads]
                arrays.append(device.empty(shape, self._type.dtype) if self._out is None else self._out)
                arrays += [device.empty(shape, dtype) for dtype in self._registers]
                for kernel, sources, target, is_fresh, step in self._program:
                    out = device.empty(shape, step.dtype) if is_fresh else arrays[target]
                    returned = kernel(out, *[arrays[source] for source in sources])
                    arrays[target] = out if returned is None else returned
                    check_shapes(step.operation, device, (arrays[target],), [shape])
        except Exception:
            self.failed = step
            raise
        result = arrays[len(self._reads)]
        return result if self._out is None else kept_in(self._out, result, device)


_C = {
    "?": "bool",
    **{"b": "signed char", "h": "short", "i": "int", "l": "long long", "q": "long long"},
    **{"B": "unsigned char", "H": "unsigned short", "I": "unsigned int", "L": "unsigned long long"},
    **{"Q": "unsigned long long", "f": "float", "d": "double"},
}
"""NumPy's dtype character → C type; other dtypes have no source"""
FUNCTIONS = """
typedef float f32;
typedef double f64;
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#endif
#define UNARY(name, function) \\
    __device__ inline f32 name##_f32(f32 x) { return function##f(x); } \\
    __device__ inline f64 name##_f64(f64 x) { return function(x); }
#define OTHER(type, name, expression) __device__ inline type name(type x) { return expression; }
#define EXTREME(type, name, less) \\
    __device__ inline type name(type a, type b) { return a less b || a != a ? a : b; }
UNARY(abs, fabs) UNARY(floor, floor) UNARY(ceil, ceil) UNARY(trunc, trunc) UNARY(rint, rint) UNARY(sqrt, sqrt)
UNARY(exp, exp) UNARY(exp2, exp2) UNARY(expm1, expm1) UNARY(log, log) UNARY(log1p, log1p) UNARY(log2, log2)
UNARY(log10, log10) UNARY(cbrt, cbrt) UNARY(erf, erf) UNARY(sin, sin) UNARY(cos, cos) UNARY(tan, tan)
UNARY(sinh, sinh) UNARY(cosh, cosh) UNARY(tanh, tanh) UNARY(asin, asin) UNARY(acos, acos) UNARY(atan, atan)
OTHER(f32, sigmoid_f32, 1 / (1 + expf(-x)))
OTHER(f64, sigmoid_f64, 1 / (1 + exp(-x)))
EXTREME(f32, maximum_f32, >) EXTREME(f64, maximum_f64, >) EXTREME(f32, minimum_f32, <) EXTREME(f64, minimum_f64, <)
__device__ inline f32 pow_f32(f32 a, f32 b) { return powf(a, b); }
__device__ inline f64 pow_f64(f64 a, f64 b) { return pow(a, b); }
"""
"""CUDA C functions that the C expressions of operations call"""


def source_of(steps: Sequence[Expr], operands: Callable[[Expr], tuple[Expr, ...]], reads: Sequence[Expr]) -> str | None:
    """Return C statements that compute ``steps`` and assign the last value to ``out``; None if there are none.

    The values of ``reads`` are a0, a1, ….
    """
    names = {step_operands.uid: f"a{index}" for index, step_operands in enumerate(reads)}
    if not all(isinstance(node.type, TensorType) and node.dtype.char in _C for node in (*reads, *steps)):
        return None
    statements = []
    for index, step in enumerate(steps):
        step_operands = operands(step)
        expression = _expression(
            step, [names[node.uid] for node in step_operands], [node.dtype for node in step_operands]
        )
        if expression is None:
            return None
        names[step.uid] = f"v{index}"
        statements.append(f"const {_C[step.dtype.char]} v{index} = {expression};")
    return "\n".join([*statements, f"out = v{len(steps) - 1};"])


def _expression(step: Expr, names: list[str], dtypes: list[np.dtype[Any]]) -> str | None:
    """Return the C expression of one operation on values with the given names; None if it has none."""
    operation, result = step.operation, step.dtype
    computed: Sequence[np.dtype[Any]]
    if isinstance(operation, Cast) and (result.kind == "f" or result.kind == dtypes[0].kind):
        computed = dtypes
    elif not isinstance(operation, Elementwise) or not has_expression(operation):
        return None
    elif isinstance(operation, Ufunc):
        computed = operation.ufunc.resolve_dtypes((*dtypes, None))[: len(dtypes)]
    elif isinstance(operation, Select):
        computed = (dtypes[0], result, result)
    elif result.kind == "f":
        computed = (result,) * len(dtypes)
    else:
        return None
    # a sum of booleans is an "or"
    if any(dtype.char not in _C for dtype in computed) or (computed[0].kind == "b" and not _takes_booleans(operation)):
        return None
    # Operands are converted as in NumPy: int32 / int32 divides as float64.
    values = [
        f"({name})" if dtype == target_dtype else f"(({_C[target_dtype.char]})({name}))"
        for name, dtype, target_dtype in zip(names, dtypes, computed, strict=True)
    ]
    if isinstance(operation, Cast):
        expression = values[0]
    else:
        is_floating = any(dtype.kind == "f" for dtype in computed)
        expression = operation.c_expression("f64" if np.dtype(np.float64) in computed else "f32", *values)
        # functions and quotients are only declared for floating operands
        if not is_floating and ("_f32(" in expression or "/" in expression):
            return None
    # The result is cast, because C computes small integers as int, while NumPy wraps around.
    return f"({_C[result.char]})({expression})"


def _takes_booleans(operation: Operation) -> bool:
    return isinstance(operation, (Cast, Comparison)) or getattr(operation, "c_of_booleans", False)

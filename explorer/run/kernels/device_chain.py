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
from explorer.ops.base import Ufunc
from explorer.ops.elementwise.arithmetic import AddN, Select
from explorer.ops.elementwise.erf import Erf
from explorer.ops.elementwise.unary import Relu, Sigmoid
from explorer.ops.manipulation.reshape import Cast
from explorer.ops.nn.activation import Clip, Gelu
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
        self._kernel = self._device.elementwise_kernel([read.dtype for read in kernel.reads], type_.dtype, source)
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
_ANY: dict[np.ufunc, str] = {
    **{np.add: "{0} + {1}", np.subtract: "{0} - {1}", np.multiply: "{0} * {1}", np.square: "{0} * {0}"},
    **{np.negative: "-{0}", np.positive: "{0}"},
    **{np.equal: "{0} == {1}", np.not_equal: "{0} != {1}", np.less: "{0} < {1}", np.less_equal: "{0} <= {1}"},
    **{np.greater: "{0} > {1}", np.greater_equal: "{0} >= {1}"},
    **{np.logical_and: "{0} && {1}", np.logical_or: "{0} || {1}", np.logical_not: "!{0}"},
}
"""C expressions for operands of any dtype, by ufunc"""
_FLOATING: dict[np.ufunc, str] = {
    **{np.divide: "{0} / {1}", np.reciprocal: "1 / {0}", np.absolute: "fabs({0})", np.power: "pow({0}, {1})"},
    # NaN is returned if either operand is NaN, as in NumPy
    np.maximum: "isnan({0}) ? {0} : isnan({1}) ? {1} : {0} > {1} ? {0} : {1}",
    np.minimum: "isnan({0}) ? {0} : isnan({1}) ? {1} : {0} < {1} ? {0} : {1}",
    **{np.isnan: "isnan({0})", np.isinf: "isinf({0})", np.isfinite: "isfinite({0})"},
    **{
        getattr(np, name): f"{function}({{0}})"
        for name, function in {
            **dict.fromkeys(("sqrt", "exp", "expm1", "log", "log1p", "log2", "log10", "exp2", "cbrt")),
            **dict.fromkeys(("sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil", "trunc", "rint")),
            **{"arcsin": "asin", "arccos": "acos", "arctan": "atan"},
        }.items()
        for function in [function or name]
    },
}
"""C expressions for floating operands, by ufunc"""


def _clip(operation: Any) -> str:
    """Return the C expression of a clip, which keeps NaN because comparisons with NaN are false."""
    low, high = operation.low, operation.high
    if any(limit is not None and not np.isfinite(limit) for limit in (low, high)):
        return ""
    lower_limited = "{0}" if low is None else f"({{0}} < T({low!r}) ? T({low!r}) : {{0}})"
    return lower_limited if high is None else f"({lower_limited} > T({high!r}) ? T({high!r}) : {lower_limited})"


_OTHERS: dict[type[Operation], Callable[[Any], str]] = {
    Relu: lambda _: "{0} < 0 ? T(0) : {0}",
    Sigmoid: lambda _: "1 / (1 + exp(-{0}))",
    Erf: lambda _: "erf({0})",
    Gelu: lambda operation: "" if operation.approximate else "T(0.5) * {0} * (1 + erf({0} * T(0.7071067811865476)))",
    Clip: _clip,
}
"""operation class → function from an operation to its C expression, for floating operands and operations that are not
ufuncs. The expression is "" if there is none, and T is the result's dtype.
"""


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
    template: str | None
    if isinstance(operation, Ufunc) and type(operation).kernel is Ufunc.kernel:
        computed = operation.ufunc.resolve_dtypes((*dtypes, None))[: len(dtypes)]
        template = _ANY.get(operation.ufunc)
        # a sum of booleans is an "or", and small integers wrap around
        if template is not None and any(dtype.kind == "b" for dtype in computed) and result.kind != "b":
            return None
        if template is None and all(dtype.kind == "f" for dtype in computed):
            template = _FLOATING.get(operation.ufunc)
    elif isinstance(operation, Select):
        computed, template = (dtypes[0], result, result), "{0} ? {1} : {2}"
    elif isinstance(operation, Cast) and (result.kind == "f" or result.kind == dtypes[0].kind):
        computed, template = (dtypes[0],), "{0}"
    elif isinstance(operation, AddN) and result.kind == "f":
        computed, template = (result,) * len(dtypes), " + ".join([f"{{{index}}}" for index in range(len(dtypes))])
    elif type(operation) in _OTHERS and result.kind == "f":
        computed, template = (result,) * len(dtypes), _OTHERS[type(operation)](operation)
    else:
        return None
    if not template or any(dtype.char not in _C for dtype in computed):
        return None
    # Operands are converted as in NumPy: int32 / int32 divides as float64.
    values = [
        name if dtype == target_dtype else f"({_C[target_dtype.char]}){name}"
        for name, dtype, target_dtype in zip(names, dtypes, computed, strict=True)
    ]
    # The result is cast, because C computes small integers as int, while NumPy wraps around.
    expression = template.replace("T(", f"({_C[result.char]})(").format(*[f"({value})" for value in values])
    return f"({_C[result.char]})({expression})"

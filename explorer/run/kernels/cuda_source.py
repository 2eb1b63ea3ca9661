"""CUDA C of elementwise chains: one statement for each operation, so that a GPU computes the chain in one kernel.

Each value has the dtype that NumPy gives it, and products are not contracted with sums, so that the kernel gives the
bits that NumPy's functions give one by one on that GPU; the error function is CUDA's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.operation import Operation
from explorer.core.types.tensor_type import TensorType
from explorer.ops.base import Ufunc
from explorer.ops.elementwise.arithmetic import AddN, Select
from explorer.ops.elementwise.erf import Erf
from explorer.ops.elementwise.unary import Relu, Sigmoid
from explorer.ops.manipulation.reshape import Cast
from explorer.ops.nn.activation import Clip, Gelu

_C = {
    "?": "bool",
    **{"b": "signed char", "h": "short", "i": "int", "l": "long long", "q": "long long"},
    **{"B": "unsigned char", "H": "unsigned short", "I": "unsigned int", "L": "unsigned long long"},
    **{"Q": "unsigned long long", "f": "float", "d": "double"},
}
"""C types by NumPy's characters of dtypes; of others there is no source"""
_ANY: dict[np.ufunc, str] = {
    **{np.add: "{0} + {1}", np.subtract: "{0} - {1}", np.multiply: "{0} * {1}", np.square: "{0} * {0}"},
    **{np.negative: "-{0}", np.positive: "{0}"},
    **{np.equal: "{0} == {1}", np.not_equal: "{0} != {1}", np.less: "{0} < {1}", np.less_equal: "{0} <= {1}"},
    **{np.greater: "{0} > {1}", np.greater_equal: "{0} >= {1}"},
    **{np.logical_and: "{0} && {1}", np.logical_or: "{0} || {1}", np.logical_not: "!{0}"},
}
"""expressions of operands of any dtype"""
_FLOATING: dict[np.ufunc, str] = {
    **{np.divide: "{0} / {1}", np.reciprocal: "1 / {0}", np.absolute: "fabs({0})", np.power: "pow({0}, {1})"},
    # NaN wins, as in NumPy
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
"""expressions of floating operands"""


def _clip(operation: Any) -> str:
    """Return the expression of limits; comparisons with NaN are false, so that it stays."""
    low, high = operation.low, operation.high
    if any(limit is not None and not np.isfinite(limit) for limit in (low, high)):
        return ""
    raised = "{0}" if low is None else f"({{0}} < T({low!r}) ? T({low!r}) : {{0}})"
    return raised if high is None else f"({raised} > T({high!r}) ? T({high!r}) : {raised})"


_OTHERS: dict[type[Operation], Callable[[Any], str]] = {
    Relu: lambda _: "{0} < 0 ? T(0) : {0}",
    Sigmoid: lambda _: "1 / (1 + exp(-{0}))",
    Erf: lambda _: "erf({0})",
    Gelu: lambda operation: "" if operation.approximate else "T(0.5) * {0} * (1 + erf({0} * T(0.7071067811865476)))",
    Clip: _clip,
}
"""expressions of floating operations that are no ufunc, where T is the dtype of the result; "" where there is none"""


def source_of(steps: Sequence[Expr], operands: Callable[[Expr], tuple[Expr, ...]], reads: Sequence[Expr]) -> str | None:
    """Return C statements that compute ``steps`` from the values a0, a1, … of ``reads`` and assign the last one to
    ``out``; None where an operation or a dtype has no source."""
    names = {read.uid: f"a{number}" for number, read in enumerate(reads)}
    if not all(isinstance(node.type, TensorType) and node.dtype.char in _C for node in (*reads, *steps)):
        return None
    statements = []
    for number, step in enumerate(steps):
        read = operands(step)
        expression = _expression(step, [names[node.uid] for node in read], [node.dtype for node in read])
        if expression is None:
            return None
        names[step.uid] = f"v{number}"
        statements.append(f"const {_C[step.dtype.char]} v{number} = {expression};")
    return "\n".join([*statements, f"out = v{len(steps) - 1};"])


def _expression(step: Expr, names: list[str], dtypes: list[np.dtype[Any]]) -> str | None:
    """Return the C expression of one operation on named values; None where there is none."""
    operation, result = step.operation, step.dtype
    template: str | None
    if isinstance(operation, Ufunc) and type(operation).kernel is Ufunc.kernel:
        computed = operation.ufunc.resolve_dtypes((*dtypes, None))[: len(dtypes)]
        template = _ANY.get(operation.ufunc)
        # of truth values a sum is an "or", and small integers wrap around at each step
        if template is not None and any(dtype.kind == "b" for dtype in computed) and result.kind != "b":
            return None
        if template is None and all(dtype.kind == "f" for dtype in computed):
            template = _FLOATING.get(operation.ufunc)
    elif isinstance(operation, Select):
        computed, template = (dtypes[0], result, result), "{0} ? {1} : {2}"
    elif isinstance(operation, Cast) and (result.kind == "f" or result.kind == dtypes[0].kind):
        computed, template = (dtypes[0],), "{0}"
    elif isinstance(operation, AddN) and result.kind == "f":
        computed, template = (result,) * len(dtypes), " + ".join([f"{{{place}}}" for place in range(len(dtypes))])
    elif type(operation) in _OTHERS and result.kind == "f":
        computed, template = (result,) * len(dtypes), _OTHERS[type(operation)](operation)
    else:
        return None
    if not template or any(dtype.char not in _C for dtype in computed):
        return None
    # Operands are converted as NumPy's loop converts them: int32 / int32 divides as float64.
    values = [
        name if dtype == taken else f"({_C[taken.char]}){name}"
        for name, dtype, taken in zip(names, dtypes, computed, strict=True)
    ]
    # Each value in brackets of its own, and the whole cast back: C computes small integers as int, NumPy wraps around.
    expression = template.replace("T(", f"({_C[result.char]})(").format(*[f"({value})" for value in values])
    return f"({_C[result.char]})({expression})"

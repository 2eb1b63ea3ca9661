"""Base classes of elementwise operations with broadcasting, and helpers that align batched operands.

Subclasses of ``Elementwise`` and ``Ufunc`` inherit type inference, batching and cost; they define only the kernel and
the gradient.

Each base class declares how a plan may execute its operations. Elementwise operations can be fused and computed tile by
tile; ufuncs can also overwrite an operand with the result. Operations that move or combine elements derive from
``Movement`` (manipulation/reshape.py) and ``Reduction`` (reduction/reduce.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from explorer.core.argument_checks import named_methods
from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, Operation, as_operands
from explorer.core.registry import function
from explorer.core.types.custom_dtypes import is_floating
from explorer.core.types.tensor_type import AnyType, Array, Shape, TensorType, as_integer, broadcast_shapes

EXPENSIVE = 10
"""flops of one transcendental function, as the equivalent number of additions; plans use this estimate to balance
work"""


def _clash(shapes: Sequence[Shape]) -> str:
    """Return the last axis along which ``shapes`` do not broadcast: ``axis -1 has 47 and 48 elements``."""
    for axis in range(-1, -1 - max(map(len, shapes)), -1):
        sizes = list(dict.fromkeys(shape[axis] for shape in shapes if len(shape) >= -axis and shape[axis] != 1))
        if len(sizes) > 1:
            return f"axis {axis} has {' and '.join(map(str, sizes))} elements"
    return "their axes differ"


def _alignment(shapes: Sequence[Shape]) -> str:
    """Return a hint on how to align operands whose ``shapes`` do not broadcast."""
    longest = max(shapes, key=len)
    if any(shape != longest and shape[::-1] == longest for shape in shapes):
        return "transpose one of them: x.T"
    for shape in shapes:
        if shape != longest and (inserted := _inserted(shape, longest)):
            sizes = "×".join(map(str, shape))
            return f"insert axes of size 1 so that equal sizes are aligned: .reshape({inserted}) of the {sizes} operand"
    return "give both the same size along that axis, or one of them size 1"


def _inserted(shape: Shape, longer: Shape) -> Shape | None:
    """Return ``shape`` with axes of size 1 inserted so that it broadcasts to ``longer``, or None if that is impossible.

    For example, 32 and 32×47 give (32, 1).
    """
    pending = list(shape)
    sizes = [pending.pop(0) if pending and pending[0] in (size, 1) else 1 for size in longer]
    return None if pending else tuple(sizes)


@named_methods
class Elementwise(Operation, abstract=True):
    """Elementwise operation with broadcasting; subclasses define ``kernel`` and ``gradient``.

    ``gradient`` may return gradients of the result's shape, because the backward pass sums them over broadcast axes.

    >>> class Cube(ex.Elementwise):
    ...     "x³."
    ...     examples = (ex.Example(ex.real(2, 3)),)
    ...     def kernel(self, out, x):
    ...         return np.power(x, 3, out=out)
    ...     def gradient(self, upstream, result, x):
    ...         return (upstream * 3 * x * x,)
    >>> x = ex.tensor([1.0, 2.0])
    >>> ex.evaluate([ex.cube(x), ex.grad(ex.cube(x).sum(), x)])
    [array([1., 8.]), array([ 3., 12.])]
    """

    elementwise = True
    family = "elementwise"
    weight: ClassVar[int] = 1
    """flops per element"""
    numpy_calls: ClassVar[float] = 0
    """time of NumPy's kernel as a number of its fast functions, such as addition; 0: one for 3 flops"""
    c: ClassVar[str] = ""
    """C expression of an element for generated kernels, for the same kernel in all floating dtypes: ``{0}`` and ``{1}``
    are the operands, and ``{t}`` is f32 or f64, the suffix of the functions in plan/codegen/functions.c"""
    c_of_booleans: ClassVar[bool] = False
    """whether the C expression is also correct for booleans, which are 0 or 1"""

    def infer(self, *types: TensorType) -> TensorType:
        shapes = [type_.shape for type_ in types]
        shape = broadcast_shapes(*shapes)
        if shape is None:
            raise self.refuse(
                types,
                f"{_clash(shapes)}; sizes must be equal or 1, with shapes aligned at their last axes",
                _alignment(shapes),
            )
        return TensorType(shape, self.result_dtype(*[type_.dtype for type_ in types]), types[0].device)

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        """Return the result's dtype, by default the operands' dtypes promoted as in NumPy."""
        return np.result_type(*dtypes)

    def refuse_dtypes(self, dtypes: tuple[np.dtype[Any], ...], rule: str, fix: str = "") -> OperandError:
        """Return an OperandError stating that the operation does not support operands of ``dtypes``."""
        names = ", ".join([dtype.name for dtype in dtypes])
        return OperandError(f"{self.label} of dtype {names}", rule=rule, fix=fix)

    def c_expression(self, suffix: str, *operands: str) -> str:
        """Return the C expression of an element; ``suffix`` is f32 or f64, and ``operands`` are C expressions.

        An operation whose expression depends on attributes overrides this method instead of ``c``.
        """
        return self.c.format(*operands, t=suffix)

    def batch(self, size: int, batched: tuple[bool, ...], *operands: Expr) -> Expr:
        return self(*align(batched, operands))

    def flops(self, result: AnyType, *types: TensorType) -> int:
        assert isinstance(result, TensorType)
        return self.weight * result.size


class Ufunc(Elementwise, abstract=True):
    """Elementwise operation that is one NumPy ufunc."""

    reuses_operand = True
    numpy_calls: ClassVar[float] = 1
    ufunc: ClassVar[np.ufunc]

    @classmethod
    def count_operands(cls) -> int:
        """Return the number of the ufunc's operands."""
        return cls.ufunc.nin

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        try:
            # finds NumPy's loop without calling it; None is for the result
            return self.ufunc.resolve_dtypes((*dtypes, None))[-1]
        except TypeError:
            raise self.refuse_dtypes(dtypes, f"NumPy's {self.ufunc.__name__} is not defined for these dtypes") from None

    def operands_of(self, values: tuple[Any, ...]) -> tuple[Expr, ...]:
        """Convert operands to expressions.

        An int may be too large for the other operand's dtype if the ufunc computes in a wider dtype.
        """
        try:
            return as_operands(values)
        except OperandError as error:
            # resolve_dtypes treats the class int as a weak Python number, like the array operators
            is_int = [type(value) is int for value in values]
            if len(values) != 2 or True not in is_int:
                raise
            index = is_int.index(True)
            dtypes = [int if is_int[i] else getattr(value, "dtype", None) for i, value in enumerate(values)]
            if getattr(dtypes[1 - index], "kind", "") not in ("b", "i", "u"):
                raise
            number = self.convert_out_of_range_int(values[index], self.ufunc.resolve_dtypes((*dtypes, None))[index])
            if number is None:
                raise error from None
            return as_operands(tuple([number if i == index else value for i, value in enumerate(values)]))

    def convert_out_of_range_int(self, number: int, computed: np.dtype[Any]) -> np.generic | None:
        """Convert ``number``, which the other operand's dtype cannot represent, to ``computed``, the ufunc's dtype.

        Return None if ``computed`` is an integer dtype or cannot represent the number either.
        """
        if computed.kind in "iu":
            return None
        try:
            with np.errstate(over="ignore"):
                converted: np.generic = computed.type(number)
                return converted
        except OverflowError:  # too large for any floating dtype
            return None

    def kernel(self, out: Any, *operands: Array) -> Array:
        result: Array = self.ufunc(*operands, out=out)
        return result

    def bind_kernel(self, out: Any, *operands: Array) -> Callable[[], Any]:
        if type(self).kernel is not Ufunc.kernel:
            return super().bind_kernel(out, *operands)
        return functools.partial(self.ufunc, *operands, out=out)


def c_literal(value: Any, suffix: str) -> str:
    """Return a C literal with exactly the value of a number in float32 (suffix f32) or float64 (f64).

    >>> from explorer.ops.base import c_literal
    >>> c_literal(0.1, "f32"), c_literal(-2, "f64")
    ('0.1f', '(-2.0)')
    """
    with np.errstate(over="ignore"):  # a number beyond float32 is infinite, as in a NumPy array
        number = np.float32(value) if suffix == "f32" else np.float64(value)
    if np.isnan(number):
        return "NAN"
    if np.isinf(number):
        return "INFINITY" if number > 0 else "(-INFINITY)"
    literal = str(number) + ("f" if suffix == "f32" else "")
    return f"({literal})" if np.signbit(number) else literal


def float_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the floating dtype of a real function's result; raise OperandError for a complex operand dtype."""
    if dtype.kind == "c":
        raise OperandError(
            f"a real function of dtype {dtype}",
            rule="the operands must be real numbers",
            fix="ex.absolute(x) gives the magnitudes of complex numbers",
        )
    return dtype if is_floating(dtype) else np.exp.resolve_dtypes((dtype, None))[-1]


def align(batched: tuple[bool, ...], operands: tuple[Expr, ...]) -> list[Expr]:
    """Insert axes of size 1 after batch axes, so that broadcasting aligns the operands' other axes."""
    # broadcasting aligns shapes at their last axes, so a batch axis could otherwise be aligned with a non-batch axis
    own_ranks = [node.ndim - is_batched for node, is_batched in zip(operands, batched, strict=True)]
    rank = max(own_ranks)
    aligned = []
    for node, is_batched, own_rank in zip(operands, batched, own_ranks, strict=True):
        if is_batched and own_rank < rank:
            node = reshape(node, (node.shape[0], *[1] * (rank - own_rank), *node.shape[1:]))
        aligned.append(node)
    return aligned


# These helpers record nothing if the operand already has the requested shape or dtype. The public functions with the
# same names always record a node, so that the plan can report that it has no effect.


def reshape(x: Expr, shape: Shape) -> Expr:
    """Reshape ``x``; return it unchanged if it already has the shape."""
    result: Expr = x if x.shape == shape else function("reshape")(x, shape)
    return result


def broadcast_to(x: Expr, shape: Shape) -> Expr:
    """Broadcast ``x`` to ``shape``; return it unchanged if it already has the shape."""
    result: Expr = x if x.shape == shape else function("broadcast_to")(x, shape)
    return result


def cast(x: Expr, dtype: np.dtype[Any]) -> Expr:
    """Convert ``x`` to ``dtype``; return it unchanged if it already has this dtype."""
    result: Expr = x if x.dtype == dtype else function("cast")(x, dtype)
    return result


def sum_to(x: Expr, shape: Shape) -> Expr:
    """Sum ``x`` to ``shape``; this is the adjoint of broadcasting from ``shape`` to ``x.shape``."""
    if x.shape == shape:
        return x
    extra = x.ndim - len(shape)
    if extra < 0 or broadcast_shapes(x.shape, shape) != x.shape:
        raise OperandError(
            f"a gradient of shape {x.shape} for an operand of shape {shape}",
            rule="an elementwise gradient must have the result's shape, or a shape to which the operand broadcasts",
            fix="check the operation's gradient() method",
        )
    axes = (*range(extra), *(extra + i for i, size in enumerate(shape) if size == 1 and x.shape[extra + i] != 1))
    return reshape(function("sum")(x, axis=axes, keepdims=not extra), shape)


def check_axes(function: str, axes: str, **operands: Expr) -> None:
    """Raise OperandError for the first operand whose number of axes differs from ``axes``.

    ``axes`` is a list such as "N, C, H, W".
    """
    count = axes.count(",") + 1
    for name, operand in operands.items():
        if operand.ndim != count:
            raise OperandError(
                f"{function}: {name} is {operand.type}",
                rule=f"{name} must be ({axes}), an operand of {count} axes, not {operand.ndim}",
                fix=f"{name}[None] adds an axis in front, ex.transpose reorders axes",
            )


def check_groups(function: str, x: Expr, groups: Any) -> int:
    """Return ``groups`` as an int; raise OperandError unless it divides the number of channels of ``x`` (N, C, …)."""
    count = as_integer(groups, f"{function}: groups")
    if x.ndim < 2 or count < 1 or x.shape[1] % count:
        raise OperandError(
            f"{function}: {count} groups of {x.type}",
            rule="the number of channels, axis 1, must be divisible by the number of groups",
            fix="a number of groups that divides the channels; x[None] adds the axis N",
        )
    return count

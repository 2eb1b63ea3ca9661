"""What the families share: elementwise operations over broadcast operands, and alignment of batched operands."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.operation import Operation, as_operands
from explorer.core.registry import function
from explorer.core.types.tensor_type import AnyType, Array, Shape, TensorType, broadcast_shapes

EXPENSIVE = 10
"""flops that one transcendental function counts for"""


class Elementwise(Operation, abstract=True):
    """An operation on each element of broadcast operands; subclasses give ``kernel`` and ``gradient``.

    The gradient may have the result's shape: what was broadcast is summed back by the backward pass.
    """

    elementwise = True
    weight: ClassVar[int] = 1
    """flops per element"""

    def infer(self, *types: TensorType) -> TensorType:
        shapes = [type_.shape for type_ in types]
        shape = broadcast_shapes(*shapes)
        if shape is None:
            raise self.refuse(
                types,
                "shapes are aligned at their last axes; sizes must be equal, or one of them 1",
                "insert axes of size 1 with .reshape(…) so that equal sizes meet",
            )
        return TensorType(shape, self.result_dtype(*[type_.dtype for type_ in types]), types[0].device)

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        """The dtype of the result: NumPy's promotion of the operands' dtypes unless a subclass says otherwise."""
        return np.result_type(*dtypes)

    def refuse_dtypes(self, dtypes: tuple[np.dtype[Any], ...], rule: str, fix: str = "") -> OperandError:
        """The error for operands whose elements are of dtypes that the operation is not defined for."""
        given = ", ".join([dtype.name for dtype in dtypes])
        return OperandError(f"{self.label}: given elements of dtype {given}", rule=rule, fix=fix)

    def batch(self, size: int, batched: tuple[bool, ...], *operands: Expr) -> Expr:
        return self(*align(batched, operands))

    def flops(self, result: AnyType, *types: TensorType) -> int:
        assert isinstance(result, TensorType)
        return self.weight * result.size


class Ufunc(Elementwise, abstract=True):
    """An elementwise operation that is one NumPy ufunc."""

    reuses_operand = True
    ufunc: ClassVar[np.ufunc]

    @classmethod
    def count_operands(cls) -> int:
        """As many as the ufunc takes."""
        return cls.ufunc.nin

    def result_dtype(self, *dtypes: np.dtype[Any]) -> np.dtype[Any]:
        try:
            return self.ufunc.resolve_dtypes((*dtypes, None))[-1]
        except TypeError:
            raise self.refuse_dtypes(dtypes, f"NumPy's {self.ufunc.__name__} is not defined for these dtypes") from None

    def operands_of(self, values: tuple[Any, ...]) -> tuple[Expr, ...]:
        """As every operation's; but ints beyond the dtype beside them are taken where NumPy computes in another one."""
        try:
            return as_operands(values)
        except OperandError as refusal:
            dtypes = [type(value) if type(value) is int else getattr(value, "dtype", None) for value in values]
            if len(values) != 2 or int not in dtypes or None in dtypes:
                raise
            place = dtypes.index(int)
            if getattr(dtypes[1 - place], "kind", "") not in ("i", "u"):
                raise
            number = self.beyond(values[place], self.ufunc.resolve_dtypes((*dtypes, None))[place])
            if number is None:
                raise refusal from None
            return as_operands(tuple([number if i == place else value for i, value in enumerate(values)]))

    def beyond(self, number: int, computed: np.dtype[Any]) -> np.generic | None:
        """An int beyond the dtype of the tensor beside it, in the dtype that the ufunc computes with; None for none."""
        if computed.kind in "iu":
            return None
        try:
            with np.errstate(over="ignore"):
                taken: np.generic = computed.type(number)
                return taken
        except OverflowError:  # beyond floating numbers too, as NumPy has it
            return None

    def kernel(self, out: Any, *operands: Array) -> Array:
        result: Array = self.ufunc(*operands, out=out)
        return result


def float_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The floating dtype that a function of real numbers gives for a dtype; raises OperandError for complex ones."""
    if dtype.kind == "c":
        raise OperandError(f"a function of real numbers of {dtype}", rule="its operands are real numbers")
    return dtype if dtype.kind == "f" else np.exp.resolve_dtypes((dtype, None))[-1]


def align(batched: tuple[bool, ...], operands: tuple[Expr, ...]) -> list[Expr]:
    """Operands with axes of size 1 after the batch axis, so that their own axes meet the others' when broadcast."""
    own = [node.ndim - yes for node, yes in zip(operands, batched, strict=True)]
    rank = max(own)
    aligned = []
    for node, yes, own_rank in zip(operands, batched, own, strict=True):
        if yes and own_rank < rank:
            node = reshape(node, (node.shape[0], *[1] * (rank - own_rank), *node.shape[1:]))
        aligned.append(node)
    return aligned


# What operations are made of asks for no work where there is none. The public functions of these names record what was
# written, and the plan tells that it has nothing to do.


def reshape(x: Expr, shape: Shape) -> Expr:
    """``x`` in another shape; itself when the shape is the same."""
    found: Expr = x if x.shape == shape else function("reshape")(x, shape)
    return found


def broadcast_to(x: Expr, shape: Shape) -> Expr:
    """``x`` repeated to a shape that it can be broadcast to; itself when the shape is the same."""
    found: Expr = x if x.shape == shape else function("broadcast_to")(x, shape)
    return found


def cast(x: Expr, dtype: np.dtype[Any]) -> Expr:
    """``x`` with its elements converted; itself when it has that dtype."""
    found: Expr = x if x.dtype == dtype else function("cast")(x, dtype)
    return found


def sum_to(x: Expr, shape: Shape) -> Expr:
    """``x`` summed over what broadcasting ``shape`` to x.shape would repeat."""
    if x.shape == shape:
        return x
    extra = x.ndim - len(shape)
    if extra < 0 or broadcast_shapes(x.shape, shape) != x.shape:
        raise OperandError(
            f"a gradient of shape {x.shape} for an operand of shape {shape}",
            rule="an elementwise gradient has the result's shape, or one that the operand's shape broadcasts to",
            fix="check the gradient() of the operation",
        )
    axes = (*range(extra), *(extra + i for i, size in enumerate(shape) if size == 1 and x.shape[extra + i] != 1))
    return reshape(function("sum")(x, axis=axes), shape)

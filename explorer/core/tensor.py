"""Tensors: expressions whose value is there already, held by a storage that nobody may write to."""

from __future__ import annotations

from itertools import count
from typing import Any, ClassVar

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.example import Example
from explorer.core.expr import Expr, enter
from explorer.core.operation import Operation
from explorer.core.registry import public
from explorer.core.types import Array, TensorType

_tokens = count()


class Storage:
    """An array and its identity: expressions that use one storage use one value; it is read-only from then on."""

    __slots__ = ("array", "token")

    def __init__(self, array: Array) -> None:
        array.flags.writeable = False
        self.array = array
        self.token = next(_tokens)


class Stored(Operation):
    """A value that is there already."""

    name = "tensor"
    nondifferentiable = "a leaf has no operands"
    unbatchable = "a leaf has no operands to batch"
    examples: ClassVar[tuple[Example, ...]] = (Example(),)
    view = True

    def infer(self) -> TensorType:
        return TensorType((), np.float32)

    def kernel(self, out: None) -> Array:
        return np.zeros((), np.float32)

    def flops(self, result: Any, *types: TensorType) -> int:
        return 0


_STORED = Stored()


class Tensor(Expr):
    """An expression that holds its value; ``name`` is what pictures call it."""

    __slots__ = ("name", "storage")
    name: str
    storage: Storage

    @property
    def array(self) -> Array:
        """The value, read-only."""
        return self.storage.array


def tensor_of(storage: Storage, name: str = "") -> Tensor:
    """The tensor of a storage; several tensors may share one."""
    self = object.__new__(Tensor)
    array = storage.array
    self.operation, self.operands, self.storage, self.name = _STORED, (), storage, name
    self.type = TensorType(array.shape, array.dtype)
    enter(self)
    return self


def tensor(value: Any, dtype: Any = None, *, name: str = "", copy: bool = True) -> Tensor:
    """A tensor of an array, a nested list or a number: shape and dtype as NumPy sees them.

    The value is copied; ``copy=False`` takes the array itself and freezes it. Raises OperandError where the value
    is no regular array of numbers.
    """
    if isinstance(value, Tensor):
        value = value.array
    elif isinstance(value, Expr) or (isinstance(value, (list, tuple)) and _holds_expression(value)):
        raise OperandError(
            f"ex.tensor of {value!r}",
            rule="a tensor holds a value that is there",
            fix="evaluate it first: ex.evaluate(x); join expressions with ex.stack",
        )
    if isinstance(value, np.ma.MaskedArray):
        raise OperandError(
            "ex.tensor of a masked array", rule="a tensor has no mask", fix="fill it first: array.filled(0.0)"
        )
    try:
        array = np.array(value, dtype=dtype, order="C") if copy else np.asarray(value, dtype=dtype)
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
    except (ValueError, TypeError, OverflowError) as error:
        raise OperandError(
            f"ex.tensor of a {type(value).__name__}: {error}", rule="a tensor is a regular array of numbers"
        ) from None
    if array.dtype.hasobject or array.dtype.kind in "SUVMm":
        raise OperandError(
            f"ex.tensor of a {type(value).__name__}: elements of dtype {array.dtype}",
            rule="tensors hold booleans, integers, floating or complex numbers",
            fix="convert the value first, for instance with .astype(np.float32)",
        )
    if not copy and _is_shared(array):
        raise OperandError(
            "ex.tensor(view, copy=False) of a view of a writable array",
            rule="a tensor's storage is read-only, and the view's base could still be written to",
            fix="leave copy=False out, or pass the whole array",
        )
    return tensor_of(Storage(array), name)


def _holds_expression(values: Any) -> bool:
    """Whether nested lists hold an expression: NumPy would evaluate it."""
    return any(
        isinstance(value, Expr) or (isinstance(value, (list, tuple)) and _holds_expression(value)) for value in values
    )


def _is_shared(array: Array) -> bool:
    """Whether the memory belongs to another array that can be written to."""
    if array.base is not None and array.flags.writeable:
        return True
    base = array.base
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return True
        base = base.base
    return False


public(tensor)

"""Scalable tensors: growing lists of values with equal shapes, used as tensors with one more dimension.

They collect, for example, the steps of a sequence. Using the list after each push copies nothing, because an operand is
a view of the list's buffer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from explorer.core.argument_checks import named_methods
from explorer.core.attributes import as_written
from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.storage import Storage
from explorer.core.ir.tensor import Tensor, tensor, tensor_of
from explorer.core.shape import Sizes
from explorer.core.types.custom_dtypes import converted
from explorer.core.types.device import Device, cpu
from explorer.core.types.tensor_type import Array, Shape, TensorType, as_dtype, as_integer, as_shape
from explorer.data.custom_data import ExprLike
from explorer.ops.manipulation.concat import stack

_MIN_CAPACITY = 4
"""capacity of the first buffer"""


@named_methods
class ScalableTensor(ExprLike):
    """Growing list of values with equal shapes (MetaNN: ScalableTensor); as an operand, it is the tensor of its items.

    Values are stored in a buffer that doubles when it is full, and operands are views of it. If some items are
    expressions, the operand is a stack of all items. Later changes to the list do not affect earlier expressions.

    >>> rows = ex.ScalableTensor((2,))
    >>> for row in ([1, 2], [3, 4]):
    ...     rows.push_back(np.array(row, np.float32))
    >>> ex.evaluate(rows.sum(axis=0))
    array([4., 6.], dtype=float32)
    """

    def __init__(self, shape: Shape, dtype: Any = np.float32, device: Device = cpu) -> None:
        self._item = TensorType(as_shape(shape, "ScalableTensor"), as_dtype(dtype), device)
        self._items: list[Expr | None] = []
        """pushed expressions, or None for values, which are in the buffer at the same index"""
        self._expressions = 0
        self._buffer: Array | None = None
        self._read_count = 0
        """number of values at the start of the buffer that expressions read, so they must not be overwritten"""
        self._node: Expr | None = None

    @property
    def type(self) -> TensorType:
        """Type of the tensor of all items; its first dimension is the number of items."""
        return self._item.with_shape((len(self._items), *self._item.shape))

    @property
    def shape(self) -> Sizes:
        """Sizes of the dimensions; the first is the number of items."""
        return self.type.sizes

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the elements."""
        return self._item.dtype

    @property
    def device(self) -> Device:
        """Device of the items."""
        return self._item.device

    @property
    def ndim(self) -> int:
        """Number of dimensions, one more than the items have."""
        return self._item.rank + 1

    @property
    def capacity(self) -> int:
        """Number of values for which memory is allocated."""
        return 0 if self._buffer is None else len(self._buffer)

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Expr]:
        expression = self.__expr__()
        return (expression[index] for index in range(len(self)))

    def reserve(self, count: int) -> None:
        """Allocate memory for ``count`` values in total, so that pushing them allocates nothing."""
        count = as_integer(count, "reserve")
        if self._item.device is cpu and count > self.capacity:
            buffer = np.empty((count, *self._item.shape), self._item.dtype)
            if self._buffer is not None:
                buffer[: len(self._buffer)] = self._buffer
            self._buffer, self._read_count = buffer, 0

    def push_back(self, value: Any) -> None:
        """Append a value or an expression; raise OperandError if its shape, dtype or device differs from the items'.

        A value is converted to the dtype if NumPy's casting rule "same_kind" allows it.
        """
        if isinstance(value, Tensor) and self._item.device is cpu and value.device is cpu:
            value = value.array
        expr = as_written(value)
        if not isinstance(expr, Expr) and self._item.device is not cpu:
            expr = tensor(expr, self._item.dtype, device=self._item.device)
        if isinstance(expr, Expr):
            self._check(expr.type is self._item, repr(expr.type))
            self._items.append(expr)
            self._expressions += 1
        else:
            array = np.asarray(expr)
            weak = type(expr) in (bool, int, float) and not self._item.shape
            fits = weak or self._item.dtype.kind == "V" or np.can_cast(array.dtype, self._item.dtype, "same_kind")
            self._check(array.shape == self._item.shape and fits, f"{array.dtype} of shape {array.shape}")
            count = len(self._items)
            if count >= self.capacity:  # may exceed the capacity, since pushed expressions need no memory
                self.reserve(max(_MIN_CAPACITY, 2 * count))
            assert self._buffer is not None
            self._buffer[count] = converted(array, self._item.dtype)
            self._items.append(None)
        self._node = None

    def clear(self) -> None:
        """Remove all items; the memory is reused unless an expression reads it."""
        self._items, self._expressions, self._node = [], 0, None
        # Expressions keep the buffer that they read, and later items get another one.
        if self._read_count:
            self._buffer, self._read_count = None, 0

    def reverse(self) -> None:
        """Reverse the order of the items, as needed for backpropagation through time."""
        count = len(self._items)
        self._items.reverse()
        self._node = None
        if self._buffer is not None:
            buffer = np.empty((max(count, self.capacity), *self._item.shape), self._item.dtype)
            values = self._buffer[:count]
            buffer[count - len(values) : count] = values[::-1]
            self._buffer, self._read_count = buffer, 0

    def __expr__(self) -> Expr:
        if self._node is None:
            self._node = self._expression()
        return self._node

    def _expression(self) -> Expr:
        if not self._items:
            raise OperandError(
                "an empty scalable tensor as an operand",
                rule="the list must have at least one item",
                fix="push_back(value) first",
            )
        buffer, count = self._buffer, len(self._items)
        if buffer is not None:
            self._read_count = count
        if not self._expressions:
            assert buffer is not None
            return tensor_of(Storage(buffer[:count]))
        items = []
        for index, item in enumerate(self._items):
            if item is None:
                assert buffer is not None
                item = tensor_of(Storage(buffer[index]))
            items.append(item)
        return stack(items)

    def _check(self, fits: bool, item: str) -> None:
        if not fits:
            raise OperandError(
                f"push_back of {item}",
                rule=f"all items must be {self._item}",
                fix="reshape or convert it first, or use another ScalableTensor",
            )

    def __repr__(self) -> str:
        return f"<ScalableTensor: {len(self)} of {self._item}>"

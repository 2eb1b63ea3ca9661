"""Tensors: expressions whose value is in a storage, which becomes read-only once an expression uses it.

``ex.tensor`` copies the value by default, because later writes to the user's array would change recorded expressions.
Elements may be assigned until the first use. After that, views, results and plans may share the storage, so assigning
raises StateError instead of copying silently.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from explorer.core.argument_checks import named, named_methods
from explorer.core.attributes import stands_for_expression
from explorer.core.errors import ExplorerError, OperandError, StateError, class_text
from explorer.core.ir.assigned_names import assigned_name
from explorer.core.ir.expr import Expr, Operation, assign_identity
from explorer.core.ir.hooks import hooks
from explorer.core.ir.operation_examples import Example
from explorer.core.ir.recording_context import state
from explorer.core.ir.source_location import SourceLocation, function_code
from explorer.core.ir.storage import Storage
from explorer.core.registry import public
from explorer.core.types.custom_dtypes import converted, element_of, is_element, is_text, numbers_of, refuse_beyond
from explorer.core.types.device import Device, as_device, cpu
from explorer.core.types.device_copies import copied
from explorer.core.types.tensor_type import Array, TensorType, as_dtype, as_shape
from explorer.record.reasons import counted_text


class Stored(Operation):
    """Operation of tensors, whose value is stored and not computed."""

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


STORED = Stored()
"""the operation of all tensors"""


@named_methods
class Tensor(Expr):
    """Expression that stores its value; ``name`` is its label in diagrams.

    ``Tensor(4, 5, 6, 7, dtype=int)`` creates a tensor with these sizes and any number of dimensions. Its elements are
    zeros, float32 by default, and may be assigned. ``ex.tensor`` creates a tensor from a value.

    >>> t = ex.Tensor(2, 3)
    >>> t[0] = 1
    >>> ex.evaluate(t + 1)
    array([[2., 2., 2.],
           [1., 1., 1.]], dtype=float32)
    """

    __slots__ = ("name", "storage")
    name: str
    storage: Storage

    def __new__(
        cls, *shape: Any, dtype: Any = np.float32, name: str = "", device: Device | str | None = None
    ) -> Tensor:
        """Create a tensor of zeros; ``shape`` is given as separate sizes or as one tuple."""
        sizes_given = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        if not all(isinstance(size, (int, np.integer)) and not isinstance(size, bool) for size in sizes_given):
            raise OperandError(
                f"ex.Tensor({', '.join([reprlib.repr(length) for length in shape])})",
                rule="ex.Tensor must be given the sizes of its axes as integers",
                fix="ex.Tensor(4, 5, 6, 7, dtype=np.float32); ex.tensor(value) makes a tensor from a value",
            )
        sizes, element_dtype = as_shape(sizes_given, "ex.Tensor"), as_dtype(dtype)
        return tensor(np.broadcast_to(converted(0, element_dtype), sizes), name=name, device=device)

    @property
    def array(self) -> Array:
        """Read-only view of the storage, which shows later writes to the tensor."""
        storage = self.storage
        if storage.device is cpu:
            values: Array = storage.array
            return values
        values = storage.device.read(storage.array).view()
        values.flags.writeable = False
        return values

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides, counted in elements, of the contiguous row-major block."""
        return tuple(math.prod(self.shape[axis + 1 :]) for axis in range(self.ndim))

    @property
    def label(self) -> str:
        """Name of the tensor, or of the variable to which it was assigned."""
        if self.name:
            return self.name
        if self.code is None or isinstance(self.code, SourceLocation):
            return "tensor"
        return assigned_name(function_code(self.code), self.instruction) or "tensor"

    def clone(self) -> Tensor:
        """Return a copy with the same elements, name and device, but its own storage."""
        return tensor(self.array, name=self.name, device=self.device)

    def padding(self, pads: tuple[int, int, int, int], value: Any = 0) -> Tensor:
        """Return a copy with rows added above and below each matrix, and columns added to its left and right.

        ``pads`` are the numbers of rows and columns to add, in this order; the added elements are ``value``.
        """
        if len(pads) != 4 or any(type(pad) is not int or pad < 0 for pad in pads) or self.ndim < 2:
            raise OperandError(
                f"padding({pads!r}) of {self.type}",
                rule="pads must be four numbers of 0 or more (above, below, left, right), for a tensor of matrices",
                fix="x.padding((1, 1, 1, 1))",
            )
        above, below, left, right = pads
        widths = [*[(0, 0)] * (self.ndim - 2), (above, below), (left, right)]
        return tensor(np.pad(self.array, widths, constant_values=value), name=self.name, device=self.device)

    def mark_used(self) -> None:
        """Mark the tensor as used by an expression, after which its storage must not be written to."""
        if not self.storage.shared:
            self.storage.shared = "an expression, a view or a result uses it"

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write to elements with NumPy's indexing; raise StateError if anything else reads the storage."""
        self.refuse_shared()
        if isinstance(index, Expr) or (isinstance(index, tuple) and any(isinstance(item, Expr) for item in index)):
            raise OperandError(
                f"writing to {self!r} at an expression",
                rule="indices must be concrete integers, not expressions",
                fix="x[ex.evaluate(i)] = …",
            )
        assigned = (
            value.array if isinstance(value, Tensor) else hooks.evaluate(value) if _is_expression_like(value) else value
        )
        self.refuse_shared()  # the value may have been computed from this tensor
        storage, type_ = self.storage, self.tensor_type
        element = element_of(type_.dtype)
        host = np.array(storage.device.read(storage.array)) if storage.device is not cpu else storage.array
        try:
            source = np.asarray(assigned)
            if not is_element(source.dtype) or (source.dtype.kind == "c" and type_.dtype.kind != "c"):
                raise TypeError(f"{source.dtype} does not convert to {type_.dtype}")
            # Count the write before it happens: a write that fails midway has changed elements, and traced functions
            # compare versions.
            storage.version += 1
            refuse_beyond(source, type_.dtype)
            host.flags.writeable = True
            if element is not None:
                assigned = element.array(numbers_of(source))
            elif element_of(source.dtype) is not None:
                assigned = numbers_of(source)
            host[index] = assigned
        except (IndexError, ValueError, TypeError, OverflowError) as error:
            raise OperandError(
                f"writing {type(value).__name__} to elements {index!r} of {type_}: {error}",
                rule="the value must broadcast to the indexed elements and convert to their dtype",
                fix="t[index] = a number, or an array of the indexed part's shape",
            ) from None
        finally:
            host.flags.writeable = False
        if storage.device is not cpu:
            storage.device.write(storage.array, host)

    def refuse_shared(self) -> None:
        """Raise StateError if the storage is shared and must not be written to."""
        if self.storage.shared:
            raise StateError(
                f"writing to elements of {self!r}, whose storage is shared: {self.storage.shared}",
                rule="a storage must not be written to once anything else reads it; x[i] is a view that shares it",
                fix="write to a copy, ex.tensor(x), or choose with ex.where; x.array[i] reads without recording",
            )

    # -- sizes -----------------------------------------------------------------------------------------------------

    @property
    def shapes(self) -> tuple[int, int, int]:
        """Numbers of channels, rows and columns; a matrix has one channel, and a vector one row."""
        if len(self.shape) > 3:
            raise OperandError(
                f"channels, rows and columns of a tensor {'×'.join(map(str, self.shape))}",
                rule="a tensor must have at most three axes to be read by channel, row and column",
                fix="x.shape has the sizes of all axes",
            )
        channels, rows, columns = (1, 1, 1, *self.shape)[-3:]
        return channels, rows, columns

    @property
    def channels(self) -> int:
        """Number of matrices; 1 for a matrix or a vector."""
        return self.shapes[0]

    @property
    def rows(self) -> int:
        """Number of rows of each matrix; 1 for a vector."""
        return self.shapes[1]

    @property
    def cols(self) -> int:
        """Number of columns of each matrix; the length of a vector."""
        return self.shapes[2]

    @property
    def raw_shapes(self) -> tuple[int, ...]:
        """Sizes as they are passed to the constructor: (cols,), (rows, cols), or (rows, cols, channels)."""
        channels, rows, columns = self.shapes
        return (rows, columns, channels) if len(self.shape) == 3 else self.shape

    @property
    def empty(self) -> bool:
        """Whether the tensor has no elements."""
        return self.size == 0

    # -- reading ---------------------------------------------------------------------------------------------------

    @property
    def data(self) -> Array:
        """The elements as a read-only array of shape (channels, rows, cols), in the tensor's memory."""
        return self.array.reshape(self.shapes)

    def at(self, channel: int, row: int, col: int) -> Any:
        """Return the element with the given channel, row and column."""
        indices = {"channel": channel, "row": row, "col": col}
        return self.data[
            tuple([self._checked(name, position, axis) for axis, (name, position) in enumerate(indices.items())])
        ]

    def slice(self, channel: int) -> Array:
        """Return the matrix (rows, cols) of ``channel``: a read-only array in the tensor's memory."""
        matrix: Array = self.data[self._checked("channel", channel, 0)]
        return matrix

    def index(self, offset: int, *, row_major: bool = True) -> Any:
        """Return the element with a flat index, counted in row-major order.

        With row_major=False, it is counted in column-major order within each channel.
        """
        return self.values(row_major)[self._offset(offset)]

    def values(self, row_major: bool = True) -> Array:
        """Return all elements, channel by channel, in row-major order.

        With row_major=False, return a copy in column-major order.
        """
        elements = self.data if row_major else self.data.transpose(0, 2, 1)
        return elements.reshape(-1)

    def raw_ptr(self, offset: int = 0) -> Array:
        """Return all elements from a flat index on, in row-major order: a read-only array in the tensor's memory."""
        return self.values()[self._offset(offset) if offset else 0 :]

    def matrix_raw_ptr(self, channel: int) -> Array:
        """Return the elements of ``channel`` in row-major order: a read-only array in the tensor's memory."""
        return self.slice(channel).reshape(-1)

    def show(self) -> None:
        """Print the matrix of each channel."""
        for channel, matrix in enumerate(self.data):
            print(f"channel {channel}:\n{matrix}")

    def show_shapes(self) -> None:
        """Print the number of channels, rows and columns."""
        print("{} channels, {} rows, {} columns".format(*self.shapes))

    # -- changes in place ------------------------------------------------------------------------------------------

    def set_data(self, values: Any) -> Self:
        """Set all elements from an array of the tensor's shape, or of shape (channels, rows, cols)."""
        array = np.asarray(values)
        if array.shape not in (self.shape, self.shapes):
            raise OperandError(
                f"data of shape {array.shape} for a tensor {self.shape}",
                rule="the data must have the tensor's shape",
                fix=f"values.reshape({self.shape}), or fill(values) for a list of elements",
            )
        self[...] = array.reshape(self.shape)
        return self

    def fill(self, values: Any, row_major: bool = True) -> Self:
        """Set all elements to one number, or to a list of values.

        The list is in row-major order or, with row_major=False, in column-major order within each channel.
        """
        array = np.asarray(values)
        if array.ndim:
            if array.size != self.size:
                raise OperandError(
                    f"{counted_text(array.size, 'element')} for a tensor of {self.size}",
                    rule="there must be one number, or as many as the tensor has elements",
                    fix=f"a list of {counted_text(self.size, 'number')}",
                )
            channels, rows, columns = self.shapes
            ordered = array.reshape((channels, rows, columns) if row_major else (channels, columns, rows))
            array = (ordered if row_major else ordered.transpose(0, 2, 1)).reshape(self.shape)
        self[...] = array
        return self

    def set_index(self, offset: int, value: Any, *, row_major: bool = True) -> Self:
        """Set the element with a flat index, counted as in ``index``."""
        channels, rows, columns = self.shapes
        flat_index = self._offset(offset)
        if row_major:
            position: Any = np.unravel_index(flat_index, self.shape)
        else:
            channel, col, row = np.unravel_index(flat_index, (channels, columns, rows))
            position = (channel, row, col)[3 - len(self.shape) :]
        self[position] = value
        return self

    def ones(self) -> Self:
        """Set all elements to 1."""
        return self.fill(1)

    def rand(self, seed: int = 0) -> Self:
        """Set all elements to standard normal random numbers; equal seeds give equal numbers."""
        return self.set_data(np.random.default_rng(seed).normal(size=self.shape))

    def transform(self, function: Callable[[Array], Any]) -> Self:
        """Set the elements to ``function(array)``, which must have the tensor's shape."""
        self.refuse_shared()
        return self.set_data(function(np.array(self.array)))

    # -- others ----------------------------------------------------------------------------------------------------

    def _checked(self, name: str, position: int, axis: int) -> int:
        count = self.shapes[axis]
        if not 0 <= position < count:
            raise OperandError(
                f"{name} {position} of {count}", rule=f"{name} must be an index from 0 to {count - 1}", fix=f"{name}=0"
            )
        return position

    def _offset(self, offset: int) -> int:
        if not 0 <= offset < self.size:
            raise OperandError(
                f"element {offset} of {self.size}", rule=f"an index must be from 0 to {self.size - 1}", fix="0"
            )
        return offset


def _is_expression_like(value: Any) -> bool:
    return isinstance(value, Expr) or stands_for_expression(value)


def _check_dtype(dtype: Any) -> None:
    """Raise OperandError if ``dtype``, the second argument of ``ex.tensor``, is not a dtype, but for example a name."""
    try:
        as_dtype(dtype)
    except OperandError as error:
        keyword = (
            f'; a name is passed by keyword, name="{dtype}"' if isinstance(dtype, str) and dtype.isidentifier() else ""
        )
        fix = f"{error.fix}{keyword}"
        raise OperandError(f"ex.tensor with {error.given}", rule=error.rule, fix=fix) from None


def tensor_of(storage: Storage, name: str = "") -> Tensor:
    """Return a tensor that uses a storage in NumPy's memory, which several tensors may share."""
    array = storage.array
    return stored_tensor(storage, TensorType(array.shape, array.dtype), name)


def tensor_of_values(type_: TensorType, values: Any, name: str = "") -> Tensor:
    """Return a tensor of ``type_`` with a copy of ``values``, a NumPy array or an array on the type's device."""
    return stored_tensor(Storage(copied(type_, values), type_.device, shared=""), type_, name)


def stored_tensor(storage: Storage, type_: TensorType, name: str) -> Tensor:
    """Return a tensor of ``type_`` that uses ``storage``, whose array may be created later."""
    self = object.__new__(Tensor)
    self.operation, self.operands, self.storage, self.name = STORED, (), storage, name
    self.type = type_
    assign_identity(self)
    return self


@named
def tensor(
    value: Any, dtype: Any = None, *, name: str = "", copy: bool = True, device: Device | str | None = None
) -> Tensor:
    """Create a tensor from an array, a nested list or a number.

    By default, shape and dtype are those that NumPy infers. The value is copied; with ``copy=False``, the tensor uses
    the array itself, which becomes read-only. Elements may be assigned (t[i] = v) until an expression uses the tensor.
    Raises OperandError if the value cannot be converted to a regular array of numbers.

    >>> x = ex.tensor([[1.0, 2.0]], dtype="float32", name="x")
    >>> x.label, x.shape
    ('x', (1, 2))
    >>> x.array
    array([[1., 2.]], dtype=float32)
    """
    if dtype is not None and isinstance(dtype, (int, np.integer)):
        raise OperandError(
            f"ex.tensor({value!r}, {dtype!r}, …)",
            rule="ex.tensor must have a value; its second argument is a dtype",
            fix=f"ex.Tensor({value!r}, {dtype!r}), with a capital T, takes sizes",
        )
    if dtype is not None:
        _check_dtype(dtype)
    try:
        array = _array(value if type(value) is np.ndarray else _plain(value), dtype, copy)
    except (ExplorerError, MemoryError):
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise OperandError(
            f"ex.tensor of {class_text(value)}: {error}",
            rule="a tensor must be a regular array of numbers",
            fix="use rows of equal length, without strings or None",
        ) from None
    except Exception as error:
        raise OperandError(
            f"ex.tensor of {class_text(value)}, whose class raised {type(error).__name__}: {error}",
            rule="a lookup of a missing attribute must raise AttributeError, and a conversion to an array must succeed",
            fix="correct the methods of the class, or pass an array of its numbers",
        ) from error
    if is_text(array.dtype):
        raise OperandError(
            f"ex.tensor of {class_text(value)}: elements of dtype {array.dtype}, which are strings",
            rule="elements must be numbers; only nets from files have strings, as inputs and weights",
            fix="convert the strings to indices first: np.unique(strings, return_inverse=True)",
        )
    if not is_element(array.dtype):
        raise OperandError(
            f"ex.tensor of {class_text(value)}: elements of dtype {array.dtype}",
            rule="elements must be booleans, integers, real or complex numbers, or of a declared element type",
            fix="convert the value first, for instance with .astype(np.float32)",
        )
    if not copy and _is_shared(array):
        raise OperandError(
            "ex.tensor(view, copy=False) of a view of a writable array",
            rule="with copy=False the array must own its memory, because a view's base could still be written to",
            fix="omit copy=False, or pass the whole array",
        )
    target = state.device if device is None else as_device(device, "ex.tensor")
    if target is not cpu:
        type_ = TensorType(array.shape, array.dtype, target)
        return stored_tensor(Storage(target.put(array), target, shared=""), type_, name)
    storage = Storage(array, shared="") if copy else Storage(array)
    return stored_tensor(storage, TensorType(array.shape, array.dtype), name)


def _plain(value: Any) -> Any:
    """Return an object that NumPy can convert to an array; raise OperandError for expressions and masked arrays."""
    if isinstance(value, Tensor):
        return value.array
    if _is_expression_like(value) or (isinstance(value, (list, tuple)) and _contains_expression(value)):
        raise OperandError(
            f"ex.tensor of {value!r}",
            rule="the value must be computed, not an expression",
            fix="evaluate it first: ex.evaluate(x); join expressions with ex.stack",
        )
    if isinstance(value, np.ma.MaskedArray):
        raise OperandError(
            "ex.tensor of a masked array", rule="the array must not be masked", fix="fill it first: array.filled(0.0)"
        )
    return value


def _array(value: Any, dtype: Any, copy: bool) -> Array:
    target = None if dtype is None else np.dtype(dtype)
    source = getattr(value, "dtype", None)
    if (target is not None and element_of(target)) or (target and isinstance(source, np.dtype) and element_of(source)):
        assert target is not None
        return converted(value, target)
    # row-major, because kernels and fingerprints require it
    array = np.array(value, dtype=dtype, order="C") if copy else np.asarray(value, dtype=dtype)
    return array if array.dtype.isnative else array.astype(as_dtype(array.dtype))


def _contains_expression(values: Any) -> bool:
    """Return whether nested lists contain an expression, which NumPy would evaluate."""
    return any(
        _is_expression_like(value) or (isinstance(value, (list, tuple)) and _contains_expression(value))
        for value in values
    )


def _is_shared(array: Array) -> bool:
    """Return whether the memory of ``array`` belongs to another array that is writable."""
    if array.base is not None and array.flags.writeable:
        return True
    base = array.base
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return True
        base = base.base
    return False


public(tensor)

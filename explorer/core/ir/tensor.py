"""Tensors: expressions whose value is there already, held by a storage that is frozen once an expression uses it."""

from __future__ import annotations

import reprlib
from itertools import count
from typing import Any, ClassVar

import numpy as np

from explorer.core.errors import ExplorerError, OperandError, StateError
from explorer.core.hooks import hooks
from explorer.core.ir.examples import Example
from explorer.core.ir.expr import Expr, assign_identity
from explorer.core.ir.operation import Operation
from explorer.core.ir.source_location import Place, assigned_name
from explorer.core.registry import public
from explorer.core.types.custom_dtypes import converted, element_of, is_element, numbers_of, refuse_beyond
from explorer.core.types.device import Device, cpu
from explorer.core.types.tensor_type import Array, TensorType, as_dtype, as_shape

_tokens = count()


class Storage:
    """An array and its identity: expressions that use one storage use one value; nobody else writes to it.

    ``array`` is the device's own; ``shared`` says who else may read it, "" while only one tensor does; ``version``
    counts the writes until then.
    """

    __slots__ = ("array", "device", "shared", "token", "version")

    def __init__(self, array: Any, device: Device = cpu, shared: str = "what it was made of holds it too") -> None:
        if device is cpu:
            array.setflags(write=False)
        self.array, self.device, self.shared = array, device, shared
        self.token = next(_tokens)
        self.version = 0


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


STORED = Stored()
"""the operation of all tensors"""


class Tensor(Expr):
    """An expression that holds its value; ``name`` is what pictures call it.

    ``Tensor(4, 5, 6, 7, dtype=int)`` is made by its sizes, of any rank: zeros of float32, or of the dtype given, to be
    written to. ``ex.tensor`` makes one of a value.
    """

    __slots__ = ("name", "storage")
    name: str
    storage: Storage

    def __new__(cls, *shape: Any, dtype: Any = np.float32, name: str = "", device: Device = cpu) -> Tensor:
        """Zeros of a shape, given size by size or as one tuple."""
        given = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        if not all(isinstance(size, (int, np.integer)) and not isinstance(size, bool) for size in given):
            raise OperandError(
                f"ex.Tensor({', '.join([reprlib.repr(each) for each in shape])})",
                rule="ex.Tensor must be given the sizes of its axes, whole numbers",
                fix="ex.Tensor(4, 5, 6, 7, dtype=np.float32); ex.tensor(value) makes a tensor of a value",
            )
        sizes, kind = as_shape(given, "ex.Tensor"), as_dtype(dtype)
        return tensor(np.broadcast_to(converted(0, kind), sizes), name=name, device=device)

    @property
    def array(self) -> Array:
        """The value, read-only: a view of the storage, which shows what is written to it later."""
        storage = self.storage
        if storage.device is cpu:
            found: Array = storage.array
            return found
        found = storage.device.read(storage.array).view()
        found.flags.writeable = False
        return found

    @property
    def label(self) -> str:
        """The tensor's name, or the variable that it was assigned to."""
        if self.name:
            return self.name
        known = self.code is None or isinstance(self.code, Place)
        return ("" if known else assigned_name(self.code, self.instruction)) or "tensor"

    def mark_used(self) -> None:
        """An expression reads the tensor from now on: its storage is not written to any more."""
        if not self.storage.shared:
            self.storage.shared = "an expression, a view or a result uses it"

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write to elements, as NumPy has it; raises StateError where anything else reads the storage."""
        self.refuse_shared()
        if isinstance(index, Expr) or (isinstance(index, tuple) and any(isinstance(item, Expr) for item in index)):
            raise OperandError(
                f"writing to {self!r} at an expression", rule="places are known numbers", fix="ex.evaluate the place"
            )
        given = value.array if isinstance(value, Tensor) else hooks.evaluate(value) if _expressed(value) else value
        self.refuse_shared()  # the value may have been computed from this tensor
        storage, type_ = self.storage, self.tensor_type
        element = element_of(type_.dtype)
        host = np.array(storage.device.read(storage.array)) if storage.device is not cpu else storage.array
        try:
            found = np.asarray(given)
            if not is_element(found.dtype) or (found.dtype.kind == "c" and type_.dtype.kind != "c"):
                raise TypeError(f"{found.dtype} does not convert to {type_.dtype}")
            storage.version += 1
            refuse_beyond(found, type_.dtype)
            host.flags.writeable = True
            if element is not None:
                given = element.array(numbers_of(found))
            elif element_of(found.dtype) is not None:
                given = numbers_of(found)
            host[index] = given
        except (IndexError, ValueError, TypeError, OverflowError) as error:
            raise OperandError(
                f"writing {type(value).__name__} to elements {index!r} of {type_}: {error}",
                rule="what is written broadcasts to the elements that the index picks, and converts to their dtype",
            ) from None
        finally:
            host.flags.writeable = False
        if storage.device is not cpu:
            storage.device.write(storage.array, host)

    def refuse_shared(self) -> None:
        """Raise StateError where the storage may not be written to."""
        if self.storage.shared:
            raise StateError(
                f"writing to elements of {self!r}, whose storage is shared: {self.storage.shared}",
                rule="a storage that anything else reads never changes; x[i] is a view that shares it",
                fix="write to a copy, ex.tensor(x), or choose with ex.where; x.array[i] reads without recording",
            )


def _expressed(value: Any) -> bool:
    return isinstance(value, Expr) or hasattr(type(value), "__expr__")


def tensor_of(storage: Storage, name: str = "") -> Tensor:
    """The tensor of a storage of NumPy's; several tensors may share one."""
    array = storage.array
    return _made(storage, TensorType(array.shape, array.dtype), name)


def _made(storage: Storage, type_: TensorType, name: str) -> Tensor:
    self = object.__new__(Tensor)
    self.operation, self.operands, self.storage, self.name = STORED, (), storage, name
    self.type = type_
    assign_identity(self)
    return self


def tensor(value: Any, dtype: Any = None, *, name: str = "", copy: bool = True, device: Device = cpu) -> Tensor:
    """A tensor of an array, a nested list or a number on a device: shape and dtype as NumPy sees them.

    The value is copied; ``copy=False`` takes the array itself and freezes it. Elements may be written to (t[i] = v)
    until an expression uses the tensor. Raises OperandError where the value is no regular array of numbers.
    """
    if isinstance(dtype, (int, np.integer)):
        raise OperandError(
            f"ex.tensor({value!r}, {dtype!r}, …)",
            rule="a tensor of any rank must be made by its value; its second argument is a dtype",
            fix=f"ex.Tensor({value!r}, {dtype!r}), with a capital T, is made by its sizes",
        )
    try:
        array = _array(value if type(value) is np.ndarray else _plain(value), dtype, copy)
    except (ExplorerError, MemoryError):
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise OperandError(
            f"ex.tensor of a {type(value).__name__}: {error}", rule="a tensor is a regular array of numbers"
        ) from None
    except Exception as error:
        raise OperandError(
            f"ex.tensor of a {type(value).__name__}, whose class raised {type(error).__name__}: {error}",
            rule="a lookup of a missing attribute must raise AttributeError, and a conversion to an array must succeed",
            fix="correct the methods of the class, or pass an array of its numbers",
        ) from error
    if not is_element(array.dtype):
        raise OperandError(
            f"ex.tensor of a {type(value).__name__}: elements of dtype {array.dtype}",
            rule="tensors hold booleans, integers, floating or complex numbers, and elements of declared types",
            fix="convert the value first, for instance with .astype(np.float32)",
        )
    if not copy and _is_shared(array):
        raise OperandError(
            "ex.tensor(view, copy=False) of a view of a writable array",
            rule="a tensor's storage is read-only, and the view's base could still be written to",
            fix="leave copy=False out, or pass the whole array",
        )
    if device is not cpu:
        type_ = TensorType(array.shape, array.dtype, device)
        return _made(Storage(device.put(array), device, shared=""), type_, name)
    storage = Storage(array, shared="") if copy else Storage(array)
    return _made(storage, TensorType(array.shape, array.dtype), name)


def _plain(value: Any) -> Any:
    """What NumPy makes an array of; raises OperandError for expressions, whose value is not there, and for masks."""
    if isinstance(value, Tensor):
        return value.array
    if _expressed(value) or (isinstance(value, (list, tuple)) and _holds_expression(value)):
        raise OperandError(
            f"ex.tensor of {value!r}",
            rule="a tensor holds a value that is there",
            fix="evaluate it first: ex.evaluate(x); join expressions with ex.stack",
        )
    if isinstance(value, np.ma.MaskedArray):
        raise OperandError(
            "ex.tensor of a masked array", rule="a tensor has no mask", fix="fill it first: array.filled(0.0)"
        )
    return value


def _array(value: Any, dtype: Any, copy: bool) -> Array:
    wanted = None if dtype is None else np.dtype(dtype)
    source = getattr(value, "dtype", None)
    if (wanted is not None and element_of(wanted)) or (wanted and isinstance(source, np.dtype) and element_of(source)):
        assert wanted is not None
        return converted(value, wanted)
    array = np.array(value, dtype=dtype, order="C") if copy else np.asarray(value, dtype=dtype)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _holds_expression(values: Any) -> bool:
    """Whether nested lists hold an expression: NumPy would evaluate it."""
    return any(_expressed(value) or (isinstance(value, (list, tuple)) and _holds_expression(value)) for value in values)


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

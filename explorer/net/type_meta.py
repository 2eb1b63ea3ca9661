"""Type metas, which construct, copy and destruct elements of a type in memory.

In Caffe2, they describe the C++ elements of a blob. Here, they describe elements of NumPy's dtypes and of Python
classes. A `Block` contains elements of one type, and destructs them when it is freed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import numpy as np

from explorer.core.argument_checks import named_methods
from explorer.core.errors import DeclarationError, OperandError
from explorer.core.registry import Registry, changes
from explorer.core.types.custom_dtypes import is_element
from explorer.core.types.device import Block, Device, cpu
from explorer.record.reasons import counted_text

_OBJECT = np.dtype(object)
_Maker: TypeAlias = Callable[[], Any]


@named_methods
class TypeMeta:
    """Element type, with methods that construct, copy and destruct arrays of elements (Caffe2: TypeMeta).

    ``TypeMeta.make(type)`` returns the TypeMeta of a dtype or class, which is created only once. Numbers are stored
    directly in memory and need no construction. Objects are constructed by calling the class, and copied by
    ``copy.deepcopy``. Destructing elements does not free their memory; the device frees it afterwards.

    >>> meta = ex.TypeMeta.make("float32")
    >>> meta.name, meta.itemsize, meta is ex.TypeMeta.make(np.float32)
    ('float32', 4, True)
    >>> block = ex.TypeMeta.make(list).allocate(2)
    >>> block.memory
    array([list([]), list([])], dtype=object)
    """

    _known: ClassVar[Registry[Any, TypeMeta]] = Registry("type meta")

    __slots__ = ("_construct", "_destruct", "dtype", "id", "itemsize", "name", "type")
    id: int
    """index of the type, in the order of creation"""
    name: str
    itemsize: int
    """number of bytes of an element; for an object, of the reference to the object"""
    dtype: np.dtype[Any]
    """dtype of the memory: the type's own, or object"""
    type: Any
    """the class, or the dtype"""
    _construct: _Maker | None
    _destruct: Callable[[Any], None] | None

    @classmethod
    def make(
        cls, type: Any, *, construct: _Maker | None = None, destruct: Callable[[Any], None] | None = None
    ) -> TypeMeta:
        """Return the meta of a dtype or a class, created at its first use.

        ``construct()`` creates an object; it is needed if the class cannot be called without arguments. ``destruct`` is
        called with each object that is destructed. Raise DeclarationError if objects of the class cannot be created or
        copied, or if the class already has a meta with different functions.
        """
        key = _key(type)
        known = cls._known.get(key)
        if known is None:
            meta = cls._new(key, construct, destruct)
            with changes.held:
                known = cls._known.get(key)  # another thread may have been first
                if known is None:
                    meta.id = len(cls._known)
                    return cls._known.register(key, meta)
        if (construct or destruct) and (known._construct, known._destruct) != (construct or known.type, destruct):
            raise DeclarationError(
                f"TypeMeta.make({known.name}) with another constructor or destructor",
                rule="a type must be created once, because blocks of it may exist",
                fix=f"TypeMeta.make({known.name}), or another class",
            )
        return known

    @classmethod
    def of(cls, value: Any) -> TypeMeta:
        """Return the meta of the elements of an array or tensor, or the meta of the class of any other value."""
        dtype = getattr(value, "dtype", None)
        return cls.make(dtype if isinstance(dtype, np.dtype) else value.__class__)

    @classmethod
    def _new(cls, key: Any, construct: _Maker | None, destruct: Callable[[Any], None] | None) -> TypeMeta:
        self = object.__new__(cls)
        self.type, self._destruct = key, destruct
        if isinstance(key, np.dtype):
            if construct is not None or destruct is not None:
                raise DeclarationError(
                    f"TypeMeta.make({key}) with a constructor or a destructor",
                    rule="numbers must be stored directly in memory",
                    fix=f"TypeMeta.make({key.name!r})",
                )
            self.name, self.itemsize, self.dtype, self._construct = key.name, key.itemsize, key, None
        else:
            self.name, self.itemsize, self.dtype = key.__name__, _OBJECT.itemsize, _OBJECT
            self._construct = key if construct is None else construct
            _check_life(self.name, self._construct)
        return self

    # -- n elements ------------------------------------------------------------------------------------------------

    def construct(self, memory: Any, count: int) -> None:
        """Construct the first ``count`` elements of ``memory``; numbers need no construction."""
        self._check(memory, count)
        if self._construct is None:
            return
        done = 0
        try:
            for done in range(count):
                memory[done] = self._construct()
        except BaseException:
            self.destruct(memory, done)
            raise

    def copy(self, source: Any, target: Any, count: int) -> None:
        """Copy the first ``count`` elements of ``source`` to ``target``; objects are copied deeply."""
        self._check(source, count)
        self._check(target, count)
        if self._construct is None:
            target[:count] = source[:count]
            return
        for index in range(count):
            target[index] = copy.deepcopy(source[index])

    def destruct(self, memory: Any, count: int) -> None:
        """Destruct the first ``count`` elements in order; the memory is not freed."""
        self._check(memory, count)
        if self._construct is None:
            return
        for index in range(count):
            # Removed from memory first, so that a failing destructor is not called again for the element.
            element, memory[index] = memory[index], None
            if self._destruct is not None and element is not None:
                self._destruct(element)

    def allocate(self, count: int, device: Device = cpu) -> Block:
        """Return a block of ``count`` constructed elements, destructed and freed when nothing refers to the block."""
        if self._construct is None:
            return Block(device, count * self.itemsize)
        if not device.addressable:
            raise OperandError(
                f"a block of {self.name} on {device.name}",
                rule="objects must be in memory that Python addresses",
                fix=f"TypeMeta.make({self.name}).allocate({count})",
            )
        memory = np.empty(count, _OBJECT)
        self.construct(memory, count)
        return Block(device, memory.nbytes, lambda elements: self.destruct(elements, count), memory)

    def _check(self, memory: Any, count: int) -> None:
        if memory.dtype != self.dtype or not 0 <= count <= len(memory):
            raise OperandError(
                f"{counted_text(count, 'element')} of {self.name} in {len(memory)} of {memory.dtype}",
                rule=f"the memory must have that many elements of {self.dtype}",
                fix=f"TypeMeta.make({self.name}).allocate({count})",
            )

    def __repr__(self) -> str:
        return f"<type {self.name}: {counted_text(self.itemsize, 'byte')}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return TypeMeta.make, (self.type,)


def _key(type_: Any) -> Any:
    """Return the key of ``type_`` in the table of metas: a dtype, or a class that is not a dtype."""
    if isinstance(type_, type) and not issubclass(type_, np.generic) and type_ not in (bool, int, float, complex):
        return type_
    try:
        # NumPy converts None to float64.
        dtype = _OBJECT if type_ is None else np.dtype(type_)
    except TypeError:
        dtype = _OBJECT
    if not is_element(dtype):
        raise OperandError(
            f"TypeMeta.make({type_!r})",
            rule="a type must be a dtype of numbers or a class",
            fix="TypeMeta.make(np.float32), or TypeMeta.make(dict)",
        )
    return dtype


def _check_life(name: str, construct: _Maker) -> None:
    """Raise DeclarationError unless an object can be created and copied, by trying both."""
    try:
        element = construct()
    except Exception as error:
        raise DeclarationError(
            f"TypeMeta.make({name}): {type(error).__name__}: {error}",
            rule="a class must be callable without arguments, or have a constructor",
            fix=f"TypeMeta.make({name}, construct=lambda: {name}(…))",
        ) from error
    try:
        copy.deepcopy(element)
    except Exception as error:
        raise DeclarationError(
            f"TypeMeta.make({name}): {type(error).__name__}: {error}",
            rule="objects of a type must be copyable",
            fix=f"def __deepcopy__(self, memo): …  in the class {name}",
        ) from error

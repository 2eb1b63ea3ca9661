"""Contents of captured containers and arrays, compared with their state at capture time.

A traced function checks at each call whether its captures have changed. Items are compared by identity and arrays by
their bytes, which is fast and never calls a user's ``__eq__``. Contents that are too large are rejected when the
function is traced.
"""

from __future__ import annotations

import functools
import os
import sys
from collections import ChainMap, UserDict, UserList, UserString, deque
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from io import IOBase
from operator import eq, is_
from random import Random
from types import MappingProxyType
from typing import Any, get_origin
from weakref import ReferenceType, WeakKeyDictionary, WeakSet, WeakValueDictionary

import numpy as np

from explorer.core.exact_keys import exact
from explorer.core.ir.expr import Expr
from explorer.core.ir.identity_comparison import Read
from explorer.core.ir.storage import Storage
from explorer.core.ir.tensor import Tensor
from explorer.core.tracing.static_attributes import is_fixed_class
from explorer.record.reasons import counted_text

ARRAY_BYTES = 1 << 16
"""maximum number of bytes of a writable array whose contents are compared at each call"""
ITEMS = 10_000
"""maximum number of items of a container that are compared at each call"""

_SEQUENCES = (list, set, deque)
_EXPRESSIONS = {Expr, Tensor}
_VIEWS: Any = (type({}.keys()), type({}.values()), type({}.items()))
_MAPPINGS = (dict, MappingProxyType)


def reader(value: Any) -> tuple[Read, Any] | None:
    """Return a function and its expected result, which it returns as long as the contents of ``value`` are unchanged.

    Returns None for a value that cannot change in place.
    """
    if type(value) is list and value and {*map(type, value)} <= _EXPRESSIONS:
        return functools.partial(eq, [*value], value), True  # compared by identity, see core/ir/identity_comparison.py
    read = _reader(value)
    return None if read is None else (read, value)


def _reader(value: Any) -> Read | None:
    """Return a function that returns ``value`` as long as its contents are unchanged, and None otherwise."""
    if isinstance(value, np.ndarray):
        return _array_reader(value)
    if isinstance(value, Tensor):
        storage = value.storage
        return functools.partial(_storage, value, storage, storage.version) if _is_open(storage) else None
    if isinstance(value, _MAPPINGS):
        return functools.partial(_mapping, value, [*value], [*value.values()])
    if isinstance(value, _SEQUENCES):
        return functools.partial(_sequence, value, [*value])
    if _is_buffer(value):
        return functools.partial(_buffer, value, memoryview(value).tobytes())
    return None


def parts(value: Any) -> Iterable[Any]:
    """Return the objects inside a container, or the object to which a reference refers."""
    if isinstance(value, _MAPPINGS):
        return [*value, *value.values()]
    if isinstance(value, (tuple, frozenset, *_SEQUENCES)):
        return [*value]
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return [*value.flat]
    if isinstance(value, _VIEWS):
        return [value.mapping]
    if isinstance(value, np.vectorize):
        return [value.pyfunc]
    if isinstance(value, property):
        return [value.fget]
    if get_origin(value) is not None:
        return [get_origin(value)]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, (ReferenceType, ContextVar)):
        return [referred(value)]
    return ()


def referred(value: ReferenceType[Any] | ContextVar[Any]) -> Any:
    """Return the object to which a weak reference or a context variable refers."""
    return value() if isinstance(value, ReferenceType) else value.get(None)


def attribute_with_contents(value: Any) -> str | None:
    """Return the attribute that contains the items of a container implemented in Python; None for other values."""
    if isinstance(value, ChainMap):
        return "maps"
    kinds = (UserDict, UserList, UserString, WeakKeyDictionary, WeakSet, WeakValueDictionary)
    return "data" if isinstance(value, kinds) else None


def is_stream(value: Any) -> bool:
    """Return whether an object yields a different value each time, as iterators and random number generators do."""
    # only if NumPy's generators were imported, because importing them is slow
    numpy_random = sys.modules.get("numpy.random")
    generators = (Random, numpy_random.Generator, numpy_random.RandomState) if numpy_random is not None else (Random,)
    is_iterator = isinstance(value, Iterator) and is_fixed_class(type(value)) and not isinstance(value, IOBase)
    return is_iterator or isinstance(value, generators)


def environment(snapshot: dict[str, str]) -> Any:
    """Return the environment if it equals ``snapshot``, else None."""
    return os.environ if os.environ.copy() == snapshot else None


def attributes(value: Any, attributes_dict: dict[str, Any], count: int) -> Any:
    """Return the ``__dict__`` of an object if it is the same dict with the same number of entries, else None."""
    return attributes_dict if value.__dict__ is attributes_dict and len(attributes_dict) == count else None


def same_number(read: Read, key: Any) -> bool:
    """Return whether ``read`` returns the number or string with this key, perhaps as a new object."""
    return bool(exact(read()) == key)


def cell_contents_of(cell: Any) -> Any:
    """Return the value of a closure variable, or None if it is not bound yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def excess_size(value: Any) -> str:
    """Describe the size of mutable contents that are too large to compare at each call; return "" for other values."""
    if isinstance(value, np.ndarray):
        if value.nbytes <= ARRAY_BYTES or not is_writable(value):
            return ""
        return f"{'×'.join(map(str, value.shape))} {value.dtype}, {value.nbytes:,} bytes"
    if isinstance(value, (*_MAPPINGS, *_SEQUENCES)) and len(value) > ITEMS:
        return counted_text(len(value), "item")
    if _is_buffer(value):
        nbytes = memoryview(value).nbytes
        return f"{nbytes:,} bytes" if nbytes > ARRAY_BYTES else ""
    return ""


def is_writable(array: np.ndarray[Any, Any]) -> bool:
    """Return whether an array, or an array of which it is a view, is writable."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        # writing to the base array changes read-only views, too
        if owner.flags.writeable:
            return True
        owner = owner.base
    return owner is not None and not isinstance(owner, bytes)


def _is_open(storage: Any) -> bool:
    return isinstance(storage, Storage) and not storage.shared


def _array_reader(value: np.ndarray[Any, Any]) -> Read:
    if value.dtype.hasobject:
        return functools.partial(_objects, value, value.shape, [*value.flat])
    if value.nbytes <= ARRAY_BYTES:
        return functools.partial(_array, value, value.shape, value.dtype, value.tobytes())
    return functools.partial(_frozen, value, value.shape, value.dtype)


def _array(value: Any, shape: Any, dtype: Any, snapshot: bytes) -> Any:
    # compare bytes, because NaN must equal itself, and 0.0 must differ from −0.0
    return value if value.tobytes() == snapshot and value.shape == shape and value.dtype == dtype else None


def _frozen(value: Any, shape: Any, dtype: Any) -> Any:
    """Return a large array that was read-only when it was captured if it still is, else None."""
    return value if not value.flags.writeable and value.shape == shape and value.dtype == dtype else None


def _objects(value: Any, shape: Any, snapshot: list[Any]) -> Any:
    return value if value.shape == shape and all(map(is_, value.flat, snapshot)) else None


def _storage(value: Any, storage: Any, version: int) -> Any:
    return value if storage.version == version else None


def _sequence(value: Any, snapshot: list[Any]) -> Any:
    try:
        return value if len(value) == len(snapshot) and all(map(is_, value, snapshot)) else None
    except RuntimeError:  # another thread is changing the container
        return None


def _mapping(value: Any, keys: list[Any], values: list[Any]) -> Any:
    try:
        is_unchanged = len(value) == len(keys) and all(map(is_, value.values(), values)) and all(map(is_, value, keys))
    except RuntimeError:  # another thread is changing the container
        return None
    return value if is_unchanged else None


def _buffer(value: Any, snapshot: bytes) -> Any:
    return value if memoryview(value).tobytes() == snapshot else None


def _is_buffer(value: Any) -> bool:
    """Return whether an object exposes its memory, as a ``bytearray`` or a ``ctypes`` object does."""
    try:
        return not memoryview(value).readonly or isinstance(value, memoryview)
    except (TypeError, ValueError, BufferError):
        return False

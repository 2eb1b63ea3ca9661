"""Device with its own memory and array class, like CuPy's: an accelerator without hardware.

NumPy functions accept its arrays through NEP 13 and NEP 18. Mixing them with NumPy arrays, converting one implicitly,
or passing an option that CuPy lacks raises TypeError. Allocations, frees and copies are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

import explorer as ex
from explorer.core.types.tensor_type import Array


class AcceleratorArray(NDArrayOperatorsMixin):
    """Array in an accelerator's memory."""

    def __init__(self, held: Array) -> None:
        self._held = held

    shape = property(lambda self: self._held.shape)
    dtype = property(lambda self: self._held.dtype)
    ndim = property(lambda self: self._held.ndim)
    size = property(lambda self: self._held.size)
    itemsize = property(lambda self: self._held.itemsize)
    nbytes = property(lambda self: self._held.nbytes)
    strides = property(lambda self: self._held.strides)
    flags = property(lambda self: self._held.flags)
    T = property(lambda self: AcceleratorArray(self._held.T))
    real = property(lambda self: AcceleratorArray(self._held.real))
    imag = property(lambda self: AcceleratorArray(self._held.imag))

    def __array__(self, *arguments: Any, **named: Any) -> Any:
        raise TypeError("an array of the accelerator is no NumPy array by itself")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        if method == "reduce" and ufunc not in (np.add, np.multiply):
            raise NotImplementedError(f"{ufunc.__name__}.reduce is not supported")
        _refuse_others(f"{ufunc.__name__}, {method}", named, ("out", "dtype", "casting", "axis", "keepdims"))
        result = _call(getattr(ufunc, method), inputs, named)
        # return the same array that was passed, as NumPy and CuPy do
        out = named.get("out")
        return result if out is None else out[0] if len(out) == 1 else out

    def __array_function__(self, function: Any, types: Any, arguments: Any, named: Any) -> Any:
        if function is np.take:
            _refuse_others("take", named, ("axis", "out"), arguments[4:])
        if function in (np.asarray, np.array):
            return AcceleratorArray(function(*[getattr(array, "_held", array) for array in arguments], **named))
        return _call(function, arguments, named)

    def __getitem__(self, index: Any) -> Any:
        return _call(lambda held, index: held[index], (self, index), {})

    def __setitem__(self, index: Any, value: Any) -> None:
        _call(lambda held, index, value: held.__setitem__(index, value), (self, index, value), {})

    def __len__(self) -> int:
        return len(self._held)

    def __bool__(self) -> bool:
        return bool(self._held)

    def __int__(self) -> int:
        return int(self._held)

    def __float__(self) -> float:
        return float(self._held)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in _METHODS:
            raise AttributeError(name)
        if name in ("item", "tolist"):
            return getattr(self._held, name)
        return lambda *arguments, **named: _call(getattr(self._held, name), arguments, named)


_METHODS = (
    *("reshape", "transpose", "astype", "view", "sum", "min", "max", "mean", "prod", "all", "any", "argmax", "argmin"),
    *("take", "copy", "fill", "squeeze", "swapaxes", "ravel", "cumsum", "repeat", "item", "conj", "argsort", "clip"),
    "tolist",
)


def _refuse_others(name: str, named: dict[str, Any], known: tuple[str, ...], more: Any = ()) -> None:
    """Raise TypeError for options that CuPy's functions do not have."""
    unknown = [option for option in named if option not in known]
    if unknown or more:
        raise TypeError(f"{name}() got an unexpected argument: {unknown or more}")


def _call(function: Callable[..., Any], arguments: Any, named: Any) -> Any:
    return _there(function(*_held(arguments), **_held(named)))


def _held(value: Any) -> Any:
    if isinstance(value, AcceleratorArray):
        return value._held
    if isinstance(value, np.ndarray):
        raise TypeError(f"a NumPy array of shape {value.shape} among arrays of the accelerator")
    if type(value) in (tuple, list):
        return type(value)(_held(item) for item in value)
    return {name: _held(item) for name, item in value.items()} if type(value) is dict else value


def _there(value: Any) -> Any:
    if type(value) is tuple:
        return tuple(_there(item) for item in value)
    # scalars are arrays, too, because a number would require a copy to the host
    return AcceleratorArray(np.asarray(value)) if isinstance(value, (np.ndarray, np.generic)) else value


class Accelerator(ex.Device):
    """Memory of the device, and NumPy's functions on it."""

    addressable = False
    runs_numpy = True
    log: ClassVar[list[str]] = []
    """calls since the last ``clear``"""
    fails: ClassVar[bool] = False
    """whether pending work is going to fail"""
    inside: ClassVar[int] = 0

    def new(self, nbytes: int) -> bytearray:
        self.log.append(f"new {nbytes}")
        return bytearray(nbytes)

    def delete(self, memory: bytearray) -> None:
        self.log.append(f"delete {len(memory)}")

    def empty(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> AcceleratorArray:
        array = super().empty(shape, dtype)
        array.view(np.uint8 if array.ndim else array.dtype)[...] = 0x5A
        return AcceleratorArray(array)

    def write(self, array: AcceleratorArray, values: Array) -> None:
        self.log.append(f"write {values.nbytes}")
        assert array.shape == values.shape
        np.copyto(array._held, values)

    def read(self, array: AcceleratorArray) -> Array:
        self.log.append(f"read {array.nbytes}")
        return np.array(array._held)

    def copy(self, source: Any, target: Any, to: ex.Device | None = None) -> None:
        if isinstance(to, Accelerator):
            self.log.append(f"direct {source.nbytes}")
            np.copyto(target._held, source._held)
        else:
            super().copy(source, target, to)

    @contextmanager
    def _current(self) -> Iterator[Accelerator]:
        type(self).inside += 1
        try:
            yield self
        finally:
            type(self).inside -= 1

    def switch_to_device(self) -> Any:
        return self._current()

    def finish(self) -> bool:
        self.log.append("finish")
        return not self.fails


accelerator = Accelerator("accelerator")
second_accelerator = Accelerator("second accelerator")

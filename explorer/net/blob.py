"""Blobs: holders of one value of any type (Caffe2: Blob).

A workspace has one for each name. Plans read and write arrays; holders exist because the operators of Caffe2 also pass
readers, counters and lists from one to the next, under the same names.
"""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

import numpy as np

from explorer.core.argument_checks import named_methods
from explorer.core.errors import OperandError
from explorer.core.ir.tensor import Tensor
from explorer.core.tracing.captures import note
from explorer.core.types.tensor_type import Array

_Value = TypeVar("_Value")


@named_methods
class Blob:
    """Holder of one value of any type, empty at first.

    >>> blob = ex.Blob("counts")
    >>> blob.get_mutable(dict)["a"] = 1
    >>> blob.get(dict), blob.is_type(list)
    ({'a': 1}, False)
    """

    __slots__ = ("_value", "name")

    def __init__(self, name: str = "") -> None:
        self.name = name
        self._value: Any = None

    @property
    def empty(self) -> bool:
        """Whether it holds nothing."""
        return self._value is None

    @property
    def value_type(self) -> type | None:
        """Class of the value; None of an empty blob."""
        return None if self._value is None else type(self._value)

    def is_type(self, kind: type) -> bool:
        """Whether the value is of a class."""
        return isinstance(self._value, kind)

    def get(self, kind: type[_Value]) -> _Value:
        """Return the value; raises OperandError if it is of another class, or if there is none.

        Of a tensor, which lies on another device than cpu, NumPy's array is a copy.
        """
        value = self.value()
        if kind is np.ndarray and isinstance(value, Tensor):
            value = value.array
        if not isinstance(value, kind):
            held = "nothing" if self._value is None else f"a {type(self._value).__name__}"
            raise OperandError(
                f"the blob {self.name!r} holds {held}",
                rule=f"it must hold a {kind.__name__}, as is asked for",
                fix="ask for the class that it holds: blob.value_type, or reset(value)",
            )
        return value

    def value(self) -> Any:
        """Return the value, whatever it is; None of an empty blob."""
        note(partial(getattr, self, "_value"))
        return self._value

    def elements(self) -> Array | Tensor:
        """Return what a net reads: an array, or a tensor on another device; raises OperandError for anything else."""
        value = self.value()
        return value if isinstance(value, Tensor) else self.get(np.ndarray)

    def get_mutable(self, kind: type[_Value]) -> _Value:
        """Return the value; one of another class, or none, is replaced by ``kind()``."""
        if not isinstance(self._value, kind):
            self._value = kind()
        value: _Value = self._value
        return value

    def reset(self, value: Any = None) -> None:
        """Hold another value, or nothing; the last holder of the old one frees it."""
        self._value = value

    def __repr__(self) -> str:
        return f"<blob {self.name!r}: {'empty' if self._value is None else type(self._value).__name__}>"

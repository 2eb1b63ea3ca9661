"""Blobs, which are named containers of one value of any type (Caffe2: Blob).

Plans read and write only arrays, but Caffe2 operators also pass readers, counters and lists to each other by name.
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
    """Container of one value of any type, initially empty.

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
        """Whether the blob contains no value."""
        return self._value is None

    @property
    def value_type(self) -> type | None:
        """Class of the value; None for an empty blob."""
        return None if self._value is None else type(self._value)

    def is_type(self, kind: type) -> bool:
        """Return whether the value is an instance of ``kind``."""
        return isinstance(self._value, kind)

    def get(self, kind: type[_Value]) -> _Value:
        """Return the value; raise OperandError if it is not an instance of ``kind``, or if the blob is empty.

        If ``kind`` is a NumPy array and the value is a tensor on a device other than cpu, return a copy.
        """
        value = self.value()
        if kind is np.ndarray and isinstance(value, Tensor):
            value = value.array
        if not isinstance(value, kind):
            content = "is empty" if self._value is None else f"contains a {type(self._value).__name__}"
            raise OperandError(
                f"the blob {self.name!r} {content}",
                rule=f"it must contain a {kind.__name__}, as requested",
                fix="request the value's class, blob.value_type, or set another value: blob.reset(value)",
            )
        return value

    def value(self) -> Any:
        """Return the value, whatever its type; None for an empty blob."""
        note(partial(getattr, self, "_value"))
        return self._value

    def elements(self) -> Array | Tensor:
        """Return the value, an array or a tensor, as an input of a net; raise OperandError for any other value."""
        value = self.value()
        return value if isinstance(value, Tensor) else self.get(np.ndarray)

    def get_mutable(self, kind: type[_Value]) -> _Value:
        """Return the value; if it is missing or not an instance of ``kind``, first replace it with ``kind()``."""
        if not isinstance(self._value, kind):
            self._value = kind()
        value: _Value = self._value
        return value

    def reset(self, value: Any = None) -> None:
        """Replace the value; None empties the blob. The old value is freed when nothing else refers to it."""
        self._value = value

    def __repr__(self) -> str:
        return f"<blob {self.name!r}: {'empty' if self._value is None else type(self._value).__name__}>"

"""Weights of a net: tensors that are read from their file when needed, and that users can replace.

Opening, drawing and planning a model reads no weights; a run reads each weight once. The shape and dtype of a
replacement are checked immediately, because an error in a later run would not show the wrong assignment.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.recording_context import state
from explorer.core.ir.storage import Storage
from explorer.core.ir.tensor import Tensor, stored_tensor, tensor_of
from explorer.core.types.custom_dtypes import is_text
from explorer.core.types.device import Device, cpu
from explorer.core.types.tensor_type import Array, TensorType
from explorer.net.definition.definition import NetDefinition, WeightReference
from explorer.net.definition.operator_definition import FileWeights, Weights, memory_dtype
from explorer.record.escape import visible
from explorer.record.reasons import counted_text

_SHOWN = 200
"""maximum number of weights shown"""
_tokens = count(-1, -1)  # negative, because tokens of arrays count up from 0


class FileStorage(Storage):
    """Storage whose array is read from the file at its first use, and again at the next use after a release."""

    __slots__ = ("_array", "_read")

    def __init__(self, read: Callable[[], Array]) -> None:
        self._read = read
        self._array: Array | None = None
        # Recorded tensors are compared and cached by this token, so the weight need not be read.
        self.token = next(_tokens)
        self.device, self.shared = cpu, "it belongs to the net's file"
        self.version = 0

    @property
    def array(self) -> Array:
        """The value, read-only."""
        if self._array is None:
            array = self._read()
            # Operators may share the array, and runs use it without a copy.
            array.flags.writeable = False
            self._array = array
        return self._array

    def peek(self) -> Array:
        """Return the value; a value that has not been read yet is read but not stored."""
        return self._read() if self._array is None else self._array

    def release(self) -> None:
        """Drop the array; the next use reads it again."""
        self._array = None


class WeightOnDevice(Storage):
    """Storage of a weight that is copied to a device other than cpu at its first use, and again after a release."""

    __slots__ = ("_array", "_source")

    def __init__(self, source: Storage, device: Device) -> None:
        self._source, self._array = source, None
        self.token = next(_tokens)
        self.device, self.shared = device, source.shared or "it belongs to the net"
        self.version = 0

    @property
    def array(self) -> Any:
        """The array on the device, which must not be modified; no copy remains on cpu."""
        if self._array is None:
            self._array = self.device.put(self._source.peek())
        return self._array

    def release(self) -> None:
        """Drop the device's array."""
        self._array = None


class JoinedWeights(FileWeights):
    """Mapping of the weights in a file and of arrays that were added later; the file is read at each access."""

    def __init__(self, base: Weights, added: Mapping[str, Array]) -> None:
        self._base, self._added = base, dict(added)
        for name in ("error", "path"):
            if hasattr(base, name):
                setattr(self, name, getattr(base, name))

    def __getitem__(self, key: str) -> Array:
        return self._added[key] if key in self._added else self._base[key]

    def verify(self, key: str) -> None:
        """Raise an error if a weight of the file cannot be read."""
        if key in self._added:
            return
        if isinstance(self._base, FileWeights):
            self._base.verify(key)
        else:
            self._base[key]

    def __iter__(self) -> Iterator[str]:
        return iter({**dict.fromkeys(self._base), **self._added})

    def __len__(self) -> int:
        return len({*self._base, *self._added})

    def __contains__(self, key: object) -> bool:
        return key in self._added or key in self._base


def joined(base: Weights, added: Mapping[str, Array]) -> Weights:
    """Return a mapping with the weights of ``base`` and ``added``; for a key in both, ``added`` is used."""
    if not added:
        return base
    return {**base, **added} if isinstance(base, dict) else JoinedWeights(base, added)


class NetWeights:
    """Weights of a net by operator and attribute; each is represented by the same tensor until it is replaced."""

    def __init__(self, definition: NetDefinition) -> None:
        self._definition = definition
        self._tensors: dict[tuple[str, str], Tensor] = {}
        self._storages: dict[WeightReference, FileStorage] = {}
        """storages of a file's weights, shared by all operators that use the same weight"""
        self._on_devices: dict[tuple[Storage, Device], WeightOnDevice] = {}
        """copies of weights on other devices, also shared by all operators that use the same weight"""
        self._tensors_on_devices: dict[tuple[str, str, Device], Tensor] = {}
        self.version = 0
        """increased by every replacement"""

    def __repr__(self) -> str:
        rows = [
            (f"{operator.name}.{attribute}", f"{memory_dtype(reference.dtype).name} {reference.shape}", reference.key)
            for operator in self._definition.operators
            for attribute, reference in operator.weights.items()
        ]
        shown = [[visible(word) for word in row] for row in rows[:_SHOWN]]
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        lines = ["  " + "  ".join(f"{word:<{width}}" for word, width in zip(row, widths, strict=True)) for row in shown]
        rest = [f"  … and {len(rows) - _SHOWN:,} more"] * (len(rows) > _SHOWN)
        return "\n".join([f"<{counted_text(len(rows), 'weight')}>", *[line.rstrip() for line in lines], *rest])

    def tensor(self, operator: str, attribute: str) -> Tensor:
        """Return the tensor of a declared weight with the declared shape; the weight is not read.

        The tensor is on the device for which the net is recorded, and in the operator's box. Strings stay on cpu.
        """
        key = operator, attribute
        if key not in self._tensors:
            reference = self._definition.operator(operator).weights[attribute]
            self._tensors[key] = self._stored(operator, attribute, reference)
        tensor = self._tensors[key]
        if state.device is not cpu and not is_text(tensor.dtype):
            tensor = self._on_device(operator, attribute, tensor, state.device)
        # The tensor has the operator's current name, in case the operator was renamed.
        if state.scope is not None and state.scope.kind == "file":
            tensor.scope = state.scope
        return tensor

    def _on_device(self, operator: str, attribute: str, source: Tensor, device: Device) -> Tensor:
        """Return the tensor of a weight on ``device``, which is the same object at every call."""
        key = operator, attribute, device
        # Usually, setdefault discards this object, so it copies nothing until its array is requested.
        storage = self._on_devices.setdefault((source.storage, device), WeightOnDevice(source.storage, device))
        known = self._tensors_on_devices.get(key)
        if known is None or known.storage is not storage:
            type_ = source.tensor_type
            known = stored_tensor(storage, TensorType(type_.shape, type_.dtype, device), source.name)
            self._tensors_on_devices[key] = known
        return known

    def _stored(self, operator: str, attribute: str, reference: WeightReference) -> Tensor:
        definition = self._definition
        read = FileStorage(lambda: definition.weight(operator, attribute))
        type_ = TensorType(reference.shape, memory_dtype(reference.dtype))
        return stored_tensor(self._storages.setdefault(reference, read), type_, reference.key)

    def for_definition(self, definition: NetDefinition, renamed: Mapping[str, str]) -> NetWeights:
        """Return the weights of an edited definition, with the tensors of unchanged weights.

        ``renamed`` maps new names of operators to old names.
        """
        weights = NetWeights(definition)
        weights.version = self.version
        for operator in definition.operators:
            old = renamed.get(operator.name, operator.name)
            for attribute, reference in operator.weights.items():
                tensor = self._tensors.get((old, attribute))
                # With another weight, it is a different operator of the same name.
                if tensor is not None and self._definition.operator(old).weights.get(attribute) == reference:
                    # The same tensor, so the expressions of the edited net have the same leaves.
                    weights._tensors[operator.name, attribute] = tensor
        return weights

    def replace(self, operator: str, attribute: str, value: Any) -> None:
        """Replace the array of a weight; raise OperandError if ``value`` does not have the declared shape and dtype.

        A list is converted to the declared dtype. If the list is flat and has the declared size, it is also reshaped.
        """
        reference = self._definition.operator(operator).weights[attribute]
        array = value.array if isinstance(value, Tensor) else np.asarray(value)
        dtype = memory_dtype(reference.dtype)
        # Lists have no dtype; an array with another dtype is more likely a mistake.
        if not isinstance(value, (Tensor, np.ndarray)):
            array = array.astype(dtype)
            if array.shape == (math.prod(reference.shape),):
                array = array.reshape(reference.shape)
        if array.shape != reference.shape or array.dtype != dtype:
            raise OperandError(
                f"{array.dtype.name} {array.shape} for the weight {attribute!r} of operator {operator!r}",
                rule=f"the weight must be {dtype.name} {reference.shape}, as the net declares",
                fix=f"convert the array: .reshape({reference.shape}) or .astype({dtype.name!r})",
            )
        self._release_copies(operator, attribute)
        self._tensors[operator, attribute] = tensor_of(Storage(np.array(array, order="C")), f"{operator}.{attribute}")
        self.version += 1

    def take(self, operator: str, attribute: str, dtype: Any = None, *, release: bool = True) -> Array:
        """Return a weight as a read-only array, and release the net's copy of it.

        Raise OperandError if the weight has no elements, or if ``dtype`` is not the declared dtype.
        """
        reference = self._definition.operator(operator).weights[attribute]
        named = f"the weight {attribute!r} of operator {operator!r}"
        if 0 in reference.shape:
            raise OperandError(
                f"{named} is empty: its shape is {reference.shape}",
                rule="a weight that is read must have elements",
                fix="run the net without reading it",
            )
        declared = memory_dtype(reference.dtype)
        if dtype is not None and np.dtype(dtype) != declared:
            raise OperandError(
                f"{named} as {np.dtype(dtype).name}",
                rule=f"a weight must be read with the dtype that the net declares, {declared.name}",
                fix=f"leave dtype out, and convert the array: .astype({np.dtype(dtype).name!r})",
            )
        array = self.tensor(operator, attribute).array
        if release:
            self.release(operator, attribute)
        return array

    @property
    def are_replaced(self) -> bool:
        """Return whether every weight has been replaced, so that the file's weights are not needed."""
        keys = ((operator.name, attribute) for operator in self._definition.operators for attribute in operator.weights)
        tensors = (self._tensors.get(key) for key in keys)
        return all(tensor is not None and not isinstance(tensor.storage, FileStorage) for tensor in tensors)

    def release(self, operator: str, attribute: str) -> None:
        """Remove the array, or its replacement, from memory; the next use reads the file again."""
        tensor = self._tensors.get((operator, attribute))
        if tensor is None:
            return
        self._release_copies(operator, attribute)
        if isinstance(tensor.storage, FileStorage):
            tensor.storage.release()
        else:
            del self._tensors[operator, attribute]
            self.version += 1

    def _release_copies(self, operator: str, attribute: str) -> None:
        source = self._tensors[operator, attribute].storage if (operator, attribute) in self._tensors else None
        for key in [key for key in self._on_devices if key[0] is source]:
            self._on_devices.pop(key).release()

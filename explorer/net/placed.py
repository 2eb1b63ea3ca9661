"""Nets with a device: the one that they were moved to, or that of their inputs.

A layer of ``ex.Net`` between editing (editable.py) and building (buildable.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.kernel_registry import runs_on
from explorer.core.ir.recording_context import operator_of, placed_on
from explorer.core.ir.traversal import reachable
from explorer.core.types.custom_dtypes import is_text
from explorer.core.types.device import Device, as_device, cpu
from explorer.core.types.tensor_type import Shape, TensorType
from explorer.net.building.builder import Build
from explorer.net.building.containers import leaves
from explorer.net.definition.definition import NetDefinition, graph_error
from explorer.net.definition.shape_notes import noted_dtype
from explorer.net.editable import EditableNet
from explorer.net.operators.table import OperatorTable

_ASSUMED_TEXT = np.dtype((np.str_, 16))
"""the dtype of an input of texts that are not known yet"""


class PlacedNet(EditableNet):
    """Editable net with the device on which it is built and run."""

    def __init__(self, definition: NetDefinition | str, table: OperatorTable | None = None) -> None:
        super().__init__(definition, table)
        self._device: Device | None = None
        """the device that was asked for; None follows the inputs"""

    @property
    def device(self) -> Device:
        """Device that the net was moved to; else cpu, unless inputs lie elsewhere."""
        return cpu if self._device is None else self._device

    def to_device(self, device: Device | str) -> Self:
        """Build and run the net on a device, or on the one of a name, from now on; return the net.

        Each weight is copied there once, at its first use; arrays are copied there as inputs, and outputs come back as
        NumPy's. Texts stay on cpu. A net that was not moved runs where its inputs are, if they are tensors on a device.

        >>> net = ex.Net("positive")
        >>> net.output(net.Relu(net.input("x", (2,)), "y"))
        >>> net.to_device("cpu").run(np.array([-1, 1], dtype="float32"))
        array([0., 1.], dtype=float32)
        """
        self._device = as_device(device, f"to_device of net {self.name!r}")
        # Expressions name their device: all builds are of the old one.
        self._forget()
        return self

    def _forget(self) -> None:
        """Drop everything derived from the device; subclasses keep what they have built."""

    def _recorded(self, inputs: dict[str, Any], **options: Any) -> Build:
        """Record the expressions over inputs, with weights and constants on the device where the inputs are."""
        device = self._device_for(leaves(inputs.values()))
        with placed_on(device):
            build = self._builder.build(inputs, **options)
        if device is not cpu and not options.get("opaque"):
            _check_kernels(build)
        return build

    def _device_for(self, values: Iterable[Any]) -> Device:
        """Return the device that the net was moved to, else the one of tensors and expressions among its inputs.

        Raises OperandError where one lies elsewhere.
        """
        numbers = [value for value in values if isinstance(value, Expr) and not is_text(value.dtype)]
        device = self._place_of(numbers)
        other = next((value for value in numbers if value.device is not device), None)
        if other is not None:
            raise OperandError(
                f"an input on {other.device.name}, {other!r}, for net {self.name!r} on {device.name}",
                rule="all inputs that are tensors or expressions must lie where the net runs",
                fix=f"x.to_device({device.name!r})",
            )
        return device

    def _place_of(self, values: Iterable[Any]) -> Device:
        """Return the device that the net was moved to, else the first one other than cpu of expressions."""
        there = (value.device for value in values if isinstance(value, Expr))
        return self._device or next((device for device in there if device is not cpu), cpu)

    def _noted(self, name: str, shape: tuple[int, ...]) -> TensorType:
        dtype = noted_dtype(self.definition.input(name))
        if dtype is not None and is_text(dtype):
            dtype = _ASSUMED_TEXT
        return self._type_on(self.device, shape, np.dtype(np.float32) if dtype is None else dtype)

    def _type_on(self, device: Device, shape: Shape, dtype: np.dtype[Any]) -> TensorType:
        """Return the type of an input on a device; texts stay on cpu."""
        return TensorType(shape, dtype, cpu if is_text(dtype) else device)


def _check_kernels(build: Build) -> None:
    """Raise an error that names the first operator with an operation that its device cannot do.

    Without it a net on a GPU would fail in the middle of a run, after minutes perhaps, with an error that names an
    operation and no line of the file.
    """
    for node in reachable(build.roots):
        device = node.type.device
        if device is cpu or runs_on(node.operation, device):
            continue
        operator = operator_of(node.scope)
        which = "" if operator is None else f"operator {operator.name!r} ({operator.type}): "
        raise graph_error(
            build.definition.source,
            operator,
            f"{which}{node.operation.name} on {device.name}",
            rule="an operation must have a kernel registered for the device that it runs on",
            fix=f"net.to_device('cpu'), or @explorer.kernel({node.operation.name!r}, on={device.name})",
        )

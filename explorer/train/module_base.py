"""Parts of a module, what they record together, and what must hold before they are used.

Building (buildable_module.py) and training (module.py) add to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from explorer.core.errors import OperandError, StateError
from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import Tensor
from explorer.core.types.device import Device, cpu
from explorer.core.types.tensor_type import Shape
from explorer.layers.framework.parameters import Parameter
from explorer.ops.manipulation.rearrange import moveaxis
from explorer.train.layers.training_layers import Training, TrainingLayer
from explorer.train.losses.loss import Loss, ShardLoss
from explorer.train.module_device import Batch, batch_on, samples_of
from explorer.train.node import Node
from explorer.train.optimizers.optimizer import Optimizer


class ModuleBase:
    """Base of ``Module``: a name, a loss, an optimizer and nodes, and the recording of their output and their loss."""

    def __init__(self, name: str, dtype: str, samples: str, executor: str) -> None:
        self.name, self.dtype, self.samples, self.executor = name, np.dtype(dtype), samples, executor
        self.loss: Loss | None = None
        self.optimizer: Optimizer | None = None
        self.nodes: dict[str, Node] = {}
        """nodes by name, in the order of forward"""
        self._attached = self._closed = False
        self._device: Device | None = None
        """the device that was asked for; None leaves it to the parameters"""

    @property
    def device(self) -> Device:
        """Device on which it computes: that of its parameters."""
        return cpu if self._device is None else self._device

    @property
    def is_attached(self) -> bool:
        """Whether it is ready to be trained, and not closed."""
        return self._attached and not self._closed

    @property
    def parameters(self) -> dict[str, Parameter]:
        """All parameters by name, in the order of the nodes."""
        return {name: held for node in self.nodes.values() for name, held in node.parameters.items()}

    def record(
        self, value: Expr, parameters: Mapping[str, Expr] | None = None, training: Training | None = None
    ) -> Expr:
        """Record the output of an expression, in training or in inference; parameters are given by name, or the
        module's own are read."""
        held = {name: each.value for name, each in self.parameters.items()} if parameters is None else parameters
        for node in self.nodes.values():
            value = node.record(value, held, training)
        self._check_output(value)
        return value

    @property
    def training_layers(self) -> list[TrainingLayer]:
        """Layers that compute otherwise while it is trained."""
        return [node.layer for node in self.nodes.values() if isinstance(node.layer, TrainingLayer)]

    def record_loss(self, output: Expr, label: Expr) -> Expr:
        """Record the loss of an output and a label; a loss reads its classes along the last axis."""
        return self.require_loss().checked(*self._rows(output, label))

    def record_shard(self, output: Expr, label: Expr, share: float) -> ShardLoss:
        """Record the part of a shard in the loss of a batch, of whose samples it has a share."""
        return self.require_loss().shard(*self._rows(output, label), share)

    def _rows(self, output: Expr, label: Expr) -> tuple[Expr, Expr]:
        if self.samples == "last" and output.ndim > 1:
            output = moveaxis(output, -1, 0)
            label = moveaxis(label, -1, 0) if label.ndim > 1 else label
        return output, label

    def check_label(self, label: Batch, output: Shape) -> None:
        """Raise OperandError for a label on which the loss is not defined; one of another device is not read."""
        if isinstance(label.values, np.ndarray):
            is_last = self.samples == "last" and len(output) > 1
            values = np.moveaxis(label.values, -1, 0) if is_last and label.values.ndim > 1 else label.values
            self.require_loss().check_label(values, (output[-1], *output[:-1]) if is_last else output)

    # -- checks ----------------------------------------------------------------------------------------------------

    def require_loss(self) -> Loss:
        """Return the loss; raises StateError without one."""
        if self.loss is None:
            raise StateError(f"the module {self.name!r} without a loss", rule="it must have one", fix="set_loss(…)")
        return self.loss

    def require_optimizer(self) -> Optimizer:
        """Return the optimizer; raises StateError without one."""
        if self.optimizer is None:
            raise StateError(
                f"the module {self.name!r} without an optimizer", rule="it must have one", fix="set_optimizer(…)"
            )
        return self.optimizer

    def _check_output(self, output: Expr) -> None:
        if output.dtype != self.dtype:
            raise OperandError(
                f"the module {self.name!r}, of {self.dtype}, whose output is {output.type}",
                rule="the output must have the module's dtype; inputs of whole numbers are not converted",
                fix=f"pass x.astype('{self.dtype}')",
            )

    def _open(self, what: str) -> None:
        if self._closed:
            raise StateError(
                f"{what} of the module {self.name!r}, which is closed",
                rule="a closed module must not be used",
                fix="make another one",
            )

    def _ready(self, what: str) -> None:
        self._open(what)
        if not self._attached:
            missing = next((part for part in ("loss", "optimizer") if getattr(self, part) is None), "")
            state = f"has no {missing}" if missing else "is not attached" if self.nodes else "has no nodes"
            following = "module.attach()" if self.nodes else "module.add_node(…)"
            raise StateError(
                f"{what} of the module {self.name!r}, which {state}",
                rule="loss, optimizer, nodes and attach() must come first, in this order",
                fix=f"module.set_{missing}(…)" if missing else following,
            )

    def _check_samples(self, value: Any) -> None:
        if not (value.ndim if isinstance(value, Tensor) else samples_of(value).ndim):
            raise OperandError(
                f"a scalar given to the module {self.name!r}",
                rule=f"an input must have an axis of samples, its {self.samples} one",
                fix="x[None]",
            )

    def _check_count(self, shape: tuple[int, ...]) -> None:
        """Raise OperandError for a batch without samples, whose loss is no number."""
        if shape and not shape[-1 if self.samples == "last" else 0]:
            raise OperandError(
                f"a batch of the shape {shape} to train the module {self.name!r}",
                rule=f"a batch must have at least one sample along its {self.samples} axis",
                fix="leave empty batches out",
            )

    def _input(self, value: Any) -> Batch:
        self._check_samples(value)
        return batch_on(self.device, value, lambda dtype: self.dtype if dtype.kind == "f" else dtype)

    def _label(self, value: Any) -> Batch:
        return batch_on(self.device, value, lambda dtype: dtype if dtype.kind in "iu" else self.dtype)

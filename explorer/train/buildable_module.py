"""Building of modules: loss and optimizer, then nodes, then parameters; and the checks of what was built.

``Module`` adds the loop that trains. It is a class of its own so that each can be read by itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from explorer.core.argument_checks import check_name, check_type, named_methods, takes
from explorer.core.errors import DeclarationError, OperandError, StateError
from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.recording_context import single_source_line
from explorer.core.ir.tensor import Tensor
from explorer.core.tracing.decorator import Function
from explorer.core.types.device import Device, as_device, cpu
from explorer.core.types.tensor_type import Shape
from explorer.layers.framework.fillers import Filler, VarScale
from explorer.layers.framework.initializer import Initializer
from explorer.layers.framework.layer import Layer
from explorer.layers.framework.parameters import Parameter
from explorer.ops.manipulation.rearrange import moveaxis
from explorer.run.execution.executors import EXECUTORS
from explorer.train.fixed_settings import refuse_setting
from explorer.train.habits import MODULE as HABITS
from explorer.train.habits import hint
from explorer.train.layers.linear_module import SAMPLES
from explorer.train.layers.training_layers import Training, TrainingLayer
from explorer.train.losses.loss import Loss, ShardLoss
from explorer.train.module_device import Batch, batch_on, common_device, samples_of
from explorer.train.node import Apply, Node
from explorer.train.optimizers.optimizer import Optimizer

DTYPES = ("float32", "float64")
_FIXED = {
    "loss": "another module, whose parameters are assigned these: parameters[name].assign(array)",
    "optimizer": "module.optimizer.rate = 0.001 for another rate; else another module",
    "dtype": 'ex.train.Module(…, dtype="float64")',
    "samples": 'ex.train.Module(…, samples="last")',
}
"""attribute that is set once → what serves instead"""


class ScaledWeights(Filler):
    """Filler of a module by default: zeros for biases (fewer than two axes), Glorot's numbers for weights."""

    def draw(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Any:
        """Draw numbers of a shape."""
        return np.zeros(shape) if len(shape) < 2 else VarScale().draw(generator, shape)


@named_methods
class BuildableModule:
    """Module without its training: loss, optimizer, nodes and their parameters."""

    def __init__(
        self,
        name: str = "module",
        *,
        loss: Loss | None = None,
        optimizer: Optimizer | None = None,
        dtype: str = "float32",
        samples: str = "first",
        executor: str = "simple",
    ) -> None:
        check_type(name, "name", str, "a text", 'ex.train.Module("digits")')
        check_name(str(np.dtype(dtype)), "dtype", DTYPES)
        check_name(samples, "samples", SAMPLES)
        check_name(executor, "executor", EXECUTORS)
        self.name, self.dtype, self.samples, self.executor = name, np.dtype(dtype), samples, executor
        self.loss: Loss | None = None
        self.optimizer: Optimizer | None = None
        self.nodes: dict[str, Node] = {}
        """nodes by name, in the order of forward"""
        self._attached = self._closed = False
        self._device: Device | None = None
        """the device that was asked for; None leaves it to the parameters"""
        if loss is not None:
            self.set_loss(loss)
        if optimizer is not None:
            self.set_optimizer(optimizer)
        self.prepare()

    def prepare(self) -> None:
        """Set what training needs, in a subclass."""

    # -- building --------------------------------------------------------------------------------------------------

    def set_loss(self, loss: Loss) -> None:
        """Set the loss, before the first node."""
        self._open("set_loss")
        self._before_nodes("loss")
        if not isinstance(loss, Loss) or loss.reduction == "none":
            rule = "a module's loss must be one number: with reduction 'mean' or 'sum'"
            raise DeclarationError(
                f"set_loss({loss!r})",
                rule=rule if isinstance(loss, Loss) else "a loss must be a Loss",
                fix="module.set_loss(ex.train.CrossEntropy())",
            )
        _own(loss, self.name, "loss")
        self.loss = loss

    def set_optimizer(self, optimizer: Optimizer) -> None:
        """Set the optimizer, before the first node."""
        self._open("set_optimizer")
        self._before_nodes("optimizer")
        if not isinstance(optimizer, Optimizer):
            raise DeclarationError(
                f"set_optimizer({optimizer!r})",
                rule="an optimizer must be an Optimizer",
                fix="module.set_optimizer(ex.train.Adam(rate=0.001))",
            )
        _own(optimizer, self.name, "optimizer")
        self.optimizer = optimizer

    def add_node(self, layer: Layer | Callable[[Expr], Expr], name: str = "") -> Node:
        """Add a layer, or a function of one expression (``ex.relu``); return its node.

        Raises StateError without a loss and an optimizer, or after attach; DeclarationError for a name used twice.
        """
        self._open("add_node")
        missing = [what for what in ("loss", "optimizer") if getattr(self, what) is None]
        if missing or self._attached:
            raise StateError(
                f"add_node to the module {self.name!r}, "
                + ("which is attached" if self._attached else f"which has no {missing[0]}"),
                rule="loss and optimizer must be set first, then the nodes be added, then attach() be called",
                fix="make another module" if self._attached else f"module.set_{missing[0]}(…)",
            )
        if not isinstance(layer, Layer):
            is_class = isinstance(layer, type) and issubclass(layer, Layer)
            if is_class or (not isinstance(layer, (Operation, Function)) and not callable(layer)):
                raise DeclarationError(
                    f"add_node({layer!r})",
                    rule="a node must be a layer, or a function of one expression",
                    fix='module.add_node(ex.train.Linear("hidden", 64, 32)), or module.add_node(ex.relu)',
                )
            if not isinstance(layer, (Operation, Function)) and not takes(layer, 1):
                raise DeclarationError(
                    f"add_node of a function with the arguments {inspect.signature(layer, follow_wrapped=False)}",
                    rule="a node's function must take one expression, the result of the node before it",
                    fix="module.add_node(lambda x: ex.tanh(x) * 2)",
                )
            layer = Apply(name or self._free_name(layer), layer)
        if layer.name in self.nodes:
            raise DeclarationError(
                f"a second node {layer.name!r} in the module {self.name!r}",
                rule="each node must have a name of its own",
                fix="give it another name",
            )
        if getattr(layer, "samples", self.samples) != self.samples:
            raise DeclarationError(
                f"the layer {layer!r} with samples {layer.samples} in a module with samples {self.samples}",  # type: ignore[attr-defined]
                rule="samples must lie along one axis throughout a module",
                fix=f'Linear(…, samples="{self.samples}")',
            )
        with single_source_line():
            node = self.nodes[layer.name] = Node(layer, self.samples, self.dtype)
        return node

    def to_device(self, device: Device | str) -> Self:
        """Move parameters, and the optimizer's state, to a device or the one of a name, in place; return the module.

        Forward, loss, gradients and updates then run there, and batches are copied there. It may be called before
        ``attach``, and at any time between steps. Arrays that come out stay NumPy's. Raises UnknownNameError for the
        name of no device.

        >>> module = ex.train.Module("line", loss=ex.train.MeanSquaredError(), optimizer=ex.train.SGD(0.1))
        >>> module.add_node(ex.train.Linear("slope", 1, 1))
        <node 'slope': Linear, 1 → 1 elements a sample>
        >>> module.to_device("cpu").device
        Device('cpu')
        """
        self._open("to_device")
        self._device = as_device(device, f"to_device of the module {self.name!r}")
        self._place(self._device)
        return self

    def _place(self, device: Device) -> None:
        """Move nodes to a device, and the optimizer's state after them."""
        for node in self.nodes.values():
            node.to_device(device)
        if self._attached:
            # Its state, such as Adam's moments, must lie where the parameters lie.
            self.require_optimizer().follow()

    def attach(self, initializer: Initializer | None = None, seed: int = 0) -> None:
        """Initialise the parameters and attach the optimizer to them.

        By default weights are drawn by Glorot's rule from ``seed``, and biases are zeros. Layers that are initialised
        already keep their values.
        """
        self._open("attach")
        if self._attached or not self.nodes:
            raise StateError(
                f"attach() of the module {self.name!r}, which " + ("is attached" if self._attached else "has no nodes"),
                rule="attach() must be called once, after the nodes were added",
                fix="go on with fit() or forward()" if self._attached else "module.add_node(ex.train.Linear(…))",
            )
        initializer = initializer or Initializer(filler=ScaledWeights(), seed=seed)
        for node in self.nodes.values():
            if not _is_initialised(node.layer):
                node.layer.init(initializer)
        owners: dict[str, Parameter] = {}
        for node in self.nodes.values():
            for name, held in node.parameters.items():
                if owners.setdefault(name, held) is not held:
                    raise DeclarationError(
                        f"two parameters {name!r} in the module {self.name!r}",
                        rule="parameters must have names of their own, unless they are shared",
                        fix="give the layers different names",
                    )
                # A layer may have been initialised before it came here, in a dtype of its own.
                held.convert(self.dtype)
        if self._device is None:
            self._device = common_device(self.name, owners)
        self._place(self._device)
        # A parameter that two nodes share is trained if one of them trains it.
        trained = {name for node in self.nodes.values() for name in node.updates()}
        optimizer = self.require_optimizer()
        replaced = {name: held for node in self.nodes.values() for name, held in node.replaced.items()}
        optimizer.attach({name: held for name, held in owners.items() if name in trained}, replaced)
        for node in self.nodes.values():
            node.attach(trained - {*optimizer.parameters}, lambda: optimizer.iteration)
        self._attached = True

    # -- checks ----------------------------------------------------------------------------------------------------

    def _before_nodes(self, what: str) -> None:
        if getattr(self, what) is not None or self.nodes:
            raise StateError(
                f"set_{what} of the module {self.name!r}, which has "
                + ("nodes" if self.nodes else f"a {what} already"),
                rule="loss and optimizer must be set once, before the first node",
                fix="make another module",
            )

    def _free_name(self, function: Any) -> str:
        base = str(getattr(function, "name", None) or getattr(function, "__name__", "function"))
        base = base if base.isidentifier() else "function"
        taken = (base, *[f"{base}_{number}" for number in range(2, len(self.nodes) + 2)])
        return next(name for name in taken if name not in self.nodes)

    def __setattr__(self, name: str, value: Any) -> None:
        # Set once, and None again when it is closed.
        if name in _FIXED and value is not None and vars(self).get(name) is not None:
            rule = (
                f"the {name} of a module is set once: steps are planned with it, and the optimizer's state is its own"
            )
            refuse_setting(self, name, value, rule, _FIXED[name])
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a module has no attribute {name!r}" + hint(name, HABITS), name=name, obj=self)

    def __reduce__(self) -> Any:
        raise TypeError("a module is not copied or pickled: module.save(path), and restore(path) in one built like it")

    def __repr__(self) -> str:
        state = "closed" if self._closed else "attached" if self._attached else "being built"
        nodes = ", ".join([f"{node.type} {name!r}" for name, node in self.nodes.items()])
        return f"<module {self.name!r}, {state}: {nodes or 'no nodes'}>"

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


def _is_initialised(layer: Layer) -> bool:
    return all(getattr(source, "held", True) is not None for source in layer.sources())


def _own(thing: Loss | Optimizer, module: str, what: str) -> None:
    """Mark a loss or an optimizer as a module's; raises StateError if another module has it."""
    if thing.owner:
        raise StateError(
            f"the {what} {thing!r} given to the module {module!r}",
            rule=f"one {what} must belong to one module, and this one belongs to {thing.owner!r}",
            fix=f"make another {what}, or close() that module",
        )
    thing.owner = module

"""Module: a loss, an optimizer and layers, trained together (CDNN: Module).

A module is built in this order: loss and optimizer, layers one by one, then ``attach``. There are two ways to train it.
``forward``, ``backward`` and ``step`` compute node by node, and each node's values can be inspected. ``train_on`` does
all three in one plan, a `TrainingStep`, which every step reuses; ``fit`` calls it for each batch of a loader. In such a
plan, shared values are computed once, activations share one arena, and updates overwrite the old values
(plan/passes/update_in_place.py).
"""

from __future__ import annotations

import inspect
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sized
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Protocol, Self, Unpack, get_args

import numpy as np

from explorer.core.argument_checks import check_integer, check_name, check_type, named_methods, options_of, takes
from explorer.core.errors import DeclarationError, OperandError, StateError
from explorer.core.ir.explore_options import Kernels, ViewOptions
from explorer.core.ir.expr import Expr, Operation
from explorer.core.ir.function import Parameter as ParameterOperation
from explorer.core.ir.hooks import View, hooks
from explorer.core.ir.recording_context import recording_at, scope, single_source_line
from explorer.core.ir.tensor import Tensor, tensor, tensor_of_values
from explorer.core.progress import Progress, current_callback, long_running
from explorer.core.tracing.decorator import Function
from explorer.core.types.device import Device, as_device, cpu
from explorer.core.types.device_copies import on_host
from explorer.core.types.tensor_type import Array, Shape, TensorType
from explorer.gradients import grad
from explorer.layers.framework.fillers import Filler, VarScale
from explorer.layers.framework.initializer import Initializer
from explorer.layers.framework.layer import Layer
from explorer.layers.framework.parameters import Parameter
from explorer.ops.manipulation.rearrange import moveaxis
from explorer.ops.nn.learning_rates import LearningRate
from explorer.plan.options import Options
from explorer.plan.passes import UpdateInPlace
from explorer.record.fork_locks import renew_in_children
from explorer.run import evaluate
from explorer.run.evalplan import EvalPlan, PlanOptions
from explorer.run.execution.executors import EXECUTORS, RegisteredExecutor
from explorer.train.attribute_errors import MODULE as INSTEAD
from explorer.train.attribute_errors import hint, refuse_setting
from explorer.train.compiled import Compiled, parameter
from explorer.train.data_loader import Pass, Resumable
from explorer.train.layers.linear_module import SAMPLES
from explorer.train.layers.training_layers import Training, TrainingLayer, step_number, step_operand
from explorer.train.losses.loss import Loss, ShardLoss
from explorer.train.module_device import Batch, batch_on, common_device, elements_on
from explorer.train.node import Apply, Node
from explorer.train.optimizers.optimizer import Optimizer

MAX_PLANS = 16
"""maximum number of batch types for which a module stores plans"""
DTYPES = ("float32", "float64")
_FIXED = {
    "loss": "make another module, and copy the weights into it: parameters[name].assign(array)",
    "optimizer": "module.optimizer.rate = 0.001 changes the rate; for other settings, make another module",
    "dtype": 'ex.train.Module(…, dtype="float64")',
    "samples": 'ex.train.Module(…, samples="last")',
}
"""attribute that can be set only once → what to do instead"""


class ScaledWeights(Filler):
    """Default filler: zeros for biases (fewer than two axes), and Glorot initialization for weights."""

    def draw(self, generator: np.random.Generator, shape: tuple[int, ...]) -> Any:
        """Draw an array with the given shape."""
        return np.zeros(shape) if len(shape) < 2 else VarScale().draw(generator, shape)


class StepGradients(NamedTuple):
    """Expressions of a step before the update."""

    output: Expr
    loss: Expr
    gradients: list[Expr]
    """gradients of the trained parameters, in the order of the parameters"""


class TrainingStep:
    """Expressions of one training step of a module, for one type of input and label.

    ``roots`` are the output, the loss, the new parameters and the optimizer's new state, recorded once for all steps.
    """

    options: ClassVar[Mapping[str, Any]] = {}
    """options of the step's plan, in addition to the executor's options"""

    def __init__(self, module: Module, input_type: TensorType, label_type: TensorType) -> None:
        self._module = module
        self._optimizer = optimizer = module.require_optimizer()
        # No source line: a step is recorded far from the line that runs it. Only its layers have the lines where they
        # were added.
        with recording_at(None, None):
            self._value, self._label = parameter(input_type, "input"), parameter(label_type, "label")
            operands = self.parameter_operands(module)
            trained = {name: operands[name] for name in optimizer.parameters}
            count = optimizer.count() if module.training_layers else None
            training = None if count is None else Training(step_number(count, module.device), module.samples)
            output, loss, gradients = self.gradients(self._value, self._label, operands, trained, training)
            statistics = {} if training is None else training.statistics
            replaced = {name: (operands[name], value) for name, value in statistics.items()}
            with scope("update"):
                update = optimizer.record(trained, dict(zip(trained, gradients, strict=True)), count, replaced)
        self.output_type, self._loss_type = output.tensor_type, loss.tensor_type
        self.roots: list[Expr] = [output, loss, *update.results]
        self.updates, self._memory = update.values, update.memory
        self._frozen = {name: node for name, node in operands.items() if node not in self.updates}
        self._compiled: Compiled | None = None

    def parameter_operands(self, module: Module) -> dict[str, Expr]:
        """Record and return an operand for each parameter, by name, in the box of the first layer that uses it."""
        operands: dict[str, Expr] = {}
        for node in module.nodes.values():
            operands = {**node.operands(), **operands}
        return {name: operands[name] for name in module.parameters}

    def gradients(
        self,
        value: Expr,
        label: Expr,
        operands: Mapping[str, Expr],
        trained: Mapping[str, Expr],
        training: Training | None,
    ) -> StepGradients:
        """Record the output, the loss, and the loss's gradients with respect to ``trained`` parameters."""
        output = self._module.record(value, operands, training)
        with scope("loss"):
            loss = self._module.record_loss(output, label)
        self.check_trained()
        return StepGradients(output, loss, grad(loss, list(trained.values())))

    def check_trained(self) -> None:
        """Raise StateError if no parameter is trained."""
        if not self._optimizer.parameters:
            raise StateError(
                f"a training step of the module {self._module.name!r}, none of whose parameters is trained",
                rule="at least one layer must have a parameter that is not frozen",
                fix="module.predict(x) computes outputs; or add a layer with parameters, such as ex.train.Linear",
            )

    def compiled(self, operands: list[Expr]) -> Compiled:
        """Return the compiled program of the step."""
        executor, options = self.execution()
        memory, spares = self._memory, self._optimizer.spares
        return Compiled(self.roots[:2], operands, memory, executor, options, self.updates, spares)

    def execution(self) -> tuple[RegisteredExecutor, Options]:
        """Return the step's executor and plan options."""
        executor = EXECUTORS[self._module.executor]
        return executor, Options(**{"lanes": executor.lanes, "kernels": self._module.kernels, **self.options})

    def check(self, value: Any, label: Any, output: Any, loss: Array) -> None:
        """Raise OperandError if the loss of a step is invalid; nothing is updated then."""
        if isinstance(output, np.ndarray):
            self._module.require_loss().check_output(output)

    def __call__(self, value: Any, label: Any) -> tuple[Any, float]:
        """Run the step, updating the parameters; return the output on its device, and the loss before the update."""
        self._optimizer.begin()
        if self._compiled is None:
            operands = [self._value, self._label, *self._frozen.values()]
            self._compiled = self.compiled(operands)
        frozen = self._frozen_parameters() if self._frozen else ()
        output, loss = self._compiled(
            value, label, *[elements_on(parameter_, self._module.device) for parameter_ in frozen]
        )
        loss = on_host(self._loss_type, loss)
        # Checked before the update, so an invalid loss changes no parameter.
        self.check(value, label, output, loss)
        self._optimizer.commit(self._compiled)
        return output, float(loss)

    def operands(self, value: Array, label: Array) -> dict[Expr, Array]:
        """Return the current values of all operands, for an input and a label."""
        self._optimizer.begin()
        frozen = {
            node: parameter_.array
            for node, parameter_ in zip(self._frozen.values(), self._frozen_parameters(), strict=True)
        }
        # Values are copied, because a displayed plan must keep them while training continues.
        in_memory = {
            node: on_host(node.tensor_type, array).copy()
            for node, array in self._memory.items()
            if isinstance(node.operation, ParameterOperation)
        }
        return {self._value: value, self._label: label, **frozen, **in_memory}

    def _frozen_parameters(self) -> list[Parameter]:
        return [self._module.parameters[name] for name in self._frozen]


@named_methods
class Module:
    """Layers, a loss and an optimizer that are trained together.

    Numbers have ``dtype``, "float32" or "float64" (as in CDNN), and samples are along the "first" or "last" axis of
    inputs and labels. ``to_device("cuda")`` moves the module to a GPU. With ``kernels="native"``, compiled C code
    computes elementwise kernels.

    >>> module = ex.train.Module("line", loss=ex.train.MeanSquaredError(), optimizer=ex.train.SGD(0.1))
    >>> module.add_node(ex.train.Linear("slope", 1, 1))
    <node 'slope': Linear, 1 → 1 elements a sample>
    >>> module.attach()
    >>> x = np.array([[0.0], [1.0]])
    >>> for _ in range(200):
    ...     loss = module.train_on(x, 2 * x + 1)
    >>> module.predict([[3.0]]).round(2)
    array([[7.]], dtype=float32)
    """

    def __init__(
        self,
        name: str = "module",
        *,
        loss: Loss | None = None,
        optimizer: Optimizer | None = None,
        dtype: str = "float32",
        samples: str = "first",
        executor: str = "simple",
        kernels: Kernels = "numpy",
    ) -> None:
        check_type(name, "name", str, "a string", 'ex.train.Module("digits")')
        check_name(str(np.dtype(dtype)), "dtype", DTYPES)
        check_name(samples, "samples", SAMPLES)
        check_name(executor, "executor", EXECUTORS)
        check_name(kernels, "kernels", get_args(Kernels))
        self.name, self.dtype, self.samples = name, np.dtype(dtype), samples
        self.executor, self.kernels = executor, kernels
        self.loss: Loss | None = None
        self.optimizer: Optimizer | None = None
        self.nodes: dict[str, Node] = {}
        """nodes by name, in forward order"""
        self._attached = self._closed = False
        self._device: Device | None = None
        """the requested device; None for the device of the parameters"""
        self._last: tuple[TensorType, Any] | None = None
        """type and array of the last output, which stays on its device until it is read"""
        self._pending = ""
        """name of the next call that a training loop needs: "backward" after a forward, and "step" after a backward"""
        self._step_factory: Callable[[Module, TensorType, TensorType], TrainingStep] = TrainingStep
        self._steps: dict[tuple[TensorType, TensorType, LearningRate], TrainingStep] = {}
        self._predictions: dict[TensorType, Compiled] = {}
        self._outputs: dict[TensorType, TensorType] = {}
        """type of an input → type of the output that ``forward`` returns for it"""
        self._lock = threading.Lock()
        if loss is not None:
            self.set_loss(loss)
        if optimizer is not None:
            self.set_optimizer(optimizer)
        renew_in_children(self)

    def renew(self) -> None:
        """Drop all plans in a forked process, since a thread of the parent may have been running one."""
        self._steps, self._predictions = {}, {}
        self._lock = threading.Lock()

    # -- building --------------------------------------------------------------------------------------------------

    def set_loss(self, loss: Loss) -> None:
        """Set the loss, before the first node is added."""
        self._check_open("set_loss")
        self._check_before_nodes("loss")
        if not isinstance(loss, Loss) or loss.reduction == "none":
            rule = "a module's loss must be one number: with reduction 'mean' or 'sum'"
            raise DeclarationError(
                f"set_loss({loss!r})",
                rule=rule if isinstance(loss, Loss) else "a loss must be a Loss",
                fix="module.set_loss(ex.train.CrossEntropy())",
            )
        _set_owner(loss, self.name, "loss")
        self.loss = loss

    def set_optimizer(self, optimizer: Optimizer) -> None:
        """Set the optimizer, before the first node is added."""
        self._check_open("set_optimizer")
        self._check_before_nodes("optimizer")
        if not isinstance(optimizer, Optimizer):
            raise DeclarationError(
                f"set_optimizer({optimizer!r})",
                rule="an optimizer must be an Optimizer",
                fix="module.set_optimizer(ex.train.Adam(rate=0.001))",
            )
        _set_owner(optimizer, self.name, "optimizer")
        self.optimizer = optimizer

    def add_node(self, layer: Layer | Callable[[Expr], Expr], name: str = "") -> Node:
        """Add a layer, or a function of one expression (``ex.relu``), and return its node.

        Raises StateError without a loss or an optimizer, or after ``attach``, and DeclarationError for a duplicate
        name.
        """
        self._check_open("add_node")
        missing = [part for part in ("loss", "optimizer") if getattr(self, part) is None]
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
                    rule="a node's function must have one argument, the result of the previous node",
                    fix="module.add_node(lambda x: ex.tanh(x) * 2)",
                )
            layer = Apply(name or self._unused_name(layer), layer)
        if layer.name in self.nodes:
            raise DeclarationError(
                f"a second node {layer.name!r} in the module {self.name!r}",
                rule="each node must have a unique name",
                fix="give it another name",
            )
        if getattr(layer, "samples", self.samples) != self.samples:
            raise DeclarationError(
                f"the layer {layer!r} with samples {layer.samples} in a module with samples {self.samples}",  # type: ignore[attr-defined]
                rule="samples must be along the same axis throughout a module",
                fix=f'Linear(…, samples="{self.samples}")',
            )
        with single_source_line():
            node = self.nodes[layer.name] = Node(layer, self.samples, self.dtype, self.kernels)
        return node

    def to_device(self, device: Device | str) -> Self:
        """Move the parameters and the optimizer's state to ``device``, a device or its name; return the module.

        Training and inference then run on that device, and batches are copied to it; results are still NumPy arrays.
        The method may be called at any time between steps. Raises UnknownNameError for an unknown device name.

        >>> module = ex.train.Module("line", loss=ex.train.MeanSquaredError(), optimizer=ex.train.SGD(0.1))
        >>> module.add_node(ex.train.Linear("slope", 1, 1))
        <node 'slope': Linear, 1 → 1 elements a sample>
        >>> module.to_device("cpu").device
        Device('cpu')
        """
        self._check_open("to_device")
        self._device = as_device(device, f"to_device of the module {self.name!r}")
        self._place(self._device)
        return self

    def _place(self, device: Device) -> None:
        """Move the nodes and the optimizer's state to ``device``; drop plans for the old device."""
        with self._lock:
            for node in self.nodes.values():
                node.to_device(device)
            if self._attached:
                # The optimizer's state must be on the parameters' device.
                self.require_optimizer().follow()
            self._steps, self._predictions, self._outputs, self._last, self._pending = {}, {}, {}, None, ""

    def attach(self, initializer: Initializer | None = None, seed: int = 0) -> None:
        """Initialize the parameters, and attach the optimizer to them.

        By default, weights are initialized by Glorot's rule with ``seed``, and biases with zeros. Initialized layers
        keep their values.
        """
        self._check_open("attach")
        if self._attached or not self.nodes:
            raise StateError(
                f"attach() of the module {self.name!r}, which " + ("is attached" if self._attached else "has no nodes"),
                rule="attach() must be called once, after the nodes were added",
                fix="continue with fit() or forward()" if self._attached else "module.add_node(ex.train.Linear(…))",
            )
        initializer = initializer or Initializer(filler=ScaledWeights(), seed=seed)
        for node in self.nodes.values():
            if not _is_initialized(node.layer):
                node.layer.init(initializer)
        owners: dict[str, Parameter] = {}
        for node in self.nodes.values():
            for name, parameter_ in node.parameters.items():
                if owners.setdefault(name, parameter_) is not parameter_:
                    raise DeclarationError(
                        f"two parameters {name!r} in the module {self.name!r}",
                        rule="parameters must have unique names, unless they are shared",
                        fix="give the layers different names",
                    )
                # A layer may have been initialized before it was added, with another dtype.
                parameter_.convert(self.dtype)
        if self._device is None:
            self._device = common_device(self.name, owners)
        self._place(self._device)
        # A shared parameter is trained if one of its nodes trains it.
        trained = {name for node in self.nodes.values() for name in node.updates()}
        optimizer = self.require_optimizer()
        replaced = {name: parameter_ for node in self.nodes.values() for name, parameter_ in node.replaced.items()}
        optimizer.attach({name: parameter_ for name, parameter_ in owners.items() if name in trained}, replaced)
        for node in self.nodes.values():
            node.attach(trained - {*optimizer.parameters}, lambda: optimizer.iteration)
        self._attached = True

    def _check_before_nodes(self, what: str) -> None:
        if getattr(self, what) is not None or self.nodes:
            raise StateError(
                f"set_{what} of the module {self.name!r}, which has "
                + ("nodes" if self.nodes else f"a {what} already"),
                rule="loss and optimizer must be set once, before the first node",
                fix="make another module",
            )

    def _unused_name(self, function: Any) -> str:
        base = str(getattr(function, "name", None) or getattr(function, "__name__", "function"))
        base = base if base.isidentifier() else "function"
        candidates = (base, *[f"{base}_{index}" for index in range(2, len(self.nodes) + 2)])
        return next(name for name in candidates if name not in self.nodes)

    def __setattr__(self, name: str, value: Any) -> None:
        # Set once, and reset to None when the module is closed.
        if name in _FIXED and value is not None and vars(self).get(name) is not None:
            rule = f"the {name} of a module is set once: steps are planned with it, and the optimizer has state for it"
            refuse_setting(self, name, value, rule, _FIXED[name])
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a module has no attribute {name!r}" + hint(name, INSTEAD), name=name, obj=self)

    def __reduce__(self) -> Any:
        raise TypeError("a module cannot be copied or pickled; use save(path), and restore(path) in one built like it")

    def __repr__(self) -> str:
        state = "closed" if self._closed else "attached" if self._attached else "being built"
        nodes = ", ".join([f"{node.type} {name!r}" for name, node in self.nodes.items()])
        return f"<module {self.name!r}, {state}: {nodes or 'no nodes'}>"

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        return hooks.cell_result(self, self._drawn)

    def _drawn(self) -> list[Expr]:
        """Return the output that a cell shows, recorded for the last input's type; an empty list before any input."""
        with self._lock:
            types = [*[step[0] for step in self._steps], *self._predictions, *self._outputs]
        return [self.record(parameter(types[-1], "input"))] if types and self.is_attached else []

    # -- parameters and recording -------------------------------------------------------------------------------------

    @property
    def device(self) -> Device:
        """Device of the parameters, on which the module computes."""
        return cpu if self._device is None else self._device

    @property
    def is_attached(self) -> bool:
        """Whether the module is ready for training, and not closed."""
        return self._attached and not self._closed

    @property
    def last_output(self) -> Array | None:
        """Output of the last forward or training step, or None if there was none."""
        if self._last is None:
            return None
        type_, output = self._last
        if type_.device is not cpu:
            output = on_host(type_, output)
            self._last = TensorType(type_.shape, type_.dtype), output
        values: Array = output
        return values

    @property
    def parameters(self) -> dict[str, Parameter]:
        """All parameters by name, in node order."""
        return {name: parameter_ for node in self.nodes.values() for name, parameter_ in node.parameters.items()}

    def record(
        self, value: Expr, parameters: Mapping[str, Expr] | None = None, training: Training | None = None
    ) -> Expr:
        """Record the output for the expression ``value``, in training or in inference.

        ``parameters`` are parameter values by name, by default the module's own.
        """
        operands = (
            {name: parameter_.value for name, parameter_ in self.parameters.items()}
            if parameters is None
            else parameters
        )
        for node in self.nodes.values():
            value = node.record(value, operands, training)
        self._check_output(value)
        return value

    @property
    def training_layers(self) -> list[TrainingLayer]:
        """Layers that compute differently in training."""
        return [node.layer for node in self.nodes.values() if isinstance(node.layer, TrainingLayer)]

    def record_loss(self, output: Expr, label: Expr) -> Expr:
        """Record the loss of an output and a label; the loss expects classes along the last axis."""
        return self.require_loss().checked(*self._rows(output, label))

    def record_shard(self, output: Expr, label: Expr, share: float) -> ShardLoss:
        """Record a shard's contribution to the batch loss; ``share`` is its fraction of the samples."""
        return self.require_loss().shard(*self._rows(output, label), share)

    def _rows(self, output: Expr, label: Expr) -> tuple[Expr, Expr]:
        if self.samples == "last" and output.ndim > 1:
            output = moveaxis(output, -1, 0)
            label = moveaxis(label, -1, 0) if label.ndim > 1 else label
        return output, label

    def check_label(self, label: Batch, output: Shape) -> None:
        """Raise OperandError if the loss is undefined for a label; a label on another device is not checked."""
        if isinstance(label.values, np.ndarray):
            is_last = self.samples == "last" and len(output) > 1
            values = np.moveaxis(label.values, -1, 0) if is_last and label.values.ndim > 1 else label.values
            self.require_loss().check_label(values, (output[-1], *output[:-1]) if is_last else output)

    # -- checks ----------------------------------------------------------------------------------------------------

    def require_loss(self) -> Loss:
        """Return the loss; raise StateError if there is none."""
        if self.loss is None:
            raise StateError(
                f"the module {self.name!r} without a loss", rule="a module must have one", fix="set_loss(…)"
            )
        return self.loss

    def require_optimizer(self) -> Optimizer:
        """Return the optimizer; raise StateError if there is none."""
        if self.optimizer is None:
            raise StateError(
                f"the module {self.name!r} without an optimizer", rule="a module must have one", fix="set_optimizer(…)"
            )
        return self.optimizer

    def _check_output(self, output: Expr) -> None:
        if output.dtype != self.dtype:
            raise OperandError(
                f"the module {self.name!r}, of {self.dtype}, whose output is {output.type}",
                rule="the output must have the module's dtype; integer inputs are not converted",
                fix=f"pass x.astype('{self.dtype}')",
            )

    def _check_open(self, what: str) -> None:
        if self._closed:
            raise StateError(
                f"{what} of the module {self.name!r}, which is closed",
                rule="a closed module must not be used",
                fix="make another one",
            )

    def _check_ready(self, what: str) -> None:
        self._check_open(what)
        if not self._attached:
            missing = next((part for part in ("loss", "optimizer") if getattr(self, part) is None), "")
            state = f"has no {missing}" if missing else "is not attached" if self.nodes else "has no nodes"
            following = "module.attach()" if self.nodes else "module.add_node(…)"
            raise StateError(
                f"{what} of the module {self.name!r}, which {state}",
                rule="loss, optimizer, nodes and attach() must come first, in this order",
                fix=f"module.set_{missing}(…)" if missing else following,
            )

    def _check_count(self, shape: tuple[int, ...]) -> None:
        """Raise OperandError for a batch without samples, whose loss is undefined."""
        if shape and not shape[-1 if self.samples == "last" else 0]:
            raise OperandError(
                f"a batch of the shape {shape} to train the module {self.name!r}",
                rule=f"a batch must have at least one sample along its {self.samples} axis",
                fix="omit empty batches",
            )

    def _input(self, value: Any) -> Batch:
        batch = batch_on(self.device, value, self.dtype, "f")
        # A scalar becomes an array with one element.
        if batch.type.size == 1 and not (value.ndim if isinstance(value, Tensor) else np.ndim(value)):
            raise OperandError(
                f"a scalar passed to the module {self.name!r}",
                rule=f"an input must have an axis of samples, which must be its {self.samples} axis",
                fix="x[None]",
            )
        return batch

    def _label(self, value: Any) -> Batch:
        return batch_on(self.device, value, self.dtype, "bfV")

    # -- forward, backward, step -----------------------------------------------------------------------------------

    def forward(self, value: Any) -> Array:
        """Compute the output as in a training step, node by node; each node keeps its input and output until the next
        call.

        Unlike in ``predict``, Dropout drops elements, and BatchNorm uses the batch's statistics. Raises OperandError
        for an input whose output does not have the module's dtype.
        """
        self._check_ready("forward")
        self._check_forward(value)
        for node in self.nodes.values():
            # Only this module uses the result of a node, so it is passed on without a copy.
            value = node.forward(value)
        output: Array = value
        self._last, self._pending = (TensorType(output.shape, output.dtype), output), "backward"
        return output

    def _check_forward(self, value: Any) -> None:
        """Raise OperandError for an input that a training step rejects, once per input type."""
        type_ = self._input(value).type
        for parameter_ in self.parameters.values():
            elements_on(parameter_, self.device)
        if type_ not in self._outputs:
            operands = {name: parameter(parameter_.type, name) for name, parameter_ in self.parameters.items()}
            # Checked as in training, which may reject inputs that inference accepts, before a node takes over the
            # input.
            training = Training(step_operand(self.device), self.samples)
            _store(self._outputs, type_, self.record(parameter(type_, "input"), operands, training).tensor_type)

    def backward(self, label: Any) -> float:
        """Compute the gradients of all parameters for ``label``; return the loss.

        Only the statistics of BatchNorm layers change. Raises StateError unless ``forward`` was called before.
        """
        self._check_ready("backward")
        if self.last_output is None or self._pending != "backward":
            raise StateError(
                f"backward of the module {self.name!r} without a forward",
                rule="each backward must follow a forward",
                fix="module.forward(x)",
            )
        output, label = tensor(self.last_output, device=self.device), self._label(label)
        self._check_count(output.shape)
        self.check_label(label, output.shape)
        self.require_loss().check_output(self.last_output)
        loss = self.record_loss(output, tensor_of_values(label.type, label.values))
        value, gradient = evaluate([loss, grad(loss, output)])
        for node in reversed(self.nodes.values()):
            gradient = node.backward(gradient)
        for node in self.nodes.values():
            for name, parameter_ in node.replaced.items():
                parameter_.assign(node.statistics[name])
        self._pending = "step"
        return float(value)

    def step(self) -> None:
        """Update all parameters with the gradients of the last ``backward``; raise StateError if there are none."""
        self._check_ready("step")
        if self._pending != "step":
            raise StateError(
                f"step of the module {self.name!r} without gradients",
                rule="each step must follow a backward",
                fix="module.backward(label)",
            )
        self.require_optimizer().step(self.gradients)
        self._pending = ""

    @property
    def gradients(self) -> dict[str, Array]:
        """Gradients of the last ``backward`` by parameter name, summed over the nodes that share a parameter."""
        total: dict[str, Array] = {}
        for node in self.nodes.values():
            for name, gradient in (node.gradients or {}).items():
                total[name] = total[name] + gradient if name in total else gradient
        return total

    # -- whole steps -----------------------------------------------------------------------------------------------

    def train_on(self, value: Any, label: Any) -> float:
        """Run one training step (forward, backward and update) in a single plan; return the loss before the update.

        The plan is built in the first step for each input type, and then reused.
        """
        self._check_ready("train_on")
        batch, label = self._input(value), self._label(label)
        self._check_count(batch.type.shape)
        with self._lock:  # a plan has only one table of values
            step = self._step(batch.type, label.type)
            self.check_label(label, step.output_type.shape)
            output, loss = step(batch.values, label.values)
            self._last, self._pending = (step.output_type, output), ""
        return loss

    @long_running
    def fit(
        self,
        loader: Iterable[tuple[Any, ...]],
        epochs: int = 1,
        checkpoint: str | os.PathLike[str] | None = None,
        every: int = 1,
        every_batches: int | None = None,
    ) -> list[Epoch]:
        """Train for ``epochs`` epochs on all (input, label) batches of a loader; return an entry for each epoch.

        If ``checkpoint`` is given, the module and the loader's position are saved to this file: after every ``every``
        epochs, after every ``every_batches`` batches of an epoch, at the end, and when an interrupt or an error stops
        training. After ``restore(checkpoint, loader)``, training continues bit for bit from the saved state; the entry
        of the resumed epoch counts only its remaining batches. A notebook shows a progress bar. ``ex.progress`` reports
        each batch, and can cancel training; all completed steps are kept.
        """
        self._check_ready("fit")
        if not isinstance(loader, Iterable) or isinstance(loader, (np.ndarray, Tensor)):
            raise OperandError(
                f"fit({type(loader).__name__}, …)",
                rule="a loader must be an iterable of batches",
                fix="module.fit(ex.train.DataLoader(ex.train.ArrayDataset(images, labels)))",
            )
        epochs, every = check_integer(epochs, "epochs", "epochs=1", 0), check_integer(every, "every", "every=1", 1)
        if every_batches is not None:
            every_batches = check_integer(every_batches, "every_batches", "every_batches=100", 1)
        if checkpoint is not None:
            # Checked before training, because an epoch may take an hour.
            hooks.check_training_file(checkpoint)
        history = []
        resumable = loader if isinstance(loader, Resumable) else None
        for epoch in range(1, epochs + 1):
            history.append(train_epoch(self, loader, epoch, epochs, checkpoint, every_batches))
            if checkpoint is not None and (epoch % every == 0 or epoch == epochs):
                self.save(checkpoint, resumable)
        return history

    def predict(self, value: Any) -> Array:
        """Compute the output in inference, in a single plan, without storing anything for training."""
        self._check_ready("predict")
        array, type_ = self._input(value)
        with self._lock:
            elements = [elements_on(parameter_, self.device) for parameter_ in self.parameters.values()]
            if type_ not in self._predictions:
                input_ = parameter(type_, "input")
                # Parameters are operands, not constants, so the plan stays valid when a step changes them.
                operands = {name: parameter(parameter_.type, name) for name, parameter_ in self.parameters.items()}
                output = self.record(input_, operands)
                executor = EXECUTORS[self.executor]
                options = Options(lanes=executor.lanes, kernels=self.kernels)
                plan = Compiled([output], [input_, *operands.values()], None, executor, options)
                _store(self._predictions, type_, plan)
            (result,) = self._predictions[type_].on_host(array, *elements)
        return result

    def _step(self, input_type: TensorType, label_type: TensorType) -> TrainingStep:
        # A different rate needs a new step.
        key = input_type, label_type, self.require_optimizer().rate
        step = self._steps.get(key)
        if step is None:
            for parameter_ in self.parameters.values():
                elements_on(parameter_, self.device)
            step = self._step_factory(self, input_type, label_type)
            _store(self._steps, key, step)
        return step

    def set_step(self, factory: Callable[[Module, TensorType, TensorType], TrainingStep]) -> None:
        """Make ``train_on`` and ``fit`` use steps from ``factory``, as ``ex.parallelize`` does; drop existing plans."""
        with self._lock:
            self._step_factory, self._steps = factory, {}

    # -- views ---------------------------------------------------------------------------------------------------

    @options_of(PlanOptions)
    def plan(self, value: Any, label: Any, **options: Unpack[PlanOptions]) -> EvalPlan:
        """Return a prepared plan of a training step: output, loss, new parameters and state. Nothing is updated."""
        self._check_ready("plan")
        batch, label = self._input(value), self._label(label)
        step = self._step(batch.type, label.type)
        self.check_label(label, step.output_type.shape)
        update = UpdateInPlace(tuple(step.updates.items()))
        settings: PlanOptions = {"title": f"a training step of {self.name}", "update": update, "kernels": self.kernels}
        plan = EvalPlan(**{**settings, **step.options, **options})
        for root in step.roots:
            plan.register(root)
        plan.prepare()
        return plan.bind(step.operands(batch.array, label.array))

    @options_of(ViewOptions)
    def explore(self, value: Any, label: Any, **options: Unpack[ViewOptions]) -> View:
        """Return a view of a training step with its values; nothing is updated."""
        hooks.check_view(**options)
        with hooks.preview(**options):
            plan = self.plan(value, label, record="values")
        return hooks.explore(plan.eval(), **options)

    # -- files ---------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], loader: Any = None) -> None:
        """Write weights, optimizer state, step count and, if given, the loader's position to a file ``x.npz``.

        The file is replaced atomically, so a reader sees the last complete version.
        """
        self._check_ready("save")
        hooks.save_training(self, path, loader)

    def restore(self, path: str | os.PathLike[str], loader: Any = None, own_settings: bool = False) -> None:
        """Read a file from ``save`` into an attached module with the same layers, loss, update rule and settings.

        Everything is checked before anything is assigned. If the loader is also restored, training continues bit for
        bit. Settings are the learning rate, and the options of optimizer, groups and loss; ``own_settings=True`` allows
        other settings and keeps this module's. Raises FileError for an unsuitable file.
        """
        self._check_ready("restore")
        check_type(own_settings, "own_settings", bool, "True or False", "own_settings=True")
        hooks.restore_training(self, path, loader, own_settings)
        self._pending = ""

    def close(self) -> None:
        """Release loss, optimizer, nodes and the last output; the module can then no longer be used."""
        for node in self.nodes.values():
            node.release()
        # Another module may now own the loss and the optimizer.
        if self.loss is not None:
            self.loss.owner = ""
        if self.optimizer is not None:
            self.optimizer.release()
        self.nodes, self._steps, self._predictions = {}, {}, {}
        self.loss = self.optimizer = self._last = None
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Epoch(NamedTuple):
    """Result of an epoch: its number, the mean loss of its batches, and its number of samples."""

    epoch: int
    loss: float
    samples: int


class Trained(Protocol):
    """Module that can be trained batch by batch and saved."""

    samples: str

    def require_optimizer(self) -> Optimizer:
        """Return the optimizer, which counts the steps."""

    def train_on(self, value: Any, label: Any) -> float:
        """Run one training step; return the loss before the update."""

    def save(self, path: str | os.PathLike[str], loader: Any = None) -> None:
        """Write the training state to a file."""


def train_epoch(
    module: Trained,
    loader: Iterable[tuple[Any, ...]],
    epoch: int,
    epochs: int,
    checkpoint: str | os.PathLike[str] | None,
    every_batches: int | None,
) -> Epoch:
    """Run a step for each batch; if training stops, count the batches with completed steps and save the state.

    Raises OperandError for a batch that is not a pair of input and label, and for an epoch without batches.
    """
    optimizer = module.require_optimizer()
    steps, batches = optimizer.iteration, len(loader) if isinstance(loader, Sized) else 0
    total, samples = 0.0, 0
    batches_of_epoch, resumable = iter(loader), loader if isinstance(loader, Resumable) else None
    try:
        for index, batch in enumerate(batches_of_epoch):
            if not isinstance(batch, (tuple, list)) or len(batch) != 2:
                raise OperandError(
                    f"a batch of {len(batch) if isinstance(batch, (tuple, list)) else type(batch).__name__}",
                    rule="a batch must be a pair, input and label",
                    fix="DataLoader(ArrayDataset(images, labels))",
                )
            # Reported before the step, so all counted batches are trained if a callback cancels.
            if (report := current_callback()) is not None:
                report(Progress("training", f"epoch {epoch}", (epoch - 1) * batches + index, epochs * batches))
            loss = module.train_on(*batch)
            count = np.shape(batch[0])[-1 if module.samples == "last" else 0]
            # Weighted, since the last batch may be smaller.
            total += loss * count
            samples += count
            if checkpoint is not None and every_batches is not None and (index + 1) % every_batches == 0:
                module.save(checkpoint, resumable)
    except BaseException:
        new_steps = optimizer.iteration - steps
        if isinstance(batches_of_epoch, Pass):
            # A batch whose step was not completed does not count, so training continues with it.
            batches_of_epoch.delivered = batches_of_epoch.first + new_steps
        # If no step was completed, the file is kept, since it may contain more training than this module.
        if checkpoint is not None and new_steps:
            module.save(checkpoint, resumable)
        raise
    if not samples:
        raise OperandError(
            f"no batch in epoch {epoch} of fit()",
            rule="a loader must return at least one batch in each epoch, and start again for each",
            fix="pass a DataLoader, or a list of batches; a generator returns its batches only once",
        )
    return Epoch(epoch, total / samples, samples)


def _store(table: dict[Any, Any], key: Any, value: Any) -> None:
    """Add a value to a table and drop the oldest, since batches of varying lengths would exhaust memory."""
    table[key] = value
    if len(table) > MAX_PLANS:
        del table[next(iter(table))]


def _is_initialized(layer: Layer) -> bool:
    return all(getattr(source, "parameter", True) is not None for source in layer.sources())


def _set_owner(thing: Loss | Optimizer, module: str, what: str) -> None:
    """Mark a loss or an optimizer as owned by a module; raise StateError if another module owns it."""
    if thing.owner:
        raise StateError(
            f"the {what} {thing!r} passed to the module {module!r}",
            rule=f"each {what} must be used by only one module, and {thing.owner!r} already uses this one",
            fix=f"make another {what}, or close() that module",
        )
    thing.owner = module

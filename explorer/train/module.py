"""Module: a loss, an optimizer and layers, trained together (CDNN: Module).

It is built in this order: loss and optimizer, layers one by one, then ``attach``. Two ways train it. ``forward``,
``backward`` and ``step`` compute one after the other, node by node, and each can be looked at. ``train_on`` does all
three in one plan, which every step reuses; ``fit`` calls it for each batch of a loader.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sized
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from explorer.core.argument_checks import check_type, check_whole, named_methods
from explorer.core.errors import OperandError, StateError
from explorer.core.ir.hooks import View, hooks
from explorer.core.ir.tensor import Tensor, tensor, tensor_of_values
from explorer.core.progress import Progress, current_callback, long_running
from explorer.core.types.device import Device, cpu
from explorer.core.types.device_copies import on_host
from explorer.core.types.tensor_type import Array, TensorType
from explorer.gradients import grad
from explorer.ops.nn.learning_rates import LearningRate
from explorer.plan.passes import UpdateInPlace
from explorer.record.fork_locks import renew_in_children
from explorer.run import evaluate
from explorer.run.evalplan import EvalPlan
from explorer.run.execution.executors import EXECUTORS
from explorer.train.buildable_module import BuildableModule
from explorer.train.compiled import Compiled, parameter
from explorer.train.data_loader import Pass, Resumable
from explorer.train.layers.training_layers import Training, step_operand
from explorer.train.module_device import elements_on
from explorer.train.optimizers.optimizer import Optimizer
from explorer.train.training_step import TrainingStep

KEPT = 16
"""plans of types of batches that a module keeps"""


@named_methods
class Module(BuildableModule):
    """Layers, a loss and an optimizer. All numbers have ``dtype``: "float32", or "float64" as in CDNN.

    ``samples`` says along which axis of inputs and labels they lie: "first" or "last". ``to_device("cuda")`` moves it
    to a GPU.

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

    def prepare(self) -> None:
        """Begin with no output and no plan."""
        self._last: tuple[TensorType, Any] | None = None
        """type and array of the last output, on its device until it is asked for"""
        self._pending = ""
        """what the loop needs next: "backward" after a forward, "step" after a backward"""
        self._made_step: Callable[[Module, TensorType, TensorType], TrainingStep] = TrainingStep
        self._steps: dict[tuple[TensorType, TensorType, LearningRate], TrainingStep] = {}
        self._predictions: dict[TensorType, Compiled] = {}
        self._outputs: dict[TensorType, TensorType] = {}
        """type of the output of ``forward`` by that of its input"""
        self._lock = threading.Lock()
        renew_in_children(self)

    def renew(self) -> None:
        """Leave plans behind in a forked process: a thread of its parent may have been running one."""
        self._steps, self._predictions = {}, {}
        self._lock = threading.Lock()

    @property
    def last_output(self) -> Array | None:
        """Output of the last forward or training step; None before."""
        if self._last is None:
            return None
        type_, output = self._last
        if type_.device is not cpu:
            output = on_host(type_, output)
            self._last = TensorType(type_.shape, type_.dtype), output
        values: Array = output
        return values

    def _place(self, device: Device) -> None:
        with self._lock:
            super()._place(device)
            self._steps, self._predictions, self._outputs, self._last, self._pending = {}, {}, {}, None, ""

    # -- forward, backward, step -----------------------------------------------------------------------------------

    def forward(self, value: Any) -> Array:
        """Compute the output as a training step does, node by node; each keeps its input and output until the next one.

        Dropout drops, and BatchNorm normalizes by this batch; ``predict`` computes the output in inference. Raises
        OperandError, as ``train_on`` does, for an input whose output has not the module's dtype.
        """
        self._ready("forward")
        self._check_forward(value)
        for node in self.nodes.values():
            # A result that a node has made belongs to nobody else, and is passed on without a copy.
            value = node.forward(value)
        output: Array = value
        self._last, self._pending = (TensorType(output.shape, output.dtype), output), "backward"
        return output

    def _check_forward(self, value: Any) -> None:
        """Raise OperandError for an input that a training step refuses; each type of input is asked about once."""
        type_ = self._input(value).type
        for each in self.parameters.values():
            elements_on(each, self.device)
        if type_ not in self._outputs:
            held = {name: parameter(each.type, name) for name, each in self.parameters.items()}
            # In training, which may refuse what inference takes: before the first node takes the input over.
            training = Training(step_operand(self.device), self.samples)
            self._outputs[type_] = self.record(parameter(type_, "input"), held, training).tensor_type
            if len(self._outputs) > KEPT:
                del self._outputs[next(iter(self._outputs))]

    def backward(self, label: Any) -> float:
        """Compute the gradients of all parameters from a label; return the loss.

        No parameter changes but the statistics of a BatchNorm. Raises StateError unless forward came before.
        """
        self._ready("backward")
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
            for name, held in node.replaced.items():
                held.assign(node.statistics[name])
        self._pending = "step"
        return float(value)

    def step(self) -> None:
        """Update all parameters by the gradients of the last backward. Raises StateError without one."""
        self._ready("step")
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
        """Gradients of the last backward, by the parameter's name; those of a shared parameter are summed."""
        total: dict[str, Array] = {}
        for node in self.nodes.values():
            for name, gradient in (node.gradients or {}).items():
                total[name] = total[name] + gradient if name in total else gradient
        return total

    # -- whole steps -----------------------------------------------------------------------------------------------

    def train_on(self, value: Any, label: Any) -> float:
        """Make one training step, forward, backward and update in one plan; return the loss before it.

        The plan is built at the first step for a type of input, and reused.
        """
        self._ready("train_on")
        batch, label = self._input(value), self._label(label)
        self._check_count(batch.type.shape)
        with self._lock:  # a plan has one table of values
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
        """Train on all batches of a loader, each (input, label), for some epochs; return an entry for each.

        With ``checkpoint`` the module is saved to this file, with the loader's position, after each ``every`` epochs,
        after each ``every_batches`` batches of an epoch, at the end, and where training is stopped, by an interrupt or
        an error. After ``restore(checkpoint, loader)`` it goes on bit for bit from there; the entry of an epoch that is
        gone on with counts the rest of its batches. A notebook shows a bar; ``ex.progress`` reports each batch, and
        can cancel: all steps taken remain.
        """
        self._ready("fit")
        if not isinstance(loader, Iterable) or isinstance(loader, (np.ndarray, Tensor)):
            raise OperandError(
                f"fit({type(loader).__name__}, …)",
                rule="a loader must be iterable, and give batches",
                fix="module.fit(ex.train.DataLoader(ex.train.ArrayDataset(images, labels)))",
            )
        epochs, every = check_whole(epochs, "epochs", "epochs=1", 0), check_whole(every, "every", "every=1", 1)
        if every_batches is not None:
            every_batches = check_whole(every_batches, "every_batches", "every_batches=100", 1)
        if checkpoint is not None:
            # Now, not after an epoch that may take an hour.
            hooks.check_training_file(checkpoint)
        history = []
        resumable = loader if isinstance(loader, Resumable) else None
        for epoch in range(1, epochs + 1):
            history.append(train_epoch(self, loader, epoch, epochs, checkpoint, every_batches))
            if checkpoint is not None and (epoch % every == 0 or epoch == epochs):
                self.save(checkpoint, resumable)
        return history

    def predict(self, value: Any) -> Array:
        """Compute the output in inference, in one plan; nothing is kept, and no step of the loop is affected."""
        self._ready("predict")
        array, type_ = self._input(value)
        with self._lock:
            elements = [elements_on(held, self.device) for held in self.parameters.values()]
            if type_ not in self._predictions:
                operand = parameter(type_, "input")
                # As operands, not as constants: a plan stays valid when a step has changed the parameters.
                held = {name: parameter(each.type, name) for name, each in self.parameters.items()}
                output = self.record(operand, held)
                self._predictions[type_] = Compiled([output], [operand, *held.values()], None, EXECUTORS[self.executor])
                if len(self._predictions) > KEPT:
                    del self._predictions[next(iter(self._predictions))]
            (result,) = self._predictions[type_].on_host(array, *elements)
        return result

    def _step(self, input_type: TensorType, label_type: TensorType) -> TrainingStep:
        # A rate that was assigned since is another step.
        key = input_type, label_type, self.require_optimizer().rate
        if key not in self._steps:
            for held in self.parameters.values():
                elements_on(held, self.device)
            self._steps[key] = self._made_step(self, input_type, label_type)
            if len(self._steps) > KEPT:  # the oldest: batches of ever new lengths would fill the memory
                del self._steps[next(iter(self._steps))]
        return self._steps[key]

    def set_step(self, made_step: Callable[[Module, TensorType, TensorType], TrainingStep]) -> None:
        """Have ``train_on`` and ``fit`` make other steps (``ex.parallelize``); plans of the old ones are dropped."""
        with self._lock:
            self._made_step, self._steps = made_step, {}

    # -- showing ---------------------------------------------------------------------------------------------------

    def plan(self, value: Any, label: Any, **options: Any) -> EvalPlan:
        """Return a prepared plan of one training step: output, loss, new parameters, new state; nothing is updated."""
        self._ready("plan")
        batch, label = self._input(value), self._label(label)
        step = self._step(batch.type, label.type)
        self.check_label(label, step.output_type.shape)
        update = UpdateInPlace(tuple(step.updates.items()))
        plan = EvalPlan(**{"title": f"a training step of {self.name}", "update": update, **step.options, **options})
        for root in step.roots:
            plan.register(root)
        plan.prepare()
        return plan.bind(step.operands(batch.array, label.array))

    def explore(self, value: Any, label: Any, **options: Any) -> View:
        """Return a view of one training step with its values; nothing is updated."""
        hooks.check_view(**options)
        with hooks.preview(**options):
            plan = self.plan(value, label, record="values")
        return hooks.explore(plan.eval(), **options)

    # -- keeping ---------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], loader: Any = None) -> None:
        """Write weights, the optimizer's state and the number of steps to a file ``x.npz``, and a loader's position.

        The file is replaced as a whole: a reader sees the last complete one.
        """
        self._ready("save")
        hooks.save_training(self, path, loader)

    def restore(self, path: str | os.PathLike[str], loader: Any = None, own_settings: bool = False) -> None:
        """Read what ``save`` wrote into an attached module of the same layers, loss, rule of updates and settings.

        All is checked before anything is assigned. Training goes on bit for bit as it would have, where the loader
        is restored too. Settings are the learning rate, and the options of optimizer, groups and loss: where they
        differ, ``own_settings=True`` goes on with those of this module. Raises FileError.
        """
        self._ready("restore")
        check_type(own_settings, "own_settings", bool, "True or False", "own_settings=True")
        hooks.restore_training(self, path, loader, own_settings)
        self._pending = ""

    def close(self) -> None:
        """Release loss, optimizer, nodes and the last output; the module cannot be used any more."""
        for node in self.nodes.values():
            node.release()
        # Both may be given to another module now.
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
    """Result of an epoch: its number, the mean loss of its batches, and the samples that it saw."""

    epoch: int
    loss: float
    samples: int


class Trained(Protocol):
    """Module that is trained batch by batch, and can be saved."""

    samples: str

    def require_optimizer(self) -> Optimizer:
        """Return the optimizer, which counts the steps."""

    def train_on(self, value: Any, label: Any) -> float:
        """Make one training step; return the loss before it."""

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
    """Take a step for each batch; where it is stopped, count the batches whose steps were taken, and save them.

    Raises OperandError for a batch that is no pair of input and label, and for an epoch without batches.
    """
    optimizer = module.require_optimizer()
    steps, batches = optimizer.iteration, len(loader) if isinstance(loader, Sized) else 0
    total, samples = 0.0, 0
    batches_of_epoch, resumable = iter(loader), loader if isinstance(loader, Resumable) else None
    try:
        for number, batch in enumerate(batches_of_epoch):
            if not isinstance(batch, (tuple, list)) or len(batch) != 2:
                raise OperandError(
                    f"a batch of {len(batch) if isinstance(batch, (tuple, list)) else type(batch).__name__}",
                    rule="a batch must be a pair, input and label",
                    fix="DataLoader(ArrayDataset(images, labels))",
                )
            # Before the step, so that a callback that cancels leaves all batches that were counted trained.
            if (report := current_callback()) is not None:
                report(Progress("training", f"epoch {epoch}", (epoch - 1) * batches + number, epochs * batches))
            loss = module.train_on(*batch)
            count = np.shape(batch[0])[-1 if module.samples == "last" else 0]
            # Weighed by samples: the last batch may be smaller, and its mean counts for less.
            total += loss * count
            samples += count
            if checkpoint is not None and every_batches is not None and (number + 1) % every_batches == 0:
                module.save(checkpoint, resumable)
    except BaseException:
        new_steps = optimizer.iteration - steps
        if isinstance(batches_of_epoch, Pass):
            # A batch that was loaded, and whose step did not end, is not behind: training goes on with it.
            batches_of_epoch.delivered = batches_of_epoch.first + new_steps
        # Without a step the file stays, which may hold more than this module.
        if checkpoint is not None and new_steps:
            module.save(checkpoint, resumable)
        raise
    if not samples:
        raise OperandError(
            f"no batch in epoch {epoch} of fit()",
            rule="a loader must give at least one batch in each epoch, and begin anew for each",
            fix="pass a DataLoader, or a list of batches; a generator gives its batches once",
        )
    return Epoch(epoch, total / samples, samples)

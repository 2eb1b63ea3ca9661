"""Training step: forward, loss, gradients and updates of a module as one plan, which every step reuses.

`Module.train_on` calls it. Recording all of it at once lets the planner see forward and backward pass together: what
both need is computed once, activations share one arena, and updates are written over the old values
(plan/passes/update_in_place.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np

from explorer.core.errors import StateError
from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Parameter
from explorer.core.ir.recording_context import recording_at, scope
from explorer.core.types.device_copies import on_host
from explorer.core.types.tensor_type import Array, TensorType
from explorer.gradients import grad
from explorer.layers.framework.parameters import Parameter as LayerParameter
from explorer.plan.options import Options
from explorer.run.execution.executors import EXECUTORS, RegisteredExecutor
from explorer.train.buildable_module import BuildableModule
from explorer.train.compiled import Compiled, parameter
from explorer.train.layers.training_layers import Training, step_number
from explorer.train.module_device import elements_on


class Slopes(NamedTuple):
    """Expressions of a step before its update."""

    output: Expr
    loss: Expr
    slopes: list[Expr]
    """gradients of the trained parameters, in their order"""


class TrainingStep:
    """Expressions of one training step of a module, for one type of input and label.

    ``roots`` are the output, the loss, the new parameters and the optimizer's new state. They are recorded once,
    however many steps are made.
    """

    options: ClassVar[Mapping[str, Any]] = {}
    """options of its plan other than those of the executor"""

    def __init__(self, module: BuildableModule, input_type: TensorType, label_type: TensorType) -> None:
        self._module = module
        self._optimizer = optimizer = module.require_optimizer()
        # A step is recorded once, far from the line that makes it: only its layers have lines, where they were added.
        with recording_at(None, None):
            self._value, self._label = parameter(input_type, "input"), parameter(label_type, "label")
            held = self.held(module)
            trained = {name: held[name] for name in optimizer.parameters}
            count = optimizer.count() if module.training_layers else None
            training = None if count is None else Training(step_number(count, module.device), module.samples)
            output, loss, slopes = self.slopes(self._value, self._label, held, trained, training)
            new = {} if training is None else training.statistics
            replaced = {name: (held[name], value) for name, value in new.items()}
            with scope("update"):
                update = optimizer.record(trained, dict(zip(trained, slopes, strict=True)), count, replaced)
        self.output_type, self._loss_type = output.tensor_type, loss.tensor_type
        self.roots: list[Expr] = [output, loss, *update.results]
        self.updates, self._places = update.values, update.places
        self._frozen = {name: node for name, node in held.items() if node not in self.updates}
        self._compiled: Compiled | None = None

    def held(self, module: BuildableModule) -> dict[str, Expr]:
        """Record an operand for each parameter, by name: inside the box of the first layer that has it."""
        held: dict[str, Expr] = {}
        for node in module.nodes.values():
            held = {**node.operands(), **held}
        return {name: held[name] for name in module.parameters}

    def slopes(
        self,
        value: Expr,
        label: Expr,
        held: Mapping[str, Expr],
        trained: Mapping[str, Expr],
        training: Training | None,
    ) -> Slopes:
        """Record the output, the loss, and its gradients for the trained parameters."""
        output = self._module.record(value, held, training)
        with scope("loss"):
            loss = self._module.record_loss(output, label)
        self.check_trained()
        return Slopes(output, loss, grad(loss, list(trained.values())))

    def check_trained(self) -> None:
        """Raise StateError where no parameter is trained."""
        if not self._optimizer.parameters:
            raise StateError(
                f"a training step of the module {self._module.name!r}, none of whose parameters is trained",
                rule="a step must have a parameter to update: one of a layer, and not frozen",
                fix="module.predict(x) computes outputs; or add a layer with parameters, such as ex.train.Linear",
            )

    def compiled(self, operands: list[Expr]) -> Compiled:
        """Return the program of a step."""
        executor, options = self.execution()
        places, spares = self._places, self._optimizer.spares
        return Compiled(self.roots[:2], operands, places, executor, options, self.updates, spares)

    def execution(self) -> tuple[RegisteredExecutor, Options]:
        """Return the executor of a step, and the options of its plan."""
        executor = EXECUTORS[self._module.executor]
        return executor, Options(**{"lanes": executor.lanes, **self.options})

    def check(self, value: Any, label: Any, output: Any, loss: Array) -> None:
        """Raise OperandError where the loss of a step cannot be right; nothing is updated then."""
        if isinstance(output, np.ndarray):
            self._module.require_loss().check_output(output)

    def __call__(self, value: Any, label: Any) -> tuple[Any, float]:
        """Make the step: update the parameters; return the output, an array of its device, and the loss before it."""
        self._optimizer.begin()
        if self._compiled is None:
            operands = [self._value, self._label, *self._frozen.values()]
            self._compiled = self.compiled(operands)
        device = self._module.device
        output, loss, *_ = self._compiled(
            value, label, *[elements_on(held, device) for held in self._frozen_parameters()]
        )
        loss = on_host(self._loss_type, loss)
        # Between the run and the update: a loss that cannot be right changes no parameter.
        self.check(value, label, output, loss)
        self._optimizer.commit(self._compiled)
        return output, float(loss)

    def operands(self, value: Array, label: Array) -> dict[Expr, Array]:
        """Return the values of all operands, as they are now."""
        self._optimizer.begin()
        frozen = {node: held.array for node, held in zip(self._frozen.values(), self._frozen_parameters(), strict=True)}
        # Copies: a plan that is shown keeps the values of this moment, while training goes on.
        read = {
            node: on_host(node.tensor_type, array).copy()
            for node, array in self._places.items()
            if isinstance(node.operation, Parameter)
        }
        return {self._value: value, self._label: label, **frozen, **read}

    def _frozen_parameters(self) -> list[LayerParameter]:
        return [self._module.parameters[name] for name in self._frozen]

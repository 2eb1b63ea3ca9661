"""Training step: forward, loss, gradients and updates of a module as one plan, which every step reuses."""

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.core.ir.function import Parameter
from explorer.core.ir.recording_context import recording_at, scope
from explorer.core.types.tensor_type import Array, TensorType
from explorer.grad import grad
from explorer.train.buildable_module import BuildableModule
from explorer.train.compiled import Compiled, parameter


class TrainingStep:
    """Expressions of one training step of a module, for one type of input and label.

    ``roots`` are the output, the loss, the new parameters and the optimizer's new state. They are recorded once,
    however many steps are made.
    """

    def __init__(self, module: BuildableModule, input_type: TensorType, label_type: TensorType) -> None:
        self._module = module
        self._optimizer = optimizer = module.require_optimizer()
        # A step is recorded once, far from the line that makes it: only its layers have lines, where they were added.
        with recording_at(None, None):
            self._value, self._label = parameter(input_type, "input"), parameter(label_type, "label")
            held = {name: parameter(each.value.type, name) for name, each in module.parameters.items()}
            output = module.record(self._value, held)
            with scope("loss"):
                loss = module.record_loss(output, self._label)
            trained = {name: held[name] for name in optimizer.parameters}
            slopes = dict(zip(trained, grad(loss, list(trained.values())), strict=True))
            with scope("update"):
                update = optimizer.record(trained, slopes)
        self.roots: list[Expr] = [output, loss, *update.results]
        self._places = update.places
        self._frozen = {name: node for name, node in held.items() if name not in trained}
        self._compiled: Compiled | None = None

    def __call__(self, value: Array, label: Array) -> tuple[Array, float]:
        """Make the step: update the parameters; return the output and the loss before it."""
        self._optimizer.begin()
        if self._compiled is None:
            operands = [self._value, self._label, *self._frozen.values()]
            self._compiled = Compiled(self.roots, operands, self._places, self._module.executor)
        output, loss, *_ = self._compiled(value, label, *self._frozen_arrays())
        self._optimizer.commit()
        return output, float(loss)

    def operands(self, value: Array, label: Array) -> dict[Expr, Array]:
        """Return the values of all operands, as they are now."""
        self._optimizer.begin()
        frozen = dict(zip(self._frozen.values(), self._frozen_arrays(), strict=True))
        read = {node: array.copy() for node, array in self._places.items() if isinstance(node.operation, Parameter)}
        return {self._value: value, self._label: label, **frozen, **read}

    def _frozen_arrays(self) -> list[Array]:
        return [self._module.parameters[name].array for name in self._frozen]

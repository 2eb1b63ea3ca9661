"""The recurrent layer: a step layer, run once for each place of a sequence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from explorer.core.errors import DeclarationError, OperandError, UnknownNameError
from explorer.core.ir.expr import Expr, scope
from explorer.layers.framework.composite import Composite
from explorer.layers.framework.layer import Layer
from explorer.layers.framework.policy_classes import RecurrentPolicy
from explorer.layers.framework.topology import InConnect, OutConnect, Sublayer, Topology
from explorer.ops.manipulation.concat import stack
from explorer.ops.manipulation.reshape import StopGradient

_STEP = "step"


class Recurrent(Composite):
    """Runs ``RecurrentPolicy.step`` along the axis of time, and stacks what the steps give.

    The step's input port ``previous`` (``previous_x`` for its output port ``x``, where there are several) gets the
    step before's output; the layer's own such port is what the first step gets. ``step`` holds what the step layer is
    constructed with. With PDisableBptt no gradient goes from a step to the one before it.

    Sublayers: step.
    """

    step: Mapping[str, Any]
    repeats: ClassVar[bool] = True
    _running: ClassVar[frozenset[str]] = Composite._running | {"states", "axes"}

    def declare(self) -> Topology:
        """The step, with all its ports."""
        kind = self.select(RecurrentPolicy).step
        self.states = _states(self, kind)
        return Topology(
            Sublayer(_STEP, kind),
            *[InConnect(port, _STEP, port) for port in kind.inputs],
            *[OutConnect(_STEP, port, port) for port in kind.outputs],
        )

    def arguments(self) -> Mapping[str, Mapping[str, Any]]:
        """The step's."""
        return {_STEP: self.step}

    def prepare(self) -> None:
        """Check the axes of time."""
        if not isinstance(self.step, Mapping):
            raise DeclarationError(
                f"the argument 'step' of {self!r}: {self.step!r}",
                rule="it maps the names of the step layer's arguments to their values",
                fix='{"in_features": 3, "out_features": 4}, or {} for none',
            )
        super().prepare()
        axis = self.select(RecurrentPolicy).axis
        sequences = [port for port in self.inputs if port not in self.states]
        pairs = axis if isinstance(axis, tuple) else tuple([(port, axis) for port in sequences])
        if not all(isinstance(pair, tuple) and len(pair) == 2 and type(pair[1]) is int for pair in pairs):
            raise DeclarationError(
                f"{RecurrentPolicy.axis!r} of {self!r}: {axis!r}",
                rule="it is a number, or pairs of a sequence's port and a number",
                fix=f"RecurrentPolicy.axis({tuple([(port, 0) for port in sequences])!r})",
            )
        for port, _ in pairs:
            if port not in sequences:
                raise UnknownNameError(str(port), kind=f"sequence port of {self!r}", known=sequences)
        if not pairs:
            raise DeclarationError(
                f"{self!r} has no sequence",
                rule="one input has an axis of time",
                fix="give the step an input port that is not the step before's output",
            )
        self.axes: dict[str, int] = dict(pairs)

    def returns(self, name: str) -> bool:
        """Its step's output is the next one's input: with gradients through time they come back."""
        return self.train and bool(self.select(RecurrentPolicy).through_time)

    def make_blueprint(self) -> Any:
        """The step's, and how it is run."""
        return super().make_blueprint(), tuple(self.axes.items()), self.select(RecurrentPolicy).through_time

    def expand(self, values: Mapping[str, Expr], parameters: Mapping[str, Expr]) -> dict[str, Expr]:
        """A call of the step for each place."""
        step = self.sublayers[_STEP]
        through_time = self.select(RecurrentPolicy).through_time
        own = {path.partition("/")[2]: held for path, held in parameters.items()}
        given = dict(values)
        found: list[dict[str, Expr]] = []
        for place in range(self._length(values)):
            for port, axis in self.axes.items():
                value = values[port]
                given[port] = value[(*[slice(None)] * (axis % value.ndim), place)]
            with scope(_STEP, "layer", type(step).__name__):
                found.append(step.call(given, own))
            for port, output in self.states.items():
                given[port] = found[-1][output] if through_time else StopGradient()(found[-1][output])
        (axis, *_) = self.axes.values()
        return {port: stack([outputs[port] for outputs in found], axis=axis) for port in self.outputs}

    def _length(self, values: Mapping[str, Expr]) -> int:
        for port, axis in self.axes.items():
            if not -values[port].ndim <= axis < values[port].ndim:
                raise OperandError(
                    f"the port {port!r} of {self!r} given {values[port].type}",
                    rule=f"axis {axis} is that of time",
                    fix="give a sequence, or choose another axis: RecurrentPolicy.axis",
                )
        lengths = {port: values[port].shape[axis] for port, axis in self.axes.items()}
        if len(set(lengths.values())) != 1 or 0 in lengths.values():
            told = ", ".join([f"{port} {length}" for port, length in lengths.items()])
            raise OperandError(
                f"sequences of the lengths {told} for {self!r}",
                rule="all sequences have one length, one step or more",
                fix="check the axis of time: RecurrentPolicy.axis",
            )
        return next(iter(lengths.values()))


def _states(layer: Layer, cls: type[Any]) -> dict[str, str]:
    """The input ports of a step that get outputs of the step before."""
    if not issubclass(cls, Layer) or not cls.outputs:
        raise DeclarationError(
            f"the step {cls.__name__} of {layer!r}",
            rule="a step is a layer class that says its inputs and outputs",
            fix="RecurrentPolicy.step(GRUStep), for instance",
        )
    outputs = cls.outputs
    named = {f"previous_{port}": port for port in outputs}
    if len(outputs) == 1:
        named["previous"] = outputs[0]
    found = {port: named[port] for port in cls.inputs if port in named}
    if not found:
        raise DeclarationError(
            f"the step layer {cls.__name__} has no input port {' or '.join(map(repr, named))}",
            rule="a step reads what the step before gave",
            fix=f"name an input of {cls.__name__} so",
        )
    return found

"""The recurrent layer: a step layer, run once for each place of a sequence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from explorer.core.errors import DeclarationError, OperandError, UnknownNameError
from explorer.core.expr import Expr, scope
from explorer.layers.composite import Composite
from explorer.layers.policies import RecurrentPolicy
from explorer.layers.topology import InConnect, OutConnect, Sublayer, Topology
from explorer.ops.joining import stack
from explorer.ops.movement import StopGradient

_STEP = "step"


class Recurrent(Composite):
    """Runs ``RecurrentPolicy.step`` along the axis of time, and stacks what the steps give.

    The step's input port ``previous`` (``previous_x`` for its output port ``x``, where there are several) gets the
    step before's output; the layer's own such port is what the first step gets. ``step`` holds what the step layer is
    constructed with. With PDisableBptt no gradient goes from a step to the one before it.
    """

    step: Mapping[str, Any]
    inputs: ClassVar[tuple[str, ...]] = ("input", "previous")

    def declare(self) -> Topology:
        """The step, with all its ports."""
        kind = self.select(RecurrentPolicy).step
        self.states = _states(kind)
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
        super().prepare()
        axis = self.select(RecurrentPolicy).axis
        sequences = [port for port in self.inputs if port not in self.states]
        pairs = dict(axis) if isinstance(axis, tuple) else dict.fromkeys(sequences, axis)
        for port in pairs:
            if port not in sequences:
                raise UnknownNameError(str(port), kind=f"sequence port of {self!r}", known=sequences)
        if not pairs:
            raise DeclarationError(f"{self!r} has no sequence", rule="one input has an axis of time")
        self.axes: dict[str, int] = pairs

    def reasons(self, name: str, active: Mapping[str, bool]) -> list[str]:
        """Beside what the step reads: its own output comes back, with gradients through time."""
        found = super().reasons(name, active)
        if self.train and self.select(RecurrentPolicy).through_time:
            found.append("its output comes back through time")
        return found

    def blueprint(self) -> Any:
        """The step's, and how it is run."""
        return super().blueprint(), tuple(self.axes.items()), self.select(RecurrentPolicy).through_time

    def write(self, values: Mapping[str, Expr], parameters: Mapping[str, Expr]) -> dict[str, Expr]:
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
                    f"the port {port!r} of {self!r} given {values[port].type}", rule=f"axis {axis} is that of time"
                )
        lengths = {port: values[port].shape[axis] for port, axis in self.axes.items()}
        if len(set(lengths.values())) != 1 or 0 in lengths.values():
            told = ", ".join([f"{port} {length}" for port, length in lengths.items()])
            raise OperandError(
                f"sequences of the lengths {told} for {self!r}", rule="all sequences have one length, one step or more"
            )
        return next(iter(lengths.values()))


def _states(kind: type[Any]) -> dict[str, str]:
    """The input ports of a step that get outputs of the step before."""
    outputs = kind.outputs
    named = {f"previous_{port}": port for port in outputs}
    if len(outputs) == 1:
        named["previous"] = outputs[0]
    found = {port: named[port] for port in kind.inputs if port in named}
    if not found:
        raise DeclarationError(
            f"the step layer {kind.__name__} has no input port {' or '.join(map(repr, named))}",
            rule="a step reads what the step before gave",
        )
    return found

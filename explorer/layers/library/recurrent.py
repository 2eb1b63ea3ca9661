"""Recurrent layer, which calls a step layer for each position of a sequence.

The steps are unrolled into calls of the step layer's shared function, so they can be shown, batched and differentiated
like other calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from explorer.core.errors import DeclarationError, OperandError, UnknownNameError
from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import scope
from explorer.layers.framework.composite import Composite
from explorer.layers.framework.layer import Layer
from explorer.layers.framework.policy_classes import GRUPolicy, RecurrentPolicy
from explorer.layers.framework.topology import Clause, InConnect, InternalConnect, OutConnect, Sublayer, Topology
from explorer.layers.library.linear import Linear, Weight
from explorer.layers.library.operation_layers import Add, Interpolate, Multiply, Sigmoid, Tanh
from explorer.ops.manipulation.concat import stack
from explorer.ops.manipulation.reshape import StopGradient

_STEP = "step"


class Recurrent(Composite):
    """Layer that calls ``RecurrentPolicy.step`` along the time axis and stacks the outputs of the steps.

    The step's input port ``previous`` receives the output of the previous step. If the step has several outputs, the
    port ``previous_x`` receives the output ``x``. The layer has ports of the same names, which provide the values for
    the first step. The argument ``step`` contains the constructor arguments of the step layer. With PDisableBptt,
    gradients do not flow back to previous steps.

    Sublayers: step.
    """

    step: Mapping[str, Any]
    repeats: ClassVar[bool] = True
    _running: ClassVar[frozenset[str]] = Composite._running | {"states", "axes"}

    def declare(self) -> Topology:
        """Return a topology that exposes the step's ports as the layer's ports."""
        step_class = self.select(RecurrentPolicy).step
        self.states = _states(self, step_class)
        return Topology(
            Sublayer(_STEP, step_class),
            *[InConnect(port, _STEP, port) for port in step_class.inputs],
            *[OutConnect(_STEP, port, port) for port in step_class.outputs],
        )

    def arguments(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the step's constructor arguments."""
        return {_STEP: self.step}

    def prepare(self) -> None:
        """Check the step's arguments and the time axes."""
        if not isinstance(self.step, Mapping):
            raise DeclarationError(
                f"the argument 'step' of {self!r}: {self.step!r}",
                rule="step must map the names of the step layer's arguments to their values",
                fix='{"in_features": 3, "out_features": 4}, or {} for none',
            )
        super().prepare()
        axis = self.select(RecurrentPolicy).axis
        sequences = [port for port in self.inputs if port not in self.states]
        pairs = axis if isinstance(axis, tuple) else tuple([(port, axis) for port in sequences])
        if not all(isinstance(pair, tuple) and len(pair) == 2 and type(pair[1]) is int for pair in pairs):
            raise DeclarationError(
                f"{RecurrentPolicy.axis!r} of {self!r}: {axis!r}",
                rule="axis must be an integer, or pairs (sequence port, integer)",
                fix=f"RecurrentPolicy.axis({tuple([(port, 0) for port in sequences])!r})",
            )
        for port, _ in pairs:
            if port not in sequences:
                raise UnknownNameError(str(port), kind=f"sequence port of {self!r}", known=sequences)
        if not pairs:
            raise DeclarationError(
                f"{self!r} has no sequence",
                rule="at least one input must have a time axis",
                fix="give the step an input port that does not receive an output of the previous step",
            )
        self.axes: dict[str, int] = dict(pairs)

    def is_recurrent(self, name: str) -> bool:
        """Return whether gradients flow from a step's input back to the previous step's output."""
        return self.train and bool(self.select(RecurrentPolicy).through_time)

    def make_blueprint(self) -> Any:
        """Return a key made of the step's blueprint, the time axes, and whether gradients flow through time."""
        return super().make_blueprint(), tuple(self.axes.items()), self.select(RecurrentPolicy).through_time

    def expand(self, values: Mapping[str, Expr], parameters: Mapping[str, Expr]) -> dict[str, Expr]:
        """Record a call of the step for each position; return the outputs by port."""
        step = self.sublayers[_STEP]
        through_time = self.select(RecurrentPolicy).through_time
        own = {path.partition("/")[2]: parameter for path, parameter in parameters.items()}
        step_inputs = dict(values)
        step_outputs: list[dict[str, Expr]] = []
        for position in range(self._length(values)):
            for port, axis in self.axes.items():
                value = values[port]
                # negative axes count from the last axis of each port's value
                step_inputs[port] = value[(*[slice(None)] * (axis % value.ndim), position)]
            with scope(_STEP, "layer", type(step).__name__):
                step_outputs.append(step.call(step_inputs, own))
            for port, output in self.states.items():
                step_inputs[port] = (
                    step_outputs[-1][output] if through_time else StopGradient()(step_outputs[-1][output])
                )
        (axis, *_) = self.axes.values()
        return {port: stack([outputs[port] for outputs in step_outputs], axis=axis) for port in self.outputs}

    def _length(self, values: Mapping[str, Expr]) -> int:
        for port, axis in self.axes.items():
            if not -values[port].ndim <= axis < values[port].ndim:
                raise OperandError(
                    f"the port {port!r} of {self!r} with {values[port].type}",
                    rule=f"the input must have the time axis {axis}",
                    fix="pass a sequence, or choose another axis with RecurrentPolicy.axis",
                )
        lengths = {port: values[port].shape[axis] for port, axis in self.axes.items()}
        if len(set(lengths.values())) != 1 or 0 in lengths.values():
            lengths_text = ", ".join([f"{port} {length}" for port, length in lengths.items()])
            raise OperandError(
                f"sequences of lengths {lengths_text} for {self!r}",
                rule="all sequences must have the same length of 1 or more",
                fix="check the time axis, RecurrentPolicy.axis",
            )
        return next(iter(lengths.values()))


def _states(layer: Layer, cls: type[Any]) -> dict[str, str]:
    """Return the step's state as a mapping from input port to output port of the previous step."""
    if not issubclass(cls, Layer) or not cls.outputs:
        raise DeclarationError(
            f"the step {cls.__name__} of {layer!r}",
            rule="a step must be a layer class that declares its inputs and outputs",
            fix="RecurrentPolicy.step(GRUStep)",
        )
    outputs = cls.outputs
    named = {f"previous_{port}": port for port in outputs}
    if len(outputs) == 1:
        # the short name is unambiguous if there is only one output
        named["previous"] = outputs[0]
    states = {port: named[port] for port in cls.inputs if port in named}
    if not states:
        raise DeclarationError(
            f"the step layer {cls.__name__} has no input port {' or '.join(map(repr, named))}",
            rule="a step must have an input port for the output of the previous step",
            fix=f"rename an input port of {cls.__name__} accordingly",
        )
    return states


_GATES = ("update", "reset")


class GRUStep(Composite):
    """Step of a gated recurrent unit (GRU): h = z·ĥ + (1 − z)·h₋₁.

    z, r = σ(x @ W + h₋₁ @ U) and ĥ = tanh(x @ W + (r·h₋₁) @ U); see GRUPolicy. ``input`` is x, ``previous`` is h₋₁.
    PyTorch's z is 1 − z.

    Sublayers: update_input, update_state, update_sum, update; reset_input, reset_state, reset_sum, reset;
    candidate_input, candidate_state, candidate_sum, candidate; gated, blend.
    """

    in_features: int
    out_features: int
    inputs: ClassVar[tuple[str, ...]] = ("input", "previous")
    outputs: ClassVar[tuple[str, ...]] = ("output",)

    def declare(self) -> Topology:
        """Return the topology: two gates, the candidate, and its interpolation with the previous state."""
        policies = self.select(GRUPolicy)
        product = Linear if policies.bias_involved else Weight
        after = policies.reset == "after"
        clauses: list[Clause] = []
        for gate in (*_GATES, "candidate"):
            clauses += [
                Sublayer(f"{gate}_input", product),
                Sublayer(f"{gate}_state", product),
                Sublayer(f"{gate}_sum", Add),
                Sublayer(gate, Tanh if gate == "candidate" else Sigmoid),
                InConnect("input", f"{gate}_input", "input"),
                InternalConnect(f"{gate}_input", "output", f"{gate}_sum", "left"),
                InternalConnect(f"{gate}_sum", "output", gate, "input"),
            ]
        for gate in _GATES:
            clauses += [
                InConnect("previous", f"{gate}_state", "input"),
                InternalConnect(f"{gate}_state", "output", f"{gate}_sum", "right"),
            ]
        clauses += [
            Sublayer("gated", Multiply),
            InternalConnect("reset", "output", "gated", "left"),
            Sublayer("blend", Interpolate),
            InternalConnect("candidate", "output", "blend", "first"),
            InConnect("previous", "blend", "second"),
            InternalConnect("update", "output", "blend", "weight"),
            OutConnect("blend", "output", "output"),
        ]
        if after:
            clauses += [
                InConnect("previous", "candidate_state", "input"),
                InternalConnect("candidate_state", "output", "gated", "right"),
                InternalConnect("gated", "output", "candidate_sum", "right"),
            ]
        else:
            clauses += [
                InConnect("previous", "gated", "right"),
                InternalConnect("gated", "output", "candidate_state", "input"),
                InternalConnect("candidate_state", "output", "candidate_sum", "right"),
            ]
        return Topology(*clauses)

    def arguments(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the feature counts of the sublayers."""
        return {
            f"{gate}_{side}": {"in_features": features, "out_features": self.out_features}
            for gate in (*_GATES, "candidate")
            for side, features in (("input", self.in_features), ("state", self.out_features))
        }

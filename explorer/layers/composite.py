"""Composite layers: sublayers and how they are wired, declared as a topology; everything else follows from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from explorer.core.errors import DeclarationError, UnknownNameError
from explorer.core.expr import Expr, scope
from explorer.layers.initializer import Buffer, Initializer
from explorer.layers.layer import Layer
from explorer.layers.parameter import Parameter
from explorer.layers.policies import GradPolicy
from explorer.layers.policy import Given
from explorer.layers.topology import Topology


@dataclass(frozen=True, slots=True)
class Feedback:
    """Whether a sublayer feeds gradients back to its inputs, and why."""

    sublayer: str
    needed: bool
    reason: str


class Composite(Layer):
    """A layer made of sublayers: a class declares its ``topology``, or ``declare`` chooses one by policies.

    Ports are those that the connection clauses name. ``arguments`` says what each sublayer is constructed with.
    """

    topology: ClassVar[Topology]
    inputs: ClassVar[tuple[str, ...]] = ()
    outputs: ClassVar[tuple[str, ...]] = ("output",)

    def __init_subclass__(cls) -> None:
        declared = vars(cls).get("topology")
        if isinstance(declared, Topology):
            cls.inputs, cls.outputs = declared.inputs, declared.outputs
        if "forward" in vars(cls):
            raise DeclarationError(
                f"forward of the composite {cls.__name__}",
                rule="a composite is only its topology",
                fix="write a sublayer",
            )
        super().__init_subclass__()

    def declare(self) -> Topology:
        """The topology for this layer's fields and policies; the class's own one unless overridden."""
        return self.topology

    def arguments(self) -> Mapping[str, Mapping[str, Any]]:
        """What sublayers are constructed with, by sublayer and argument."""
        return {}

    def prepare(self) -> None:
        """Make the sublayers, with the policies that reach them and the gradients that they have to feed back."""
        try:
            self.wiring = self.declare()
        except AttributeError:
            raise DeclarationError(
                f"the composite {type(self).__name__} has no topology", rule="a composite declares its topology"
            ) from None
        self.inputs, self.outputs = self.wiring.inputs, self.wiring.outputs  # type: ignore[misc]  # by its clauses
        names = tuple(self.wiring.sublayers)
        self.policies.check(names, self.name)
        arguments = self.arguments()
        for name in arguments:
            if name not in names:
                raise UnknownNameError(name, kind=f"sublayer of {self!r} in its arguments", known=names)
        self.sublayers: dict[str, Layer] = {}
        self.feedback: list[Feedback] = []
        """for each sublayer, in order, whether it feeds back"""
        active = {"": self.feeds_back}
        for name in self.wiring.order:
            active[name] = self._make(name, arguments.get(name, {}), active)

    def _make(self, name: str, arguments: Mapping[str, Any], active: Mapping[str, bool]) -> bool:
        """Make a sublayer; whether it updates or feeds back, so that what it feeds has to feed back."""
        policies = self.policies.of(name, self.name)
        own, inherited = [p.given.get(GradPolicy.feedback_output) for p in (policies, self.policies)]
        asked = own is not inherited and own is not None and own.value
        reasons = self.reasons(name, active)
        if reasons:
            feedback = Feedback(name, True, ", ".join(reasons))
        elif asked and own is not None:
            feedback = Feedback(name, True, f"asked for by {own.by}")
        else:
            feedback = Feedback(name, False, "nothing that it reads updates or feeds back")
        policies.given[GradPolicy.feedback_output] = Given(feedback.needed, f"inferred: {feedback.reason}")
        self.feedback.append(feedback)
        made = self.wiring.sublayers[name](f"{self.name}/{name}", policies=policies, train=self.train, **arguments)
        self.sublayers[name] = made
        return feedback.needed or bool(made.updates())

    def reasons(self, name: str, active: Mapping[str, bool]) -> list[str]:
        """Why a sublayer has to feed back: what it reads updates or feeds back itself."""
        return [
            f"{source} updates or feeds back" if source else f"{self.name} feeds its inputs back"
            for source in self.wiring.feeding(name)
            if active[source]
        ]

    def __getitem__(self, name: str) -> Layer:
        """A sublayer; a path ("weight/param") names one inside it."""
        first, _, rest = name.partition("/")
        if first not in self.sublayers:
            raise UnknownNameError(first, kind=f"sublayer of {self!r}", known=self.sublayers)
        found = self.sublayers[first]
        return found[rest] if rest and isinstance(found, Composite) else found

    def paths(self) -> tuple[str, ...]:
        """Where parameters are inside."""
        return tuple([_path(name, path) for name, layer in self.sublayers.items() for path in layer.paths()])

    def parameters(self) -> dict[str, Parameter]:
        """All parameters inside, by path."""
        return {
            _path(name, path): held
            for name, layer in self.sublayers.items()
            for path, held in layer.parameters().items()
        }

    def updates(self) -> frozenset[str]:
        """Paths of the parameters inside that update."""
        return frozenset([_path(name, path) for name, layer in self.sublayers.items() for path in layer.updates()])

    def init(self, initializer: Initializer | None = None, buffer: Buffer | None = None) -> None:
        """Initialise every sublayer, with one buffer."""
        buffer = {} if buffer is None else buffer
        for layer in self.sublayers.values():
            layer.init(initializer, buffer)

    def blueprint(self) -> Any:
        """The topology and what the sublayers depend on."""
        return type(self), self.wiring, tuple([(name, layer.blueprint()) for name, layer in self.sublayers.items()])

    def write(self, values: Mapping[str, Expr], parameters: Mapping[str, Expr]) -> dict[str, Expr]:
        """A call of every sublayer, in topological order."""
        made: dict[tuple[str, str], Expr] = {("", port): value for port, value in values.items()}
        for name, layer in self.sublayers.items():
            inputs = {port: made[self.wiring.sources[name, port]] for port in layer.inputs}
            own = {path: parameters[_path(name, path)] for path in layer.paths()}
            with scope(name, "layer", type(layer).__name__):
                outputs = layer.call(inputs, own)
            made.update({(name, port): value for port, value in outputs.items()})
        return {port: made[source] for port, source in self.wiring.results.items()}


def _path(name: str, inner: str) -> str:
    return f"{name}/{inner}" if inner else name

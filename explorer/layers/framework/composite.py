"""Composite layers: sublayers and their connections, declared as a topology.

Everything else follows from the topology: ports, parameters by path, which sublayers must feed gradients back, and the
order in which sublayers are called. A class that called its sublayers in a ``forward`` of its own would leave these to
be found by running it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from explorer.core.errors import DeclarationError, ExplorerError, UnknownNameError
from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import scope
from explorer.core.policy import ResolvedPolicy
from explorer.layers.framework.initializer import ParameterHolder
from explorer.layers.framework.layer import Layer
from explorer.layers.framework.parameters import GradCollector, Parameter
from explorer.layers.framework.policy_classes import GradPolicy
from explorer.layers.framework.topology import Topology

_DEEPEST = 100
"""most levels of nested sublayers; a deeper composite is assumed to contain itself"""


@dataclass(frozen=True, slots=True)
class Feedback:
    """Decision whether a sublayer feeds gradients back to its inputs, with the reason."""

    sublayer: str
    needed: bool
    reason: str


class Composite(Layer):
    """Layer that consists of sublayers: a class declares its ``topology``, or ``declare`` chooses one by policies.

    The ports are those named by the connection clauses, in the order of the class's ``inputs`` and ``outputs`` if it
    lists them. ``arguments`` returns the constructor arguments of each sublayer.
    """

    topology: ClassVar[Topology | None] = None
    inputs: ClassVar[tuple[str, ...]] = ()
    outputs: ClassVar[tuple[str, ...]] = ()
    """empty until the layer is built"""
    _running: ClassVar[frozenset[str]] = Layer._running | {"sublayers", "feedback", "wiring"}

    def __init_subclass__(cls) -> None:
        declared = vars(cls).get("topology")
        if isinstance(declared, Topology):
            for what, ports in (("inputs", declared.inputs), ("outputs", declared.outputs)):
                setattr(cls, what, _ordered(cls, what, vars(cls).get(what, ()), ports))
        elif declared is not None:
            raise DeclarationError(
                f"the topology {declared!r} of the composite {cls.__name__}",
                rule="topology must be a Topology",
                fix="topology = Topology(Sublayer(…), …)",
            )
        if "forward" in vars(cls):
            raise DeclarationError(
                f"forward of the composite {cls.__name__}",
                rule="a composite must not define forward: its topology determines it",
                fix="move the computation to a sublayer's class",
            )
        super().__init_subclass__()

    def declare(self) -> Topology:
        """Return the topology for this layer's arguments and policies; the class's own unless overridden."""
        if self.topology is None:
            raise DeclarationError(
                f"the composite {type(self).__name__} has no topology",
                rule="a composite must declare its topology",
                fix="topology = Topology(…) in the class body, or def declare(self) that returns one",
            )
        return self.topology

    def arguments(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the constructor arguments of the sublayers, by sublayer and argument."""
        return {}

    def prepare(self) -> None:
        """Make the sublayers, with the policies that reach them and the feedback that is required of them."""
        if self.name.count("/") >= _DEEPEST:
            raise DeclarationError(
                f"a {type(self).__name__} that is {_DEEPEST} sublayers deep",
                rule="a composite must not contain itself",
                fix="return a topology without this class from declare() at some depth",
            )
        self.wiring = self.declare()
        if not isinstance(self.wiring, Topology):
            raise DeclarationError(
                f"declare() of {self!r} returned {self.wiring!r}",
                rule="declare() must return a Topology",
                fix="return Topology(…)",
            )
        for what in ("inputs", "outputs"):
            ports = _ordered(type(self), what, getattr(type(self), what), getattr(self.wiring, what))
            setattr(self, what, ports)
        names = tuple(self.wiring.sublayers)
        self.policies.check(names, self.name)
        arguments = self.arguments()
        if not isinstance(arguments, Mapping) or not all(
            isinstance(sublayer_arguments, Mapping) for sublayer_arguments in arguments.values()
        ):
            raise DeclarationError(
                f"arguments() of {self!r} returned {arguments!r}",
                rule="arguments() must map sublayers to their constructor arguments, by name",
                fix='return {"weight": {"in_features": self.in_features}}, for instance',
            )
        for name in arguments:
            if name not in names:
                raise UnknownNameError(name, kind=f"sublayer of {self!r} in its arguments", known=names)
        self.sublayers: dict[str, Layer] = {}
        self.feedback: list[Feedback] = []
        """feedback of each sublayer, in order"""
        active = {"": self.feeds_back}
        for name in self.wiring.order:
            # In topological order, since whether a sublayer feeds back depends on those that it reads.
            active[name] = self._add_sublayer(name, arguments.get(name, {}), active)

    def _add_sublayer(self, name: str, arguments: Mapping[str, Any], active: Mapping[str, bool]) -> bool:
        """Add a sublayer; return whether it updates or feeds back, so that its readers have to feed back."""
        taken = {"name", "policies", "train", "inputs"} & {*arguments}
        if taken:
            raise DeclarationError(
                f"arguments() of {self!r} with {', '.join(sorted(taken))} for {name!r}",
                rule="arguments() must not set a sublayer's name, policies, train or inputs, which the composite sets",
                fix=f"pass policies=[Sub({name!r}, …)] to the composite",
            )
        feedback = self._feedback(name, active)
        sublayer = self._construct(name, arguments, feedback)
        # Only the layer itself tells whether it updates. If it does, and its output comes back to its own input, that
        # input needs a gradient, too.
        if not feedback.needed and sublayer.updates() and self.returns(name):
            feedback = Feedback(name, True, "it is trained, and its output comes back through time")
            sublayer = self._construct(name, arguments, feedback)
        self.wiring.check_made(name, sublayer)
        self.feedback.append(feedback)
        self.sublayers[name] = sublayer
        return feedback.needed or bool(sublayer.updates())

    def _feedback(self, name: str, active: Mapping[str, bool]) -> Feedback:
        """Decide whether a sublayer feeds back; ``active`` says which of those before it update or do."""
        policies = self.policies.of(name, self.name)
        own, inherited = [p.given.get(GradPolicy.feedback_output) for p in (policies, self.policies)]
        # A policy of the composite asks for the gradients of its own inputs, not for those inside it.
        asked = own is not inherited and own is not None and own.value
        if not self.train:
            return Feedback(name, False, "a layer for inference has no gradients")
        reasons = [
            f"{source} needs one" if source else f"{self.name} sends one to its inputs"
            for source in self.wiring.feeding(name)
            if active[source]
        ]
        if reasons:
            return Feedback(name, True, " and ".join(reasons))
        if asked and own is not None:
            return Feedback(name, True, f"one was asked for by {own.by}")
        return Feedback(name, False, "nothing before it is trained")

    def _construct(self, name: str, arguments: Mapping[str, Any], feedback: Feedback) -> Layer:
        """Return a sublayer with the composite's policies and the decision whether it feeds back."""
        policies = self.policies.of(name, self.name)
        policies.given[GradPolicy.feedback_output] = ResolvedPolicy(feedback.needed, f"inferred: {feedback.reason}")
        sublayer_class = self.wiring.sublayers[name]
        return sublayer_class(f"{self.name}/{name}", policies=policies, train=self.train, **arguments)

    def returns(self, name: str) -> bool:
        """Whether gradients come back from a sublayer's output to its own input."""
        return False

    def __getitem__(self, name: str) -> Layer:
        """Return a sublayer; a path ("weight/param") names one inside it."""
        first, _, rest = name.partition("/")
        if first not in self.sublayers:
            raise UnknownNameError(first, kind=f"sublayer of {self!r}", known=self.sublayers)
        sublayer = self.sublayers[first]
        if rest and not isinstance(sublayer, Composite):
            raise UnknownNameError(rest, kind=f"sublayer of {sublayer!r}", known=())
        return sublayer[rest] if rest and isinstance(sublayer, Composite) else sublayer

    def paths(self) -> tuple[str, ...]:
        """Return the paths of the parameters inside."""
        return tuple([_path(name, path) for name, layer in self.sublayers.items() for path in layer.paths()])

    def parameters(self) -> dict[str, Parameter]:
        """Return all parameters inside, by path."""
        return {
            _path(name, path): parameter
            for name, layer in self.sublayers.items()
            for path, parameter in layer.parameters().items()
        }

    def updates(self) -> frozenset[str]:
        """Return the paths of the parameters inside that update."""
        return frozenset([_path(name, path) for name, layer in self.sublayers.items() for path in layer.updates()])

    def sources(self) -> Iterator[ParameterHolder]:
        """Yield the sources of all sublayers, in order."""
        for layer in self.sublayers.values():
            yield from layer.sources()

    def skeleton(self) -> Self:
        """Return the layer and everything inside it without values."""
        copy = super().skeleton()
        vars(copy)["sublayers"] = {name: layer.skeleton() for name, layer in self.sublayers.items()}
        return copy

    def grad_collect(self, collector: GradCollector) -> None:
        """Collect the gradients of its parameters, also those of sublayers that were fed separately."""
        super().grad_collect(collector)
        for layer in self.sublayers.values():
            layer.grad_collect(collector)

    def neutral_invariant(self) -> None:
        """Raise StateError unless it and each sublayer were fed backward as often as forward, and collected from."""
        super().neutral_invariant()
        for layer in self.sublayers.values():
            layer.neutral_invariant()

    def make_blueprint(self) -> Any:
        """Return the topology and the blueprints of the sublayers."""
        return type(self), self.wiring, tuple([(name, layer.blueprint) for name, layer in self.sublayers.items()])

    def expand(self, values: Mapping[str, Expr], parameters: Mapping[str, Expr]) -> dict[str, Expr]:
        """Record a call of every sublayer, in topological order."""
        port_values: dict[tuple[str, str], Expr] = {("", port): value for port, value in values.items()}
        for name, layer in self.sublayers.items():
            inputs = {port: port_values[self.wiring.sources[name, port]] for port in layer.inputs}
            own = {path: parameters[_path(name, path)] for path in layer.paths()}
            try:
                with scope(name, "layer", type(layer).__name__):
                    outputs = layer.call(inputs, own)
            except ExplorerError as error:
                error.add_note(f"in {name!r}, its {type(layer).__name__}")
                raise
            port_values.update({(name, port): value for port, value in outputs.items()})
        return {port: port_values[source] for port, source in self.wiring.results.items()}


def _ordered(cls: type[Layer], what: str, named: Any, ports: tuple[str, ...]) -> tuple[str, ...]:
    """Return the ports of a topology in the order that the class names."""
    if not named:
        return ports
    if set(named) != set(ports):
        raise DeclarationError(
            f"{what} of the composite {cls.__name__}: {', '.join(named)}",
            rule=f"the ports must be those that its topology names: {', '.join(ports) or 'none'}",
            fix=f"leave {what} out, or name the same ports",
        )
    return tuple(named)


def _path(name: str, inner: str) -> str:
    return f"{name}/{inner}" if inner else name

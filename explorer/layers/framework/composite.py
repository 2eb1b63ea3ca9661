"""Composite layers: sublayers and their connections, declared as a topology.

The ports, the parameters and their paths, the call order, and which sublayers must feed gradients back all follow from
the topology. If classes called their sublayers in ``forward`` instead, that code would have to be run to find them.
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

_MAX_DEPTH = 100
"""maximum depth of nested sublayers; a deeper composite probably contains itself"""


@dataclass(frozen=True, slots=True)
class Feedback:
    """Decision whether a sublayer feeds gradients back to its inputs, with the reason."""

    sublayer: str
    needed: bool
    reason: str


class Composite(Layer):
    """Layer that consists of sublayers.

    A subclass sets ``topology``, or overrides ``declare`` to choose a topology according to policies, and overrides
    ``arguments`` to return each sublayer's constructor arguments. The connection clauses determine the ports; if the
    class lists ``inputs`` and ``outputs``, these only set their order.
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
                rule="a composite must not define forward, which its topology determines",
                fix="move the computation to the class of a sublayer",
            )
        super().__init_subclass__()

    def declare(self) -> Topology:
        """Return the topology for the layer's arguments and policies; by default, the class attribute ``topology``."""
        if self.topology is None:
            raise DeclarationError(
                f"the composite {type(self).__name__} has no topology",
                rule="a composite must declare its topology",
                fix="set topology = Topology(…) in the class body, or return one from declare(self)",
            )
        return self.topology

    def arguments(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the sublayers' constructor arguments: sublayer name → argument name → value."""
        return {}

    def prepare(self) -> None:
        """Create the sublayers with their policies, and decide which of them feed gradients back."""
        if self.name.count("/") >= _MAX_DEPTH:
            raise DeclarationError(
                f"a {type(self).__name__} nested {_MAX_DEPTH} sublayers deep",
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
                rule="arguments() must map names of sublayers to mappings of constructor arguments",
                fix='return {"weight": {"in_features": self.in_features}}',
            )
        for name in arguments:
            if name not in names:
                raise UnknownNameError(name, kind=f"sublayer of {self!r} in its arguments", known=names)
        self.sublayers: dict[str, Layer] = {}
        self.feedback: list[Feedback] = []
        """feedback decisions of the sublayers, in order"""
        active = {"": self.feeds_back}
        for name in self.wiring.order:
            # In topological order, because each decision depends on the sublayers that feed the sublayer.
            active[name] = self._add_sublayer(name, arguments.get(name, {}), active)

    def _add_sublayer(self, name: str, arguments: Mapping[str, Any], active: Mapping[str, bool]) -> bool:
        """Create a sublayer; return whether it updates parameters or feeds back.

        If it does, the sublayers that read its outputs must feed back, too.
        """
        taken = {"name", "policies", "train", "inputs"} & {*arguments}
        if taken:
            raise DeclarationError(
                f"arguments() of {self!r} with {', '.join(sorted(taken))} for {name!r}",
                rule="arguments() must not set a sublayer's name, policies, train or inputs, which the composite sets",
                fix=f"pass policies=[Sub({name!r}, …)] to the composite",
            )
        feedback = self._feedback(name, active)
        sublayer = self._construct(name, arguments, feedback)
        # Whether a layer updates parameters is known only once it is created. If it does, and its output is its own
        # input in the next step, this input needs a gradient, too.
        if not feedback.needed and sublayer.updates() and self.is_recurrent(name):
            feedback = Feedback(name, True, "it is trained, and its output comes back through time")
            sublayer = self._construct(name, arguments, feedback)
        self.wiring.check_made(name, sublayer)
        self.feedback.append(feedback)
        self.sublayers[name] = sublayer
        return feedback.needed or bool(sublayer.updates())

    def _feedback(self, name: str, active: Mapping[str, bool]) -> Feedback:
        """Decide whether a sublayer feeds back; ``active`` states which earlier sublayers update or feed back."""
        policies = self.policies.of(name, self.name)
        own, inherited = [p.given.get(GradPolicy.feedback_output) for p in (policies, self.policies)]
        # A policy of the composite requests the gradients of the composite's inputs, not of its sublayers' inputs.
        is_requested = own is not inherited and own is not None and own.value
        if not self.train:
            return Feedback(name, False, "a layer for inference has no gradients")
        reasons = [
            f"{source} needs one" if source else f"{self.name} sends one to its inputs"
            for source in self.wiring.feeding(name)
            if active[source]
        ]
        if reasons:
            return Feedback(name, True, " and ".join(reasons))
        if is_requested and own is not None:
            return Feedback(name, True, f"one was asked for by {own.by}")
        return Feedback(name, False, "nothing before it is trained")

    def _construct(self, name: str, arguments: Mapping[str, Any], feedback: Feedback) -> Layer:
        policies = self.policies.of(name, self.name)
        policies.given[GradPolicy.feedback_output] = ResolvedPolicy(feedback.needed, f"inferred: {feedback.reason}")
        sublayer_class = self.wiring.sublayers[name]
        return sublayer_class(f"{self.name}/{name}", policies=policies, train=self.train, **arguments)

    def is_recurrent(self, name: str) -> bool:
        """Return whether gradients flow from the output of the sublayer ``name`` back to its own input."""
        return False

    def __getitem__(self, name: str) -> Layer:
        """Return the sublayer with this name or, for a path such as "weight/parameter", a nested sublayer."""
        first, _, rest = name.partition("/")
        if first not in self.sublayers:
            raise UnknownNameError(first, kind=f"sublayer of {self!r}", known=self.sublayers)
        sublayer = self.sublayers[first]
        if rest and not isinstance(sublayer, Composite):
            raise UnknownNameError(rest, kind=f"sublayer of {sublayer!r}", known=())
        return sublayer[rest] if rest and isinstance(sublayer, Composite) else sublayer

    def paths(self) -> tuple[str, ...]:
        """Return the paths of all parameters."""
        return tuple([_path(name, path) for name, layer in self.sublayers.items() for path in layer.paths()])

    def parameters(self) -> dict[str, Parameter]:
        """Return all parameters by path; raise StateError if one is not initialized."""
        return {
            _path(name, path): parameter
            for name, layer in self.sublayers.items()
            for path, parameter in layer.parameters().items()
        }

    def updates(self) -> frozenset[str]:
        """Return the paths of the parameters for which gradients are built."""
        return frozenset([_path(name, path) for name, layer in self.sublayers.items() for path in layer.updates()])

    def sources(self) -> Iterator[ParameterHolder]:
        """Yield the sources, which hold the parameters, of all sublayers in order."""
        for layer in self.sublayers.values():
            yield from layer.sources()

    def skeleton(self) -> Self:
        """Return a copy of the layer and its sublayers without parameter values."""
        copy = super().skeleton()
        vars(copy)["sublayers"] = {name: layer.skeleton() for name, layer in self.sublayers.items()}
        return copy

    def grad_collect(self, collector: GradCollector) -> None:
        """Add all parameters' gradients to ``collector``, including those of sublayers that were fed separately."""
        super().grad_collect(collector)
        for layer in self.sublayers.values():
            layer.grad_collect(collector)

    def neutral_invariant(self) -> None:
        """Raise StateError unless this layer and all sublayers are neutral; see ``Layer.neutral_invariant``."""
        super().neutral_invariant()
        for layer in self.sublayers.values():
            layer.neutral_invariant()

    def make_blueprint(self) -> Any:
        """Return the topology and the blueprints of the sublayers."""
        return type(self), self.wiring, tuple([(name, layer.blueprint) for name, layer in self.sublayers.items()])

    def expand(self, values: Mapping[str, Expr], parameters: Mapping[str, Expr]) -> dict[str, Expr]:
        """Record a call of each sublayer, in topological order; return the outputs by port."""
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
    """Return the topology's ``ports``, in the order ``named`` by the class if it lists them."""
    if not named:
        return ports
    if set(named) != set(ports):
        raise DeclarationError(
            f"{what} of the composite {cls.__name__}: {', '.join(named)}",
            rule=f"the ports must be the ports of its topology: {', '.join(ports) or 'none'}",
            fix=f"omit {what}, or list the same ports",
        )
    return tuple(named)


def _path(name: str, inner: str) -> str:
    return f"{name}/{inner}" if inner else name

"""A layer: named ports, parameters, policies. It computes nothing, it writes expressions.

Feeding forward records one call of a traced function, which layers of equal class, fields and policies share; feeding
backward records the call that gives its gradients. A training layer keeps on a stack what backward needs of forward,
so that it can run several times before it is fed backward as often.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, get_origin
from weakref import WeakValueDictionary

from explorer.core.errors import DeclarationError, OperandError, StateError, UnknownNameError
from explorer.core.exact import exact
from explorer.core.expr import Expr, scope
from explorer.core.operation import as_operands
from explorer.core.tracing import Function
from explorer.core.types import TensorType
from explorer.layers.policies import GradPolicy
from explorer.layers.policy import Items, Policies, PolicyClass
from explorer.layers.port import Ports
from explorer.layers.stack import Pass, feed_backward

if TYPE_CHECKING:
    from explorer.layers.initializer import Buffer, Initializer
    from explorer.layers.parameter import GradCollector, Parameter

Major = TypeVar("Major", bound=PolicyClass)
_functions: WeakValueDictionary[Any, Function[..., Any]] = WeakValueDictionary()
"""what layers record, by all that it depends on"""


@dataclass(frozen=True, slots=True)
class Field:
    """A constructor argument of a layer class."""

    name: str
    default: Any = inspect.Parameter.empty


class Layer:
    """The base of layers. A subclass names its ports, annotates its constructor's arguments, and defines ``forward``.

    ``Layer(name, …, policies=[PUpdate])`` is for inference; with ``train=True``, or the types of its ``inputs``, it
    is for training.
    """

    inputs: ClassVar[tuple[str, ...]] = ("input",)
    outputs: ClassVar[tuple[str, ...]] = ("output",)
    fields: ClassVar[tuple[Field, ...]] = ()

    def __init_subclass__(cls) -> None:
        own = {
            name: Field(name, vars(cls).get(name, inspect.Parameter.empty))
            for name, kind in inspect.get_annotations(cls).items()
            if not _class_variable(kind)
        }
        cls.fields = tuple({**{field.name: field for field in cls.fields}, **own}.values())
        check_ports(cls)

    def __init__(
        self,
        name: str,
        *arguments: Any,
        policies: Items | Policies = (),
        train: bool = False,
        inputs: Mapping[str, TensorType] | None = None,
        **named: Any,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise DeclarationError(f"a {type(self).__name__} layer named {name!r}", rule="a name is not empty")
        self.name = name
        self.policies = policies if isinstance(policies, Policies) else Policies(policies, name)
        self._bind(arguments, named)
        self.train = train or inputs is not None
        self.stack: list[Pass] = []
        self.gradients: list[tuple[Parameter, Expr]] = []
        """gradients of parameters that wait to be collected"""
        self.prepare()
        self.types = dict(Ports(self.inputs, repr(self), inputs or {}))

    def _bind(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        kinds = inspect.Parameter
        signature = inspect.Signature(
            [kinds(field.name, kinds.POSITIONAL_OR_KEYWORD, default=field.default) for field in self.fields]
        )
        try:
            bound = signature.bind(*arguments, **named)
        except TypeError as error:
            raise DeclarationError(
                f"the {type(self).__name__} layer {self.name!r}: {error}",
                rule=f"its arguments are {signature}, and policies, train, inputs",
            ) from None
        bound.apply_defaults()
        vars(self).update(bound.arguments)

    def prepare(self) -> None:
        """What is left to do once fields and policies are there; a subclass checks them here."""
        self.policies.check((), self.name)

    # -- what a subclass defines -----------------------------------------------------------------------------------

    def forward(self, *inputs: Any, **_: Any) -> Any:
        """The outputs as expressions of the inputs, which are passed by port: one, or a mapping by port."""
        raise NotImplementedError

    # -- parameters ------------------------------------------------------------------------------------------------

    def paths(self) -> tuple[str, ...]:
        """Where its parameters are inside it; "" is the layer itself."""
        return ()

    def parameters(self) -> dict[str, Parameter]:
        """Its parameters by their path inside it; raises StateError for one that is not initialised."""
        return {}

    def updates(self) -> frozenset[str]:
        """Paths of the parameters whose gradients are built."""
        return frozenset()

    def init(self, initializer: Initializer | None = None, buffer: Buffer | None = None) -> None:
        """Give every parameter what it begins with (see Initializer); a layer without any does nothing."""

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Assign arrays by parameter name; all are checked before any is assigned.

        Raises UnknownNameError for a parameter without an array, OperandError for an array that does not fit.
        """
        held = {parameter.name: parameter for parameter in self.parameters().values()}
        for name, parameter in held.items():
            if name not in weights:
                raise UnknownNameError(name, kind=f"weight, for {self!r}", known=weights)
            parameter.check(weights[name])
        for name, parameter in held.items():
            parameter.assign(weights[name])

    def save_weights(self) -> dict[str, Any]:
        """The parameters' arrays by name."""
        return {parameter.name: parameter.array for parameter in self.parameters().values()}

    def grad_collect(self, collector: GradCollector) -> None:
        """Hand the gradients of parameters that feed-backwards have built to a collector."""
        collected, self.gradients = self.gradients, []
        for parameter, gradient in collected:
            collector.collect(parameter, gradient)

    def neutral_invariant(self) -> None:
        """Raise StateError unless the layer was fed backward as often as forward."""
        if self.stack:
            raise StateError(
                f"{self!r} is not neutral: fed forward {len(self.stack)} more times than backward",
                rule="a training layer is fed backward once for every time it was fed forward",
                fix="call feed_backward, or make the layer for inference",
            )

    # -- policies --------------------------------------------------------------------------------------------------

    def select(self, major: type[Major]) -> Major:
        """The layer's values of a major policy class."""
        return self.policies.select(major, self.name)

    @property
    def feeds_back(self) -> bool:
        """Whether feed-backward gives the gradients of the inputs."""
        return bool(self.select(GradPolicy).feedback_output)

    def blueprint(self) -> Any:
        """All that what the layer records depends on; equal for layers that can share one function."""
        return type(self), tuple([exact(getattr(self, f.name)) for f in self.fields]), self.policies.recorded()

    # -- running ---------------------------------------------------------------------------------------------------

    def feed_forward(self, *positional: Any, **named: Any) -> Any:
        """The outputs as expressions: one, or Ports where there are several; a single call is recorded.

        Inputs are given by position, by port, or as one mapping. Raises UnknownNameError for a wrong port,
        OperandError for one that is set twice or missing or of another type than the layer was made for.
        """
        given = self._given(self.inputs, "input", positional, named)
        values = dict(zip(self.inputs, as_operands(tuple([given[port] for port in self.inputs])), strict=True))
        self._check_types(values)
        parameters = self.parameters()
        with scope(self.name, "layer", type(self).__name__):
            outputs = self.call(values, {path: held.value for path, held in parameters.items()})
        if self.train:
            self.stack.append(Pass(values, parameters, outputs))
        return outputs[self.outputs[0]] if len(self.outputs) == 1 else Ports(self.outputs, repr(self), outputs)

    __call__ = feed_forward

    def feed_backward(self, *positional: Any, **named: Any) -> Any:
        """The gradients of the inputs from those of the outputs: one, or Ports; None where none is fed back.

        Raises StateError for an inference layer, or one that was not fed forward. The gradients of parameters wait for
        ``grad_collect``.
        """
        given = self._given(self.outputs, "output", positional, named)
        found = feed_backward(self, given)
        return found[self.inputs[0]] if len(self.inputs) == 1 else Ports(self.inputs, repr(self), found)

    def call(self, values: Mapping[str, Expr], parameters: Mapping[str, Expr]) -> dict[str, Expr]:
        """Record the call: outputs by port."""
        if not values and not parameters:
            return self.outputs_of(self.write({}, {}))
        found: Any = self.function(**values, **{path or "value": value for path, value in parameters.items()})
        return found if isinstance(found, dict) else {self.outputs[0]: found}

    @property
    def function(self) -> Function[..., Any]:
        """What the call records."""
        held = vars(self).get("_function")
        if held is None:
            key = self.blueprint()
            held = _functions.get(key)
            if held is None:
                held = _functions[key] = Function(self._body(), type(self).__name__, "layer")
            self._function = held
        return held

    def _body(self) -> Callable[..., Any]:
        ports = self.inputs

        def body(**operands: Expr) -> Any:
            values = {port: operands.pop(port) for port in ports}
            return self.outputs_of(self.write(values, operands))

        body.__wrapped__ = type(self).forward  # type: ignore[attr-defined]  # what it reads from outside is watched
        return body

    def write(self, values: Mapping[str, Expr], parameters: Mapping[str, Expr]) -> Any:
        """The outputs as expressions of inputs by port, and of parameters by path."""
        return self.forward(**values)

    def outputs_of(self, written: Any) -> dict[str, Expr]:
        """What ``forward`` returned, by port; raises DeclarationError where a port is missing."""
        if isinstance(written, Mapping):
            return {**Ports(self.outputs, repr(self), written).complete()}
        if len(self.outputs) != 1 or not isinstance(written, Expr):
            raise DeclarationError(
                f"forward of {self!r} returned a {type(written).__name__}",
                rule=f"it returns an expression for each of the ports {', '.join(self.outputs)}, by name if several",
            )
        return {self.outputs[0]: written}

    def _given(self, ports: tuple[str, ...], what: str, positional: tuple[Any, ...], named: dict[str, Any]) -> Ports:
        empty = Ports(ports, f"{self!r}")
        if len(positional) == 1 and isinstance(positional[0], Mapping):
            return empty.set(**positional[0]).set(**named).complete()
        if len(positional) > len(ports):
            raise OperandError(
                f"{len(positional)} {what}s for {self!r}", rule=f"its {what} ports are {', '.join(ports) or 'none'}"
            )
        return empty.set(**dict(zip(ports, positional, strict=False))).set(**named).complete()

    def _check_types(self, values: Mapping[str, Expr]) -> None:
        for port, kind in self.types.items():
            if values[port].type != kind:
                raise OperandError(
                    f"the port {port!r} of {self!r} given {values[port].type}",
                    rule=f"the layer was made for {kind}",
                    fix="make the layer with train=True for inputs of any type",
                )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def check_ports(cls: type[Layer]) -> None:
    """Raise DeclarationError where the ports and ``forward`` of a class do not fit together."""
    for what, names in (("inputs", cls.inputs), ("outputs", cls.outputs)):
        whole = isinstance(names, tuple) and all(isinstance(name, str) and name.isidentifier() for name in names)
        if not whole or len(set(names)) != len(names):
            raise DeclarationError(
                f"{what} of the layer class {cls.__name__}: {names!r}", rule="a tuple of different port names"
            )
    if not cls.outputs:
        raise DeclarationError(f"the layer class {cls.__name__} has no output", rule="a layer has an output port")
    if "forward" in vars(cls):
        parameters = list(inspect.signature(cls.forward).parameters.values())[1:]
        taken = tuple([p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)])
        if not any(p.kind is p.VAR_KEYWORD for p in parameters) and set(taken) != set(cls.inputs):
            raise DeclarationError(
                f"forward of the layer class {cls.__name__} takes ({', '.join(taken)})",
                rule=f"it takes its input ports, by name: {', '.join(cls.inputs) or 'none'}",
            )


def _class_variable(kind: Any) -> bool:
    return kind is ClassVar or get_origin(kind) is ClassVar or (isinstance(kind, str) and "ClassVar" in kind)

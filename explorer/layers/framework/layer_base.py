"""Layers without their running: name, arguments, policies, parameters, and the records that training keeps.

``Layer`` adds the feeding forward and backward. It is a class of its own because the modules that record, expand and
differentiate layers work on this part, and ``Layer`` is built from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from explorer.core.argument_checks import named_methods
from explorer.core.attributes import check_names
from explorer.core.bit_keys import attribute_key
from explorer.core.errors import DeclarationError, OperandError, StateError
from explorer.core.ir.expr import Expr
from explorer.core.ir.recording_context import state
from explorer.core.policy import Items, Policies
from explorer.core.types.tensor_type import TensorType
from explorer.layers.framework.class_checks import bind, check_class, check_hashable, fields_of, input_types
from explorer.layers.framework.describe import Describable
from explorer.layers.framework.initializer import Buffer, Initializer, Major, ParameterHolder
from explorer.layers.framework.parameters import GradCollector, Parameter
from explorer.layers.framework.policy_classes import GradPolicy
from explorer.layers.framework.ports import Ports
from explorer.layers.framework.recording_state import forbid_in_shared_forward


@dataclass(frozen=True, slots=True)
class ForwardRecord:
    """Record of one feed-forward: operands and results of its call, and the functions being traced then."""

    inputs: Mapping[str, Expr]
    parameters: Mapping[str, Parameter]
    outputs: Mapping[str, Expr]
    traces: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PendingGradient:
    """Gradient of a parameter built by a feed-backward, and the functions being traced then."""

    parameter: Parameter
    gradient: Expr
    traces: tuple[int, ...]

    def check(self, layer: LayerBase) -> None:
        """Raise StateError if the gradient belongs to the body of another function than the current one."""
        check_same_body(layer, self.traces, "collecting the gradients")


def check_same_body(layer: LayerBase, traces: tuple[int, ...], what: str) -> None:
    """Raise StateError if the functions being traced are not those, ``traces``, in which the layer was fed forward."""
    if traces != state.traces:
        raise StateError(
            f"{what} of {layer!r}, which was fed in another function's body than this",
            rule="feed_forward, feed_backward and grad_collect must all run inside one function's body, or outside",
            fix="feed forward, feed backward and collect in one function, or none; ex.grad goes through functions",
        )


@named_methods
class LayerBase(Describable):
    """Base of ``Layer``: a name, constructor arguments, policies and parameters, fixed once the layer is built."""

    inputs: ClassVar[tuple[str, ...]] = ("input",)
    outputs: ClassVar[tuple[str, ...]] = ("output",)
    _running: ClassVar[frozenset[str]] = frozenset(
        {"_name", "_train", "policies", "types", "forward_records", "pending_gradients", "blueprint", "_function"}
    )
    """attributes of every layer, in addition to those that its class declares; they are not part of a blueprint"""

    def __init_subclass__(cls) -> None:
        check_names(cls, LayerBase, "the layer class")
        cls.fields = fields_of(cls, cls._running)
        check_class(cls, LayerBase)

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
            raise DeclarationError(
                f"a {type(self).__name__} layer named {name!r}",
                rule="the first argument must be the layer's name, a string that is not empty",
                fix=f'{type(self).__name__}("name", …)',
            )
        self._name = name
        self.policies = policies if isinstance(policies, Policies) else Policies(policies, name)
        vars(self).update(bind(self, arguments, named))
        self._train = train or inputs is not None
        self.forward_records: list[ForwardRecord] = []
        self.pending_gradients: list[PendingGradient] = []
        """gradients of parameters that have not been collected yet"""
        self.prepare()
        self.types = {} if inputs is None else input_types(self, inputs)
        self.blueprint = self.make_blueprint()
        """key of everything the recorded forward depends on; layers with equal keys share one function"""

    def prepare(self) -> None:
        """Finish the layer once arguments and policies are set; a subclass validates them here."""
        self.policies.check((), self.name)

    def __setattr__(self, name: str, value: Any) -> None:
        # The blueprint is set last: before, prepare() may set what it derives.
        if "blueprint" in vars(self):
            raise StateError(
                f"the attribute {name!r} of {self!r} set to {value!r}",
                rule="a layer's attributes must not change once it is built, because layers share traced functions",
                fix="make another layer, or set the attribute in prepare()",
            )
        super().__setattr__(name, value)

    @property
    def name(self) -> str:
        """Name of the layer; a sublayer's name begins with those of the layers around it."""
        forbid_in_shared_forward(self, "name")
        return self._name

    @property
    def train(self) -> bool:
        """Whether the layer is for training, so that it keeps records for feed_backward."""
        forbid_in_shared_forward(self, "train")
        return self._train

    def forward(self, *inputs: Any, **_: Any) -> Any:
        """Record the outputs from the inputs, which are passed by port: one expression, or a mapping by port."""
        raise DeclarationError(
            f"the layer class {type(self).__name__} without forward",
            rule="a layer class must define forward()",
            fix=f"def forward(self, {', '.join(self.inputs)}): return an expression",
        )

    def sources(self) -> Iterator[ParameterHolder]:
        """Yield the holders of its parameters: the sources inside it."""
        return iter(())

    def paths(self) -> tuple[str, ...]:
        """Return the paths of its parameters inside it; "" is the layer itself."""
        return ()

    def parameters(self) -> dict[str, Parameter]:
        """Return its parameters by path; raises StateError for one that is not initialised."""
        return {}

    def updates(self) -> frozenset[str]:
        """Return the paths of the parameters whose gradients are built."""
        return frozenset()

    def init(self, initializer: Initializer | None = None, buffer: Buffer | None = None) -> None:
        """Initialise all parameters (see Initializer), or none if one of them has no value.

        Initialised parameters enter the buffer, and those in it are shared: ``init(Initializer(filler=VarScale()))``.
        """
        if initializer is not None and not isinstance(initializer, Initializer):
            raise DeclarationError(
                f"init({initializer!r}) of {self!r}",
                rule="the first argument must be an Initializer",
                fix="init(Initializer({name: array}, filler=Constant(0.0)))",
            )
        buffer = {} if buffer is None else buffer
        if not isinstance(buffer, Mapping):
            raise DeclarationError(
                f"init(…, {buffer!r}) of {self!r}",
                rule="a load buffer must map parameter names to arrays",
                fix="init(initializer, {})",
            )
        entered = dict(buffer)
        # All are built before one is held, so that a missing value leaves the layer as it was.
        initialised = [(source, source.begin(initializer, entered)) for source in self.sources()]
        for source, parameter in initialised:
            source.hold(parameter)
        buffer.update(entered)

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Assign arrays by parameter name, extra names allowed; all are checked before any is assigned.

        Raises UnknownNameError for a parameter without an array, OperandError for an array that does not fit.
        """
        if not isinstance(weights, Mapping):
            raise DeclarationError(
                f"load_weights({weights!r}) of {self!r}",
                rule="weights must be a mapping of parameter names to arrays",
                fix="load_weights(layer.save_weights()), for instance",
            )
        parameters = {parameter.name: parameter for parameter in self.parameters().values()}
        # All are converted before one is assigned, so that a wrong array changes nothing.
        tensors = {name: parameter.made(weights) for name, parameter in parameters.items()}
        for name, parameter in parameters.items():
            parameter.value = tensors[name]

    def save_weights(self) -> dict[str, Any]:
        """Return the parameters' arrays by name."""
        return {parameter.name: parameter.array for parameter in self.parameters().values()}

    def grad_collect(self, collector: GradCollector) -> None:
        """Add the gradients of parameters that feed_backward has built to a collector."""
        # All are checked before one is collected, so that an error collects none.
        for pending in self.pending_gradients:
            pending.check(self)
        for pending in self.pending_gradients:
            collector.collect(pending.parameter, pending.gradient)
        self.pending_gradients.clear()

    def neutral_invariant(self) -> None:
        """Raise StateError unless the layer was fed backward as often as forward, and its gradients were collected."""
        if self.forward_records:
            more = "once" if len(self.forward_records) == 1 else f"{len(self.forward_records)} times"
            raise StateError(
                f"{self!r} is not neutral: fed forward {more} more than backward",
                rule="a training layer must be fed backward as often as it was fed forward",
                fix="call feed_backward, or make the layer for inference",
            )
        if self.pending_gradients:
            names = sorted({pending.parameter.name for pending in self.pending_gradients})
            raise StateError(
                f"{self!r} is not neutral: gradients of {', '.join(map(repr, names))} wait to be collected",
                rule="a training layer's gradients must be collected after it was fed backward",
                fix="call grad_collect(ex.layers.GradCollector())",
            )

    def select(self, major: type[Major]) -> Major:
        """Return the layer's values of a major policy class."""
        return self.policies.select(
            major, self._name, lambda minor: forbid_in_shared_forward(self, f"policy {minor!r}")
        )

    @property
    def feeds_back(self) -> bool:
        """Whether feed_backward returns the gradients of the inputs."""
        return bool(self.select(GradPolicy).feedback_output)

    def make_blueprint(self) -> Any:
        """Return a key of its class, attributes and policies; raises DeclarationError for an argument that may
        change."""
        check_hashable(self)
        attributes = {name: value for name, value in vars(self).items() if name not in self._running}
        return type(self), attribute_key(attributes), self.policies.recorded()

    def expand(self, values: Mapping[str, Expr], parameters: Mapping[str, Expr]) -> Any:
        """Record the outputs from inputs by port and parameters by path."""
        return self.forward(**values)

    def outputs_of(self, results: Any) -> dict[str, Expr]:
        """Return the results of ``forward`` by port; raises DeclarationError unless there is an expression for each."""
        if isinstance(results, Expr) and len(self.outputs) == 1:
            return {self.outputs[0]: results}
        if not isinstance(results, Mapping) or set(results) != set(self.outputs):
            mapping_text = f"a mapping of {', '.join(map(repr, results))}" if isinstance(results, Mapping) else None
            ports = f"the ports {', '.join(self.outputs)}, by name" if len(self.outputs) > 1 else "its one output"
            raise DeclarationError(
                f"forward of {self!r} returned {mapping_text or type(results).__name__}",
                rule=f"forward must return an expression for {ports}",
                fix="return {" + ", ".join([f'"{port}": …' for port in self.outputs]) + "}",
            )
        for port in self.outputs:
            if not isinstance(results[port], Expr):
                raise DeclarationError(
                    f"forward of {self!r} returned a {type(results[port]).__name__} for the port {port!r}",
                    rule="outputs must be expressions",
                    fix="wrap a constant: ex.tensor(…)",
                )
        return {port: results[port] for port in self.outputs}

    def _as_ports(self, ports: tuple[str, ...], what: str, positional: tuple[Any, ...], named: dict[str, Any]) -> Ports:
        """Return values by port, whether they were passed by position, by name or as one mapping."""
        mapped = len(positional) == 1 and isinstance(positional[0], Mapping)
        if len(positional) == len(ports) and not named and not mapped:
            return Ports(ports, repr(self), dict(zip(ports, positional, strict=True)))
        empty = Ports(ports, repr(self))
        if mapped:
            return empty.set(**positional[0]).set(**named).complete()
        if len(positional) > len(ports):
            raise OperandError(
                f"{len(positional)} {what}s for {self!r}",
                rule=f"the {what}s must be for its ports {', '.join(ports) or 'none'}",
                fix="give each of them once, by position or by name",
            )
        return empty.set(**dict(zip(ports, positional, strict=False))).set(**named).complete()

    def skeleton(self) -> Self:
        """Return the layer without values; a shared function keeps it, so that the layer itself can be freed."""
        copy = object.__new__(type(self))  # the arguments are checked already, and __setattr__ would refuse them
        vars(copy).update({name: value for name, value in vars(self).items() if name != "_function"})
        vars(copy).update(forward_records=[], pending_gradients=[])
        return copy

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy: shared parameters (own ones if deep or pickled), and its own stacks."""
        state = {name: value for name, value in vars(self).items() if name not in ("_function", "blueprint")}
        return {**state, "forward_records": [*self.forward_records], "pending_gradients": [*self.pending_gradients]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.blueprint = self.make_blueprint()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"

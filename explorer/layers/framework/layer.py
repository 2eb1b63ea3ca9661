"""Layers: objects with names, parameters, policies and ports that record expressions instead of computing.

Feeding forward records one call of a traced function, which layers with equal class, arguments and policies share.
Feeding backward records a call of the function's gradients. A training layer keeps a stack of feed-forward records,
from which each feed-backward pops the last one. Although ``ex.grad`` computes gradients of expressions, layers have
``feed_backward`` so that users can feed gradients back layer by layer, in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MethodType
from typing import Any, ClassVar, Self, Unpack
from weakref import WeakValueDictionary

import numpy as np

from explorer.core.argument_checks import named_methods, options_of
from explorer.core.attributes import check_names
from explorer.core.errors import DeclarationError, ExplorerError, OperandError, StateError
from explorer.core.exact_keys import attribute_key
from explorer.core.ir.explore_options import PlannedViewOptions
from explorer.core.ir.expr import WEAK, Expr, as_operands
from explorer.core.ir.function import Call, Item
from explorer.core.ir.hooks import View, hooks
from explorer.core.ir.policy_operations import reaching, under
from explorer.core.ir.recording_context import scope, state
from explorer.core.ir.tensor import tensor
from explorer.core.policy import Items, Policies
from explorer.core.tracing.captures import note
from explorer.core.tracing.decorator import Function
from explorer.core.types.custom_dtypes import converted, is_floating
from explorer.core.types.tensor_type import AnyType, TensorType
from explorer.gradients import call_gradient
from explorer.gradients.gradient_scopes import gradient_scopes
from explorer.layers.framework.class_checks import (
    Field,
    bind,
    check_class,
    check_hashable,
    fields_of,
    input_types,
    signature_of,
)
from explorer.layers.framework.describe import description, layer_row, sublayers
from explorer.layers.framework.initializer import Buffer, Initializer, Major, ParameterHolder
from explorer.layers.framework.parameters import GradCollector, Parameter
from explorer.layers.framework.policy_classes import GradPolicy
from explorer.layers.framework.ports import Ports
from explorer.layers.framework.recording_state import current_expander, forbid_in_shared_forward, recording_forward
from explorer.ops.creation.constants import Zero
from explorer.record.layer_rows import Layer as LayerRow

# weak values, so that a function is freed together with the last of its layers
_functions: WeakValueDictionary[Any, Function[..., Any]] = WeakValueDictionary()
"""blueprint → traced function"""


def _shared(layer: Layer) -> Function[..., Any]:
    """Return the function shared by all layers with the same blueprint as ``layer``.

    Its arguments are the inputs by port, then the parameters in the order of ``layer.paths()``.
    """
    traced = _functions.get(layer.blueprint)
    if traced is None:
        traced = _functions[layer.blueprint] = Function(_body(layer.skeleton()), type(layer).__name__, "layer")
    return traced


def _body(layer: Layer) -> Any:
    def body(**operands: Expr) -> Any:
        values = {port: operands.pop(port) for port in layer.inputs}
        parameters = dict(zip(layer.paths(), operands.values(), strict=True))
        note(lambda: type(layer).forward)
        with recording_forward(layer):
            return layer.outputs_of(layer.expand(values, parameters))

    body.__wrapped__ = MethodType(type(layer).forward, layer)  # type: ignore[attr-defined]  # captured values are tracked
    return body


@dataclass(frozen=True, slots=True)
class ForwardRecord:
    """Record of one feed-forward: the call's operands and results, and the functions being traced at that time."""

    inputs: Mapping[str, Expr]
    parameters: Mapping[str, Parameter]
    outputs: Mapping[str, Expr]
    traces: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PendingGradient:
    """Gradient of a parameter from one feed-backward, and the functions being traced at that time."""

    parameter: Parameter
    gradient: Expr
    traces: tuple[int, ...]

    def check(self, layer: Layer) -> None:
        """Raise StateError if the gradient was recorded in the body of another function."""
        check_same_body(layer, self.traces, "collecting the gradients")


def check_same_body(layer: Layer, traces: tuple[int, ...], what: str) -> None:
    """Raise StateError unless ``traces``, the functions being traced when the layer was fed, are still being traced."""
    if traces != state.traces:
        raise StateError(
            f"{what} of {layer!r}, which was fed in another function's body",
            rule="feed_forward, feed_backward and grad_collect must run in the same function's body, or all outside",
            fix="feed forward, feed backward and collect in one function or in none; ex.grad supports function calls",
        )


@named_methods
class Layer:
    """Base class of layers. A layer is built for inference, or for training if ``train=True``.

    A subclass lists its ports, annotates its constructor arguments, and defines ``forward``; it may override
    ``prepare`` to derive further attributes from the arguments. A layer is built with a name, these arguments and
    policies. If the types of its ``inputs`` are passed, it becomes a training layer that accepts only these types. A
    built layer's attributes cannot be changed.

    >>> class Scaled(ex.layers.Layer):
    ...     factor: float = 2.0
    ...     def forward(self, input):
    ...         return input * self.factor
    >>> layer = Scaled("scaled", 3.0)
    >>> ex.evaluate(layer(ex.tensor([1.0, 2.0])))
    array([3., 6.])
    """

    inputs: ClassVar[tuple[str, ...]] = ("input",)
    outputs: ClassVar[tuple[str, ...]] = ("output",)
    fields: ClassVar[tuple[Field, ...]] = ()
    """constructor arguments"""
    repeats: ClassVar[bool] = False
    """whether the layer calls a sublayer repeatedly, in which case parameters are shown next to the sublayer, not
    inside it"""
    _running: ClassVar[frozenset[str]] = frozenset(
        {"_name", "_train", "policies", "types", "forward_records", "pending_gradients", "blueprint", "_function"}
    )
    """attributes that every layer has, but that are not part of its blueprint"""

    def __init_subclass__(cls) -> None:
        check_names(cls, Layer, "the layer class")
        cls.fields = fields_of(cls, cls._running)
        # Help and completion then show the fields.
        cls.__signature__ = signature_of(cls)  # type: ignore[attr-defined]  # inspect reads it; typeshed has no such name
        check_class(cls, Layer)

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
                rule="the first argument must be the layer's name, a non-empty string",
                fix=f'{type(self).__name__}("name", …)',
            )
        self._name = name
        self.policies = policies if isinstance(policies, Policies) else Policies(policies, name)
        vars(self).update(bind(self, arguments, named))
        self._train = train or inputs is not None
        self.forward_records: list[ForwardRecord] = []
        self.pending_gradients: list[PendingGradient] = []
        """parameter gradients that have not been collected yet"""
        self.prepare()
        self.types = {} if inputs is None else input_types(self, inputs)
        self.blueprint = self.make_blueprint()
        """key of everything on which the recorded forward depends; layers with equal keys share one function"""

    def prepare(self) -> None:
        """Finish building the layer after its arguments and policies are set.

        Subclasses override this method to validate arguments and to set derived attributes.
        """
        self.policies.check((), self.name)

    def __setattr__(self, name: str, value: Any) -> None:
        # the blueprint is set after prepare(), which may therefore set attributes
        if "blueprint" in vars(self):
            raise StateError(
                f"the attribute {name!r} of {self!r} set to {value!r}",
                rule="a layer's attributes must not change once it is built, because layers share traced functions",
                fix="create another layer, or set the attribute in prepare()",
            )
        super().__setattr__(name, value)

    @property
    def name(self) -> str:
        """Name of the layer; a sublayer's name is prefixed with the names of the enclosing layers."""
        forbid_in_shared_forward(self, "name")
        return self._name

    @property
    def train(self) -> bool:
        """Whether the layer is for training, and therefore keeps feed-forward records for ``feed_backward``."""
        forbid_in_shared_forward(self, "train")
        return self._train

    def forward(self, *inputs: Any, **_: Any) -> Any:
        """Record the outputs; return one expression, or a mapping of ports to expressions.

        Inputs are passed by keyword, with the ports as keywords.
        """
        raise DeclarationError(
            f"the layer class {type(self).__name__} without forward",
            rule="a layer class must define forward()",
            fix=f"def forward(self, {', '.join(self.inputs)}): return an expression",
        )

    def sources(self) -> Iterator[ParameterHolder]:
        """Yield the sources inside the layer, which hold the parameters."""
        return iter(())

    def paths(self) -> tuple[str, ...]:
        """Return the paths of the layer's parameters relative to the layer; "" is the layer itself."""
        return ()

    def parameters(self) -> dict[str, Parameter]:
        """Return the layer's parameters by path; raise StateError if one is not initialized."""
        return {}

    def updates(self) -> frozenset[str]:
        """Return the paths of the parameters for which gradients are built."""
        return frozenset()

    def init(self, initializer: Initializer | None = None, buffer: Buffer | None = None) -> None:
        """Initialize all parameters (see Initializer); if one of them has no value, initialize none of them.

        Initialized parameters are added to ``buffer``, and parameters already in the buffer are shared. Raises
        StateError if a parameter has no value.

        Example: ``init(Initializer(filler=VarScale()))``.
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
        # create all parameters before storing any, so that a missing value leaves the layer unchanged
        initialised = [(source, source.begin(initializer, entered)) for source in self.sources()]
        for source, parameter in initialised:
            source.hold(parameter)
        buffer.update(entered)

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Assign arrays by parameter name; all other names in ``weights`` are ignored.

        Raises UnknownNameError if a parameter's array is missing, and OperandError if an array has the wrong shape or
        dtype. In this case, no parameter is assigned.
        """
        if not isinstance(weights, Mapping):
            raise DeclarationError(
                f"load_weights({weights!r}) of {self!r}",
                rule="weights must be a mapping of parameter names to arrays",
                fix="load_weights(layer.save_weights())",
            )
        parameters = {parameter.name: parameter for parameter in self.parameters().values()}
        # convert all arrays before assigning any, so that a wrong array changes nothing
        tensors = {name: parameter.tensor_from(weights) for name, parameter in parameters.items()}
        for name, parameter in parameters.items():
            parameter.value = tensors[name]

    def save_weights(self) -> dict[str, Any]:
        """Return the parameters' arrays by parameter name."""
        return {parameter.name: parameter.array for parameter in self.parameters().values()}

    def grad_collect(self, collector: GradCollector) -> None:
        """Move the parameter gradients kept by ``feed_backward`` to ``collector``."""
        # check all gradients before collecting any, so that a failure changes nothing
        for pending in self.pending_gradients:
            pending.check(self)
        for pending in self.pending_gradients:
            collector.collect(pending.parameter, pending.gradient)
        self.pending_gradients.clear()

    def neutral_invariant(self) -> None:
        """Raise StateError unless the layer was fed backward as often as forward and its gradients were collected."""
        if self.forward_records:
            more = "once" if len(self.forward_records) == 1 else f"{len(self.forward_records)} times"
            raise StateError(
                f"{self!r} is not neutral: fed forward {more} more than backward",
                rule="a training layer must be fed backward as often as it was fed forward",
                fix="call feed_backward, or build the layer for inference",
            )
        if self.pending_gradients:
            names = sorted({pending.parameter.name for pending in self.pending_gradients})
            raise StateError(
                f"{self!r} is not neutral: gradients of {', '.join(map(repr, names))} were not collected",
                rule="a training layer's gradients must be collected after feed_backward",
                fix="call grad_collect(ex.layers.GradCollector())",
            )

    def feed_forward(self, *positional: Any, **named: Any) -> Any:
        """Record one call of the layer; return its output, or Ports if it has several outputs.

        Inputs are passed by position, by port, or as one mapping; arrays and numbers are converted to expressions.
        Raises UnknownNameError for an unknown port, and OperandError if an input is missing, set twice or has the wrong
        type.
        """
        ports = self._as_ports(self.inputs, "input", positional, named)
        values = _operands(self, ports)
        for port, type_ in self.types.items():
            if values[port].type != type_:
                raise OperandError(
                    f"the port {port!r} of {self!r} with {values[port].type}",
                    rule=f"the input must have the type for which the layer was built, {type_}",
                    fix="build the layer with train=True for inputs of any type",
                )
        parameters = self.parameters()
        try:
            with scope(self._name, "layer", type(self).__name__, self):
                outputs = self.call(values, {path: parameter.value for path, parameter in parameters.items()})
        except ExplorerError as error:
            types = ", ".join([f"{port} {value.type}" for port, value in values.items()]) or "nothing"
            error.add_note(f"while {self!r} was fed {types}")
            raise
        if self._train:
            self.forward_records.append(ForwardRecord(values, parameters, outputs, state.traces))
        return outputs[self.outputs[0]] if len(self.outputs) == 1 else Ports(self.outputs, repr(self), outputs)

    __call__ = feed_forward

    def feed_backward(self, *positional: Any, **named: Any) -> Any:
        """Record the gradients of the inputs, given the gradients of the outputs.

        Returns one expression, or Ports if there are several inputs; a gradient that is not fed back is None. Arrays
        and numbers are converted to the output's dtype. Gradients of parameters are kept for ``grad_collect``. Raises
        StateError if the layer is for inference or was not fed forward.
        """
        ports = self._as_ports(self.outputs, "output", positional, named)
        gradients = _feed_backward(self, ports)
        return gradients[self.inputs[0]] if len(self.inputs) == 1 else Ports(self.inputs, repr(self), gradients)

    def sublayer(self, name: str) -> Layer | None:
        """Return the sublayer ``name``, or None if there is none."""
        return sublayers(self).get(name)

    def to_row(self) -> LayerRow:
        """Return the layer's description as a row, without its sublayers."""
        return layer_row(self)

    def describe(self) -> str:
        """Return a description of the layer and its sublayers: order, clauses, policies, gradients, and reasons."""
        return description(self)

    @options_of(PlannedViewOptions)
    def explore(self, inputs: Any = None, **options: Unpack[PlannedViewOptions]) -> View:
        """Show the layer's graph with its description, and for a training layer also the gradient graph.

        ``inputs`` maps ports to types or values, or is a single type or value if the layer has one input. It may be
        omitted if the layer was built for given input types.
        """
        return hooks.explore(self, inputs=inputs, **options)

    def select(self, major: type[Major]) -> Major:
        """Return the layer's values of the policy class ``major``."""
        return self.policies.select(
            major, self._name, lambda minor: forbid_in_shared_forward(self, f"policy {minor!r}")
        )

    @property
    def feeds_back(self) -> bool:
        """Whether ``feed_backward`` returns the gradients of the inputs."""
        return bool(self.select(GradPolicy).feedback_output)

    def make_blueprint(self) -> Any:
        """Return a key made of the class, attributes and policies; raise DeclarationError if an argument is mutable."""
        check_hashable(self)
        attributes = {name: value for name, value in vars(self).items() if name not in self._running}
        return type(self), attribute_key(attributes), self.policies.recorded()

    def expand(self, values: Mapping[str, Expr], parameters: Mapping[str, Expr]) -> Any:
        """Record the outputs, given inputs ``values`` by port and parameters by path."""
        return self.forward(**values)

    def call(self, values: Mapping[str, Expr], parameters: Mapping[str, Expr]) -> dict[str, Expr]:
        """Record the call under the layer's policies, and return its outputs by port."""
        reached = reaching(self.policies)
        if not reached:
            return self._call(values, parameters)
        with under({**state.policies, **reached}):
            return self._call(values, parameters)

    def _call(self, values: Mapping[str, Expr], parameters: Mapping[str, Expr]) -> dict[str, Expr]:
        expander = current_expander()
        if expander is not None:
            return expander.call(self, values, parameters)
        if not values and not parameters:
            with recording_forward(self):
                return self.outputs_of(self.expand({}, {}))
        argument_names = [path or "value" for path in parameters]
        # an input port may share its name with a parameter, but argument names must be unique
        argument_names = [
            f"{argument_name} (parameter)" if argument_name in values else argument_name
            for argument_name in argument_names
        ]
        outputs: dict[str, Expr] = self.function(
            **values, **dict(zip(argument_names, parameters.values(), strict=True))
        )
        return outputs

    @property
    def function(self) -> Function[..., Any]:
        """Traced function of the call; layers with the same blueprint share it."""
        traced = vars(self).get("_function")
        if traced is None:
            traced = vars(self)["_function"] = _shared(self)
        return traced

    def outputs_of(self, results: Any) -> dict[str, Expr]:
        """Return ``results``, the return value of ``forward``, as a dict by port.

        Raises DeclarationError unless every port has an expression.
        """
        if isinstance(results, Expr) and len(self.outputs) == 1:
            return {self.outputs[0]: results}
        if not isinstance(results, Mapping) or set(results) != set(self.outputs):
            mapping_text = f"a mapping of {', '.join(map(repr, results))}" if isinstance(results, Mapping) else None
            ports = f"the ports {', '.join(self.outputs)}, by name" if len(self.outputs) > 1 else "its only output"
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
        mapped = len(positional) == 1 and isinstance(positional[0], Mapping)
        if len(positional) == len(ports) and not named and not mapped:
            return Ports(ports, repr(self), dict(zip(ports, positional, strict=True)))
        empty = Ports(ports, repr(self))
        if mapped:
            return empty.set(**positional[0]).set(**named).complete()
        if len(positional) > len(ports):
            raise OperandError(
                f"{len(positional)} {what}s for {self!r}",
                rule=f"there must be at most one {what} for each of its ports {', '.join(ports) or 'none'}",
                fix=f"pass each {what} once, by position or by name",
            )
        return empty.set(**dict(zip(ports, positional, strict=False))).set(**named).complete()

    def skeleton(self) -> Self:
        """Return a copy without values, to which the shared function refers so that the layer itself can be freed."""
        copy = object.__new__(type(self))  # __init__ would check the arguments again
        vars(copy).update({name: value for name, value in vars(self).items() if name != "_function"})
        vars(copy).update(forward_records=[], pending_gradients=[])
        return copy

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for copies, which have their own stacks; a shallow copy shares the parameters."""
        state = {name: value for name, value in vars(self).items() if name not in ("_function", "blueprint")}
        return {**state, "forward_records": [*self.forward_records], "pending_gradients": [*self.pending_gradients]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.blueprint = self.make_blueprint()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"


def _operands(layer: Layer, ports: Ports) -> dict[str, Expr]:
    """Convert a layer's inputs to expressions by port; if a conversion fails, the error names the port."""
    values: list[Any] = []
    for port in layer.inputs:
        value = ports[port]
        if not isinstance(value, Expr) and type(value) not in WEAK:
            try:
                (value,) = as_operands((value,))
            except ExplorerError as error:
                error.add_note(f"passed to the port {port!r} of {layer!r}")
                raise
        values.append(value)
    return dict(zip(layer.inputs, as_operands(tuple(values)), strict=True))


def _feed_backward(layer: Layer, ports: Ports) -> dict[str, Expr | None]:
    """Record the gradients of the last feed-forward's inputs; a gradient that is not fed back is None.

    Requested gradients of parameters are added to ``layer.pending_gradients``.
    """
    if not layer.train:
        raise StateError(
            f"feed_backward of {layer!r}",
            rule="the layer must be built for training, because an inference layer keeps no forward records",
            fix=f"build it for training: {type(layer).__name__}({layer.name!r}, …, train=True)",
        )
    if not layer.forward_records:
        raise StateError(
            f"feed_backward of {layer!r}, which was not fed forward",
            rule="each feed_backward must follow its own feed_forward",
            fix=f"call feed_forward of {layer.name!r} first",
        )
    last = layer.forward_records[-1]
    check_same_body(layer, last.traces, "feed_backward")
    seeds = [_seed(layer, port, output, ports[port]) for port, output in last.outputs.items()]
    if all(seed is None for seed in seeds):
        raise OperandError(
            f"feed_backward of {layer!r} without any gradient",
            rule="at least one output must have a gradient (None means no gradient)",
            fix=f"pass a gradient for {' or '.join(layer.outputs)}",
        )
    updates = layer.updates()
    wanted = [layer.feeds_back and has_gradient(value.type) for value in last.inputs.values()]
    wanted += [path in updates for path in last.parameters]
    with scope("gradient", "gradient"), scope(layer.name, "layer", type(layer).__name__, layer):
        gradients = _gradients(next(iter(last.outputs.values())), seeds, wanted)
    # remove the record only now, so that feed_backward can be repeated if recording fails
    layer.forward_records.pop()
    layer.pending_gradients.extend(
        PendingGradient(parameter, gradient, state.traces)
        for parameter, gradient in zip(last.parameters.values(), gradients[len(last.inputs) :], strict=True)
        if gradient is not None
    )
    return dict(zip(last.inputs, gradients[: len(last.inputs)], strict=True))


def _gradients(output: Expr, seeds: list[Expr | None], wanted: list[bool]) -> list[Expr | None]:
    """Return the gradients of the wanted operands of the call that computes ``output``.

    A gradient is a symbolic zero if the outputs do not depend on the operand, and None if it is not wanted.
    """
    # a call with several outputs is one node, which Items read
    node = output.operands[0] if isinstance(output.operation, Item) else output
    call = node.operation
    if not any(wanted):
        return [None] * len(wanted)
    if not isinstance(call, Call):  # sources return their tensors without a call
        return [seeds[0] if is_wanted else None for is_wanted in wanted]
    operands = node.operands  # captured values are the last operands, and their gradients are not wanted
    wanted_operands = (*wanted, *[False] * (len(operands) - len(wanted)))
    is_single = not isinstance(output.operation, Item)
    with gradient_scopes(node.scope) as enter_gradient_of:
        enter_gradient_of(node)
        gradients = call_gradient(
            call, seeds[0] if is_single and seeds[0] is not None else seeds, node, operands, wanted_operands
        )
    return [
        None
        if not is_wanted
        else gradient
        if gradient is not None
        else Zero(operand.shape, operand.dtype, "unreached", operand.device)()
        for is_wanted, gradient, operand in zip(wanted, gradients, operands, strict=False)
    ]


def has_gradient(type_: AnyType) -> bool:
    """Return whether values of ``type_`` have gradients."""
    return isinstance(type_, TensorType) and is_floating(type_.dtype)


def _seed(layer: Layer, port: str, output: Expr, gradient: Any) -> Expr | None:
    """Return ``gradient``, the gradient of ``output``, as an expression.

    Raises OperandError if it cannot be converted to the output's type.
    """
    if gradient is None:
        return None
    type_ = output.tensor_type
    if isinstance(gradient, Expr):
        seed = gradient
    else:
        array = np.asarray(gradient)
        if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and not is_floating(type_.dtype)):
            raise OperandError(
                f"the gradient {gradient!r} of the output {port!r} of {layer!r}",
                rule=f"the gradient must be convertible to its output's type, {type_}",
                fix="pass real numbers; integers and booleans have no gradient",
            )
        seed = tensor(converted(array, type_.dtype), device=type_.device)
    if seed.type != type_:
        raise OperandError(
            f"the gradient {seed.type} of the output {port!r} of {layer!r}",
            rule=f"the gradient must have its output's type, {type_}",
            fix="sum or reshape it to this shape, or convert it with .astype",
        )
    return seed

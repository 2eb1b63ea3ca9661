"""Layers: named boxes of parameters, policies and ports. A layer computes nothing, it records expressions.

Feeding forward records one call of a traced function, which layers of equal class, arguments and policies share;
feeding backward records the call of its gradients. A training layer keeps each feed-forward on a stack until then.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MethodType
from typing import Any
from weakref import WeakValueDictionary

from explorer.core.errors import ExplorerError, OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.policy_operations import reaching, under
from explorer.core.ir.recording_context import scope, state
from explorer.core.tracing.captures import note
from explorer.core.tracing.decorator import Function
from explorer.layers.framework.feed_backward import feed_backward, operands
from explorer.layers.framework.layer_base import ForwardRecord, LayerBase
from explorer.layers.framework.ports import Ports
from explorer.layers.framework.recording_state import current_expander, recording_forward

# Weak: a function lives as long as one of its layers.
_functions: WeakValueDictionary[Any, Function[..., Any]] = WeakValueDictionary()
"""traced functions by blueprint"""


def _shared(layer: LayerBase) -> Function[..., Any]:
    """Return the function of all layers with this one's blueprint.

    It is called with inputs by port, then parameters in the order of ``layer.paths()``.
    """
    traced = _functions.get(layer.blueprint)
    if traced is None:
        traced = _functions[layer.blueprint] = Function(_body(layer.skeleton()), type(layer).__name__, "layer")
    return traced


def _body(layer: LayerBase) -> Any:
    def body(**operands: Expr) -> Any:
        values = {port: operands.pop(port) for port in layer.inputs}
        parameters = dict(zip(layer.paths(), operands.values(), strict=True))
        note(lambda: type(layer).forward)
        with recording_forward(layer):
            return layer.outputs_of(layer.expand(values, parameters))

    body.__wrapped__ = MethodType(type(layer).forward, layer)  # type: ignore[attr-defined]  # what it reads is watched
    return body


class Layer(LayerBase):
    """Base of layers, built for inference, or with ``train=True`` for training.

    A subclass names its ports, annotates its constructor's arguments, and defines ``forward``. A layer is built with a
    name, these arguments and policies. Passing the types of its ``inputs`` also makes it a training layer, one that
    accepts no other types. Attributes are fixed once it is built; ``prepare`` sets those derived from the arguments.

    >>> class Scaled(ex.layers.Layer):
    ...     factor: float = 2.0
    ...     def forward(self, input):
    ...         return input * self.factor
    >>> layer = Scaled("scaled", 3.0)
    >>> ex.evaluate(layer(ex.tensor([1.0, 2.0])))
    array([3., 6.])
    """

    def feed_forward(self, *positional: Any, **named: Any) -> Any:
        """Record the outputs, in a single call: one expression, or Ports for several outputs.

        Inputs are passed by position, by port, or as one mapping; arrays and numbers are converted. Raises
        UnknownNameError for a wrong port, OperandError for one that is set twice, missing, or of a wrong type.
        """
        ports = self._as_ports(self.inputs, "input", positional, named)
        values = operands(self, ports)
        for port, type_ in self.types.items():
            if values[port].type != type_:
                raise OperandError(
                    f"the port {port!r} of {self!r} with {values[port].type}",
                    rule=f"the input must have the type that the layer was made for, {type_}",
                    fix="make the layer with train=True for inputs of any type",
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
        """Record the gradients of the inputs from those of the outputs: one, or Ports; None if none is fed back.

        Raises StateError for an inference layer, or one that was not fed forward. The gradients of parameters wait for
        ``grad_collect``. Arrays and numbers are converted to the output's dtype.
        """
        ports = self._as_ports(self.outputs, "output", positional, named)
        gradients = feed_backward(self, ports)
        return gradients[self.inputs[0]] if len(self.inputs) == 1 else Ports(self.inputs, repr(self), gradients)

    def call(self, values: Mapping[str, Expr], parameters: Mapping[str, Expr]) -> dict[str, Expr]:
        """Record the call: outputs by port. The layer's policies apply to the operations inside."""
        reached = reaching(self.policies)
        if not reached:
            return self._call(values, parameters)
        with under({**state.policies, **reached}):
            return self._call(values, parameters)

    def _call(self, values: Mapping[str, Expr], parameters: Mapping[str, Expr]) -> dict[str, Expr]:
        writing = current_expander()
        if writing is not None:
            return writing.call(self, values, parameters)
        if not values and not parameters:
            with recording_forward(self):
                return self.outputs_of(self.expand({}, {}))
        titles = [path or "value" for path in parameters]
        # A port may have the name of a parameter, and a function takes each operand by a name of its own.
        titles = [f"{title} (parameter)" if title in values else title for title in titles]
        outputs: dict[str, Expr] = self.function(**values, **dict(zip(titles, parameters.values(), strict=True)))
        return outputs

    @property
    def function(self) -> Function[..., Any]:
        """Traced function of the call, shared with layers of the same blueprint."""
        traced = vars(self).get("_function")
        if traced is None:
            traced = vars(self)["_function"] = _shared(self)
        return traced

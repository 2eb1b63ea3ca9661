"""Expanded layers: a layer's operations recorded as individual nodes instead of one call.

``feed_forward`` records a call of a function that equal layers share, so the function's graph contains neither the name
nor the parameters of a particular layer. ``Layer.explore`` therefore records the expressions again, in the layer's own
scopes and with its own parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, as_operands
from explorer.core.ir.function import Parameter as Given
from explorer.core.ir.policy_operations import reaching, under
from explorer.core.ir.recording_context import scope, state
from explorer.core.ir.tensor import tensor
from explorer.core.types.tensor_type import TensorType
from explorer.gradients import backward
from explorer.layers.framework.initializer import ParameterHolder
from explorer.layers.framework.layer import Layer, has_gradient
from explorer.layers.framework.policy_classes import ParameterPolicy
from explorer.layers.framework.recording_state import expanding


@dataclass(frozen=True, slots=True)
class ExpandedLayer:
    """Expressions of a layer: outputs by port, and gradients by input port or parameter name."""

    outputs: Mapping[str, Expr]
    gradients: Mapping[str, Expr]
    valued: bool
    """whether all inputs and parameters have values, so that the layer can be run"""


def expand(layer: Layer, inputs: Any = None) -> ExpandedLayer:
    """Record the expressions of ``layer`` for ``inputs``, and their gradients if it is a training layer.

    ``inputs`` maps ports to types or values, or is a single type or value if the layer has one input. Raises
    UnknownNameError for an unknown port, and OperandError if a port has neither a type nor a value.
    """
    input_values = _input_values(layer, inputs)
    operands = {
        port: Given(value, port)() if isinstance(value, TensorType) else value for port, value in input_values.items()
    }
    expander = LayerExpander(layer)
    with expanding(expander):
        with scope(layer.name, "layer", type(layer).__name__):
            outputs = expander.call(layer, operands, dict.fromkeys(layer.paths()))
        gradients = _gradients(layer, operands, expander, outputs) if layer.train else {}
    valued = not any(isinstance(node.operation, Given) for node in (*operands.values(), *expander.parameters.values()))
    return ExpandedLayer(outputs, gradients, valued and not gradients)


def _input_values(layer: Layer, inputs: Any) -> dict[str, Any]:
    given = dict(layer.types)
    if inputs is not None and not (isinstance(inputs, Mapping) and not inputs):
        given.update(layer._as_ports(layer.inputs, "input", (inputs,), {}))
    missing = [port for port in layer.inputs if port not in given]
    if missing:
        raise OperandError(
            f"{layer!r} without a type for its input {', '.join(missing)}",
            rule="every input port must have a type or a value",
            fix=f'inputs={{"{missing[0]}": ex.TensorType((2, {getattr(layer, "in_features", 3)}), np.float32)}},'
            " or values of the shapes that the layer accepts",
        )
    values = {
        port: tensor(value, name=port) if isinstance(value, np.ndarray) else value
        for port, value in given.items()
        if not isinstance(value, TensorType)
    }
    expressions = dict(zip(values, as_operands(tuple(values.values())), strict=True))
    return {port: expressions.get(port, given[port]) for port in layer.inputs}


def _gradients(
    layer: Layer, operands: Mapping[str, Expr], expander: LayerExpander, outputs: Mapping[str, Expr]
) -> dict[str, Expr]:
    """Record only the gradients that feed-backward would return or collect."""
    wanted = dict(operands) if layer.feeds_back else {}
    wanted.update({path or layer.name: expander.parameters[path] for path in sorted(layer.updates())})
    names = {
        node.uid: name for name, node in reversed(wanted.items())
    }  # a parameter with several names is listed under the first one
    wanted = {name: node for name, node in wanted.items() if names[node.uid] == name and has_gradient(node.type)}
    if not wanted:
        return {}
    with scope("gradient", "gradient"), under({**state.policies, **reaching(layer.policies)}):
        seeds = [Given(output.type, f"gradient of {port}")() for port, output in outputs.items()]
        gradients = backward([*outputs.values()], seeds, [*wanted.values()])
    return {name: node for name, node in zip(wanted, gradients, strict=True) if node is not None}


class LayerExpander:
    """Recorder that records a layer's operations, and its sublayers' operations, instead of calls."""

    def __init__(self, layer: Layer) -> None:
        self.parameters: dict[str, Expr] = {}
        """path of a parameter → its expression"""
        self._sources = dict(zip(layer.paths(), layer.sources(), strict=True))
        self._outside = f"{layer.name}/"
        self._paths = {id(source): path for path, source in self._sources.items()}
        self._shared: dict[int, Expr] = {}

    def call(self, layer: Layer, values: Mapping[str, Expr], parameters: Mapping[str, Expr | None]) -> dict[str, Expr]:
        """Record the outputs by port in the current scope, and parameters that were not recorded yet."""
        box = state.scope
        assert box is not None  # set by the caller; the recorder of the view reads policies and feedback from the scope
        box.payload = layer
        # A parameter is recorded in its layer's scope, except that parameters of a repeatedly called sublayer are
        # recorded once, next to the sublayer.
        passes_on = bool(vars(layer).get("sublayers")) and not layer.repeats
        parameter_nodes: Mapping[str, Any] = parameters
        if not passes_on:
            sources = dict(zip(layer.paths(), layer.sources(), strict=True))
            parameter_nodes = {
                path: self._parameter(sources[path]) if node is None else node for path, node in parameters.items()
            }
        outputs = layer.outputs_of(layer.expand(values, parameter_nodes))
        box.ports = (
            {port: node.uid for port, node in values.items()},
            {port: node.uid for port, node in outputs.items()},
        )
        return outputs

    def _parameter(self, source: ParameterHolder) -> Expr:
        """Return the tensor of ``source``, or a placeholder of its type if it is not initialized."""
        path, parameter = self._paths[id(source)], source.parameter
        node = self._shared.get(id(parameter)) if parameter is not None else None
        if node is None and parameter is None:
            policies = source.select(ParameterPolicy)
            node = Given(
                TensorType(source.shape, policies.dtype, policies.device), source.name.removeprefix(self._outside)
            )()
        elif node is None and parameter is not None:
            name = parameter.name.removeprefix(self._outside)
            node = self._shared[id(parameter)] = tensor(
                parameter.value.array, name=name, copy=False, device=parameter.value.device
            )
        assert node is not None
        self.parameters[path] = node
        return node

"""Expanded layers: every operation is a node of its own in the boxes of the layers, none is inside a call.

``feed_forward`` records one call of a function that equal layers share. To show one layer, ``Layer.explore`` records
its expressions once more, in scopes that belong to this layer, with its own parameters. The shared function's graph
would not do: it knows neither the layer's name nor its parameters.
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
    """Expressions of a layer: its outputs by port, and its gradients by port or parameter."""

    outputs: Mapping[str, Expr]
    gradients: Mapping[str, Expr]
    valued: bool
    """whether all inputs and parameters have values, so that it can be run"""


def expand(layer: Layer, inputs: Any = None) -> ExpandedLayer:
    """Record the expressions of a layer for inputs by port, types or values; for a training layer the gradients too.

    A layer with one input may be given that one, without its port.

    Raises UnknownNameError for a wrong port, OperandError for a port with neither a type nor a value.
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
    chosen = dict(layer.types)
    if inputs is not None and not (isinstance(inputs, Mapping) and not inputs):
        chosen.update(layer._as_ports(layer.inputs, "input", (inputs,), {}))
    missing = [port for port in layer.inputs if port not in chosen]
    if missing:
        raise OperandError(
            f"{layer!r} without a type for its input {', '.join(missing)}",
            rule="every input port must have a type or a value",
            fix=f'inputs={{"{missing[0]}": ex.TensorType((2, {getattr(layer, "in_features", 3)}), np.float32)}},'
            " or values, in the shapes that the layer takes",
        )
    values = {
        port: tensor(value, name=port) if isinstance(value, np.ndarray) else value
        for port, value in chosen.items()
        if not isinstance(value, TensorType)
    }
    expressed = dict(zip(values, as_operands(tuple(values.values())), strict=True))
    return {port: expressed.get(port, chosen[port]) for port in layer.inputs}


def _gradients(
    layer: Layer, operands: Mapping[str, Expr], expander: LayerExpander, outputs: Mapping[str, Expr]
) -> dict[str, Expr]:
    """Record the gradients that feed-backward would return and collect, and no others."""
    wanted = dict(operands) if layer.feeds_back else {}
    wanted.update({path or layer.name: expander.parameters[path] for path in sorted(layer.updates())})
    names = {
        node.uid: name for name, node in reversed(wanted.items())
    }  # a shared parameter is listed by its first name
    wanted = {name: node for name, node in wanted.items() if names[node.uid] == name and has_gradient(node.type)}
    if not wanted:
        return {}
    with scope("gradient", "gradient"), under({**state.policies, **reaching(layer.policies)}):
        seeds = [Given(output.type, f"gradient of {port}")() for port, output in outputs.items()]
        gradients = backward([*outputs.values()], seeds, [*wanted.values()])
    return {name: node for name, node in zip(wanted, gradients, strict=True) if node is not None}


class LayerExpander:
    """Recorder of the calls of one layer and of those inside it."""

    def __init__(self, layer: Layer) -> None:
        self.parameters: dict[str, Expr] = {}
        """paths of the sources inside the layer"""
        self._sources = dict(zip(layer.paths(), layer.sources(), strict=True))
        self._outside = f"{layer.name}/"
        self._paths = {id(source): path for path, source in self._sources.items()}
        self._shared: dict[int, Expr] = {}

    def call(self, layer: Layer, values: Mapping[str, Expr], parameters: Mapping[str, Expr | None]) -> dict[str, Expr]:
        """Record the outputs by port in the current scope; parameters not recorded yet are recorded there."""
        box = state.scope
        assert box is not None  # set by the caller
        # The recorder finds the layer by its box, for its policies and feedback.
        box.payload = layer
        # A parameter is drawn in the box of the layer that holds it; one that repeats a sublayer draws its parameters
        # beside that, once.
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
        """Return the tensor that a source holds, or a placeholder before it is initialised."""
        path, parameter = self._paths[id(source)], source.held
        node = self._shared.get(id(parameter)) if parameter is not None else None
        if node is None and parameter is None:
            chosen = source.select(ParameterPolicy)
            node = Given(
                TensorType(source.shape, chosen.dtype, chosen.device), source.name.removeprefix(self._outside)
            )()
        elif node is None and parameter is not None:
            name = parameter.name.removeprefix(self._outside)
            node = self._shared[id(parameter)] = tensor(
                parameter.value.array, name=name, copy=False, device=parameter.value.device
            )
        assert node is not None
        self.parameters[path] = node
        return node

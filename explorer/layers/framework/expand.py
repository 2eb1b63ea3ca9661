"""A layer's graph written out: every operation a node of its own, in the boxes of the layers, none inside a call.

``feed_forward`` records one call of what layers of a kind share. To look at one layer its expressions are recorded
once more, with boxes that know whose they are, and its own parameters in them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr, scope, state
from explorer.core.ir.function import Parameter as Given
from explorer.core.ir.operation import as_operands
from explorer.core.ir.policy_operations import reaching, under
from explorer.core.ir.tensor import tensor
from explorer.core.types.tensor_type import TensorType
from explorer.grad import backward
from explorer.layers.framework.feed_backward import has_gradient
from explorer.layers.framework.policy_classes import ParameterPolicy

if TYPE_CHECKING:
    from explorer.layers.framework.layer import Layer
    from explorer.layers.framework.parameter_layers import Source


@dataclass(frozen=True, slots=True)
class ExpandedLayer:
    """Expressions of a layer: its outputs by port, and the gradients that it builds, by port or parameter."""

    outputs: Mapping[str, Expr]
    gradients: Mapping[str, Expr]
    valued: bool
    """whether all inputs and parameters have values, so that it can be run"""


class _Writing(threading.local):
    writer: LayerExpander | None = None


_writing = _Writing()


def current_expander() -> LayerExpander | None:
    """Who writes a layer out at present."""
    return _writing.writer


def expand(layer: Layer, inputs: Mapping[str, Any] | None = None) -> ExpandedLayer:
    """The expressions of a layer for inputs by port, types or values, and for a training layer those of gradients.

    Raises UnknownNameError for a wrong port, OperandError where one has neither a type nor a value.
    """
    given = _given(layer, inputs)
    operands = {port: Given(value, port)() if isinstance(value, TensorType) else value for port, value in given.items()}
    with _active(layer) as made:
        with scope(layer.name, "layer", type(layer).__name__):
            outputs = made.call(layer, operands, dict.fromkeys(layer.paths()))
        gradients = _gradients(layer, operands, made, outputs) if layer.train else {}
    valued = not any(isinstance(node.operation, Given) for node in (*operands.values(), *made.parameters.values()))
    return ExpandedLayer(outputs, gradients, valued and not gradients)


def _given(layer: Layer, inputs: Mapping[str, Any] | None) -> dict[str, Any]:
    chosen = {**layer.types, **layer._given(layer.inputs, "input", (inputs,), {})} if inputs else dict(layer.types)
    missing = [port for port in layer.inputs if port not in chosen]
    if missing:
        raise OperandError(
            f"{layer!r} without a type for its input {', '.join(missing)}",
            rule="what a layer writes depends on the types of its inputs",
            fix=f'inputs={{"{missing[0]}": ex.TensorType((2, 3), np.float32), …}}, or values',
        )
    values = {
        port: tensor(value, name=port) if isinstance(value, np.ndarray) else value
        for port, value in chosen.items()
        if not isinstance(value, TensorType)
    }
    expressed = dict(zip(values, as_operands(tuple(values.values())), strict=True))
    return {port: expressed.get(port, chosen[port]) for port in layer.inputs}


def _gradients(
    layer: Layer, operands: Mapping[str, Expr], made: LayerExpander, outputs: Mapping[str, Expr]
) -> dict[str, Expr]:
    """The gradients that feed-backward would give and collect; no other is built."""
    wanted = dict(operands) if layer.feeds_back else {}
    wanted.update({path or layer.name: made.parameters[path] for path in sorted(layer.updates())})
    names = {node.uid: name for name, node in reversed(wanted.items())}  # a shared parameter goes by its first name
    wanted = {name: node for name, node in wanted.items() if names[node.uid] == name and has_gradient(node.type)}
    if not wanted:
        return {}
    with scope("gradient", "gradient"), under({**state.policies, **reaching(layer.policies)}):
        seeds = [Given(output.type, f"gradient of {port}")() for port, output in outputs.items()]
        found = backward([*outputs.values()], seeds, [*wanted.values()])
    return {name: node for name, node in zip(wanted, found, strict=True) if node is not None}


@contextmanager
def _active(layer: Layer) -> Iterator[LayerExpander]:
    outer, _writing.writer = _writing.writer, LayerExpander(layer)
    try:
        yield _writing.writer
    finally:
        _writing.writer = outer


class LayerExpander:
    """Writes the calls of one layer and those inside it."""

    def __init__(self, layer: Layer) -> None:
        self.parameters: dict[str, Expr] = {}
        """by their path inside the layer"""
        self._sources = dict(zip(layer.paths(), layer.sources(), strict=True))
        self._outside = f"{layer.name}/"
        self._paths = {id(source): path for path, source in self._sources.items()}
        self._shared: dict[int, Expr] = {}

    def call(self, layer: Layer, values: Mapping[str, Expr], parameters: Mapping[str, Expr | None]) -> dict[str, Expr]:
        """The outputs by port, written in the present box; parameters that are not there yet are put into it."""
        box = state.scope
        assert box is not None  # its caller's
        box.payload = layer
        passes_on = bool(vars(layer).get("sublayers")) and not layer.repeats
        held: Mapping[str, Any] = parameters
        if not passes_on:
            sources = dict(zip(layer.paths(), layer.sources(), strict=True))
            held = {path: self._parameter(sources[path]) if node is None else node for path, node in parameters.items()}
        outputs = layer.outputs_of(layer.expand(values, held))
        box.ports = (
            {port: node.uid for port, node in values.items()},
            {port: node.uid for port, node in outputs.items()},
        )
        return outputs

    def _parameter(self, source: Source) -> Expr:
        """The tensor that a source holds, or what stands for it before it is initialised."""
        path, held = self._paths[id(source)], source.held
        found = self._shared.get(id(held)) if held is not None else None
        if found is None and held is None:
            chosen = source.select(ParameterPolicy)
            found = Given(
                TensorType(source.shape, chosen.dtype, chosen.device), source.name.removeprefix(self._outside)
            )()
        elif found is None and held is not None:
            name = held.name.removeprefix(self._outside)
            found = self._shared[id(held)] = tensor(held.value.array, name=name, copy=False, device=held.value.device)
        assert found is not None
        self.parameters[path] = found
        return found

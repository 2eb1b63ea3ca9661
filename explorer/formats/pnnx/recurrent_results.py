"""Results of recurrent modules. pnnx writes only the results that are used, without their names.

Results are therefore identified by their recorded shapes: (N, steps, features) for the sequence, and (layers ·
directions, N, features) for a final state. These shapes may be equal, for example with two samples, steps and layers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from explorer.net.definition.definition import BlobType, OperatorDefinition

RESULTS = {"nn.LSTM": ("output", "h_n", "c_n"), "nn.GRU": ("output", "h_n"), "nn.RNN": ("output", "h_n")}
"""torch's names of the results of recurrent modules, in order"""
ONE_OF = "one_of"
"""name of the argument that lists the possible names of an operator's only result"""


def with_all_results(operator: OperatorDefinition, type_of: Callable[[str], BlobType]) -> OperatorDefinition:
    """Add the omitted results to a recurrent operator; return any other operator unchanged.

    If an operator's only result may be the sequence or a state, its argument ``one_of`` lists the candidates, and the
    builder raises an error. The builder also rejects an LSTM with only one of its two states.
    """
    names, written = RESULTS.get(operator.type, ()), operator.outputs
    if not 0 < len(written) < len(names) or not operator.inputs:
        return operator
    shapes, first = _shapes(operator, type_of(operator.inputs[0]).shape), type_of(written[0]).shape
    if not shapes or first is None:
        return operator
    possible = tuple([name for name, shape in zip(names, shapes, strict=False) if shape == first])
    if names[0] not in possible and possible:
        return replace(operator, outputs=(f"{operator.name}:{names[0]}", *written))
    if len(written) == 1 and len(possible) > 1:
        return replace(operator, arguments={**operator.arguments, ONE_OF: possible})
    return operator


def _shapes(operator: OperatorDefinition, input_shape: object) -> tuple[object, ...]:
    """Return the shapes of the sequence and the final states, or () if the file does not determine them."""
    arguments = operator.arguments
    layers, hidden = arguments.get("num_layers", 1), arguments.get("hidden_size")
    width = arguments.get("proj_size", 0) or hidden
    if not isinstance(input_shape, tuple) or len(input_shape) != 3 or type(layers) is not int or type(width) is not int:
        return ()
    directions = 2 if arguments.get("bidirectional") is True else 1
    state_front = layers * directions, input_shape[0 if arguments.get("batch_first") is True else 1]
    return (*input_shape[:2], directions * width), (*state_front, width), (*state_front, hidden)

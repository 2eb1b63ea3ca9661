"""Results of recurrent modules: pnnx leaves out those that nobody reads, and says not which ones it wrote.

The noted shapes tell the sequence (N, steps, features) from a last state (layers · directions, N, features).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from explorer.net.definition.definition import BlobType, OperatorDefinition

RESULTS = {"nn.LSTM": ("output", "h_n", "c_n"), "nn.GRU": ("output", "h_n"), "nn.RNN": ("output", "h_n")}
"""results of torch's recurrent modules, in their order"""


def with_all_results(operator: OperatorDefinition, type_of: Callable[[str], BlobType]) -> OperatorDefinition:
    """Return a recurrent operator with a name for each result before its last; any other operator as it is.

    An LSTM with one state, which may be either, is returned with two results: its builder refuses it.
    """
    names, written = RESULTS.get(operator.type, ()), operator.outputs
    if not 0 < len(written) < len(names) or not operator.inputs:
        return operator
    sequence, state = _shapes(operator, type_of(operator.inputs[0]).shape)
    first = type_of(written[0]).shape
    if state is None or first in (None, sequence) or first != state:
        return operator
    return replace(operator, outputs=(f"{operator.name}:{names[0]}", *written))


def _shapes(operator: OperatorDefinition, entering: object) -> tuple[object, object]:
    """Return the shapes of the sequence and of a last state, None where something that decides is not noted."""
    arguments = operator.arguments
    layers, hidden = arguments.get("num_layers", 1), arguments.get("hidden_size")
    width = arguments.get("proj_size", 0) or hidden
    if not isinstance(entering, tuple) or len(entering) != 3 or type(layers) is not int or type(width) is not int:
        return None, None
    directions = 2 if arguments.get("bidirectional") is True else 1
    members = entering[0 if arguments.get("batch_first") is True else 1]
    return (*entering[:2], directions * width), (layers * directions, members, width)

"""Roles of attention operands, which pnnx does not record reliably.

pnnx writes each tensor only once. Self-attention therefore has a single operand for queries, keys and values. A boolean
mask is written before this operand, although the file labels the last operand as the mask. Operands are therefore
identified by their recorded shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations

from explorer.formats.pnnx.recurrent_results import ONE_OF
from explorer.net.definition.definition import BlobType, OperatorDefinition

TYPE = "nn.MultiheadAttention"
SEQUENCES = ("query", "key", "value")
MASKS = ("attn_mask", "key_padding_mask")
_SHARED = {1: ((0, 0, 0),), 2: ((0, 1, 1), (0, 0, 1), (0, 1, 0)), 3: ((0, 1, 2),)}
"""possible indices of the query, key and value among an operator's tensors, by the number of tensors"""


def with_named_operands(operator: OperatorDefinition, type_of: Callable[[str], BlobType]) -> OperatorDefinition:
    """Name the operands of an attention module; return any other operator unchanged.

    A module without recorded operand shapes is also returned unchanged. If the shapes are ambiguous, the argument
    ``one_of`` lists the possible roles, and the builder raises an error.
    """
    if operator.type != TYPE or SEQUENCES[0] in operator.input_names:
        return operator
    types = {name: type_of(name) for name in operator.inputs}
    masks = [name for name in types if _is_mask(types[name])] or [
        name for name in (operator.input_names.get(MASKS[0]),) if name in types
    ]
    sequences = [name for name in operator.inputs if name not in masks]
    shapes = {name: each.shape for name, each in types.items()}
    if len(sequences) not in _SHARED or any(len(shapes[name] or ()) != 3 for name in sequences):
        return operator
    candidates = [
        {role: sequences[index] for role, index in zip(SEQUENCES, indices, strict=True)}
        | dict(zip(roles, masks, strict=True))
        for indices in _SHARED[len(sequences)]
        for roles in permutations(MASKS, len(masks))
    ]
    matches = [
        names for names in candidates if _matches(operator, {role: shapes[name] for role, name in names.items()})
    ]
    if len(matches) == 1:
        return replace(operator, input_names=matches[0])
    if not matches:
        return operator
    labels = tuple([", ".join([f"{role} {name}" for role, name in names.items()]) for names in matches])
    return replace(operator, arguments={**operator.arguments, ONE_OF: labels}, input_names={})


def _is_mask(type: BlobType) -> bool:
    return type.dtype == "bool" or (type.shape is not None and len(type.shape) == 2)


def _matches(operator: OperatorDefinition, shapes: dict[str, object]) -> bool:
    """Return whether torch accepts operands with the given shapes; ``shapes`` maps roles to shapes."""
    arguments = operator.arguments
    batch, time = (0, 1) if arguments.get("batch_first") is True else (1, 0)
    query, key, value = (shapes[name] for name in SEQUENCES)
    if not (isinstance(query, tuple) and isinstance(key, tuple) and isinstance(value, tuple)):
        return False
    width, heads = arguments.get("embed_dim"), arguments.get("num_heads")
    features = (width, arguments.get("kdim", width), arguments.get("vdim", width))
    count, steps, keys = query[batch], query[time], key[time]
    pairs = (steps, keys)
    pairs_of_heads = (count * heads, *pairs) if isinstance(count, int) and isinstance(heads, int) else None
    return (
        (query[2], key[2], value[2]) == features
        and key[:2] == value[:2]
        and count == key[batch]
        and shapes.get(MASKS[0], pairs) in (pairs, pairs_of_heads)
        and shapes.get(MASKS[1], (count, keys)) == (count, keys)
    )

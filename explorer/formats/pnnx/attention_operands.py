"""Operands of attention modules: pnnx writes each tensor once, in the order of the call, and names masks wrongly.

A module that attends to itself has one operand for queries, keys and values; a mask of truths stands before them, and
the last operand is noted as the mask. What an operand is follows from the noted shapes.
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
"""number of tensors → which of them may be queries, keys and values"""


def with_named_operands(operator: OperatorDefinition, type_of: Callable[[str], BlobType]) -> OperatorDefinition:
    """Return an attention module with its operands by name; any other operator, or one without noted shapes, as it is.

    What the shapes do not tell is for the builder to refuse: the operator is returned with the argument ``one_of``.
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
    meant = [
        {role: sequences[place] for role, place in zip(SEQUENCES, places, strict=True)}
        | dict(zip(roles, masks, strict=True))
        for places in _SHARED[len(sequences)]
        for roles in permutations(MASKS, len(masks))
    ]
    fitting = [names for names in meant if _fits(operator, {role: shapes[name] for role, name in names.items()})]
    if len(fitting) == 1:
        return replace(operator, input_names=fitting[0])
    if not fitting:
        return operator
    listed = tuple([", ".join([f"{role} {name}" for role, name in names.items()]) for names in fitting])
    return replace(operator, arguments={**operator.arguments, ONE_OF: listed}, input_names={})


def _is_mask(noted: BlobType) -> bool:
    return noted.dtype == "bool" or (noted.shape is not None and len(noted.shape) == 2)


def _fits(operator: OperatorDefinition, shapes: dict[str, object]) -> bool:
    """Return whether operands of these shapes, by their names, are what torch takes."""
    arguments = operator.arguments
    front = (0, 1) if arguments.get("batch_first") is True else (1, 0)
    query, key, value = (shapes[name] for name in SEQUENCES)
    if not (isinstance(query, tuple) and isinstance(key, tuple) and isinstance(value, tuple)):
        return False
    width, heads = arguments.get("embed_dim"), arguments.get("num_heads")
    features = (width, arguments.get("kdim", width), arguments.get("vdim", width))
    count, steps, keys = query[front[0]], query[front[1]], key[front[1]]
    pairs = (steps, keys)
    many = (count * heads, *pairs) if isinstance(count, int) and isinstance(heads, int) else None
    return (
        (query[2], key[2], value[2]) == features
        and key[:2] == value[:2]
        and count == key[front[0]]
        and shapes.get(MASKS[0], pairs) in (pairs, many)
        and shapes.get(MASKS[1], (count, keys)) == (count, keys)
    )

"""``save``: from a net to a model's file."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

from explorer.core.errors import FileError
from explorer.formats import explorer_json, pnnx
from explorer.net import Net, NetDefinition, OperatorDefinition
from explorer.net.building.weights import FileStorage
from explorer.net.definition.definition import WeightReference

_PNNX = "pnnx"


def save(net: Net, path: str | os.PathLike[str]) -> None:
    """Write a net with the weights that it has now; opening the file gives an equal net.

    ``x.json`` with ``x.npz`` beside it holds any net; ``x.param`` with ``x.bin`` those of PNNX. Files are replaced as a
    whole. Raises FileError for another ending or dialect, and where a weight cannot be read.
    """
    given = Path(path)
    if given.suffix not in (".param", ".json"):
        raise FileError(
            f"the ending {given.suffix!r}" if given.suffix else "a name without an ending",
            path=str(given),
            rule="nets are written as x.json with x.npz beside it; those of PNNX also as x.param with x.bin",
            fix=f"write to {given.stem}.{'pnnx.param' if net.definition.dialect == _PNNX else 'json'}",
        )
    if given.suffix == ".json":
        explorer_json.save(_with_weights(net), given)
        return
    if net.definition.dialect != _PNNX:
        raise FileError(
            f"net {net.name!r} has operator types of {net.definition.dialect!r}",
            path=str(given),
            rule="a .param file holds operator types of PNNX",
            fix=f"write to {given.stem}.json",
        )
    pnnx.save(_with_weights(net), given)


def _with_weights(net: Net) -> NetDefinition:
    """The net's definition with the values that its weights have now; what was replaced alone has a key of its own."""
    references = [weight for operator in net.definition.operators for weight in operator.weights.values()]
    shared = {key for key, times in Counter(reference.key for reference in references).items() if times > 1}
    values = {}
    operators = []
    for operator in net.definition.operators:
        kept: dict[str, WeightReference] = {}
        for attribute, reference in operator.weights.items():
            held = net.weights.tensor(operator.name, attribute)
            if reference.key in shared and not isinstance(held.storage, FileStorage):
                reference = replace(reference, key=_own_key(operator, attribute, references))
            values[reference.key] = held.array
            kept[attribute] = reference
        operators.append(replace(operator, weights=kept) if kept != operator.weights else operator)
    return replace(net.definition, operators=tuple(operators), weights=values)


def _own_key(operator: OperatorDefinition, attribute: str, others: list[WeightReference]) -> str:
    key, taken = f"{operator.name}.{attribute}", {other.key for other in others}
    while key in taken:
        key += "'"
    return key

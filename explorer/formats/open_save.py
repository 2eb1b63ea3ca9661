"""``open`` and ``save``: from a model's file to its net, and back."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

from explorer.core.errors import FileError
from explorer.core.files.open_untrusted import printable
from explorer.core.progress import Progress, current_callback, long_running
from explorer.formats import explorer_json, onnx, pnnx
from explorer.formats.registry import operator_table, table_of
from explorer.net import Net, NetDefinition, OperatorDefinition
from explorer.net.building.weights import FileStorage
from explorer.net.definition.definition import WeightReference

ENDINGS = (".pnnx.param", ".param", ".onnx", ".json")
"""the endings of files that can be opened"""


@long_running()
def open(path: str | os.PathLike[str], *, weights: str | os.PathLike[str] | None = None) -> Net:
    """The net in a model's file, chosen by its ending: ``x.onnx``, ``x.param`` with ``x.bin``, ``x.json``.

    The graph is read, weights when they are asked for: from the file ``weights``, for None from the one beside the
    graph's. Raises FileError that names file, line, rule and fix for a file that is absent, malformed, or of another
    ending, and where ``weights`` is named for an ONNX file, which says itself where its weights lie.
    """
    for value in (path, weights):
        if not isinstance(value, (str, os.PathLike)) and (value is path or value is not None):
            raise FileError(
                f"a {type(value).__name__} is no path",
                path=repr(value),
                rule="a model is opened by the path of its file",
            )
    given = Path(path)
    if os.path.isdir(given) or not given.name:
        raise FileError(
            "this is a folder",
            path=printable(path),
            rule=f"a model is a file: {', '.join(ENDINGS)}",
            fix="name a file in it",
        )
    follow = current_callback()
    if follow is not None:
        follow(Progress("reading", given.name))
    if given.name.endswith(".onnx"):
        if weights is not None:
            raise FileError(
                f"weights={os.fspath(weights)!r} for an ONNX file",
                path=str(given),
                rule="an ONNX file holds its weights, or names the files in its folder that do",
                fix=f"ex.open({str(given)!r})",
            )
        return Net(onnx.read(given), operator_table("onnx"))
    if given.name.endswith(".json"):
        definition = explorer_json.read(given, weights)
        return Net(definition, table_of(definition))
    if given.name.endswith(ENDINGS):
        return Net(pnnx.read(given, weights), operator_table("pnnx"))
    param = given.with_suffix(".param")
    beside = given.suffix == ".bin" and os.path.exists(param)
    raise FileError(
        f"the ending {given.suffix!r} is not that of a model's file" if given.suffix else "the name has no ending",
        path=printable(given),
        rule=f"files that can be opened end with {', '.join(ENDINGS)}",
        fix=f"open {param}, which says what the weights in {given.name} are for"
        if beside
        else "give such a file; torch models are exported by pnnx or torch.onnx",
    )


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

"""Reader and writer of PNNX, ncnn's exchange format: operators as text (``.param``) and a zip of weights (``.bin``)."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from explorer.core.errors import FileError
from explorer.core.files.open_untrusted import content
from explorer.formats.common.declared_weights import AbsentWeights
from explorer.formats.common.paired_files import Pair, read_pair
from explorer.formats.common.safetensors_weights import ENDING, SafetensorsWeights
from explorer.formats.pnnx.bin_weights import StoredWeights
from explorer.formats.pnnx.param_reader import parse
from explorer.formats.pnnx.param_writer import write
from explorer.net.definition.definition import NetDefinition

__all__ = ["StoredWeights", "read", "save"]

_RULE = "the weights of x.param must be in x.bin in the same folder"
_FIX = "put the .bin file of the same export next to the .param file and open it again"


def read(path: str | os.PathLike[str], weights: str | os.PathLike[str] | None = None) -> NetDefinition:
    """Read the definition in ``x.param``, and its weights from the file ``weights``, by default ``x.bin``.

    If the ``.bin`` file is missing, the definition still loads, and reading a weight raises FileError. If a file is
    invalid, raise FileError with the file, the line, the problem, the rule and the fix.
    """
    param, default_bin = _pair(path)
    bin = default_bin if weights is None else Path(weights)
    fix = "correct the path of the .param file"
    pair = read_pair(param, bin) if weights is None else Pair(content(param, fix))
    with pair:
        definition = parse(pair.text, path=str(param), name=param.name.removesuffix(".param").removesuffix(".pnnx"))
        declared = [weight for operator in definition.operators for weight in operator.weights.values()]
        if not declared:
            return definition
        if bin.suffix == ENDING:
            return replace(definition, weights=SafetensorsWeights(bin, declared))
        archive = pair.weights()
    if archive is None and not os.path.exists(bin):
        return replace(definition, weights=AbsentWeights(bin, declared, rule=_RULE, fix=_FIX))
    return replace(definition, weights=StoredWeights(bin, declared, archive))


def save(definition: NetDefinition, path: str | os.PathLike[str]) -> None:
    """Write a definition and its weights as ``x.param`` and ``x.bin``; ``read`` returns an equal definition."""
    write(definition, *_pair(path))


def _pair(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    param = Path(path)
    if param.suffix != ".param":
        raise FileError(
            "the name does not end with .param",
            path=str(param),
            rule="a PNNX model must be a pair of files, x.param and x.bin",
            fix="give the path of the .param file",
        )
    return param, param.with_suffix(".bin")

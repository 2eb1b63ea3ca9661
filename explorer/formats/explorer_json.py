"""Reader and writer of explorer's own format: a definition in ``x.json``, its weights in ``x.npz``.

This format can store every net: the JSON names the dialect of the operator types, so PNNX types and ONNX types keep
their meaning. NumPy can read the weights without explorer.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import IO

from explorer.core.errors import ExplorerError, FileError
from explorer.core.files.open_untrusted import content
from explorer.formats.common.declared_weights import AbsentWeights
from explorer.formats.common.npz import AGAIN, RULE, NpzWeights, write_weights
from explorer.formats.common.paired_files import Pair, read_pair, save_pair
from explorer.formats.common.safetensors_weights import ENDING, SafetensorsWeights
from explorer.formats.recording_file import is_recording
from explorer.net.definition.definition import NetDefinition
from explorer.net.definition.serialization import dumps, loads

_FIX = "correct the path of the .json file"


def read(path: str | os.PathLike[str], weights: str | os.PathLike[str] | None = None) -> NetDefinition:
    """Read the definition in ``x.json``, and its weights from the file ``weights``, by default ``x.npz``.

    If the ``.npz`` file is missing, the definition still loads, and reading a weight raises FileError. If a file is
    invalid, raise FileError with the file, the field, the rule and the fix.
    """
    json_path = Path(path)
    stored = json_path.with_suffix(".npz") if weights is None else Path(weights)
    with read_pair(json_path, stored) if weights is None else Pair(content(json_path, _FIX)) as pair:
        definition = _parse(pair.text, str(json_path))
        declared = [weight for operator in definition.operators for weight in operator.weights.values()]
        if not declared:
            return definition
        if stored.suffix == ENDING:
            return replace(definition, weights=SafetensorsWeights(stored, declared))
        archive = pair.weights()
    # If the file exists but is not a zip, it is opened again below, and the error is raised there.
    if archive is None and not os.path.exists(stored):
        return replace(definition, weights=AbsentWeights(stored, declared, rule=RULE, fix=AGAIN))
    return replace(definition, weights=NpzWeights(stored, declared, archive))


def _parse(data: bytes, path: str) -> NetDefinition:
    try:
        return loads(data.decode("utf-8"), source=path)
    except UnicodeDecodeError as error:
        raise FileError(
            f"it is not text: {error.reason}",
            path=path,
            rule="a .json file must be text in UTF-8",
            fix="save the net again: net.save('net.json')",
        ) from None
    except FileError:
        raise
    except ExplorerError as error:
        if is_recording(data):
            raise FileError(
                "this is a recording, not a net",
                path=path,
                rule="a recording shows how a plan ran, and contains no net",
                fix=f"view it with ex.explore({Path(path).name!r}) or explorer show {Path(path).name}",
            ) from None
        raise FileError(error.given, path=path, rule=error.rule, fix=error.fix) from None


def save(definition: NetDefinition, path: str | os.PathLike[str]) -> None:
    """Write a definition to ``x.json`` and its weights, if there are any, to ``x.npz``.

    ``read`` returns an equal definition. Both files are replaced together. If a weight is missing or does not match its
    declaration, neither file is replaced.
    """
    json_path = Path(path)
    # dumps escapes all other characters
    text = dumps(definition).encode("ascii")
    declared = [weight for operator in definition.operators for weight in operator.weights.values()]
    npz_path = json_path.with_suffix(".npz")

    def write(file: IO[bytes], comment: bytes) -> None:
        write_weights(file, definition.weights, declared, str(npz_path), comment)

    save_pair(text, json_path, npz_path, write if declared else None)

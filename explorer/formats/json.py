"""Nets in explorer's own form: a definition in ``x.json``, its weights in ``x.npz`` beside it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from explorer.core.errors import ExplorerError, FileError
from explorer.formats.npz import AbsentNpz, NpzWeights, write_weights
from explorer.formats.replacing import replacing
from explorer.net.definition import NetDefinition
from explorer.net.json import dumps, loads


def read(path: str | os.PathLike[str], weights: str | os.PathLike[str] | None = None) -> NetDefinition:
    """Read ``x.json`` and what ``weights`` holds, for None ``x.npz`` beside it.

    Without the ``.npz`` file the definition still loads, and each weight says, when asked for, that the file is absent.
    Raises FileError naming file, field, rule and fix.
    """
    given = Path(path)
    try:
        text = given.read_text(encoding="utf-8")
    except OSError as error:
        raise FileError(
            f"the file cannot be read: {error.strerror}", path=str(given), fix="correct the path of the .json file"
        ) from error
    except UnicodeDecodeError as error:
        raise FileError(f"this is no text: {error.reason}", path=str(given), rule="JSON is written in UTF-8") from None
    try:
        definition = loads(text, source=str(given))
    except FileError:
        raise
    except ExplorerError as error:
        raise FileError(error.given, path=str(given), rule=error.rule, fix=error.fix) from None
    declared = [weight for operator in definition.operators for weight in operator.weights.values()]
    if not declared:
        return definition
    stored = given.with_suffix(".npz") if weights is None else Path(weights)
    return replace(definition, weights=(NpzWeights if stored.exists() else AbsentNpz)(stored, declared))


def save(definition: NetDefinition, path: str | os.PathLike[str]) -> None:
    """Write ``x.json``, and ``x.npz`` where there are weights; reading them gives an equal definition.

    Each file is replaced as a whole, and nothing is replaced when a weight is missing or misfits.
    """
    given = Path(path)
    text = dumps(definition)
    declared = [weight for operator in definition.operators for weight in operator.weights.values()]
    if declared:
        beside = given.with_suffix(".npz")
        with replacing(beside) as file:
            write_weights(file, definition.weights, declared, str(beside))
    with replacing(given) as file:
        file.write(text.encode("ascii"))

"""Writer of ``.param`` and ``.bin`` files. Reading the files back yields an equal definition.

The text has pnnx's layout, so a file from the current pnnx is reproduced byte for byte.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import IO

import numpy as np

from explorer.core.errors import ExplorerError, FileError
from explorer.formats.common.paired_files import save_pair
from explorer.formats.pnnx.bin_weights import encode
from explorer.formats.pnnx.param_reader import EXPRESSION, INPUT, MAGIC, OUTPUT
from explorer.formats.pnnx.param_values import GrammarError, shorten, write_string, write_type, write_value
from explorer.net.definition.definition import NetDefinition, OperatorDefinition
from explorer.record.reasons import counted_text

_DATE = (1980, 1, 1, 0, 0, 0)
"""date of every zip entry, the earliest that a zip can store, so that equal nets give equal files"""


def write(definition: NetDefinition, param: Path, bin: Path) -> None:
    """Replace both files together; replace neither if a weight is missing or does not match its declaration."""

    def write_weights(file: IO[bytes], comment: bytes) -> None:
        _write_weights(definition, file, str(bin), comment)

    save_pair(param_text(definition).encode("utf-8"), param, bin, write_weights)


def param_text(definition: NetDefinition) -> str:
    """Return the contents of the ``.param`` file."""
    operators = [*_inputs(definition), *definition.operators, *_outputs(definition)]
    lines = [MAGIC, f"{len(operators)} {len(definition.blobs)}"]
    for operator in operators:
        try:
            lines.append(_line(operator, definition))
        except GrammarError as error:
            raise _error(operator, error.given, error.rule, error.fix) from None
    return "\n".join(lines) + "\n"


def _inputs(definition: NetDefinition) -> Iterator[OperatorDefinition]:
    names = _free_names(definition, "pnnx_input")
    for blob in definition.inputs:
        yield OperatorDefinition(INPUT, next(names), outputs=(blob,))


def _outputs(definition: NetDefinition) -> Iterator[OperatorDefinition]:
    names = _free_names(definition, "pnnx_output")
    for blob in definition.outputs:
        yield OperatorDefinition(OUTPUT, next(names), inputs=(blob,))


def _free_names(definition: NetDefinition, prefix: str) -> Iterator[str]:
    names = {operator.name for operator in definition.operators}
    return (name for name in (f"{prefix}_{index}" for index in count()) if name not in names)


def _line(operator: OperatorDefinition, definition: NetDefinition) -> str:
    operands = operator.inputs + operator.outputs
    _check_words(operator, (operator.type, operator.name, *operands), "")
    _check_words(operator, (*operator.arguments, *operator.weights, *operator.input_names), "=")
    # columns of 24 characters, as in files from pnnx
    words = [f"{operator.type:<24}", f"{operator.name:<24}", str(len(operator.inputs)), str(len(operator.outputs))]
    words += operands
    for name, value in operator.arguments.items():
        if name[0] in "@#$":
            raise _error(
                operator, f"the argument name {shorten(name)}", "a name must not begin with @, # or $", "rename it"
            )
        if operator.type == EXPRESSION and name == "expr":
            words.append(f"{name}={write_string(str(value), bare=True)}")
        else:
            words.append(f"{name}={write_value(value)}")
    words += [f"@{name}={write_type(weight.shape, weight.dtype)}" for name, weight in operator.weights.items()]
    words += [f"${name}={blob}" for name, blob in operator.input_names.items()]
    for blob in operands:
        type = definition.blobs[blob]
        if type.shape is not None:
            _check_words(operator, (blob,), "=")
            words.append(f"#{blob}={write_type(type.shape, type.dtype)}")
    return " ".join(words)


def _check_words(operator: OperatorDefinition, words: tuple[str, ...], forbidden: str) -> None:
    for word in words:
        if not word or not word.isprintable() or " " in word or (forbidden and forbidden in word):
            raise _error(
                operator,
                f"the name {shorten(word)}",
                "a name in a .param file must be printable, without blanks"
                + f" and without {forbidden}" * bool(forbidden),
                "rename it before saving",
            )


def _error(operator: OperatorDefinition, problem: str, rule: str, fix: str) -> ExplorerError:
    return ExplorerError(f"operator {shorten(operator.name)} cannot be written: {problem}", rule=rule, fix=fix)


def _write_weights(definition: NetDefinition, file: IO[bytes], path: str, comment: bytes) -> None:
    references = [weight for operator in definition.operators for weight in operator.weights.values()]
    missing = [weight.key for weight in references if weight.key not in definition.weights]
    if missing:
        raise FileError(
            f"{counted_text(len(missing), 'weight')} without a value: {', '.join(missing)}",
            path=path,
            rule="every declared weight must have a value",
            fix="add them to the definition's weights first",
        )
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        archive.comment = comment
        for operator in definition.operators:
            for attribute, weight in operator.weights.items():
                raw = encode(definition.weights[weight.key], weight, path)
                entry = zipfile.ZipInfo(f"{operator.name}.{attribute}", _DATE)
                entry.file_size = raw.nbytes  # the size decides whether the entry needs ZIP64
                with archive.open(entry, "w") as target:
                    target.write(raw.reshape(-1).view(np.uint8).data)

"""Input and output arrays of commands, in ``.npz``, ``.npy`` and image files.

The names of outputs come from an untrusted model file, so they are used as file names only if they are harmless.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import tokenize
import zipfile
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import count, takewhile
from pathlib import Path
from typing import Any

import numpy as np

from explorer.cli.support import image_inputs
from explorer.cli.support.terminal import print_note
from explorer.core.errors import BudgetError, FileError, OperandError, UnknownNameError
from explorer.core.types.tensor_type import Array
from explorer.formats.common.npz import read_arrays
from explorer.formats.common.zip_limits import UNREADABLE
from explorer.net import Net
from explorer.net.definition.declared_types import shape_text
from explorer.record.escape import visible
from explorer.record.reasons import counted_text

_PLAIN = re.compile(r"[\w.\- ]*\w[\w.\- ]*")


def file_of(text: str) -> Path:
    """Return the path in an argument ``FILE`` or ``FILE:KEY,KEY``."""
    return _split(text)[0]


def _split(text: str) -> tuple[Path, list[str]]:
    # The path itself may contain a colon, for example after a Windows drive.
    if os.path.exists(text) or ":" not in text:
        return Path(text), []
    name, _, keys = text.rpartition(":")
    return Path(name), [key for key in keys.split(",") if key]


def read(text: str) -> dict[str, Array]:
    """Return the arrays of ``FILE.npz``, ``FILE.npz:KEY,KEY`` or ``FILE.npy`` by key; else raise FileError."""
    path, keys = _split(text)
    try:
        return read_arrays(path, keys)
    except (FileError, BudgetError, UnknownNameError):
        raise
    except UNREADABLE as error:
        cause = error.args[0] if isinstance(error, tokenize.TokenError) else error  # its position refers to the header
        raise FileError(
            f"this cannot be read as arrays: {cause}", path=str(path),
            rule="inputs must be .npz or .npy files, or pictures",
            fix='write one with np.savez("in.npz", x=array)',
        ) from None  # fmt: skip


def inputs(net: Net, options: argparse.Namespace) -> dict[str, Any]:
    """Return the net's inputs from ``--input`` files: images, or arrays by name or in order."""
    specs: list[str] = options.input
    pictures = [spec for spec in specs if image_inputs.is_picture(spec)]
    if not pictures:
        image_inputs.refuse_options(options)
        _check_count(net, specs)
        return _arrays(net, specs)
    if len(pictures) < len(specs):
        other = next(spec for spec in specs if spec not in pictures)
        raise OperandError(
            f"{pictures[0]} and {other}", rule="inputs must be all pictures or all arrays", fix=f"omit --input {other}"
        )
    return image_inputs.read(net, specs, options)


def _check_count(net: Net, specs: Sequence[str]) -> None:
    """Raise OperandError if a net with inputs has no ``--input``, or one without inputs has some."""
    if net.inputs and not specs:
        raise OperandError(
            f"no --input for net {net.name!r}",
            rule="each input must have an array; the inputs are "
            + ", ".join(f"{name!r} {shape_text(blob.shape)}" for name, blob in net.inputs.items()),
            fix='write them with np.savez("in.npz", name=array), and pass --input in.npz',
        )
    if specs and not net.inputs:
        raise OperandError(
            f"--input {specs[0]} for net {net.name!r}",
            rule="a net without inputs must be run without --input",
            fix=f"omit --input {specs[0]}",
        )


def _arrays(net: Net, specs: Sequence[str]) -> dict[str, Any]:
    """Match arrays to inputs by name if all names exist, otherwise in order if the counts agree.

    The elements of a sequence input ``x`` are the arrays ``x.0``, ``x.1``, …
    """
    pairs = [(key, array) for spec in specs for key, array in read(spec).items()]
    names = list(net.inputs)
    arrays: dict[str, Any] = dict(pairs)
    if len(arrays) == len(pairs):  # a name in two files does not identify its input
        for name, blob in net.inputs.items():
            if blob.is_sequence:
                members = takewhile(arrays.__contains__, (f"{name}.{index}" for index in count()))
                arrays[name] = [arrays.pop(key) for key in [*members]]
        if all(name in arrays for name in names):
            return {name: arrays[name] for name in names}
        pairs = [*arrays.items()]
    if len(pairs) == len(names):
        print_note(
            f"inputs in order: {', '.join(f'{key} as {name!r}' for (key, _), name in zip(pairs, names, strict=True))}"
        )
        return {name: array for name, (_, array) in zip(names, pairs, strict=True)}
    keys = [visible(key) for key, _ in pairs]
    too_few = len(pairs) < len(names)
    duplicate = next((key for key, times in Counter(key for key, _ in pairs).items() if times > 1), None)
    raise FileError(
        f"{counted_text(len(pairs), 'array')} for the input{'s' * (len(names) > 1)} "
        f"{', '.join(map(repr, names))}: {', '.join(keys[:12])}",
        path=", ".join(specs),
        rule="each input must have an array, matched by name or in order",
        fix=f"also pass the other inputs: --input {' --input '.join(map(visible, specs))} --input more.npz"
        if too_few
        else f"omit one of the files that contain {visible(duplicate)!r}"
        if duplicate is not None
        else f"select arrays: --input {visible(str(file_of(specs[0])))}:{','.join(keys[: len(names)])}",
    )


def members(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by name, with the elements of a sequence ``x`` as ``x.0``, ``x.1``, …"""
    named = {}
    for name, value in values.items():
        parts = {f"{name}.{index}": member for index, member in enumerate(value)} if isinstance(value, tuple) else {}
        named.update(parts if isinstance(value, tuple) else {name: value})
    return named


def npz(arrays: Mapping[str, Any]) -> bytes:
    """Return the bytes of a ``.npz`` file; a name that is not a plain file name becomes ``output_n``."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for number, (name, array) in enumerate(arrays.items()):
            # When the archive is unpacked, a name with a slash or ".." could write outside the target folder.
            entry = name if _PLAIN.fullmatch(name) and ".." not in name else f"output_{number}"
            if entry != name:
                print_note(f"output {name!r} is written as {entry!r}")
            # An entry's size is not known in advance; without ZIP64, zipfile fails beyond 2 GiB.
            with archive.open(f"{entry}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)
    return buffer.getvalue()

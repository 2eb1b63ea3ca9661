"""``save``: from a net to a model's file."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from explorer.core.errors import FileError
from explorer.formats import pnnx
from explorer.net import Net


def save(net: Net, path: str | os.PathLike[str]) -> None:
    """Write a net as ``x.param`` and ``x.bin``, with the weights that it has now; opening them gives an equal net.

    Both files are replaced as a whole. Raises FileError for another ending, and where a weight cannot be read.
    """
    given = Path(path)
    if given.suffix != ".param":
        raise FileError(
            f"the ending {given.suffix!r}" if given.suffix else "a name without an ending",
            path=str(given),
            rule="nets are written as x.param with x.bin beside it",
            fix=f"write to {given.stem}.pnnx.param",
        )
    weights = {
        reference.key: net.weights.tensor(operator.name, attribute).array
        for operator in net.definition.operators
        for attribute, reference in operator.weights.items()
    }
    pnnx.save(replace(net.definition, weights=weights), given)

"""Option ``--top``, which prints the largest elements of each output row with labels and probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from explorer.core.errors import FileError
from explorer.core.files.open_untrusted import content
from explorer.core.types.tensor_type import Array
from explorer.record.escape import visible
from explorer.record.reasons import counted_text

SOFTMAX = ("auto", "yes", "no")
_TOLERANCE = 1e-3
"""maximum difference between 1 and a sum of probabilities, which suffices for 1,000 classes in half precision"""


def labels_of(path: Path) -> list[str]:
    """Return the labels in a file, one per line, in class order."""
    try:
        text = content(path, what="the labels").decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(
            f"labels cannot be read: {error}",
            path=str(path),
            rule="the labels must be UTF-8 text, one per line",
            fix="convert the file: iconv -f latin1 -t utf-8",
        ) from None
    return [line.strip() for line in text.splitlines()]


def check_labels(labels: Sequence[str], path: Path, name: str, shape: Sequence[Any]) -> None:
    """Raise FileError if the number of labels differs from the known length of an output's last axis."""
    if shape and isinstance(shape[-1], int) and shape[-1] != len(labels):
        raise FileError(
            f"{counted_text(len(labels), 'label')} for the {shape[-1]} classes of output {name!r}", path=str(path),
            rule="the file must have one label per class, one per line", fix="complete the file, or omit --labels",
        )  # fmt: skip


def probabilities(array: Array, softmax: str) -> tuple[Array, str]:
    """Return an array as probabilities (rows, classes), and a note on the conversion, possibly "".

    With "auto", probabilities are kept, log probabilities exponentiated, and softmax is applied to anything else.
    """
    values = array.astype(np.float64)
    if softmax == "no" or array.dtype.kind not in "fiu" or array.ndim != 2 or array.shape[1] < 2:
        return array, ""
    if softmax == "auto" and array.dtype.kind == "f":
        if _sums_to_one(values):
            return array, ""
        if (values <= 0).all() and _sums_to_one(np.exp(values)):
            return np.exp(values), "exponentials applied: the net returns log probabilities"
    largest = values.max(axis=1, keepdims=True)
    if not np.isfinite(largest).all():
        return array, "no softmax applied: scores with inf or NaN, or with only −inf, have no probabilities"
    raised = np.exp(values - largest)
    return raised / raised.sum(axis=1, keepdims=True), "softmax applied: the net returns scores"


def _sums_to_one(values: Array) -> bool:
    return bool((values >= 0).all() and (np.abs(values.sum(axis=1) - 1) < _TOLERANCE).all())


def ranking(array: Array, count: int, labels: Sequence[str] = (), rows: Sequence[str] = ()) -> list[str]:
    """Return a line for each row with its ``count`` largest elements; ``rows`` are the rows' names."""
    flat = array.reshape(math.prod(array.shape[:-1]), array.shape[-1]) if array.ndim else array.reshape(1, 1)
    lines = []
    for number, row in enumerate(flat):
        # ~x reverses the order of integers and booleans without overflow
        largest = (~row if row.dtype.kind in "iub" else -row).argsort(kind="stable")[:count]
        cells = [f"{visible(labels[index]) if labels else index} {row[index]:.4g}" for index in largest]
        lines.append(f"  {visible(rows[number]) if len(rows) == len(flat) else number}: " + "  ".join(cells))
    return lines

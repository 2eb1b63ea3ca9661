"""Report on a notebook's cell whose outputs are others than the stored ones: the decisions that differ, no picture."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from textwrap import indent
from typing import Any

from explorer.record.escape import visible
from explorer.view.compare.decision_changes import text_changes

_MARKUP = ("image/", "text/html", "application/")
"""beginnings of MIME types whose values say nothing line by line"""
_FIX = (
    "if the change is meant: run the notebook anew and store it, "
    "jupyter nbconvert --to notebook --execute --inplace NOTEBOOK && explorer strip NOTEBOOK"
)


def failure_text(
    cell: int,
    source: str,
    stored: Mapping[str, Sequence[Any]],
    computed: Mapping[str, Sequence[Any]],
    reported: MutableMapping[tuple[str, ...], int] | None = None,
) -> str:
    """Return the report of a code cell, counted from 0; outputs are given by MIME type or name of the stream.

    ``reported`` has the differences of the notebook's cells before this one, with their numbers: differences that an
    earlier cell has, too, are listed there alone.
    """
    texts, others = [], []
    for key in dict.fromkeys([*stored, *computed]):
        before, after = stored.get(key, ()), computed.get(key, ())
        if len(before) != len(after):
            others.append(f"{key}: {len(before)} stored, {len(after)} computed")
        for output, new_output in zip(before, after, strict=False):
            if output == new_output:
                continue
            if key.startswith(_MARKUP) or not (isinstance(output, str) and isinstance(new_output, str)):
                others.append(f"{key} differs, too")
            else:
                texts += text_changes(output, new_output)
    changes = tuple(dict.fromkeys(texts))
    first = cell if reported is None or not changes else reported.setdefault(changes, cell)
    if first != cell:
        changes = (f"the same decisions differ as in cell {first}, whose report has them",)
    if not texts:
        others.insert(0, "every decision is as it is stored")
    lines = [f"Cell {cell}: the outputs are not those stored in the notebook", indent(source.rstrip(), "  > "), ""]
    lines = [line for part in (*lines, *changes) for line in part.split("\n")]
    # A notebook comes from elsewhere: its source, outputs and MIME types must not command a terminal.
    return "\n".join(map(visible, [*lines, *dict.fromkeys(others), "", _FIX]))

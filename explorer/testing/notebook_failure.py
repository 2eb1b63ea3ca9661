"""Report of a failed notebook cell, with the decisions that differ from the stored outputs."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from textwrap import indent
from typing import Any

from explorer.record.escape import visible
from explorer.view.compare.decision_changes import text_changes

_MARKUP = ("image/", "text/html", "application/")
"""prefixes of MIME types whose values are not compared line by line"""
_FIX = (
    "if the change is intended, run the notebook again and save it: "
    "jupyter nbconvert --to notebook --execute --inplace NOTEBOOK && explorer strip NOTEBOOK"
)


def failure_text(
    cell: int,
    source: str,
    stored: Mapping[str, Sequence[Any]],
    computed: Mapping[str, Sequence[Any]],
    reported: MutableMapping[tuple[str, ...], int] | None = None,
) -> str:
    """Return the report of code cell ``cell``; outputs are keyed by MIME type or stream name.

    ``reported`` maps differences already listed for earlier cells to the cells' numbers.
    """
    text_differences, others = [], []
    for key in dict.fromkeys([*stored, *computed]):
        before, after = stored.get(key, ()), computed.get(key, ())
        if len(before) != len(after):
            others.append(f"{key}: {len(before)} stored, {len(after)} computed")
        for output, new_output in zip(before, after, strict=False):
            if output == new_output:
                continue
            if key.startswith(_MARKUP) or not (isinstance(output, str) and isinstance(new_output, str)):
                others.append(f"{key} differs too")
            else:
                text_differences += text_changes(output, new_output)
    changes = tuple(dict.fromkeys(text_differences))
    first = cell if reported is None or not changes else reported.setdefault(changes, cell)
    if first != cell:
        changes = (f"the same decisions differ as in cell {first}; see its report",)
    if not text_differences:
        others.insert(0, "all decisions are the same as in the stored outputs")
    lines = [f"Cell {cell}: the outputs differ from those stored in the notebook", indent(source.rstrip(), "  > "), ""]
    lines = [line for part in (*lines, *changes) for line in part.split("\n")]
    # notebooks are untrusted, so control characters are escaped
    return "\n".join(map(visible, [*lines, *dict.fromkeys(others), "", _FIX]))

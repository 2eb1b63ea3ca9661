"""Supported opsets, and remedies for operator types of other opsets, such as ``Pad (opset 1)``."""

from __future__ import annotations

import re
from functools import cache

from onnx import defs

from explorer.net.operators.table import Remedy

OLDEST = 11
"""the first opset whose operators are all supported"""


@cache
def newest() -> int:
    """Return the newest opset of the installed onnx package."""
    return defs.onnx_opset_version()


def opset_remedy(type: str) -> Remedy | None:
    """Return the remedy for an operator type that includes its opset; None if the type is unknown in every opset."""
    if type.endswith(" (no opset)"):
        return Remedy("an ONNX file must declare the opset of its operators", "model.opset_import.add(version=13)")
    match = re.search(r" \(opset (-?[0-9]+)\)$", type)
    if match is None:
        return None
    opset = match[1]
    if not 0 < int(opset) < OLDEST:
        return Remedy(
            f"the opset, {opset}, must be between 1 and {newest()}, the newest opset of the installed onnx package",
            "pip install --upgrade onnx, or export the model again with one of these opsets",
        )
    return Remedy(
        f"operators must have the meaning of opset {OLDEST} or newer, but this model has opset {opset}, and the onnx "
        "package's converter could not upgrade it (for the reason see net.definition.metadata)",
        f"export the model again with opset {OLDEST} or newer, or fix the converter's error and save "
        "onnx.version_converter.convert_version(model, 13)",
    )

"""Opsets whose operators are read, and what helps with a file of another one.

A type that means something else in its file's opset carries the opset: ``Pad (opset 1)``, ``Relu (no opset)``.
"""

from __future__ import annotations

import re
from functools import cache

from onnx import defs

from explorer.net.operators.table import Remedy

OLDEST = 11
"""the first opset whose operators are all read"""


@cache
def newest() -> int:
    """Return the newest opset that the installed onnx package knows."""
    return defs.onnx_opset_version()


def remedy_of(type: str) -> Remedy | None:
    """Return what helps with a type that carries its opset, None for one that is unknown in every opset."""
    if type.endswith(" (no opset)"):
        return Remedy("an ONNX file must say the opset of its operators", "model.opset_import.add(version=13)")
    carried = re.search(r" \(opset (-?[0-9]+)\)$", type)
    if carried is None:
        return None
    opset = carried[1]
    if not 0 < int(opset) < OLDEST:
        return Remedy(
            f"the opset, {opset}, must be one from 1 to {newest()}, which the installed onnx package knows",
            "pip install --upgrade onnx, or export the model again with one of these opsets",
        )
    return Remedy(
        f"operators must mean what they mean in opset {OLDEST} or newer; this model is of opset {opset}, and the "
        "converter of the onnx package, by which it is upgraded as it opens, refused it (net.definition.doc says why)",
        f"export the model again with opset {OLDEST} or newer, or change what the converter names and save "
        "onnx.version_converter.convert_version(model, 13)",
    )

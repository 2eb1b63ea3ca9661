"""Signatures of ONNX operators: whether an opset can be read, and what its words mean.

ONNX versions operators by opset: a number that a file imports, for all operators at once. From opset 11 on, changes are
additions (an attribute became an input, more dtypes), which the builders read by name; what Softmax's
axis meant before opset 13 is written out as an argument. Older types that mean something else keep their opset in the
type's name, so that they are shown, and not run wrongly.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx import defs

from explorer.formats.common.onnx_words import FLATTENS
from explorer.formats.onnx.function_inlining import PlacedNode
from explorer.formats.onnx.operators.base.formal_names import domain_of
from explorer.formats.onnx.operators.base.opsets import OLDEST, newest
from explorer.net.definition.definition import Plain

_UNCHANGED = {"If": 1, "Loop": 1, "ReduceMean": 1, "Scan": 9}
"""operator types whose opset before the oldest one that is read says the same in other words → that opset"""
_SAMPLINGS = {"bilinear": "linear", "bicubic": "cubic"}
"""words of GridSample before opset 20 → those that it has since"""


def type_of(domain: str, name: str, opsets: Mapping[str, int]) -> str:
    """Return the operator type of a node: its name, after its domain where that is not ONNX's own.

    A type of an opset that means something else than the ones that are read carries it: ``Upsample (opset 7)``.
    """
    if domain_of(domain):
        return f"{domain}.{name}"
    opset = opsets.get("")
    if opset is None:
        return f"{name} (no opset)"
    if not 0 < opset <= newest():
        return f"{name} (opset {opset})"
    if opset < OLDEST and _since(name, opset) not in (_since(name, OLDEST), _UNCHANGED.get(name)):
        return f"{name} (opset {opset})"
    return name


def _since(name: str, opset: int) -> int | None:
    try:
        return defs.get_schema(name, opset).since_version
    except defs.SchemaError:
        return None


def upgraded(placed: PlacedNode, arguments: dict[str, Plain]) -> dict[str, Plain]:
    """Return a node's arguments; another meaning of its opset is written out."""
    is_old = placed.opsets.get("", 0) < 13 or FLATTENS in arguments
    if placed.node.op_type in ("Softmax", "LogSoftmax", "Hardmax") and is_old:
        return {"axis": 1, **arguments, FLATTENS: True}  # axis is 1 by default there, −1 from opset 13 on
    if placed.node.op_type == "GridSample" and not placed.node.domain and "mode" in arguments:
        mode = arguments["mode"]
        return {**arguments, "mode": _SAMPLINGS.get(mode, mode) if isinstance(mode, str) else mode}
    if placed.node.op_type == "RoiAlign" and not placed.node.domain and placed.opsets.get("", 0) < 16:
        # the attribute came with opset 16, whose default is another meaning
        return {"coordinate_transformation_mode": "output_half_pixel", **arguments}
    return arguments

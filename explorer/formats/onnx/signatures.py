"""Types and arguments of ONNX operators across opsets.

From opset 11 on, most changes are additions: new dtypes, and attributes that became inputs, which builders read under
the same name. Other differences are made explicit by arguments, for example the axis of Softmax before opset 13. If
explorer does not support an older meaning, the operator's type includes the opset; it is shown, but running it raises
an error.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnx import defs

from explorer.formats.common.onnx_names import FLATTENS
from explorer.formats.onnx.function_inlining import ExpandedNode
from explorer.formats.onnx.operators.base.formal_names import domain_of
from explorer.formats.onnx.operators.base.opsets import OLDEST, newest
from explorer.net.definition.definition import Plain

_UNCHANGED = {"If": 1, "Loop": 1, "ReduceMean": 1, "Scan": 9}
"""older versions of operators that have another signature than in the oldest supported opset, but the same meaning"""
_GRID_SAMPLE_MODES = {"bilinear": "linear", "bicubic": "cubic"}
"""GridSample's modes since opset 20, by their older names"""


def type_of(domain: str, name: str, opsets: Mapping[str, int]) -> str:
    """Return a node's operator type: its name, prefixed with its domain unless it is the standard domain.

    If explorer does not support the meaning in this opset, the type includes the opset: ``Upsample (opset 7)``.
    """
    if domain_of(domain):
        return f"{domain}.{name}"
    opset = opsets.get("")
    if opset is None:
        return f"{name} (no opset)"
    if not 0 < opset <= newest():
        return f"{name} (opset {opset})"
    if opset < OLDEST and _since_version(name, opset) not in (_since_version(name, OLDEST), _UNCHANGED.get(name)):
        return f"{name} (opset {opset})"
    return name


def _since_version(name: str, opset: int) -> int | None:
    try:
        return defs.get_schema(name, opset).since_version
    except defs.SchemaError:
        return None


def upgraded_arguments(placed: ExpandedNode, arguments: dict[str, Plain]) -> dict[str, Plain]:
    """Return a node's arguments, with the defaults and meanings of older opsets made explicit."""
    is_old = placed.opsets.get("", 0) < 13 or FLATTENS in arguments
    if placed.node.op_type in ("Softmax", "LogSoftmax", "Hardmax") and is_old:
        return {"axis": 1, **arguments, FLATTENS: True}  # the default axis is 1 before opset 13, −1 since then
    if placed.node.op_type == "GridSample" and not placed.node.domain and "mode" in arguments:
        mode = arguments["mode"]
        return {**arguments, "mode": _GRID_SAMPLE_MODES.get(mode, mode) if isinstance(mode, str) else mode}
    if placed.node.op_type == "RoiAlign" and not placed.node.domain and placed.opsets.get("", 0) < 16:
        # opset 16 added the attribute, with a default that differs from the previous behaviour
        return {"coordinate_transformation_mode": "output_half_pixel", **arguments}
    return arguments

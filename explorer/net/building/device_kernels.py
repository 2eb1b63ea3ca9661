"""Check of a net's operators on a device: each operation must have a kernel there, before anything runs.

A net on a GPU would else fail in the middle of a run, after minutes perhaps, with an error that names an operation and
no line of the file.
"""

from __future__ import annotations

from explorer.core.ir.expr import Expr
from explorer.core.ir.kernel_registry import runs_on
from explorer.core.ir.traversal import reachable
from explorer.core.types.device import cpu
from explorer.net.building.builder import Build
from explorer.net.definition.definition import OperatorDefinition, graph_error


def check_kernels(build: Build) -> None:
    """Raise an error that names the first operator with an operation that its device cannot do."""
    for node in reachable(build.roots):
        device = node.type.device
        if device is cpu or runs_on(node.operation, device):
            continue
        operator = _operator_of(node)
        which = "" if operator is None else f"operator {operator.name!r} ({operator.type}): "
        raise graph_error(
            build.definition.source,
            operator,
            f"{which}{node.operation.name} on {device.name}",
            rule="an operation must have a kernel registered for the device that it runs on",
            fix=f"net.to_device('cpu'), or @explorer.kernel({node.operation.name!r}, on={device.name})",
        )


def _operator_of(node: Expr) -> OperatorDefinition | None:
    """Return the operator of a file in whose box a node is."""
    box = node.scope
    while box is not None and not isinstance(box.payload, OperatorDefinition):
        box = box.parent
    return None if box is None else box.payload

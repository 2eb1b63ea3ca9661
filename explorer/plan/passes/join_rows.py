"""Join rows: kernels that compute the same rows become one kernel, whose C code keeps values in the cache.

A kernel joins the kernel that reads its result if nothing else reads it, and if both compute the same rows: elements of
one shape, and sums, means or extrema along the same axes. A layer norm is five kernels before, and one afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from explorer.core.ir.expr import Expr
from explorer.core.types.device import cpu
from explorer.core.types.tensor_type import TensorType
from explorer.plan.codegen.elements import has_rows
from explorer.plan.codegen.generate import kernel_code
from explorer.plan.codegen.kernel_code import KernelSpec, Obstacle
from explorer.plan.codegen.row_lines import rows_of
from explorer.plan.graph.compiled_price import price
from explorer.plan.graph.constancy import Prepared
from explorer.plan.graph.pass_base import Pass
from explorer.plan.graph.plan_graph import PlanGraph
from explorer.plan.graph.reasons import Reason

_OPERATIONS = 100
"""maximum number of operations in a joined kernel"""


@dataclass(eq=False, slots=True)
class _Cluster:
    """Kernels that may become one, from the last to the first."""

    parts: list[list[Expr]]
    is_prepared: bool
    count: int = field(default=0)


@dataclass(frozen=True)
class JoinRows(Pass):
    """Join kernels that compute the same rows, so that values between them are not written to memory."""

    name = "join_rows"
    joined = Reason(
        "joined",
        "`{operations}` are one kernel instead of {kernels}, because they compute the same {rows:row} of "
        "{length:element}, so values between them are not written to memory.",
        meaning="A kernel is one operation, or several fused ones. A row consists of the elements that a reduction "
        "such as a mean combines. Separate kernels each read and write all rows; decisions before this one are about "
        "them.",
        change='ex.EvalPlan(kernels="numpy") runs them as separate kernels.',
    )

    def has_work(self, graph: PlanGraph) -> bool:
        """Return whether an operation combines the elements of rows."""
        return any(has_rows(node.operation) for node in graph.live)

    def run(self, graph: PlanGraph) -> None:
        """Join each kernel with the kernel that reads it, from the last kernel to the first."""
        inputs, prepared = graph.inputs, graph.notes(Prepared)
        roots = {root.uid for root in graph.roots}
        cluster_of: dict[int, _Cluster] = {}
        clusters: list[_Cluster] = []
        for part in _kernels(graph):
            result, is_prepared = part[-1], part[-1].uid in prepared
            readers = graph.readers(result)
            reading = {id(cluster_of.get(reader.uid)): cluster_of.get(reader.uid) for reader in readers}
            cluster = next(iter(reading.values())) if len(reading) == 1 and result.uid not in roots else None
            if cluster is None or not _fits(part, is_prepared, cluster, graph):
                cluster = _Cluster([], is_prepared)
                clusters.append(cluster)
            cluster.parts.append(part)
            cluster.count += len(part)
            for node in part:
                cluster_of[node.uid] = cluster
        for cluster in reversed(clusters):
            nodes = _nodes(cluster)
            rows = rows_of(nodes, lambda node: inputs[node.uid])
            if len(cluster.parts) < 2 or rows is None:
                continue
            size = graph.inputs[next(node for node in nodes if has_rows(node.operation)).uid][0].size
            if not price(nodes, lambda node: inputs[node.uid]).pays:
                continue
            order = range(len(nodes[-1].shape))
            if isinstance(kernel_code(KernelSpec(nodes, lambda node: inputs[node.uid], "rows", order)), Obstacle):
                continue
            labels = " · ".join(dict.fromkeys(node.operation.label for node in nodes))
            facts = {
                "operations": labels,
                "kernels": len(cluster.parts),
                "rows": size // rows.length,
                "length": rows.length,
            }
            graph.join(graph.decide(self, self.joined, facts, nodes), nodes, labels)


def _kernels(graph: PlanGraph) -> Iterator[list[Expr]]:
    """Yield the nodes of each kernel that may compute rows, from the last kernel to the first."""
    fused = {group.members[-1].uid: group.members for group in graph.groups if group.kind == "kernel"}
    inner = {node.uid for members in fused.values() for node in members[:-1]}
    for node in reversed(graph.live):
        if node.uid not in inner and not node.operation.view and graph.inputs[node.uid]:
            members = fused.get(node.uid, [node])
            if all(
                isinstance(each.type, TensorType)
                and each.type.plain
                and each.type.device is cpu
                and (each.operation.elementwise or has_rows(each.operation))
                for each in members
            ):
                yield members


def _nodes(cluster: _Cluster) -> list[Expr]:
    """Return the nodes of a cluster in topological order."""
    return [node for part in reversed(cluster.parts) for node in part]


def _fits(part: list[Expr], is_prepared: bool, cluster: _Cluster, graph: PlanGraph) -> bool:
    """Return whether a kernel may join a cluster, as far as its rows are known."""
    if cluster.is_prepared != is_prepared or cluster.count + len(part) > _OPERATIONS:
        return False
    nodes = [*part, *_nodes(cluster)]
    return _are_rows(nodes, graph) if any(has_rows(node.operation) for node in nodes) else _are_broadcast(nodes)


def _are_broadcast(nodes: list[Expr]) -> bool:
    """Return whether all values have the axes of the last one, some with size 1."""
    shape = nodes[-1].shape
    return all(
        len(node.shape) == len(shape) and all(size in (1, most) for size, most in zip(node.shape, shape, strict=True))
        for node in nodes
    )


def _are_rows(nodes: list[Expr], graph: PlanGraph) -> bool:
    """Return whether values are one number per element or per row, and only numbers per row are broadcast."""
    inputs, inside = graph.inputs, {node.uid for node in nodes}
    rows = rows_of(nodes, lambda node: inputs[node.uid])
    if rows is None or rows.length < 2:
        return False
    flat = tuple([size for axis, size in enumerate(rows.shape) if axis not in rows.axes])
    if any(node.shape not in (rows.shape, rows.kept, flat) for node in nodes):
        return False
    shapes = {
        (operand.shape, node.shape)
        for node in nodes
        for operand in inputs[node.uid]
        if operand.uid in inside and node.operation.elementwise and operand.shape != node.shape
    }
    return shapes <= {(rows.kept, rows.shape)}

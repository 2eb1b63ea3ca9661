"""Digests of a program's results, from the nodes of a recording and from ONNX files, to compare their graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

import onnx
from onnx import TensorProto, helper

from explorer.record import Recording
from explorer.runtimes.onnx_file import read_names

_Key = TypeVar("_Key", int, str)


def digests_of_stages(recording: Recording) -> dict[str, str]:
    """Return stage → digest of the results at its end."""
    nodes = recording.nodes
    found: dict[str, str] = {}
    for stage in recording.stages:
        if stage.kind not in ("record", "rewrite"):
            continue
        final = recording.resolver(stage.last)
        own: dict[int, tuple[str, tuple[int, ...]]] = {}
        for node in range(len(nodes)):
            reads = tuple([final.get(operand, operand) for operand in nodes.operands[node]])
            operation = recording.operations[nodes.operation[node]]
            if nodes.kind[node] in ("leaf", "constant"):
                operation = f"leaf {recording.type_of(node).shape} {recording.type_of(node).dtype}"
            elif nodes.kind[node] == "item":
                operation = f"item {nodes.attributes[node]['index']}"
            own[node] = operation, reads
        found[stage.name] = _digests([final.get(root, root) for root in recording.roots], own.__getitem__)
    return found


def digests_of_graphs(folder: Path) -> set[str]:
    """Return the digests of the results of the ONNX files in a folder."""
    return {_digest_of(onnx.load(path, load_external_data=False)) for path in folder.glob("*.onnx")}


def _digest_of(model: onnx.ModelProto) -> str:
    graph = model.graph
    leaves: dict[str, str] = {}
    for tensor in graph.initializer:
        leaves[tensor.name] = f"leaf {tuple(tensor.dims)} {_dtype(tensor)}"
    for value in graph.input:
        kind = value.type.tensor_type
        shape = tuple([length.dim_value for length in kind.shape.dim])
        leaves.setdefault(value.name, f"leaf {shape} {helper.tensor_dtype_to_np_dtype(kind.elem_type)}")
    made: dict[str, tuple[str, tuple[str, ...]]] = {}
    for number, node in enumerate(graph.node):
        if node.op_type == "Constant":
            [tensor] = [attribute.t for attribute in node.attribute]
            leaves[node.output[0]] = f"leaf {tuple(tensor.dims)} {_dtype(tensor)}"
            continue
        operation = f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
        reads = tuple([name for name in read_names(node) if name])
        results = [name for name in node.output if name]
        if len(results) == 1:
            made[results[0]] = operation, reads
            continue
        made[f"node {number}"] = operation, reads
        for index, name in enumerate(results):
            made[name] = f"item {index}", (f"node {number}",)
    rows: Mapping[str, tuple[str, tuple[str, ...]]] = {**{name: (leaf, ()) for name, leaf in leaves.items()}, **made}
    return _digests([value.name for value in graph.output], rows.__getitem__)


def _dtype(tensor: TensorProto) -> str:
    return str(helper.tensor_dtype_to_np_dtype(tensor.data_type))


def _digests(roots: Sequence[_Key], row: Callable[[_Key], tuple[str, tuple[_Key, ...]]]) -> str:
    done: dict[_Key, str] = {}
    pending = [*roots]
    while pending:
        key = pending[-1]
        operation, reads = row(key)
        missing = [read for read in reads if read not in done]
        if missing:
            pending += missing
            continue
        pending.pop()
        done[key] = blake2b("|".join([operation, *[done[read] for read in reads]]).encode(), digest_size=8).hexdigest()
    return " ".join([done[root] for root in roots])

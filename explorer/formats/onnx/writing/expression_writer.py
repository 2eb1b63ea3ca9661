"""Conversion of expressions, from a net of another dialect or from the user, to a model.

Names of inputs, outputs, blobs and weights are kept. Boxes become paths in node names, as in torch's exporter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import ModelProto

from explorer.core.errors import OperandError
from explorer.core.ir.expr import Expr
from explorer.core.ir.traversal import reachable
from explorer.formats.onnx.writing import operations  # noqa: F401 - declares how each operation is written
from explorer.formats.onnx.writing.node_writer import Counterparts, GraphWriter
from explorer.formats.onnx.writing.written_model import Model, value_info


def model_of(
    name: str,
    inputs: Mapping[str, Expr],
    outputs: Mapping[str, Expr],
    wanted: Mapping[int, str] | None = None,
    counterparts: Counterparts | None = None,
) -> tuple[Model, ModelProto]:
    """Return the model of expressions; raise OperandError if ONNX cannot represent an operation.

    ``inputs`` maps names in the file to parameters. ``wanted`` maps uids of other values to names.
    """
    counterparts = counterparts or Counterparts()
    taken = [*inputs, *outputs]
    model = Model(name, inputs)
    graph = GraphWriter(model, counterparts, {uid: each for uid, each in (wanted or {}).items() if each not in taken})
    duplicate = next((each for each in outputs if each in inputs and inputs[each].uid != outputs[each].uid), None)
    if duplicate is not None:
        raise OperandError(
            f"{duplicate!r} names an input and another output",
            rule="an output may only have the name of an input if it is that input",
            fix="give the output another name",
        )
    for each, node in inputs.items():
        graph.values[node.uid] = each
        for axis, size in enumerate(counterparts.shape(node)):
            if isinstance(size, str):
                graph.sources.setdefault(size, (each, axis))
    graph.wanted = {**graph.wanted, **_output_names(outputs, inputs)}
    graph.write(reachable(outputs.values()))
    for each, node in outputs.items():
        if graph.values[node.uid] != each:
            graph.node("Identity", str(graph.values[node.uid]), wanted=each)
    model_proto = model.proto(
        graph.nodes,
        [value_info(each, graph.type(node)) for each, node in inputs.items()],
        [value_info(each, graph.type(node)) for each, node in outputs.items()],
        "",
    )
    return model, model_proto


def _output_names(outputs: Mapping[str, Expr], inputs: Mapping[str, Expr]) -> dict[int, str]:
    """Return output names by uid; a value with several names gets the first one, and inputs keep their names."""
    input_uids = {node.uid for node in inputs.values()}
    return {
        node.uid: each for each, node in reversed([*outputs.items()]) if node.uid not in input_uids and node.operands
    }


def parameters_of(roots: Sequence[Expr]) -> dict[str, Expr]:
    """Return the parameters that expressions need, keyed by unique names."""
    from explorer.core.ir.function import Parameter

    nodes = [node for node in reachable(roots) if isinstance(node.operation, Parameter)]
    names = [node.operation.label for node in nodes]
    return {
        name if names.count(name) == 1 else f"{name} ({names[:index].count(name) + 1})": node
        for index, (name, node) in enumerate(zip(names, nodes, strict=True))
    }

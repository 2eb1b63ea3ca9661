"""From expressions to a model: those of a net of another dialect, or a user's own.

Names of inputs, outputs, blobs and weights stay; boxes become the paths in nodes' names, as torch's exporter writes
them. Nothing is written before all of it is known to have an ONNX form.
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


def written(
    name: str,
    inputs: Mapping[str, Expr],
    outputs: Mapping[str, Expr],
    wanted: Mapping[int, str] | None = None,
    counterparts: Counterparts | None = None,
) -> tuple[Model, ModelProto]:
    """Return the model of expressions; raises OperandError for an operation that no file can hold.

    ``inputs`` are parameters by the names that they get; ``wanted`` names other values, by uid.
    """
    counterparts = counterparts or Counterparts()
    taken = [*inputs, *outputs]
    model = Model(name, inputs)
    graph = GraphWriter(model, counterparts, {uid: each for uid, each in (wanted or {}).items() if each not in taken})
    doubled = next((each for each in outputs if each in inputs and inputs[each].uid != outputs[each].uid), None)
    if doubled is not None:
        raise OperandError(
            f"{doubled!r} names an input and another output",
            rule="an output must have the name of an input only where it is that input",
            fix="give the output another name",
        )
    for each, node in inputs.items():
        graph.values[node.uid] = each
        for axis, size in enumerate(counterparts.shape(node)):
            if isinstance(size, str):
                graph.sources.setdefault(size, (each, axis))
    graph.wanted = {**graph.wanted, **_of_outputs(outputs, inputs)}
    graph.write(reachable(outputs.values()))
    for each, node in outputs.items():
        if graph.values[node.uid] != each:
            graph.node("Identity", str(graph.values[node.uid]), wanted=each)
    whole = model.whole(
        graph.nodes,
        [value_info(each, graph.type(node)) for each, node in inputs.items()],
        [value_info(each, graph.type(node)) for each, node in outputs.items()],
        "",
    )
    return model, whole


def _of_outputs(outputs: Mapping[str, Expr], inputs: Mapping[str, Expr]) -> dict[int, str]:
    """Return the names of outputs by uid, the first one of a value that is there twice; inputs keep theirs."""
    input_uids = {node.uid for node in inputs.values()}
    return {
        node.uid: each for each, node in reversed([*outputs.items()]) if node.uid not in input_uids and node.operands
    }


def parameters_of(roots: Sequence[Expr]) -> dict[str, Expr]:
    """Return the parameters that expressions need, by their titles."""
    from explorer.core.ir.function import Parameter

    nodes = [node for node in reachable(roots) if isinstance(node.operation, Parameter)]
    names = [node.operation.label for node in nodes]
    return {
        name if names.count(name) == 1 else f"{name} ({names[:place].count(name) + 1})": node
        for place, (name, node) in enumerate(zip(names, nodes, strict=True))
    }

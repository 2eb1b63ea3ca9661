"""Control flow: choices, loops and scans with inner graphs, and delegated operators as they were read.

ONNX's inner graphs see the values around them by name, so that captured operands are no inputs of theirs. What inner
graphs hand out must be values of their own: one that is only passed through gets an operator that copies it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.formats.onnx.writing.node_writer import GraphWriter, scalar, unwritten, written


def _results(node: Any) -> int:
    return len(node.operation.body.outputs)


@written("cond")
def cond(graph: GraphWriter, node: Any, *names: str) -> Any:
    """A choice between two inner graphs, which read what they need from outside."""
    operation = node.operation
    counterpart = graph.counterpart(node).operation
    branches = {}
    for name, call, other in zip(("then_branch", "else_branch"), operation.branches, counterpart.branches, strict=True):
        inner = GraphWriter(graph.model, graph.counterparts)
        inner.sources = graph.sources
        result = inner.call(call, other, names[1:])
        each = inner.owned([result] if isinstance(result, str) else result)
        branches[name] = inner.proto(name, [], list(zip(each, call.body.outputs, strict=True)))
    return graph.node("If", names[0], outputs=_results(node), **branches)


@written("while_loop")
def while_loop(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Turns over a state as long as a condition holds."""
    operation = node.operation
    size = operation.state_size
    counterpart = graph.counterpart(node).operation
    body, count = operation.body, 1 + size
    inner, inputs = graph.graph(body.name, body, counterpart.body, names[1 + size :], count=count)
    outputs = inner.owned([str(inner.values[output.uid]) for output in body.outputs])
    whole = inner.proto(
        body.name, list(zip(inputs, body.parameters, strict=False)), list(zip(outputs, body.outputs, strict=True))
    )
    whole.input.insert(0, scalar(graph.model.free(f"{body.name}/turn"), np.int64))
    return graph.node("Loop", "", names[0], *names[1 : 1 + size], outputs=size, body=whole)


@written("scan", "recurrence")
def scan(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Steps over the elements of sequences, from one state to the next."""
    operation = node.operation
    counterpart = graph.counterpart(node).operation
    states, sequences, captured = operation.parts(names)
    if not sequences:
        # a scan of ONNX has a sequence; the numbers of the steps are one, which nobody reads
        if operation.length != counterpart.length:
            raise graph.depends(node, "the number of its steps")
        sequences = [graph.constant(np.arange(operation.length))]
    inner, inputs = graph.graph(
        operation.body.name, operation.body, counterpart.body, captured, count=operation.states + len(operation.axes)
    )
    parameters = list(zip(inputs, operation.body.parameters, strict=False))
    outputs = inner.owned([str(inner.values[output.uid]) for output in operation.body.outputs])
    body = inner.proto(operation.body.name, parameters, list(zip(outputs, operation.body.outputs, strict=True)))
    if not operation.axes:
        body.input.append(scalar(graph.model.free(f"{operation.body.name}/step"), np.int64))
    count, stacked = len(sequences), _results(node) - operation.states
    direction = int(operation.reverse)
    return graph.node(
        "Scan",
        *states,
        *sequences,
        outputs=_results(node),
        num_scan_inputs=count,
        scan_input_axes=list(operation.axes) or None,
        scan_output_axes=list(operation.out_axes) or None,
        scan_input_directions=[direction] * count,
        scan_output_directions=[direction] * stacked if stacked else None,
        body=body,
    )


@written("delegated")
def delegated(graph: GraphWriter, node: Any, *names: str) -> Any:
    """An operator that the onnx package computes: the node that was read."""
    operation = node.operation
    operands = iter(names)
    inputs = [next(operands) if there else "" for there in operation.is_given]
    return graph.node(operation.kind, *inputs, outputs=len(operation.results), **dict(operation.arguments))


@written("opaque")
def opaque(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Refuse an operator that cannot run."""
    raise graph.refuse(node, "it cannot run")


unwritten("what it repeats or chooses from is known, and its results are not", "opaque_call")
unwritten("a mapped call is what a plan makes of equal calls, and is not recorded by users", "mapped_call")
unwritten("a plan makes it of a mapped call for workers, and it is not recorded by users", "part_call")
unwritten("ONNX keeps trees in the attributes of an operator, which a net opened from a file has", "decision_trees")
unwritten("ONNX has it within encoders and vectorizers alone", "lookup", "ngram_counts")
unwritten("ONNX Runtime has an operator, and the standard has none", "tokenize", "murmur_hash", "inverse")
unwritten("TensorFlow Lite rounds it by rules of its own", "over_norm")
unwritten("ONNX has it within support vector machines alone", "coupled_probabilities")
unwritten("it is written with the operation that it belongs to", "call", "item", "parameter", "tensor")

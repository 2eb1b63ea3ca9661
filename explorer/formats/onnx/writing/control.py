"""Writers of control flow (choices, loops, scans) with inner graphs, and of delegated operators.

Inner graphs read outer values by name, so captured operands are not inputs. An inner graph must compute all of its
outputs, so an Identity node copies each value that is only passed through.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.formats.onnx.writing.node_writer import GraphWriter, scalar, unsupported, writes


def _results(node: Any) -> int:
    return len(node.operation.body.outputs)


@writes("cond")
def cond(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write a choice between two inner graphs."""
    operation = node.operation
    counterpart = graph.counterpart(node).operation
    branches = {}
    for name, call, other in zip(("then_branch", "else_branch"), operation.branches, counterpart.branches, strict=True):
        inner = GraphWriter(graph.model, graph.counterparts)
        inner.sources = graph.sources
        result = inner.call(call, other, names[1:])
        each = inner.own_outputs([result] if isinstance(result, str) else result)
        branches[name] = inner.proto(name, [], list(zip(each, call.body.outputs, strict=True)))
    return graph.node("If", names[0], outputs=_results(node), **branches)


@writes("while_loop")
def while_loop(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write a loop that updates a state while a condition is true."""
    operation = node.operation
    size = operation.state_size
    counterpart = graph.counterpart(node).operation
    body, count = operation.body, 1 + size
    inner, inputs = graph.graph(body.name, body, counterpart.body, names[1 + size :], count=count)
    outputs = inner.own_outputs([str(inner.values[output.uid]) for output in body.outputs])
    whole = inner.proto(
        body.name, list(zip(inputs, body.parameters, strict=False)), list(zip(outputs, body.outputs, strict=True))
    )
    whole.input.insert(0, scalar(graph.model.unused_name(f"{body.name}/iteration"), np.int64))
    return graph.node("Loop", "", names[0], *names[1 : 1 + size], outputs=size, body=whole)


@writes("scan", "recurrence")
def scan(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write a scan over sequences that updates a state."""
    operation = node.operation
    counterpart = graph.counterpart(node).operation
    states, sequences, captured = operation.parts(names)
    if not sequences:
        # ONNX's Scan requires a sequence, so step numbers that nothing reads serve as one.
        if operation.length != counterpart.length:
            raise graph.dependency_error(node, "the number of its steps")
        sequences = [graph.constant(np.arange(operation.length))]
    inner, inputs = graph.graph(
        operation.body.name, operation.body, counterpart.body, captured, count=operation.states + len(operation.axes)
    )
    parameters = list(zip(inputs, operation.body.parameters, strict=False))
    outputs = inner.own_outputs([str(inner.values[output.uid]) for output in operation.body.outputs])
    body = inner.proto(operation.body.name, parameters, list(zip(outputs, operation.body.outputs, strict=True)))
    if not operation.axes:
        body.input.append(scalar(graph.model.unused_name(f"{operation.body.name}/step"), np.int64))
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


@writes("delegated")
def delegated(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Write a delegated operator as the node that was read from the file."""
    operation = node.operation
    operands = iter(names)
    inputs = [next(operands) if there else "" for there in operation.is_given]
    return graph.node(operation.kind, *inputs, outputs=len(operation.results), **dict(operation.arguments))


@writes("opaque")
def opaque(graph: GraphWriter, node: Any, *names: str) -> Any:
    """Reject an operator that cannot run."""
    raise graph.unsupported_error(node, "it cannot run")


unsupported("the types of its results are not known", "opaque_call")
unsupported("only recordings of runtimes contain it; save the net instead", "runtime_operator")
unsupported("only plans create it, by merging equal calls", "mapped_call")
unsupported("only plans create it, by splitting mapped calls between workers", "part_call")
unsupported("ONNX stores trees in an operator's attributes, which only nets opened from files have", "decision_trees")
unsupported("ONNX has it only as a part of encoders and vectorizers", "lookup", "ngram_counts")
unsupported("ONNX Runtime has an operator, but the standard has none", "tokenize", "murmur_hash", "inverse")
unsupported("TensorFlow Lite has its own rounding rules for it", "over_norm")
unsupported("ONNX has it only as a part of support vector machines", "coupled_probabilities")
unsupported("it is written together with another operation", "call", "item", "parameter", "tensor")

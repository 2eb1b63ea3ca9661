"""Metadata of ONNX files: what the model, its graph, functions, nodes and values state about themselves."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, StringStringEntryProto

from explorer.formats.common.onnx_names import FUNCTION, GRAPH, INPUT, OUTPUT
from explorer.formats.onnx.operators.base.formal_names import domain_of
from explorer.record.reasons import counted_text

Pairs = tuple[tuple[str, str], ...]


def description(model: ModelProto, graph: GraphProto) -> str:
    """Return the descriptions of a model and its graph, on separate lines."""
    return "\n".join(dict.fromkeys(filter(None, (model.doc_string, graph.doc_string))))


def model_metadata(model: ModelProto, remark: str, upgraded_from: int = 0) -> Pairs:
    """Return what a model states about itself, with ``remark`` as a note.

    ``upgraded_from`` is the standard's opset in the file if the model was upgraded.

    These are its producer, versions and metadata, the metadata of its graph, inputs and outputs, and its functions.
    """
    pairs = [
        ("producer", f"{model.producer_name} {model.producer_version}".strip()),
        ("domain", model.domain),
        ("model version", str(model.model_version or "")),
        ("opsets", _opsets(model, upgraded_from)),
        ("IR version", str(model.ir_version or "")),
        ("note", remark),
        *_entries(model.metadata_props),
        *[(f"{GRAPH}{key}", value) for key, value in _entries(model.graph.metadata_props)],
        *_ends(model.graph),
    ]
    for function in model.functions:
        pairs += _function(function)
    return tuple([(name, value) for name, value in pairs if value])


def _opsets(owner: ModelProto | FunctionProto, upgraded_from: int = 0) -> str:
    versions = [(domain_of(opset.domain), opset.version) for opset in owner.opset_import]
    sets = [f"{domain} {version}" if domain else f"ONNX {upgraded_from or version}" for domain, version in versions]
    return ", ".join(sets)


def _entries(entries: Iterable[StringStringEntryProto]) -> list[tuple[str, str]]:
    return [(entry.key, entry.value) for entry in entries]


def _ends(graph: GraphProto) -> Iterator[tuple[str, str]]:
    """Yield what the file states about the inputs and outputs of a graph."""
    values = value_metadata(graph)
    initializers = {tensor.name for tensor in graph.initializer}
    for word, ends in ((INPUT, graph.input), (OUTPUT, graph.output)):
        for name in [value.name for value in ends if value.name not in initializers]:
            for key, value in values.get(name, ()):
                yield f"{word}{name}: {key}", value


def _function(function: FunctionProto) -> Iterator[tuple[str, str]]:
    """Yield what a function states about itself."""
    overload = f":{function.overload}" if function.overload else ""
    name = f"{FUNCTION}{function.domain}.{function.name}{overload}"
    yield name, f"{counted_text(len(function.node), 'node')}, opsets {_opsets(function) or 'of the model'}"
    yield f"{name}: description", function.doc_string
    for key, value in _entries(function.metadata_props):
        yield f"{name}: {key}", value


def value_metadata(graph: GraphProto) -> dict[str, Pairs]:
    """Return the descriptions and metadata of a graph's values, by name; values without any have no entry."""
    found = {}
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer):
        if value.doc_string or value.metadata_props:
            pairs = [("description", value.doc_string), *_entries(value.metadata_props)]
            found[value.name] = tuple([(key, text) for key, text in pairs if text])
    for annotation in graph.quantization_annotation:
        pairs = _entries(annotation.quant_parameter_tensor_names)
        found[annotation.tensor_name] = (*found.get(annotation.tensor_name, ()), *pairs)
    return found


def node_metadata(node: NodeProto, values: Mapping[str, Pairs], weights: Container[str]) -> Pairs:
    """Return the metadata of a node, of the values that it writes, and of those of ``weights`` that it reads."""
    own = tuple(_entries(node.metadata_props)) if node.metadata_props else ()
    if not values:
        return own
    names = [*node.output, *[name for name in node.input if name in weights]]
    named = [(name, values[name]) for name in names if name in values]
    return (*own, *[(f"{name}: {key}", value) for name, pairs in named for key, value in pairs])

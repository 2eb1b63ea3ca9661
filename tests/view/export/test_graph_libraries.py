"""Graphs for other libraries: NetworkX gets objects, and reads the GraphML file."""

from __future__ import annotations

import io

import networkx
import pytest

import explorer as ex
from explorer.record import Recording
from explorer.record.escape import visible
from explorer.view.export.graph_at import attributes, graph_at
from explorer.view.export.graphml import graphml
from explorer.view.export.networkx_graph import to_networkx
from tests.view import sample


def squared() -> Recording:
    """Return a recording in which one operation reads a value twice, and one reads it in another order."""
    x, y = ex.tensor([1.0, 2.0], name="x"), ex.tensor([3.0, 4.0], name="y")
    plan = ex.EvalPlan(without="simplify")
    plan.register((x * x) / (y - x))
    plan.prepare()
    return plan.recording


@pytest.mark.spec("H-7")
@pytest.mark.parametrize("recording", [sample.mlp(), squared()], ids=["mlp", "squared"])
def test_networkx_has_every_node_edge_and_attribute(recording: Recording) -> None:
    """It is a directed acyclic graph, and the key of an edge is the operand's index."""
    graph = to_networkx(recording)
    assert networkx.is_directed_acyclic_graph(graph)
    for node, data in graph.nodes(data=True):
        assert data["label"] == visible(recording.label(node))
        assert data["bytes"] == recording.nodes.bytes[node]
    final = recording.resolver(recording.end)
    for producer, reader, index in graph.edges(keys=True):
        operand = recording.nodes.operands[reader][index]
        assert final.get(operand, operand) == producer
    kinds = recording.nodes.kind  # a constant is a part of the label of its reader
    read = [operand for node in graph for operand in recording.nodes.operands[node] if kinds[operand] != "constant"]
    assert len(graph.edges) == len(read)


@pytest.mark.spec("H-7")
def test_a_value_that_is_read_twice_has_two_edges() -> None:
    graph = to_networkx(squared())
    names = {data["label"]: node for node, data in graph.nodes(data=True)}
    assert list(graph.pred[names["multiply"]][names["x"]]) == [0, 1]
    assert list(graph.pred[names["subtract"]][names["x"]]) == [1]


@pytest.mark.spec("H-7")
@pytest.mark.parametrize("position", [0, None])
def test_networkx_reads_the_same_graph_from_graphml(position: int | None) -> None:
    """Types of attributes are kept: bytes and flops are integers."""
    recording = sample.mlp()
    read = networkx.read_graphml(
        io.BytesIO(graphml(recording, position).encode()), node_type=int, force_multigraph=True
    )
    graph = graph_at(recording, position)
    assert dict(read.nodes(data=True)) == attributes(recording, graph)
    assert sorted((a, b, data["operand"]) for a, b, data in read.edges(data=True)) == sorted(graph.edges)


@pytest.mark.parametrize("name", [*sample.HOSTILE, "]]>", "&amp;", "\ufffe"])
def test_a_hostile_name_is_a_label_in_graphml(name: str) -> None:
    make = sample.Builder(name)
    make.stage("recorded", "record")
    recording = make.roots(make.leaf(name, make.type(2), scope=make.scope(name)))
    read = networkx.read_graphml(io.BytesIO(graphml(recording).encode()))
    assert read.nodes["0"]["label"] == visible(name) == read.nodes["0"]["scope"]


@pytest.mark.parametrize("name", [*sample.HOSTILE, "\ud800", "\ufffe"])
def test_networkx_can_write_a_graph_with_a_hostile_title(name: str) -> None:
    plan = ex.EvalPlan(title=name)
    plan.register(ex.tanh(ex.tensor([1.0], name=name)))
    written = io.BytesIO()
    networkx.write_graphml(to_networkx(plan.prepare().recording), written)
    assert len(networkx.read_graphml(io.BytesIO(written.getvalue()))) == 2


def test_a_position_outside_the_recording_is_rejected() -> None:
    with pytest.raises(ValueError, match="it has positions 0 to 8"):
        to_networkx(sample.mlp(), 9)

"""Mermaid flowcharts: the graph of each step, kernels as subgraphs, and names that cannot add syntax."""

from __future__ import annotations

import re

import pytest

from explorer.record.escape import visible
from explorer.view.export.graph_at import graph_at
from explorer.view.export.mermaid import mermaid
from tests.view import sample

NODE = re.compile(r'^  n(\d+)(?:\(\["(.*)"\]\)|\["(.*)"\])$')
EDGE = re.compile(r"^  n(\d+) --> n(\d+)$")
KERNEL = re.compile(r'^  subgraph k\d+ \["(.*)"\]$')


def unescaped(text: str) -> str:
    return re.sub(r"#(\d+);", lambda match: chr(int(match[1])), text)


def parsed(chart: str) -> tuple[dict[int, str], list[tuple[int, int]], list[str]]:
    """Return node → label, edges and labels of subgraphs; every line must be one of Mermaid's that we write."""
    nodes, edges, kernels = {}, [], []
    first, *lines = chart.splitlines()
    assert first in ("flowchart TD", "flowchart LR")
    for line in lines:
        if node := NODE.match(line):
            nodes[int(node[1])] = unescaped(node[2] or node[3])
        elif edge := EDGE.match(line):
            edges.append((int(edge[1]), int(edge[2])))
        elif kernel := KERNEL.match(line):
            kernels.append(unescaped(kernel[1]))
        else:
            assert line == "  end" or re.fullmatch(r"    n\d+", line), line
    return nodes, edges, kernels


@pytest.mark.spec("H-7")
@pytest.mark.parametrize("position", [0, None])
def test_a_flowchart_has_the_nodes_edges_and_kernels_of_a_step(position: int | None) -> None:
    recording = sample.mlp()
    nodes, edges, kernels = parsed(mermaid(recording, position))
    graph = graph_at(recording, position)
    assert tuple(nodes) == graph.nodes
    assert edges == [(producer, reader) for producer, reader, _ in graph.edges]
    assert kernels == [label for label, _ in graph.groups]
    assert (position is None) == bool(kernels)
    assert nodes[6] == "tanh<br/>32×48 float32"


@pytest.mark.parametrize(
    "name", [*sample.HOSTILE, '"]; click n0 "javascript:x"', "a#quot;b", "`**b**`", "%%{init}%%", "日本"]
)
def test_a_name_adds_no_syntax(name: str) -> None:
    """A quote, a tag, a Markdown string and a directive are labels like any other."""
    make = sample.Builder()
    make.stage("recorded", "record")
    chart = mermaid(make.roots(make.leaf(name, make.type(2))))
    nodes, edges, _ = parsed(chart)
    assert nodes == {0: visible(name) + "<br/>2 float32"}
    assert not edges
    assert not re.search(r'["<`%&]', chart.splitlines()[1].replace("<br/>", "")[len('  n0(["') : -len('"])')])


def test_a_large_flowchart_states_the_setting_that_it_needs() -> None:
    make = sample.Builder()
    make.stage("recorded", "record")
    node = make.leaf("x", make.type(2))
    for _ in range(501):
        node = make.node("tanh", node, type=make.type(2))
    assert "  %% 501 edges: Mermaid needs a larger setting maxEdges than 500" in mermaid(make.roots(node)).splitlines()

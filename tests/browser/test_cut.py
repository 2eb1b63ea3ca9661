"""Parts of a model's file: the panel shows the call and the command that cut out what is selected."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import onnx
import pytest
from playwright.sync_api import expect

import explorer as ex
from explorer.cli import main
from explorer.net import Net
from explorer.view.payload.view_payload import payload
from tests.browser.player import box, heading

pytestmark = pytest.mark.browser

ASSETS = Path(__file__).parents[2] / "assets"

PARTS = """(explorer, [payload, selections]) => {
    const view = explorer.mount(document.body, payload);
    const shown = selections.map((selection) => {
        view.selection.node = view.selection.box = view.selection.other = view.selection.otherBox = -1;
        Object.assign(view.selection, selection);
        view.show();
        return [...view.root.querySelectorAll(".ex-copyable code")].map((code) => code.textContent);
    });
    view.destroy();
    return JSON.stringify(shown);
}"""


def parts(module: Any, net: Net, selections: list[dict[str, int]]) -> list[list[str]]:
    shown: list[list[str]] = json.loads(module(PARTS, [payload(net.preview_plan().recording, position=0), selections]))
    return shown


def last_node(net: Net, name: str) -> int:
    """Return the last recorded node of an operator."""
    recording = net.preview_plan().recording
    scopes = [scope.name for scope in recording.scopes]
    born = recording.nodes.born
    return max(
        number for number, scope in enumerate(recording.nodes.scope) if scopes[scope] == name and born[number] < 0
    )


@pytest.mark.spec("Q-8", headline=True)
def test_the_part_between_two_selected_nodes_is_cut_by_the_shown_call_and_command(
    show, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Select two nodes or boxes to get the call, and the command, that save the part between them as a file."""
    monkeypatch.chdir(ASSETS)
    net = ex.open("digits.onnx")
    view = show(net.preview_plan().recording)
    box(view, "fc1 / Gemm").click()
    box(view, "conv2 / Conv").click(modifiers=["Shift"])
    expect(heading(view, "cut out")).to_have_count(1)
    call, command = view.locator(".ex-copyable code").all_inner_texts()
    view.locator(".ex-copyable button").first.click()
    assert view.page.evaluate("getSelection().toString()") == call
    explorer, *arguments, _ = shlex.split(command)
    assert explorer == "explorer"
    assert main([*arguments, str(tmp_path / "command.onnx")]) == 0
    monkeypatch.chdir(tmp_path)
    exec(call, {"net": net})
    types = [operator.type for operator in ex.open("part.onnx").definition.operators]
    assert types == [operator.type for operator in ex.open("command.onnx").definition.operators]
    assert types == ["Conv", "Relu", "MaxPool", "Conv", "Relu", "Conv", "Add", "Relu", "Flatten", "Gemm"]


@pytest.mark.spec("Q-8")
def test_a_box_is_cut_out_at_the_operands_that_enter_and_leave_it(show) -> None:
    """A selected box has the call for its contents; a program that is not a file has none."""
    view = show(ex.open(ASSETS / "digits.onnx").preview_plan().recording)
    box(view, "pool / MaxPool").click()
    expect(view.locator(".ex-copyable code").first).to_have_text(
        'net.cut(inputs=["/relu2/Relu_output_0"], outputs=["/pool/MaxPool_output_0"]).save("part.onnx")'
    )


@pytest.mark.spec("Q-8")
def test_a_part_contains_constants_and_has_every_input_and_output(module, tmp_path: Path) -> None:
    """Results of constants are no inputs, a value read outside is an output, and unconnected nodes give no part."""
    i, o = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 3]) for name in ("in put", "o$"))
    nodes = [
        onnx.helper.make_node("Constant", [], ["c"], "c", value_floats=[1.0, 2.0, 3.0]),
        onnx.helper.make_node("Neg", ["c"], ["n"], "n"),
        onnx.helper.make_node("Exp", ["in put"], ["e"], "e"),
        onnx.helper.make_node("Mul", ["e", "n"], ["m"], "m"),
        onnx.helper.make_node("Sin", ["m"], ["s'"], "s"),
        onnx.helper.make_node("Cos", ["m"], ["k\u202e"], "k"),
        onnx.helper.make_node("Add", ["s'", "k\u202e"], ["o$"], "o"),
    ]
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [i], [o])), tmp_path / "my net.onnx")
    net = ex.open(tmp_path / "my net.onnx")
    at = {name: last_node(net, name) for name in "emsko"}
    pairs = [("e", "m"), ("s", "m"), ("s", "k"), ("m", "o"), ("k", "o"), ("m", "k")]
    shown = parts(module, net, [{"node": at[one], "other": at[other]} for one, other in pairs])
    calls = [
        'net.cut(inputs=["in put"], outputs=["m"])',
        'net.cut(inputs=["e"], outputs=["m", "s\'"])',
        "",
        'net.cut(inputs=["e"], outputs=["o$"])',
        'net.cut(inputs=["m", "s\'"], outputs=["o$"])',
        'net.cut(inputs=["e"], outputs=["m", "k\\u202e"])',
    ]
    commands = [
        "--inputs 'in put' --outputs m",
        "--inputs e --outputs m 's'\\'''",
        "",
        "--inputs e --outputs 'o$'",
        "--inputs m 's'\\''' --outputs 'o$'",
        "",  # a command cannot have a hidden character
    ]
    for lines, call, command in zip(shown, calls, commands, strict=True):
        wanted = [
            call and f'{call}.save("part.onnx")',
            command and f"explorer cut 'my net.onnx' {command} -o part.onnx",
        ]
        assert lines == [line for line in wanted if line]
        if call:
            part: Net = eval(call, {"net": net})
            assert part.definition.operators

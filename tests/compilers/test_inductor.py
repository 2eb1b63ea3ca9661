"""Inductor's story, read from stored captures, so that no test here needs torch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import explorer as ex
from explorer.compilers.adapters.inductor.rows import Capture, Frame, Graph, Node
from explorer.compilers.adapters.inductor.story import story
from explorer.compilers.adapters.inductor.wrapper import program_of
from explorer.record import Recording
from tests.support.inductor_captures import stored_capture


def kernels_of(recording: Recording) -> list[list[str]]:
    """Return the operations of each kernel."""
    assert recording.schedule is not None
    return [[recording.label(node) for node in kernel.nodes] for kernel in recording.schedule.kernels]


@pytest.mark.spec("X-6", headline=True)
def test_the_story_of_an_mlp() -> None:
    """Record Inductor's graphs, rounds of fusion, refusals, kernels, code, memory and times."""
    recording = story(stored_capture("mlp"))
    busy = [stage.name for stage in recording.stages if stage.last > stage.first]
    assert busy == ["AOTAutograd", "lowering", "fusion", "fusion"]
    assert kernels_of(recording) == [["addmm"], ["tanh", "mul"], ["addmm"], ["amax", "sub", "exp", "sum", "div"]]
    assert [placement.name for placement in recording.placements.values()] == [
        "extern_kernels.addmm",
        "cpp_fused_mul_tanh_0",
        "extern_kernels.addmm",
        "cpp_fused__softmax_1",
    ]
    assert recording.run is not None
    assert [step.micros for step in recording.run.steps] == [10.0, 11.0, 12.0, 13.0]
    assert recording.schedule is not None
    # the first product and tanh share one buffer, since tanh is computed in place
    assert recording.schedule.peak == 4 * (2 * 32 * 48 + 32 * 10)
    assert recording.options["refusals in the log"] == 1
    ex.testing.assert_fused(recording, "tanh", "mul")


@pytest.mark.spec("X-6")
def test_refusals_have_the_compilers_words_or_the_class_of_the_kernel_as_reason() -> None:
    view = ex.explore(story(stored_capture("mlp")))
    asked = view.why("exp", "div")
    assert "`exp` is not fused with `div`: intermediate nodes between node1 & node2. A later round fuses them." in asked
    assert "stated by: the compiler's log" in asked
    unasked = view.why("tanh", "l2")
    assert "is a call of extern_kernels.addmm, and Inductor fuses only loops that it generates" in unasked
    assert "stated by: Explorer's reading" in unasked


def test_values_keep_the_names_and_lines_of_the_program() -> None:
    recording = story(stored_capture("mlp"))
    nodes = recording.nodes
    leaves = [nodes.label[node] for node, kind in enumerate(nodes.kind) if kind == "leaf"]
    assert leaves == ["l1.weight", "l1.bias", "x", "l2.weight", "l2.bias"]
    # tanh and the multiplication are the same nodes from Dynamo's graph to the last one
    [tanh] = [node for node in range(len(nodes)) if nodes.label[node] == "tanh"]
    assert (nodes.born[tanh], nodes.gone[tanh]) == (-1, -1)
    assert recording.sources[nodes.source[tanh]].text == "h = torch.tanh(self.l1(x))"
    reasons = [recording.reason(decision) for decision in recording.decisions if decision.code == "replaced"]
    assert reasons == [
        "`linear` became `permute · addmm`.",
        "`linear` became `permute · addmm`.",
        "`softmax` became `amax · sub · exp · sum · div`.",
    ]


@pytest.mark.spec("X-6")
def test_code_has_the_lines_of_each_node() -> None:
    recording = story(stored_capture("mlp"))
    code = recording.codes[1]
    rows = code.text.split("\n")
    lines = {recording.label(node): rows[line - 1].strip() for line, node in code.lines if "tmp" in rows[line - 1]}
    assert code.language == "C++"
    assert "record" not in code.text
    assert "tmp1.store" in lines["tanh"]
    assert "tmp4.store" in lines["mul"]


@pytest.mark.spec("X-1")
def test_a_node_that_is_computed_again_belongs_to_several_loops() -> None:
    recording = story(stored_capture("attention"))
    lowering = next(stage for stage in recording.stages if stage.name == "lowering")
    loops = [group.members for group in recording.groups if lowering.first <= group.decision < lowering.last]
    where = max(node for node in range(len(recording.nodes)) if recording.label(node) == "where")
    assert sum(where in members for members in loops) == 2


def test_loops_in_one_function_are_one_kernel() -> None:
    """A kernel is a call, so loops that the compiler writes into one C++ function share its time and code."""
    recording = story(stored_capture("convnet"))
    code = next(stage for stage in recording.stages if stage.name == "code")
    assert code.last - code.first == 5
    assert len(kernels_of(recording)) == 13
    provenance = recording.provenance
    assert all(origin.nodes and origin.sources for origin in provenance.kernels)


@pytest.mark.spec("X-6")
def test_graph_breaks_and_missing_code_are_stated() -> None:
    options = story(stored_capture("two_graphs")).options
    assert options["graphs that are not recorded"] == 1
    assert "Failed to trace builtin" in options["graph breaks"]
    assert options["code and times"] == "none: run=False"


@pytest.mark.spec("X-10", headline=True)
def test_a_torn_log_gives_a_recording_with_the_same_kernels() -> None:
    """Keep adapters under test without the compilers, with stored, torn and hostile logs."""
    capture = stored_capture("mlp")
    kernels = kernels_of(story(capture))
    for end in range(len(capture.log)):
        torn = story(replace(capture, log=capture.log[:end]))
        assert kernels_of(torn) == kernels
        assert torn.options["rounds of fusion"] <= 4


@pytest.mark.spec("X-10")
def test_unknown_and_hostile_lines_of_a_log_are_counted_or_escaped(tmp_path: Path) -> None:
    capture = stored_capture("mlp")
    hostile = ("fused by magic", "cannot fuse op4 with op6: </script><b>{why}", "cannot fuse op99 with op1: none")
    at = capture.log.index("fuse_nodes_once, candidates:") + 1
    recording = story(replace(capture, log=(*capture.log[:at], *hostile, *capture.log[at:])))
    assert recording.options["log lines that were not understood"] == 1
    assert recording.options["refusals that name unknown loops"] == 1
    view = ex.explore(recording)
    assert "</script><b>{why}" in view.why("exp", "div")
    view.save(tmp_path / "view.html")
    assert "</script><b>" not in (tmp_path / "view.html").read_text()


@pytest.mark.spec("X-10")
def test_torn_code_leaves_out_what_it_no_longer_contains() -> None:
    capture = stored_capture("mlp")
    whole = program_of(capture.code)
    for end in range(0, len(capture.code), 97):
        recording = story(replace(capture, code=capture.code[:end]))
        assert len(kernels_of(recording)) == 4
        assert {*recording.codes} <= {1, 3}
        assert recording.run is None or len(recording.run.steps) == len(whole.calls)


def test_a_line_that_several_calls_reach_is_given_with_the_call() -> None:
    inner, calls = (
        Frame("net.py", 9, "return tanh(x)"),
        (Frame("net.py", 2, "a = f(x)"), Frame("net.py", 3, "b = f(a)")),
    )
    nodes = (
        Node("x", "x", kind="leaf"),
        Node("a", "tanh", ("x",), frames=(calls[0], inner)),
        Node("b", "tanh", ("a",), frames=(calls[1], inner)),
        Node("c", "exp", ("b",), frames=(calls[1],)),
    )
    graph = Graph("", "torch", nodes, ("c",))
    recording = story(Capture("net", "2.13.0", (graph,), loops=(), log=(), kernels=()))
    sources = [recording.sources[row].full_location for row in recording.nodes.source if row >= 0]
    assert sources == ["net.py line 9, called from line 2", "net.py line 9, called from line 3", "net.py line 3"]


def test_the_program_is_beside_the_graph() -> None:
    [text] = story(stored_capture("mlp")).source_texts
    assert (text.where, text.lines[0].strip()) == ("mlp.py", "def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:")


def test_a_graph_that_reads_an_unknown_value_is_an_error() -> None:
    capture = stored_capture("two_graphs")
    assert capture.graphs[0].nodes is not None
    first = replace(capture.graphs[0], nodes=capture.graphs[0].nodes[1:])
    with pytest.raises(ex.ExplorerError, match="which is no value of the graph"):
        story(replace(capture, graphs=(first, *capture.graphs[1:])))

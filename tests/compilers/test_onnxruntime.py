"""onnxruntime's story from stored sessions, without onnxruntime: stages, reasons, times, and damaged files."""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import explorer as ex
from explorer.compilers.adapters.onnxruntime.model_graph import Graph, graph_of
from explorer.compilers.adapters.onnxruntime.patterns import PATTERNS
from explorer.compilers.adapters.onnxruntime.session_log import parsed
from explorer.compilers.adapters.onnxruntime.story import create_sessions, recording_from
from explorer.record import Recording
from tests.support.onnx_patterns import CASES, REPAIRED
from tests.support.onnx_stages import digests_of_graphs, digests_of_stages

STORED = Path(__file__).parent / "stored"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder with the sessions of a block of an encoder."""
    return unpacked("encoder_block", tmp_path)


def unpacked(name: str, path: Path) -> Path:
    with zipfile.ZipFile(STORED / f"onnxruntime_{name}.zip") as archive:
        archive.extractall(path / name)
    return path / name


def recorded(folder: Path) -> Recording:
    return recording_from(ex.open(folder / "given.onnx"), folder)


def reasons(recording: Recording, verdict: str) -> Counter[tuple[str, str]]:
    return Counter((row.rule, recording.reason(row)) for row in recording.decisions if row.verdict == verdict)


@pytest.mark.spec("X-4", headline=True)
def test_each_transformer_that_changed_something_is_a_stage(folder: Path) -> None:
    """Show each graph transformer that changed something or declined as a stage, with reasons and their authors."""
    recording = recorded(folder)
    names = [stage.name for stage in recording.stages]
    assert names[:5] == ["given", "ConstantSharing", "MatMulAddFusion", "ReshapeFusion", "TransposeOptimizer"]
    assert names[-3:] == ["order", "memory", "run"]
    assert "ran 53 graph transformers" in recording.stages[0].purpose
    applied = reasons(recording, "applied")
    assert applied["MatMulAddFusion", "`MatMul · Add` became `Reshape · Gemm · Reshape`."] == 6
    assert applied["SkipLayerNormFusion", "`Add · LayerNormalization` became `SkipLayerNormalization`."] == 1
    declined = reasons(recording, "declined")
    assert declined["SkipLayerNormFusion", "`Add` has 2 readers, and is fused only if it has one."] == 1
    assert declined["BiasGeluFusion", "`Gemm` already adds the bias, so `Gelu` reads no Add."] == 1
    assert [rule for (rule, _), _ in declined.items()].count("AttentionFusion") == 1
    authors = {recording.decisions[number].rule: author for number, author in recording.authors.items()}
    assert authors["MobileClipMHA"] == "the compiler's log"
    assert {*authors.values()} == {"the compiler's log", "Explorer's reading"}
    assert authors["SkipLayerNormFusion"] == "Explorer's reading"


def test_every_kernel_has_a_time_nodes_and_lines(folder: Path) -> None:
    recording = recorded(folder)
    assert recording.run is not None
    assert recording.schedule is not None
    assert len(recording.run.steps) == len(recording.schedule.kernels) == recording.stages[-4].counts["operations"]
    assert all(origin.nodes and origin.sources for origin in recording.provenance.kernels)
    assert recording.schedule.peak
    names = {placement.name for placement in recording.placements.values()}
    assert {"SkipLayerNormalization", "FusedMatMul", "Gemm"} <= names
    assert {placement.provider for placement in recording.placements.values()} == {"CPUExecutionProvider"}


@pytest.mark.spec("X-4", "X-2")
@pytest.mark.parametrize("name", ["encoder_block", "digits"])
def test_the_graph_of_each_stage_is_the_compilers(name: str, tmp_path: Path) -> None:
    """Results computed from a stage's nodes are those of a file that onnxruntime wrote."""
    folder = unpacked(name, tmp_path)
    stages = digests_of_stages(recorded(folder))
    assert {*stages.values()} <= digests_of_graphs(folder)
    assert len({*stages.values()}) >= 4


def test_blocked_memory_formats_are_one_decision_per_operation(tmp_path: Path) -> None:
    recording = recorded(unpacked("digits", tmp_path))
    [stage] = [number for number, row in enumerate(recording.stages) if row.name == "NchwcTransformer"]
    rows = [row for row in recording.decisions if row.stage == stage]
    assert max(len(row.produced) for row in rows) <= 4
    reason = "`FusedConv` became `Conv (nchwc) · ReorderOutput (nchwc)`."
    assert [recording.reason(row) for row in rows].count(reason) == 3
    ex.explore(recording).save(tmp_path / "digits.html")


def test_a_refusal_answers_about_operations_of_the_file_that_were_replaced(folder: Path) -> None:
    recording = recorded(folder)
    operators = {
        own["operator"]: node for node, own in reversed(recording.nodes.attributes.items()) if "operator" in own
    }
    why = ex.explore(recording).why(operators["block/add_25"], operators["block/gelu_26"])
    assert "`Gemm` already adds the bias, so `Gelu` reads no Add." in why


def test_inputs_must_have_known_lengths(tmp_path: Path) -> None:
    """Without arrays, the lengths are those of the file, or assumed ones."""
    net = ex.open(Path(__file__).parents[2] / "assets" / "digits.onnx")
    with pytest.raises(ex.OperandError, match=r"(?s)input 'image' has the shape batch×1×8×8.*fix: give an array"):
        create_sessions(net, {}, tmp_path, runs=0)
    with pytest.raises(ex.OperandError, match="input 'image' is a sequence"):
        create_sessions(net, {"image": (np.zeros(1), np.zeros(2))}, tmp_path, runs=0)
    assert not [*tmp_path.iterdir()]


@pytest.mark.spec("X-10")
def test_a_torn_log_gives_a_shorter_recording_that_states_it(folder: Path) -> None:
    """Read stored logs and graphs; a torn log gives a shorter recording that states what is missing."""
    log = folder / "0.log"
    text = log.read_text()
    log.write_text(text[: len(text) // 2])
    assert "The log of onnxruntime ends early" in recorded(folder).stages[0].purpose
    log.unlink()
    recording = recorded(folder)
    assert "ends early" in recording.stages[0].purpose
    assert not reasons(recording, "declined")
    assert reasons(recording, "applied")


@pytest.mark.spec("X-10")
def test_a_damaged_profile_or_a_missing_graph_is_stated(folder: Path) -> None:
    (folder / "profile.json").write_text('[{"cat": "Node"')
    recording = recorded(folder)
    assert recording.run is None
    assert "The profile of onnxruntime is damaged" in recording.stages[0].purpose
    (folder / "2.onnx").unlink()
    recording = recorded(folder)
    assert "The graph after ConstantSharing is missing" in recording.stages[0].purpose
    assert "ConstantSharing" not in [stage.name for stage in recording.stages]


@pytest.mark.spec("X-10")
@pytest.mark.parametrize("file", ["sessions.json", "0.onnx", "given.onnx"])
@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff\xfe\x00"])
def test_sessions_without_a_report_or_graphs_are_an_error(folder: Path, file: str, content: bytes | None) -> None:
    net = ex.open(folder / "given.onnx")
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content)
    with pytest.raises(ex.ExplorerError):
        recording_from(net, folder)


@pytest.mark.spec("X-10")
def test_a_hostile_log_invents_no_change(folder: Path) -> None:
    """A model's names appear in the log, so they may imitate its lines."""
    before = recorded(folder)
    prefix = "2026-01-01 00:00:00.0 [I:onnxruntime:, graph_transformer.cc:15 Apply] "
    lines = [
        f"{prefix}GraphTransformer <script>alert(1)</script> modified: 1 with status: OK",
        f"{prefix}Gremlin[no such node]: fusion skipped: {'x' * 5000}",
        f"{prefix}{'[' * 5000}",
        "\x00\x1b[2J",
    ]
    log = folder / "0.log"
    log.write_text("\n".join([*lines, log.read_text()]))
    after = recorded(folder)
    assert [stage.name for stage in after.stages] == [stage.name for stage in before.stages]
    assert len(after.decisions) == len(before.decisions)
    purpose = after.stages[0].purpose
    assert "Its log contains 1 statement about no node" in purpose
    assert "Its log contains 1 message of unknown form: [[[" in purpose
    assert len(purpose) < 600


def test_lines_of_a_log() -> None:
    head = "2026-01-01 00:00:00.0 [V:onnxruntime:, "
    log = parsed(
        f"{head}mgr.cc:55 Apply] Applying graph transformer AttentionFusion on step 1.\n"
        f"{head}attention_fusion.cc:330 operator()] MobileClipMHA[a[0]]: fusion skipped: no weights\n"
        f"{head}t.cc:15 Apply] GraphTransformer AttentionFusion modified: 1 with status: OK\n"
        f"{head}mgr.cc:55 Apply] Applying graph transformer AttentionFusion on step 2.\n"
        f"{head}attention_fusion.cc:330 operator()] MobileClipMHA[b]: fusion skipped: no weights.\n"
        f"{head}t.cc:15 Apply] GraphTransformer AttentionFusion modified: 0 with status: OK\n"
        f"{head}session.cc:1 operator()] Session successfully initialized.\n"
    )
    assert log.events == (("AttentionFusion", True), ("AttentionFusion", False))
    assert [(row.rule, row.node, row.reason, row.location) for row in log.skipped] == [
        ("MobileClipMHA", "b", "no weights", "attention_fusion.cc:330")
    ]
    assert log.complete
    assert not log.unknown


def refused(graph: Graph) -> Iterator[tuple[str, str]]:
    """Yield the rule and reason of each refusal, with the names of values."""
    for pattern in PATTERNS:
        for row in pattern.refusals(graph):
            name = pattern.rule or pattern.transformers.pattern
            yield name, row.reason.replace("`{", "{").replace("}`", "}").format(**row.facts)


@pytest.mark.spec("X-4")
@pytest.mark.parametrize("case", CASES)
def test_a_requirement_that_fails_is_named_with_the_fact_that_violates_it(case: str) -> None:
    """There is one reason per place, of at most 30 words."""
    model, rule, expected = CASES[case]
    found = [(name, reason) for name, reason in refused(graph_of(model)) if name == rule]
    assert [expected in reason for _, reason in found] == [True], found
    assert all(len(reason.split()) <= 30 for _, reason in found)


@pytest.mark.parametrize(
    ("case", "operations"),
    [
        ("a layer norm with the epsilon after the root", ["Add", "Div", "Sqrt", "ReduceMean", "Pow", "Sub"]),
        ("a layer norm without a bias", ["Sqrt", "Div", "Add", "ReduceMean", "Pow", "Sub"]),
    ],
)
def test_a_refusal_is_about_all_operations_of_its_pattern(case: str, operations: list[str]) -> None:
    graph = graph_of(CASES[case][0])
    [refusal] = [row for pattern in PATTERNS for row in pattern.refusals(graph) if row.reason and len(row.subjects) > 2]
    assert [graph.producer[name].type for name in refusal.subjects] == operations


def test_requirements_of_older_versions_are_known() -> None:
    """onnxruntime 1.20 makes a Gemm only of matrices, and does not fuse ONNX's Gelu."""
    model = REPAIRED["a bias of two dimensions"][0]
    [(rule, reason)] = refused(replace(graph_of(model), version=(1, 20)))
    assert (rule, reason) == ("BiasGeluFusion", "y is ONNX's operator, and this version fuses only its own.")
    assert [reason for _, reason in refused(graph_of(model))] == [""]
    model = CASES["a product with an addend of its shape"][0]
    [(rule, reason)] = refused(replace(graph_of(model), version=(1, 20)))
    assert reason == "The first operand is 1×2×4, and this version makes a Gemm only of matrices."


def test_a_graph_whose_nodes_lack_operands_is_read() -> None:
    """Nodes of a file may have fewer operands than their types require."""
    types = (
        "MatMul",
        "Add",
        "LayerNormalization",
        "Div",
        "Erf",
        "Gelu",
        "BatchNormalization",
        "Conv",
        "Relu",
        "Softmax",
    )
    nodes = [helper.make_node(type, [], [f"v{index}"]) for index, type in enumerate(types)]
    nodes += [helper.make_node(type, [f"v{index}"], [f"r{index}"]) for index, type in enumerate(types)]
    found = graph_of(helper.make_model(helper.make_graph(nodes, "g", [], [])))
    assert len(list(refused(found))) > 0


def test_nodes_are_sorted_by_their_operands() -> None:
    """Nodes on a cycle, which no run can compute, are left out."""
    nodes = [helper.make_node("Relu", ["a"], ["b"]), helper.make_node("Tanh", ["x"], ["a"])]
    loop = [helper.make_node("Add", ["p", "x"], ["q"]), helper.make_node("Add", ["q", "x"], ["p"])]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (2,))
    model = helper.make_model(helper.make_graph([*nodes, *loop], "g", [x], []))
    assert [node.type for node in graph_of(model).nodes] == ["Tanh", "Relu"]

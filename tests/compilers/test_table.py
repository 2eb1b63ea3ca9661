"""One model in several compilers: operations matched by name, line, file operator and structure; table and pairs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.compilers import Compiled, CompiledKernel, Snapshot, Value, recording_of, table
from explorer.compilers.adapters.inductor.story import story
from explorer.names.operations import same_operation
from explorer.record import Recording, Source, loads
from tests.laws.cases import operations
from tests.support.inductor_captures import stored_capture


def planned() -> Recording:
    """Return explorer's recording of the MLP in assets/one_model/mlp.py."""
    x = ex.tensor(np.zeros((32, 64), np.float32), name="x")
    weights = [ex.tensor(np.zeros(shape, np.float32)) for shape in ((64, 48), (48,), (48, 10), (10,))]
    h = ex.tanh(x @ weights[0] + weights[1])
    plan = ex.EvalPlan(title="mlp")
    handles = [plan.register(each) for each in (ex.softmax(h @ weights[2] + weights[3], axis=1), 2 * h)]
    plan.prepare()
    assert len(handles) == 2
    return plan.recording


def other_compiler() -> Recording:
    """Return the recording of a compiler that decomposes the softmax and fuses little, as XLA does."""
    line = Source("mlp_jax.py", 3, "softmax(z)")
    given = {
        "x": Value("x", shape=(32, 64), kind="leaf"),
        "w1": Value("w1", shape=(64, 48), kind="leaf"),
        "w2": Value("w2", shape=(48, 10), kind="leaf"),
        "dot.1": Value("dot", ("x", "w1"), (32, 48)),
        "tanh.1": Value("tanh", ("dot.1",), (32, 48)),
        "dot.2": Value("dot", ("tanh.1", "w2"), (32, 10)),
        "reduce.1": Value("reduce", ("dot.2",), (32,), source=line),
        "subtract.1": Value("subtract", ("dot.2", "reduce.1"), (32, 10), source=line),
        "exponential.1": Value("exponential", ("subtract.1",), (32, 10), source=line),
        "multiply.1": Value("multiply", ("tanh.1",), (32, 48)),
    }
    kernels = [
        ("dot.1",), ("tanh.1",), ("dot.2",), ("reduce.1",), ("subtract.1", "exponential.1"), ("multiply.1",),
    ]  # fmt: skip
    compiled = Compiled(tuple([CompiledKernel(each, micros=2.0) for each in kernels]), "Other 1", peak=100)
    recording = recording_of("mlp", [Snapshot("given", given, ("exponential.1", "multiply.1"))], compiled)
    recording.options = {"compiler": "Other 1"}
    return recording


@pytest.mark.spec("X-8", headline=True)
def test_the_kernels_of_each_operation_in_several_compilers() -> None:
    """Show one model in several compilers: kernels, bytes, peak, times, and the kernels of each operation."""
    lines = str(table(story(stored_capture("mlp")), planned(), other_compiler())).splitlines()
    rows = {line[:26].strip(): line[26:].split("  ") for line in lines if line}
    cells = {name: [cell.strip() for cell in row if cell.strip()] for name, row in rows.items()}
    assert lines[0].split() == ["Inductor", "explorer", "Other"]
    assert cells["kernels"] == ["4", "4", "6"]
    assert cells["measured time"] == ["100 µs", "–", "12 µs"]
    assert cells["linear, mlp.py line 16"] == ["1", "1", "1"]
    assert cells["tanh, mlp.py line 16"] == ["2", "1", "2"]
    # the softmax is one operation here, and three operations in two kernels there
    assert cells["softmax, mlp.py line 18"] == ["4", "3", "4, 5"]
    assert cells["mul, mlp.py line 18"] == ["2", "4", "6"]


def test_the_table_is_html_with_escaped_names() -> None:
    recording = other_compiler()
    recording.options["compiler"] = "<b>&"
    html = table(recording)._repr_html_()
    assert "&lt;b&gt;&amp;" in html
    assert "<b>" not in html


@pytest.mark.spec("X-8")
def test_kernels_of_two_compilers_are_matched() -> None:
    comparison = ex.compare(story(stored_capture("mlp")), other_compiler())
    pairs = [(each.before, each.after) for each in comparison.kernels]
    assert pairs == [((0,), (0,)), ((1,), (1, 5)), ((2,), (2,)), ((3,), (3, 4))]
    text = comparison.text()
    # what cannot be equal is not listed
    assert "option" not in text
    assert "decisions only" not in text
    view = comparison.explore()
    view.before.selected = next(node for node in comparison.nodes.pairs if view.before.recording.label(node) == "tanh")
    assert view.after.recording.label(view.after.selected) == "tanh"


def test_recordings_of_one_compiler_are_compared_as_before() -> None:
    comparison = ex.compare(other_compiler(), other_compiler())
    assert comparison.equal
    assert not comparison.is_across


def test_operations_are_matched_by_line() -> None:
    """Of two products with equal operands, the lines decide which one is which."""

    def recorded(compiler: str, names: tuple[str, str]) -> Recording:
        x = Value("x", shape=(4, 4), kind="leaf")
        lines = {"first": Source("net.py", 1, "a = x @ x"), "second": Source("net.py", 2, "b = x @ x")}
        values = {name: Value("dot" if compiler else "mm", ("x", "x"), (4, 4), source=lines[name]) for name in names}
        recording = recording_of("two products", [Snapshot("given", {"x": x, **values}, ("first", "second"))])
        recording.options = {"compiler": compiler}
        return recording

    before, after = recorded("", ("first", "second")), recorded("Other", ("second", "first"))
    assert ex.compare(before, after).nodes.pairs == {0: 0, 1: 2, 2: 1}


@pytest.mark.spec("X-8")
def test_names_of_one_operation_in_several_compilers() -> None:
    for names in (
        "dot addmm MatMul matmul mm linear Gemm dot_general aten.bmm.default",
        "multiply mul.Tensor Mul mul",
        "exponential exp Exp",
        "_softmax Softmax softmax",
        "convolution Conv conv2d",
        "relu Relu maximum",
        "cumsum CumSum reduce-window",
        "batch-norm",
    ):
        assert len({same_operation(name) for name in names.split()}) == 1, names
    # no two operations of explorer have one name, except that other compilers write a relu as a maximum
    for operation in operations():
        assert same_operation(operation.name) == {"relu": "maximum"}.get(operation.name, operation.name)


def test_a_table_needs_recordings() -> None:
    with pytest.raises(ex.OperandError, match="no recordings"):
        table()
    with pytest.raises(ex.OperandError, match="must be a recording"):
        table("mlp.json")  # type: ignore[arg-type]


@pytest.mark.spec("X-8")
def test_a_relu_is_matched_with_a_maximum() -> None:
    """XLA computes a relu as a maximum, so each relu of Inductor's graph has the kernel of one."""
    inductor, xla = (loads((RECORDINGS / f"convnet_{name}.json").read_text()) for name in ("inductor", "xla"))
    rows = [row for row in table(inductor, xla).kernels() if row[0].startswith("relu")]
    assert len(rows) == 5
    assert all(row[2] != "–" for row in rows)


RECORDINGS = Path(__file__).parents[2] / "assets" / "one_model" / "recordings"


@pytest.mark.spec("X-11", headline=True)
def test_the_recordings_of_the_notebook_show_what_it_states() -> None:
    """Explain in a notebook, without any compiler, what four of them fuse and refuse in the same models."""

    def recordings(model: str) -> list[Recording]:
        names = ("explorer", "onnxruntime", "inductor", "xla")
        return [loads((RECORDINGS / f"{model}_{name}.json").read_text()) for name in names]

    assert table(*recordings("mlp")).rows()[0] == ["kernels", "4", "4", "4", "8"]
    explorer, _, inductor, xla = recordings("mlp")
    ex.testing.assert_fused(explorer, "l1", "tanh")
    ex.testing.assert_fused(inductor, "tanh", "mul")
    reasons = [xla.reason(decision) for decision in xla.decisions]
    assert "`tanh` is not fused into `multiply`: expensive producer would be duplicated" in reasons
    for model in ("mlp", "attention", "convnet"):
        for recording in recordings(model):
            origins = recording.provenance.kernels
            assert sum(bool(origin.nodes) for origin in origins) >= 0.95 * len(origins)


def test_the_stored_recordings_contain_no_paths_of_a_machine() -> None:
    """Models that torch exports contain stack traces with absolute paths."""
    files = sorted(RECORDINGS.glob("*.json"))
    assert files
    assert not [file.name for file in files if re.search(r'File \\"(/|[A-Z]:)', file.read_text(encoding="utf-8"))]

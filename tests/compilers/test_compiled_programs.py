"""Kernels, code, placement, times and memory of another compiler, given to the snapshots contract."""

from __future__ import annotations

from pathlib import Path

import pytest

import explorer as ex
from explorer.compilers import Compiled, CompiledKernel, Snapshot, Value, recording_of
from explorer.record import Code, Kernel, Placement
from explorer.record.json_form.codec import from_json, to_json
from explorer.record.node_decisions import accounts
from explorer.view.export.text import text
from explorer.view.model.stage_texts import live_values_text, stage_result
from explorer.view.replay.steps import predictable
from tests.support.toy_compiler import LOOP, compiled_toy


@pytest.mark.spec("X-1", headline=True)
def test_kernels_carry_placement_and_code() -> None:
    """Record what a compiler reports about kernels, such as placement and code, and leave out what it does not."""
    recording = compiled_toy()
    assert recording.placements[0] == Placement("loop_1", "toy 1.0", "ToyProvider", "cpu:0")
    assert recording.codes == {0: Code("LLVM IR", LOOP, ((2, 1), (3, 2)))}
    written = text(recording)
    first = "tanh → mul, line 3: 128 B, 352 flops, buffer 0, toy 1.0 · ToyProvider · cpu:0 · loop_1, 5 lines of LLVM IR"
    assert f"  1 {first}\n" in written
    assert "  2 tanh → sum, line 4: 4 B, 351 flops, toy 1.0 · OtherProvider · loop_2\n" in written
    assert to_json(from_json(to_json(recording))) == to_json(recording)


def test_why_shows_the_lines_of_code_that_compute_a_node() -> None:
    why = ex.explore(compiled_toy()).why("mul")
    assert "LLVM IR 3:   %b = fmul float %a, %a" in why
    assert "%a = call" not in why


@pytest.mark.spec("X-1")
def test_a_node_may_run_in_two_kernels() -> None:
    recording = compiled_toy()
    assert recording.kernels_of() == {1: (0, 1), 2: (0,), 3: (1,)}
    assert accounts(recording, [1], [2])[:2] == [
        "tanh and mul run in one kernel, number 1 of 2.",
        "tanh is computed 2 times, in the kernels 1, 2 of 2.",
    ]
    assert accounts(recording, [1], [3])[0] == "tanh and sum run in one kernel, number 2 of 2."
    ex.testing.assert_fused(recording, "tanh", "mul")
    ex.testing.assert_fused(recording, "tanh", "sum")
    with pytest.raises(AssertionError, match="Round 1 leaves `mul` apart from `sum`"):
        ex.testing.assert_fused(recording, "mul", "sum")
    # both kernels write their results, and neither writes tanh
    assert recording.stages[-4].counts["bytes"] == 4 * 8 * 4 + 4


@pytest.mark.spec("X-1")
def test_a_statement_names_its_author() -> None:
    recording = compiled_toy()
    assert [*recording.authors.values()] == ["toy's log", "toy's log", "Explorer's reading", "Explorer's reading"]
    assert "stated by: toy's log" in ex.explore(recording).why("mul", "sum")


@pytest.mark.spec("X-2")
def test_stages_declare_what_they_decide() -> None:
    """Assertions, predictions and answers use what a stage declares, and no name of a stage."""
    recording = compiled_toy()
    decides = [(stage.name, stage.decides) for stage in recording.stages if stage.decides]
    assert decides == [("loops", "kernels")] * 3
    assert predictable(recording) == ["loops", "order", "memory"]
    results = [stage_result(recording, number) for number in range(len(recording.stages) - 3, len(recording.stages))]
    assert results == [
        "2 kernels.",
        "1 buffer, peak 132 B, most live 128 B, in kernel 1.",
        "2 kernels took 8 µs in a warm run.",
    ]


@pytest.mark.spec("X-1")
def test_passes_that_changed_nothing_and_rounds_are_folded_in_the_text() -> None:
    lines = text(compiled_toy()).splitlines()
    assert any(line.startswith("9 passes changed nothing: check 0, check 1, check 2") for line in lines)
    assert not any(line.startswith("check ") for line in lines)
    [rounds] = [line for line in lines if line.startswith("loops") and "✓" in line and "nodes" in line]
    assert rounds.startswith("loops ×3: ")
    assert rounds.endswith("2 ✓ 2 ✗")


@pytest.mark.parametrize(
    ("kernel", "problem"),
    [
        (CompiledKernel(("z",), "k"), "computes 'z', which is no value"),
        (CompiledKernel((), "k"), "computes no value"),
        (CompiledKernel(("y",), "k", code="one line", lines={"y": (2,)}), "names line 2 of code with 1 lines"),
    ],
)
def test_a_kernel_that_cannot_be_recorded_raises_an_error(kernel: CompiledKernel, problem: str) -> None:
    given = Snapshot("given", {"x": Value("x", kind="leaf"), "y": Value("f", ("x",))}, ("y",))
    with pytest.raises(ex.ExplorerError, match=rf"(?s){problem}.*rule: .*fix: "):
        recording_of("wrong", [given], Compiled((kernel,)))


def test_a_recording_with_wrong_kernels_is_refused() -> None:
    recording = compiled_toy()
    assert recording.schedule is not None
    recording.codes[7] = Code("C", "x")
    with pytest.raises(ex.ExplorerError, match=r"codes: 7 is no row of schedule\.kernels"):
        ex.explore(recording)
    recording = compiled_toy()
    recording.codes[0] = Code("C", "x", ((2, 1),))
    with pytest.raises(ex.ExplorerError, match=r"codes\.lines: 2 is no row of the code's lines"):
        ex.explore(recording)
    assert Kernel((1,)).level is None


def test_a_long_text_is_cut_with_a_call_that_lists_all_of_it(tmp_path: Path) -> None:
    """A recording of another compiler belongs to no plan, so the text names the view."""
    count = 500
    values = {"v0": Value("x", kind="leaf")} | {f"v{n}": Value("f", (f"v{n - 1}",)) for n in range(1, count)}
    kernels = tuple([CompiledKernel((f"v{n}",)) for n in range(1, count)])
    recording = recording_of("long", [Snapshot("given", values, (f"v{count - 1}",))], Compiled(kernels))
    assert 'more kernels: view.save("all.txt") lists them' in text(recording, short=True)
    ex.explore(recording).save(tmp_path / "all.txt")
    assert f"  {count - 1} f" in (tmp_path / "all.txt").read_text()


def test_a_kernel_writes_each_value_that_another_kernel_or_the_user_reads() -> None:
    x = Value("x", shape=(4,), kind="leaf")
    values = {
        "x": x,
        "t": Value("transpose", ("x",), (4,), is_view=True),
        "a": Value("exp", ("t",), (4,)),
        "b": Value("tanh", ("a",), (4,)),
        "c": Value("neg", ("b",), (4,)),
        "d": Value("sum", ("b",)),
    }
    passes = [
        Snapshot("given", values, ("c", "d")),
        Snapshot("loops", values, ("c", "d"), kernels={"k": ("t", "a", "b", "c"), "r": ("d",)}),
    ]
    recording = recording_of(
        "written", passes, Compiled((CompiledKernel(("t", "a", "b", "c")), CompiledKernel(("d",))))
    )
    assert recording.schedule is not None
    # the kernel writes tanh, which the sum reads, and neg, a result; exp stays in it, and a transpose is a view
    assert [kernel.bytes for kernel in recording.schedule.kernels] == [16 + 16, 4]
    assert [stage.counts["bytes"] for stage in recording.stages[:2]] == [16 + 16 + 16 + 4, 16 + 16 + 4]


@pytest.mark.spec("X-1")
def test_values_at_the_peak_exclude_those_that_another_kernel_overwrote() -> None:
    """The second kernel writes to the buffer of the first, so only the second value is in use in the third kernel."""
    values = {
        "x": Value("x", shape=(4, 8), kind="leaf"),
        "exp": Value("exp", ("x",), (4, 8)),
        "neg": Value("neg", ("exp",), (4, 8)),
        "sum": Value("sum", ("neg",), (4,)),
    }
    kernels = (
        CompiledKernel(("exp",), buffer=0, live=128),
        CompiledKernel(("neg",), buffer=0, live=128),
        CompiledKernel(("sum",), buffer=-1, live=144),
    )
    recording = recording_of("toy", [Snapshot("given", values, ("sum",))], Compiled(kernels, buffers=(128,), peak=144))
    assert recording.schedule is not None
    assert [kernel.frees for kernel in recording.schedule.kernels] == [(), (1,), (2,)]
    assert live_values_text(recording) == "live in kernel 3: neg 128 B, sum 16 B"

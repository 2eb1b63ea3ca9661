from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.record.glossary import GLOSSARY
from explorer.view.export.decision_lines import read_line
from explorer.view.export.text import text
from explorer.view.export.why_text import why
from explorer.view.picture.svg import svg
from tests.view import sample

ASSETS = Path(__file__).parents[3] / "assets"


@pytest.mark.spec("V-15", "V-22")
def test_decisions_come_first_and_counts_last():
    lines = text(sample.mlp()).splitlines()
    assert lines[0] == (
        "simplify ✓ multiply 1, line 2 · MultiplyByOne: "
        "multiply 1 is its operand: multiplying by 1 changes nothing [identity]"
    )
    assert "simplify: nodes 12, operations 8, flops 450 K, written 42 KB, 2 ✓ 1 ✗" in lines
    assert lines[-1] == "loss · 7f3a90c2e1b45d68"


@pytest.mark.spec("V-22")
def test_each_decision_and_each_kernel_has_one_line():
    recording = sample.mlp()
    lines = text(recording).splitlines()
    count = len(recording.decisions)
    assert [read_line(line) is not None for line in lines] == [True] * count + [False] * (len(lines) - count)
    assert (
        lines[count]
        == "schedule: 4 kernels, 3 buffers; peak 18 KB; most live 18 KB, in kernel 4; without reuse 30.3 KB"
    )
    assert lines[count + 1] == "  live in kernel 4: tanh 6 KB, multiply 2 6 KB, working memory 6 KB, nll 4 B"
    assert lines[count + 2 : count + 4] == [f"  {term}: {GLOSSARY[term]}" for term in ("level", "chain")]
    assert lines[count + 5] == "  2 add → tanh, line 1: level 2, chain 0, 6 KB, 16.9 K flops, buffer 1; earliest"
    assert lines[count + 8].startswith("recorded: ")


@pytest.mark.spec("V-15")
def test_measurements_do_not_change_the_text():
    measured, planned = sample.mlp(), sample.mlp()
    planned.run = None
    assert text(measured) == text(planned)


def test_without_decisions_the_nodes_are_listed():
    lines = text(sample.transformer(1)).splitlines()
    assert "  tokens · 16×64 float32" in lines
    assert "  gelu · 16×64 float32 ← matmul" in lines
    assert "  … and 440 more nodes" in text(sample.dag(500)).splitlines()


def many(count):
    """Return a recording with ``count`` equal declined decisions after its own decisions, and as many kernels."""
    recording = sample.mlp()
    declined = next(decision for decision in recording.decisions if decision.verdict == "declined")
    last = recording.stages[-1]
    new = [replace(declined, stage=len(recording.stages))] * count
    stage = replace(last, name="again", kind="rewrite", first=last.last, last=last.last + count, counts={})
    recording.decisions += new
    recording.stages.append(stage)
    recording.schedule = replace(recording.schedule, kernels=recording.schedule.kernels * count)
    return recording


@pytest.mark.spec("V-22")
def test_the_short_text_of_a_large_plan_has_the_first_and_last_lines_of_each_stage_and_a_count():
    recording = many(1000)
    whole, short = text(recording).splitlines(), text(recording, short=True).splitlines()
    assert len(whole) > 4000
    assert len(short) < 100
    texts = {line.rsplit(" ×", 1)[0] for line in whole}
    assert all(line.rsplit(" ×", 1)[0] in texts for line in short if "print(plan.explain())" not in line)
    assert "  … 968 more decisions: print(plan.explain()) lists them" in short
    assert "  … 3,968 more kernels: print(plan.explain()) lists them" in short
    assert [line for line in short if line.startswith("  4000 ")] == [
        line for line in whole if line.startswith("  4000 ")
    ]
    assert short[-1] == whole[-1]


@pytest.mark.spec("V-22")
def test_the_short_text_of_a_small_plan_is_complete():
    """It leaves out only the values at the peak of memory."""
    for recording in (sample.mlp(), many(50)):
        lines = [line for line in text(recording).splitlines() if not line.startswith("  live in kernel")]
        assert text(recording, short=True).splitlines() == lines


@pytest.mark.spec("Q-3")
def test_the_text_names_the_values_at_the_peak_of_memory():
    """Their sizes, the largest first, add up to the memory that is live in this kernel."""
    recording = ex.open(ASSETS / "digits.onnx").preview_plan().recording
    (line,) = [line for line in text(recording).splitlines() if line.startswith("  live in kernel")]
    assert line == "  live in kernel 2: working memory 21.1 KB, add (conv2 / Conv) 3 KB, relu (relu1 / Relu) 2 KB"
    lives = [kernel.live for kernel in recording.schedule.kernels]
    assert lives[1] == max(lives) == recording.schedule.kernels[1].workspace + 3072 + 2048


def test_options_are_before_the_fingerprint_in_order():
    recording = sample.mlp()
    recording.options = {"record": "times", "batch": True}
    assert text(recording).splitlines()[-2] == "options: batch=True, record=times"


@pytest.mark.spec("V-15")
def test_hostile_names_cannot_reach_the_terminal_or_add_lines():
    recording = sample.hostile()
    written = text(recording) + "".join(why(recording, node) for node in range(len(recording.nodes)))
    assert not set(written) & {"\x1b", "\x00", "\u202e"}
    assert len(text(recording).splitlines()) == 4


@pytest.mark.spec("V-15", "V-22")
def test_cell_numbers_do_not_change_static_outputs():
    first, again = sample.mlp(), sample.mlp()
    again.sources = [replace(source, where="In[1]") for source in again.sources]
    assert text(first) == text(again)
    assert svg(first) == svg(again)
    assert [why(first, node) for node in range(len(first.nodes))] == [why(again, n) for n in range(len(again.nodes))]
    again.sources = [replace(source, where="model.py") for source in again.sources]
    assert "recorded at model.py line 1: h" in why(again, again.nodes.label.index("tanh"))


@pytest.mark.spec("V-19")
def test_scopes_with_weights_are_listed_with_their_totals():
    """The text lists the parameters and flops of scopes with weights, two levels deep, and their totals."""
    lines = text(sample.transformer(2)).splitlines()
    start = lines.index("scopes: 40,960 parameters")
    assert lines[start + 1 : start + 4] == [
        "  model · 40,960 parameters · 1.88 M flops",
        "    block0 · 20,480 parameters · 938 K flops",
        "    block1 · 20,480 parameters · 938 K flops",
    ]
    assert not lines[start + 4].startswith("  ")


@pytest.mark.spec("V-19")
def test_a_program_without_weights_in_scopes_lists_none():
    assert "scopes:" not in text(sample.dag(50))


@pytest.mark.spec("V-19")
def test_only_the_first_of_many_scopes_are_listed():
    lines = text(sample.transformer(100)).splitlines()
    assert "  … and 61 more scopes" in lines


@pytest.mark.spec("V-22")
def test_consecutive_equal_decisions_are_one_line_with_a_count():
    """Equal decisions about a thousand samples are one line with ×1,000."""
    plan = ex.EvalPlan(without=["dedup", "batch"])
    for _ in range(1000):
        plan.register(np.exp(np.log(np.exp(ex.tensor(1.5)))))
    lines = [line for line in plan.prepare().explain().splitlines() if line.startswith("simplify ✓")]
    assert len(lines) == 1
    assert lines[0].endswith("×1,000")

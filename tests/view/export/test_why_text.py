from dataclasses import replace

import numpy as np
import pytest

import explorer as ex
from explorer.view.export.text import text
from explorer.view.export.why_text import why
from tests.laws.occasions import given
from tests.view import sample


@pytest.mark.spec("V-2")
def test_why_lists_declined_decisions_facts_and_the_line():
    story = why(sample.mlp(), sample.mlp().nodes.label.index("tanh")).splitlines()
    assert story[:2] == ["tanh · 32×48 float32", "recorded at line 1: h = ex.tanh(x @ W + b)"]
    assert story[2].startswith("  fuse ✗ MatmulEpilogue (passes/fuse.py): matmul has 2 consumers")
    chosen = next(number for number, line in enumerate(story) if line.startswith("  fuse ✓"))
    assert "ElementwiseChain (passes/fuse.py)" in story[chosen]
    assert "      temporary: 6 KB" in story[chosen:]
    assert story[-1].startswith("kernel 2 add → tanh, line 1: level 2, chain 0")


@pytest.mark.spec("V-2")
def test_a_time_has_its_unit_once():
    recording = sample.mlp()
    row = next(decision for decision in recording.decisions if "cost_us" in decision.facts)
    assert "      cost: 1.1 µs" in why(recording, row.subjects[0]).splitlines()


@pytest.mark.spec("V-2", "V-15")
def test_edits_above_a_rule_do_not_change_the_history():
    """A history contains the class and module of a rule; its line is in the recording and in the widget."""
    first, again = sample.mlp(), sample.mlp()
    again.decisions = [replace(row, location=row.location.replace(":2", ":1")) for row in again.decisions]
    assert [row.location for row in first.decisions] != [row.location for row in again.decisions]
    assert [why(first, node) for node in range(len(first.nodes))] == [why(again, n) for n in range(len(again.nodes))]


@pytest.mark.spec("V-2")
def test_why_describes_the_final_state_of_a_node():
    recording = sample.mlp()
    replaced = "replaced by log-softmax (rule LogOfSoftmax, stage simplify)"
    assert f"\n{replaced}\n" in why(recording, recording.nodes.label.index("log"))
    absorbed = why(recording, recording.nodes.label.index("softmax"))
    assert f"\nabsorbed: log, which is computed from it, is {replaced}\n" in absorbed
    assert "no rule matched this node" in why(recording, recording.nodes.label.index("t"))


def test_an_unknown_node_is_rejected():
    with pytest.raises(ValueError, match="node 99 is not in this recording: it has nodes 0 to 16"):
        why(sample.mlp(), 99)


@pytest.mark.spec("V-2", "V-7")
def test_the_history_of_a_node_names_its_known_function() -> None:
    """The text of the whole plan also names known functions, for readers without a picture."""
    x = ex.tensor(np.ones((4, 8), "float32"), name="x")
    plan = ex.EvalPlan()
    plan.register(ex.cos(0.5 * x * (1 + ex.erf(x / 2**0.5))))
    recording = plan.prepare().recording
    message = "part of GELU of x: 5 operations, the last is multiply"
    assert message in why(recording, recording.nodes.label.index("erf"))
    assert message not in why(recording, recording.nodes.label.index("cos"))
    assert "found: GELU ×1" in text(recording).splitlines()


@pytest.mark.spec("V-2", "Q-4")
def test_why_follows_a_replacement_that_another_rule_absorbed() -> None:
    """A quotient becomes a softmax, and its logarithm a log-softmax: each node names its own replacement and stage."""
    x = ex.tensor(np.ones((8, 8)), name="x")
    powers = ex.exp(x)
    plan = ex.EvalPlan()
    plan.register(ex.sum(x * ex.log(powers / ex.sum(powers))))
    recording = plan.prepare().recording
    quotient = why(recording, recording.nodes.label.index("divide")).splitlines()
    place = quotient.index("replaced by softmax (rule QuotientOfExponentials, stage simplify)")
    assert quotient[place + 1] == (
        "softmax is absorbed: log, which is computed from it, is replaced by log_softmax"
        " (rule LogOfSoftmax, stage simplify)"
    )
    assert quotient[place + 2].startswith("computed in kernel ")


@pytest.mark.spec("V-2", "Q-4")
def test_why_names_the_kernel_of_a_convolution_whose_scale_moved_into_its_weights() -> None:
    """The kernel is the one that convolves, not the one that computes the scaled weights."""
    weights, terms = ex.tensor(np.ones((2, 2, 3, 3))), ex.tensor(np.ones((2, 1, 1)))
    plan = ex.EvalPlan(numerics="fast")
    plan.register(ex.relu((ex.conv2d(given(1, 2, 8, 8), weights) + terms - terms * 2) * terms + terms))
    recording = plan.prepare().recording
    history = why(recording, recording.nodes.label.index("conv2d"))
    assert "absorbed: multiply, which is computed from it, is replaced by add (rule FactorIntoWeights" in history
    (kernel,) = [line for line in history.splitlines() if line.startswith("computed in kernel ")]
    assert " conv2d → add → relu, line " in kernel

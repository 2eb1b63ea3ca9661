"""Answers about two nodes, or about the nodes of two boxes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.record.node_decisions import accounts, decisions_between, kernel_answers
from explorer.view.tree.scopes import nodes_named
from tests.golden.programs import recorded

MODELS = Path(__file__).parents[2] / "assets" / "models"


@pytest.mark.spec("V-2")
def test_boxes_read_each_other_through_their_nodes() -> None:
    """Nodes that read a node in the other box from memory come first."""
    recording = recorded("perceptron")
    nodes = [number for number, kind in enumerate(recording.nodes.kind) if kind == "operation"][:40]
    first, second = nodes[:20], nodes[20:]
    singles = [text for one in first for other in second for text in accounts(recording, [one], [other])]
    expected = {text for text in singles if "from memory" in text and not text.startswith("On the path")}
    assert expected
    answers = accounts(recording, first, second)
    assert {text for text in answers if "from memory" in text} == expected
    assert "from memory" in answers[0]


@pytest.mark.spec("V-2")
def test_a_node_that_reads_another_only_in_the_plan_is_reported_so() -> None:
    """The recorded deviation has its own difference, which the plan computes once for both."""
    x = ex.tensor(np.arange(6.0))
    centred = x - x.mean()
    deviation = ex.sqrt(ex.square(x - x.mean()).mean())
    plan = ex.EvalPlan()
    for value in (centred, deviation):
        plan.register(value)
    answer = plan.prepare().why(centred, deviation)
    assert "In the final graph, sqrt reads the result of subtract through square → mean." in answer
    assert "Neither reads" not in answer


@pytest.mark.spec("Q-4", headline=True)
def test_a_pair_is_answered_with_the_kernel_of_both_or_the_first_cut_of_its_path() -> None:
    """Explain why two nodes are not one kernel; for distant nodes, name the first pair on the path and the reason."""
    x, w = ex.tensor(np.ones((8, 8)), name="x"), ex.tensor(np.ones((8, 8)), name="w")
    shifted = x @ w + 1.0
    plan = ex.EvalPlan()
    plan.register(ex.softmax(ex.tanh(shifted) * shifted, 0))
    plan.prepare()
    recording = plan.recording
    labels = [recording.label(node) for node in range(len(recording.nodes))]
    first, last = labels.index("matmul"), labels.index("softmax")
    (cut,) = [text for text in accounts(recording, [first], [last]) if "do not run in one kernel" in text]
    assert cut.startswith("On the path from matmul to ")
    assert "from memory" in cut or "is not fused" in cut
    tanh, softmax = labels.index("tanh"), labels.index("softmax")
    assert accounts(recording, [tanh], [softmax])[0] == "tanh and softmax run in one kernel, number 2 of 2."


@pytest.mark.spec("Q-4")
@pytest.mark.spec("Q-4")
def test_a_pair_with_another_decision_is_still_told_its_kernels() -> None:
    """max_pool2d before relu: the answer is the rewrite that swaps them, and what became of each."""
    recording = ex.open(MODELS / "resnet18.onnx").preview_plan().recording
    nodes, others = (nodes_named(recording, name) for name in ("node_relu", "node_max_pool2d"))
    assert decisions_between(recording, nodes, others)
    relu, pool = kernel_answers(recording, nodes, others)
    assert relu == "relu (node_relu) is not in the final graph, because nothing reads it."
    assert re.fullmatch(r"max_pool2d \(node_max_pool2d\) runs in kernel \d+ of \d+: .*relu\.", pool)


def test_an_answer_about_operators_of_a_file_uses_their_names() -> None:
    """Two ReLUs are told apart, and weights of an operator are not listed."""
    recording = ex.open(MODELS / "resnet18.onnx").preview_plan().recording
    sentences = accounts(recording, nodes_named(recording, "node_relu_1"), nodes_named(recording, "node_relu_2"))
    assert sentences[0].startswith("On the path from relu (node_relu_1) to relu (node_relu_2)")
    assert not any("exists before the run" in sentence for sentence in sentences)

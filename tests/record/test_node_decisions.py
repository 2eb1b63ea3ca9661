"""Answers about two nodes, or about the nodes of two boxes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.compilers import Snapshot, Statement, Value, recording_of
from explorer.record.node_decisions import accounts, decisions_between, kernel_answers, pair_answer
from explorer.view.tree.scopes import nodes_named
from tests.golden.programs import PROGRAMS, recorded
from tests.support.toy_compiler import two_norms

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
    assert "In the final graph, sqrt reads the result of subtract (centred) through square → mean." in answer
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
def test_a_pair_with_another_decision_is_still_told_its_kernels() -> None:
    """max_pool2d before relu: the answer is the rewrite that swaps them, and what became of each."""
    recording = ex.open(MODELS / "resnet18.onnx").preview_plan().recording
    nodes, others = (nodes_named(recording, name) for name in ("node_relu", "node_max_pool2d"))
    assert decisions_between(recording, nodes, others)
    relu, pool = kernel_answers(recording, nodes, others)
    moved = "the rule ExtremeBeforeMonotone (simplify) replaced max_pool2d (node_max_pool2d), which is computed from it"
    assert relu.startswith(f"relu (node_relu) is not in the final graph, because {moved}, with relu. The replacement ")
    assert re.search(r"runs in kernel \d+ of \d+: max_pool2d → .*relu\.$", relu)
    assert re.fullmatch(r"max_pool2d \(node_max_pool2d\) runs in kernel \d+ of \d+: .*relu\.", pool)


@pytest.mark.spec("Q-4")
def test_a_removed_node_is_answered_with_the_rule_that_replaced_it_or_its_reader() -> None:
    """Only a node on which no requested result depends is said to be unread."""
    x, t = ex.tensor(np.ones((8, 8)), name="x"), ex.tensor(np.ones((8, 8)), name="t")
    powers = ex.exp(x)
    share = powers / ex.sum(powers)
    plan = ex.EvalPlan()
    plan.register(-ex.sum(t * ex.log(share)))
    recording = plan.prepare().recording
    labels = [recording.label(node) for node in range(len(recording.nodes))]
    exp, divide = (kernel_answers(recording, [labels.index(name)], [0])[0] for name in ("exp", "divide"))
    absent = "is not in the final graph, because the rule QuotientOfExponentials (simplify) replaced"
    runs = "with softmax. The replacement runs in kernel 1 of 3: log_softmax."
    assert exp == f"exp {absent} divide, which is computed from it, {runs}"
    assert divide == f"divide {absent} it {runs}"


@pytest.mark.spec("Q-4")
def test_an_unread_node_is_said_to_be_unread_only_if_no_rule_replaced_a_reader() -> None:
    """No removed node of the golden programs, which rules and batching rewrite, is said to be unread."""
    for name in PROGRAMS:
        recording = recorded(name)
        removed = [node for node, gone in enumerate(recording.nodes.gone) if gone >= 0][:60]
        assert not any("nothing reads" in text for text in kernel_answers(recording, removed, removed)), name


@pytest.mark.spec("Q-4")
def test_nodes_of_one_name_are_told_apart_by_their_variables_or_numbers() -> None:
    """A sentence about one of two products says which; a name that only one operation has stays as it is."""
    x, w = ex.tensor(np.ones((8, 8)), name="x"), ex.tensor(np.ones((8, 8)), name="w")
    for is_named in (True, False):
        plan = ex.EvalPlan()
        if is_named:
            y = ex.tanh(x @ w) @ w
            plan.register(y)
        else:
            plan.register(ex.tanh(x @ w) @ w)
        recording = plan.prepare().recording
        labels = [recording.label(node) for node in range(len(recording.nodes))]
        tanh, last = labels.index("tanh"), len(labels) - 1 - labels[::-1].index("matmul")
        reader = "matmul (y)" if is_named else "matmul (no. 2)"
        assert kernel_answers(recording, [tanh], [last])[0].startswith(f"{reader} reads the result of tanh from memory")


def test_an_answer_about_operators_of_a_file_uses_their_names() -> None:
    """Two ReLUs are told apart, and weights of an operator are not listed."""
    recording = ex.open(MODELS / "resnet18.onnx").preview_plan().recording
    sentences = accounts(recording, nodes_named(recording, "node_relu_1"), nodes_named(recording, "node_relu_2"))
    assert sentences[0].startswith("On the path from relu (node_relu_1) to relu (node_relu_2)")
    assert not any("exists before the run" in sentence for sentence in sentences)


@pytest.mark.spec("Q-4")
def test_operators_of_one_name_are_given_with_their_boxes() -> None:
    """In this file, the last part of the name of every convolution is Conv."""
    recording = ex.open(MODELS.parent / "digits.onnx").preview_plan().recording
    nodes = [
        [node for node in range(len(recording.nodes)) if recording.nodes.scope[node] == row]
        for row, scope in enumerate(recording.scopes)
        if scope.name == "Conv"
    ]
    sentences = accounts(recording, nodes[0], nodes[1])
    assert sentences[0].startswith("On the path from add (conv1 / Conv) to conv2d (conv2 / Conv), the first two ")


@pytest.mark.spec("Q-4")
def test_a_decision_about_a_part_of_an_operation_is_about_the_operation() -> None:
    """The answer about the product and gelu contains the refusal to fuse the first operation that gelu became."""
    given = {
        "x": Value("x", shape=(4, 4), kind="leaf"),
        "dot": Value("dot", ("x", "x"), (4, 4)),
        "gelu": Value("gelu", ("dot",), (4, 4)),
    }
    parts = {
        "x": given["x"],
        "dot": given["dot"],
        "erf": Value("erf", ("dot",), (4, 4)),
        "mul": Value("mul", ("erf", "dot"), (4, 4)),
    }
    refused = Statement("loops", "declined", "`{operand}` is a call", subjects=("dot", "erf"), facts={"operand": "dot"})
    recording = recording_of(
        "toy",
        [
            Snapshot("given", given, ("gelu",)),
            Snapshot("decompose", parts, ("mul",)),
            Snapshot("loops", parts, ("mul",), (refused, refused), decides="kernels"),
        ],
    )
    answer = ex.explore(recording).why("dot", "gelu")
    assert "`dot` is a call" in answer
    assert answer.count("`dot` is a call") == 1
    assert "] ×2\n" in answer
    assert "no decision" not in answer


@pytest.mark.spec("Q-4", "X-9")
def test_nodes_in_the_same_kernels_share_a_sentence() -> None:
    recording = two_norms()
    roots, sums, quotients = (nodes_named(recording, name) for name in ("sqrt", "add", "div"))
    assert accounts(recording, sums, quotients)[0] == (
        "Kernel 2 reads results of kernel 1 from memory: one loop. It reads add (no. 1) for div (no. 1), "
        "add (no. 2) for div (no. 2)."
    )
    assert accounts(recording, roots, quotients)[1:3] == [
        "sqrt (no. 1), sqrt (no. 2) run in kernel 1 of 2: square → square → sqrt → sqrt → add → add.",
        "div (no. 1), div (no. 2) run in kernel 2 of 2: div → div.",
    ]


@pytest.mark.spec("X-4", "X-9")
def test_a_refused_pattern_answers_for_all_its_operations() -> None:
    recording = two_norms()
    node = {recording.nodes.attributes[row]["name"]: row for row in range(len(recording.nodes))}
    for name in ("add x", "sqrt x", "square x"):
        cards = pair_answer(recording, [node[name]], [node["div x"]]).cards
        assert [recording.decisions[number].rule for number in cards] == ["norm"]
    assert pair_answer(recording, [node["sqrt y"]], [node["div y"]]).cards == []
    assert recording.declined_edges == [(0, node["add x"], node["div x"])]

"""Tables of the front end: every text is composed, safe to show, and written once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

import explorer as ex
from explorer import layers
from explorer.core.policy import Policy, Sub
from explorer.record import Recording
from explorer.record.escape import visible
from explorer.record.layer_rows import layer_lines
from explorer.record.node_decisions import decisions_about, declined_before
from explorer.view.export.text import text
from explorer.view.export.why_text import why
from explorer.view.payload.recording_tables import recording_tables
from explorer.view.payload.view_payload import payload
from tests.support.unpacked import unpack
from tests.view import sample


def _tables(recording: Recording) -> dict[str, Any]:
    tables: dict[str, Any] = unpack(payload(recording)["recording"])
    return tables


def _text(tables: dict[str, Any], fact: Any, marks: Mapping[str, str] = {}) -> str:  # never written
    if isinstance(fact, list):
        return "".join(_text(tables, part, marks) for part in fact)
    return tables["nodes"]["label"][fact] + marks.get(str(fact), "") if isinstance(fact, int) else str(fact)


def _sentence(tables: dict[str, Any], number: int) -> str:
    """Return the sentence of a decision, composed as in the front end."""
    words, decision = [], tables["decisions"][number]
    marks = tables["marks"].get(str(number), {})
    for part in tables["reasons"][decision["reason"]]["sentence"]:
        if isinstance(part, str):
            words.append(part)
        elif isinstance(part, list):
            label, *style = part
            fact = _text(tables, decision["facts"][label], marks)
            words.append(f"`{fact}`" if style else fact)
        else:
            words.append(f"`{part['code']}`")
    return "".join(words)


def _counted(count: int) -> Recording:
    """Return a recording with decisions whose sentences contain counts, quotations and lists."""
    recording = sample.mlp()
    sentences = [
        "in {count:place}",
        "{count:temporary|temporaries} of {size_bytes} never written, says `np.sum`",
        "`{of}` is computed once for {count:equal expression}",
        "{} and {a b} and {count:} stay, {count}{count}",
        "{same_bits}: {both} and {texts}",
    ]
    facts = {
        "count": count,
        "size_bytes": 6144 * count,
        "of": {"node": 3},
        "same_bits": count > 1,
        "both": [{"node": 1}, {"node": 2}, count],
        "texts": ["a", "b"],
    }
    for number, sentence in enumerate(sentences):
        recording.decisions[number] = replace(recording.decisions[number], reason=sentence, facts=facts)
    return recording


@pytest.mark.spec("V-2")
@pytest.mark.parametrize(
    "recording", [*map(_counted, (0, 1, 2, 3000)), sample.mlp(), sample.resnet(), sample.hostile()]
)
def test_sentences_and_facts_equal_those_of_the_text(recording: Recording) -> None:
    """Nouns are singular or plural, lists have commas, numbers have units, and hidden characters are visible."""
    tables = _tables(recording)
    sentences = [_sentence(tables, number) for number in range(len(tables["decisions"]))]
    assert sentences == [visible(recording.reason(decision)) for decision in recording.decisions]
    for number, row in enumerate(tables["decisions"]):
        decision = recording.decisions[number]
        node = (decision.subjects or decision.produced)[0]
        if recording.stages[decision.stage].kind in ("memory", "format") and len(decision.subjects) > 1:
            continue  # a fact about the whole plan, which the story of one node leaves out
        story = why(recording, node).splitlines()
        assert {f"      {label}: {_text(tables, fact)}" for label, fact in row["facts"].items()} <= set(story)


@pytest.mark.spec("V-2")
def test_equal_decisions_share_a_sentence_and_an_explanation() -> None:
    """A thousand decisions of one rule add facts, not texts."""
    few, many = (unpack(recording_tables(_flat(count))["reasons"]) for count in (20, 400))
    assert len(many) == len(few)
    assert json.dumps(many) == json.dumps(few)


def _flat(count: int) -> Recording:
    x = ex.tensor([[1.0, -2.0]], name="x")
    plan = ex.EvalPlan(without=["batch"])
    for number in range(count):
        plan.register(ex.relu(ex.exp(x * float(number + 2))))
    return plan.prepare().recording


@pytest.mark.spec("V-2")
def test_a_change_lists_the_decisions_declined_before_it() -> None:
    """Each applied decision lists the earlier declined decisions of its stage about the nodes that it changed."""
    recording = sample.mlp()
    before = declined_before(recording)
    assert any(before)
    for number, decision in enumerate(recording.decisions):
        first = recording.stages[decision.stage].first
        expected = [
            earlier
            for earlier in range(first, number)
            if recording.decisions[earlier].verdict == "declined"
            and set(recording.decisions[earlier].subjects) & set(decision.subjects)
        ]
        assert list(before[number]) == (expected if decision.verdict == "applied" else [])
        for node in decision.subjects:
            assert {number, *before[number]} <= set(decisions_about(recording, node))
    assert [tuple(row["before"]) for row in _tables(recording)["decisions"]] == before


def test_only_the_last_of_many_declined_decisions_are_listed() -> None:
    """A value read by thousands of operations does not make the tables quadratic."""
    recording = sample.mlp()
    applied = next(row for row in recording.decisions if row.verdict == "applied")
    first, second = (replace(applied, verdict="declined", stage=0, subjects=(node,)) for node in (0, 1))
    both, count = replace(applied, stage=0, subjects=(0, 1)), 3000
    recording.decisions = [*[first, second] * (count // 2), *[both] * count]
    recording.stages = [replace(recording.stages[0], first=0, last=2 * count)]
    before = declined_before(recording)
    assert set(before[count:]) == {tuple(range(count - 40, count))}


@pytest.mark.spec("V-19")
def test_counts_of_stages_equal_those_of_the_text() -> None:
    recording = sample.mlp()
    lines = text(recording).splitlines()
    for row in _tables(recording)["stages"]:
        counts = ", ".join(" ".join(count) for count in row["counts"])
        assert any(line.startswith(f"{row['name']}: {counts}") for line in lines)


@pytest.mark.spec("M-L10")
def test_layers_are_described_as_in_the_text() -> None:
    """Ports, order, clauses, policies and gradients of a layer equal those of ``layer.describe()``."""
    chosen: list[Policy | Sub] = [layers.PUpdate, layers.PerceptronPolicy.activation(layers.Sigmoid)]
    inputs = {"input": ex.TensorType((4, 2), "float32")}
    layer = layers.SingleLayerPerceptron("root", 2, 3, policies=chosen, inputs=inputs)
    recording = layer.explore().recording
    written = [line.strip() for line in layer_lines(recording.layers)]
    for row in _tables(recording)["layers"]:
        shown = [f"order: {row['order']}"] * bool(row["order"]) + row["clauses"]
        shown += [f"{policy} · {by}" for policy, by in row["policies"]]
        shown += [f"{'✓' if built else '✗'} {reason}" for built, reason in row["feedback"]]
        assert set(shown) <= set(written)
        assert any(f" · {row['type']} · {row['ports']}" in line for line in written)


def test_every_text_of_a_hostile_file_is_safe_to_show() -> None:
    """The page never contains control characters, line breaks or marks that reverse the text direction."""

    def texts(value: Any) -> list[str]:
        if isinstance(value, dict):
            return [result for key, item in value.items() for result in [key, *texts(item)]]
        if isinstance(value, (list, tuple)):
            return [result for item in value for result in texts(item)]
        return [value] if isinstance(value, str) else []

    result = texts(payload(sample.hostile()))
    assert result == [visible(each) for each in result]
    assert any("\\u202e" in each for each in result)


@pytest.mark.spec("V-6")
def test_the_first_nan_is_in_a_leaf_or_else_in_the_run() -> None:
    """A leaf with a NaN comes first; without one, the first result with a NaN in run order."""
    recording = sample.mlp()
    assert recording.run is not None
    assert recording.schedule is not None
    assert _tables(recording)["first_nan"] == -1
    order = [node for step in recording.run.steps for node in recording.schedule.kernels[step.kernel].nodes]
    valued = [node for node in order if node in recording.run.values]
    for node in (valued[-1], valued[0]):
        recording.run.values[node] = replace(recording.run.values[node], nan=1)
        assert _tables(recording)["first_nan"] == node
    leaf = recording.nodes.kind.index("leaf")
    recording.run.values[leaf] = replace(recording.run.values[valued[0]], nan=1)
    assert _tables(recording)["first_nan"] == leaf

"""A recording at a position: existing nodes, replacements of removed ones, and declined decisions."""

from __future__ import annotations

import pytest

from explorer.record import Body, Decision, Nodes, Recording, Source, Stage, Type


def decision(verdict: str, *subjects: int, **facts: float) -> Decision:
    return Decision(0, "Rule", verdict, "code", "said", dict(facts), subjects)  # type: ignore[arg-type]  # a verdict


@pytest.fixture
def recording() -> Recording:
    """Return a leaf and its reader, which decision 0 replaces with node 2, and decision 1 replaces that with node 3."""
    return Recording(
        operations=["Source", "Add"],
        types=[Type((2,), "float32", "cpu")],
        bodies=[Body("", (0,), (1,))],
        nodes=Nodes(
            operation=[0, 1, 1, 1],
            kind=["leaf", "operation", "operation", "operation"],
            label=["x", "one", "two", "three"],
            type=[0] * 4,
            operands=[(), (0, 0), (0,), (0,)],
            scope=[0] * 4,
            source=[-1] * 4,
            flops=[0] * 4,
            bytes=[0] * 4,
            born=[-1, -1, 0, 1],
            gone=[-1, 0, 1, -1],
            body=[0] * 4,
            callee=[-1] * 4,
        ),
        stages=[Stage("simplify", "rewrite", 0, 2, {"nodes": 2})],
        decisions=[decision("applied", 1), decision("applied", 2)],
        substitutions=[(0, 1, 2), (1, 2, 3)],
    )


@pytest.mark.spec("V-1")
@pytest.mark.parametrize(
    ("position", "there", "stands"),
    [(0, [0, 1], {}), (1, [0, 2], {1: 2}), (2, [0, 3], {1: 3, 2: 3})],
)
def test_a_decision_takes_effect_at_the_position_after_it(
    recording: Recording, position: int, there: list[int], stands: dict[int, int]
) -> None:
    """Nodes appear and disappear with the decisions before a position, and readers follow."""
    assert recording.visible(position) == there
    assert recording.resolver(position) == stands
    last = there[-1]
    assert list(recording.edges(position)) == [(0, last, place) for place in range(len(recording.nodes.operands[last]))]
    assert recording.visible(position, body=1) == []


def test_declined_decisions_are_sorted_by_cost_with_unpriced_ones_last(recording: Recording) -> None:
    recording.decisions = [
        decision("declined", estimated_cost_us=1.0),
        decision("declined"),
        decision("applied", estimated_cost_us=9.0),
        decision("declined", estimated_cost_us=5.0),
    ]
    assert [declined.facts.get("estimated_cost_us") for declined in recording.declined] == [5.0, 1.0, None]


@pytest.mark.spec("V-2")
@pytest.mark.parametrize(
    ("rows", "types", "sentence"),
    [
        ([0, 1, 2], [0, 0, 0], "`add (line 1)` reads `add (line 2)` and add (line 1) and add (line 4)"),
        ([0, 1, 3], [0, 0, 0], "`add (line 1)` reads `add (line 2)` and add (line 1) and add (net.py line 2)"),
        ([0, 0, 2], [0, 1, 2], "`add (2 float32)` reads `add (3 float32)` and add (2 float32) and add (4 float32)"),
        ([-1, 0, 1], [0, 0, 1], "`add (no. 1)` reads `add (no. 2)` and add (no. 1) and add (no. 3)"),
    ],
)
def test_nodes_with_one_name_in_a_sentence_are_distinguished(
    recording: Recording, rows: list[int], types: list[int], sentence: str
) -> None:
    """By line if possible, otherwise by type, and otherwise by number; a unique name has no mark."""
    recording.sources = [Source("In[1]", line, "") for line in (1, 2, 4)] + [Source("net.py", 2, "")]
    recording.types = [Type((size,), "float32", "cpu") for size in (2, 3, 4)]
    recording.nodes.label[1:] = ["add"] * 3
    recording.nodes.source[1:], recording.nodes.type[1:] = rows, types
    facts = {"a": {"node": 1}, "b": {"node": 2}, "rest": [{"node": 1}, {"node": 3}], "x": {"node": 0}}
    decision = Decision(0, "Rule", "applied", "code", "`{a}` reads `{b}` and {rest}", facts, (1,))
    assert recording.reason(decision) == sentence
    alone = Decision(0, "Rule", "applied", "code", "`{a}` reads `{x}`", facts, (1,))
    assert recording.reason(alone) == "`add` reads `x`"
    by_text = Decision(0, "Rule", "applied", "code", "`{a}` is read by {reader}", {**facts, "reader": "add"}, (1,))
    assert recording.reason(by_text).startswith("`add (")
    assert recording.reason(by_text).endswith("is read by add")

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.view.export.decision_lines import DecisionLine, decision_line, decision_lines, read_line
from tests.view import sample

WORDS = st.text(
    st.characters(blacklist_categories=["Cc", "Cs", "Zl", "Zp"], blacklist_characters="·✓✗:[]×"), min_size=1
).map(lambda text: text.strip() or "a")
LINES = st.builds(
    DecisionLine,
    st.sampled_from(["fuse", "simplify again", "memory_format"]),
    st.sampled_from(["✓", "✗"]),
    st.one_of(st.just(""), WORDS),
    st.sampled_from(["Epilogue", "Rule2", "_x"]),
    WORDS,
    st.sampled_from(["one_hot", "not-free", "chain"]),
    st.integers(1, 10**6),
)


@pytest.mark.spec("V-22")
@given(LINES)
def test_a_parsed_line_equals_the_written_line(line: DecisionLine) -> None:
    assert read_line(str(line)) == line


@pytest.mark.spec("V-22")
def test_a_line_contains_stage_verdict_location_rule_reason_and_code() -> None:
    recording = sample.mlp()
    declined = next(row for row in recording.decisions if row.code == "joins-two")
    assert str(decision_line(recording, declined)) == (
        "fuse ✗ add, line 2 · ElementwiseChain: "
        "add joins two chains; it would compute tanh twice (1.1 µs more) [joins-two]"
    )


@pytest.mark.parametrize(
    "line",
    ["", "fuse: nodes 11, 2 ✓ 2 ✗", "  1 matmul: level 1, chain 0; only", "loss · 7f3a90c2e1b45d68", "options: a=[1]"],
)
def test_other_lines_are_not_decisions(line: str) -> None:
    assert read_line(line) is None


@pytest.mark.spec("V-22")
def test_consecutive_equal_reasons_share_a_line() -> None:
    recording = sample.mlp()
    first, other = recording.decisions[:2]
    moved = replace(first, subjects=(first.subjects[0] + 1,))
    lines = decision_lines(recording, [first, moved, other, first])
    assert [line.times for line in lines] == [2, 1, 1]
    assert lines[0] == lines[2]._replace(times=2)
    assert str(lines[0]).endswith("[identity] ×2")
    assert decision_lines(recording, []) == []


@pytest.mark.parametrize("part", [" · a: [x", " · a: [x]", " · ", " [a] ×1", "[a] ×11,", "a ", " ✓ "])
def test_a_hostile_line_is_read_in_time(part: str) -> None:
    """Parsing each line would take hours if the time grew with a power of its length."""
    for head in ("", "fuse ✓ "):
        read_line(head + part * 20_000 + "!")

import pytest

from explorer.view.compare.decision_changes import changes, stated, text_changes
from explorer.view.export.decision_lines import DecisionLine
from explorer.view.export.text import text
from tests.view import sample

CHAIN = DecisionLine("fuse", "✓", "block / add, line 3 and 2 more", "Chain", "They are one loop.", "chain")
DECLINED = DecisionLine("fuse", "✗", "block / add, net.py line 4", "Epilogue", "Two read it.", "consumers")
MERGED = DecisionLine("dedup", "✓", "matmul, line 2", "Dedup", "It is computed once.", "merged")


def differences(before: list[DecisionLine], after: list[DecisionLine]) -> list[str]:
    return changes(stated(before), stated(after))


@pytest.mark.spec("V-22")
def test_a_different_decision_at_the_same_location_shows_both() -> None:
    assert differences([CHAIN], [DECLINED]) == [
        "fuse · block / add, net.py line 4: was ✓ Chain [chain], now ✗ Epilogue [consumers]: Two read it."
    ]


@pytest.mark.spec("V-22")
def test_a_decision_of_one_side_has_its_reason_and_stage() -> None:
    assert differences([CHAIN, MERGED], [CHAIN, DECLINED]) == [
        "fuse · block / add, net.py line 4: there was none, now ✗ Epilogue [consumers]: Two read it.",
        "dedup · matmul, line 2: was ✓ Dedup [merged] (It is computed once.), now there is none",
    ]


@pytest.mark.spec("V-22")
def test_shifted_lines_are_one_line_of_the_difference() -> None:
    below = CHAIN._replace(location="block / add, line 9 and 2 more")
    (line,) = differences([MERGED, CHAIN], [MERGED, below])
    assert line.startswith("1 decision as before, at other lines of the source: ")
    assert line.endswith(f": {CHAIN.location} → {below.location}")
    assert differences([MERGED], [MERGED._replace(location="product, line 2")]) == [
        "dedup · matmul, line 2: the same decision, ✓ Dedup [merged], is now about product, line 2"
    ]


@pytest.mark.spec("V-22")
def test_lines_for_several_decisions_are_compared_one_by_one() -> None:
    assert differences([MERGED._replace(times=3)], [MERGED, MERGED, MERGED]) == []
    (line,) = differences([MERGED._replace(times=3)], [MERGED])
    assert line.endswith("was ✓ Dedup [merged] (It is computed once.), now there is none ×2")


@pytest.mark.spec("V-22")
def test_a_different_reason_for_the_same_decision_shows_both() -> None:
    (line,) = differences([MERGED], [MERGED._replace(sentence="It saves 2 KB.")])
    assert line == ("dedup · matmul, line 2: still ✓ Dedup [merged]; was: It is computed once; now: It saves 2 KB")
    long = "The block goes through all others while it is in the cache, so {} of memory are never written at all."
    (line,) = differences(
        [CHAIN._replace(sentence=long.format("24 KB"))], [CHAIN._replace(sentence=long.format("16 KB"))]
    )
    assert line.endswith("; was: … the cache, so 24 KB of memory …; now: … the cache, so 16 KB of memory …")
    (line,) = differences([MERGED], [MERGED._replace(sentence="It is computed once. It is.")])
    assert line.endswith("; was: It is computed once; now: It is computed once. It is")
    chain = "`{}` are fused, because each block can go through all of them while it is in the cache, so {} are saved."
    (line,) = differences(
        [CHAIN._replace(sentence=chain.format("matmul → add → tanh → multiply", "18 KB in 3 results"))],
        [CHAIN._replace(sentence=chain.format("matmul → add → tanh", "12 KB in 2 results"))],
    )
    assert line == (
        "fuse · block / add, line 3 and 2 more: still ✓ Chain [chain]; "
        "was: `matmul → add → tanh → multiply` are fused, because … the cache, so 18 KB in 3 results are saved; "
        "now: `matmul → add → tanh` are fused, because … the cache, so 12 KB in 2 results are saved; "
        "no longer in it: multiply"
    )


@pytest.mark.spec("V-22")
def test_lost_and_declined_decisions_come_before_reworded_ones() -> None:
    first = CHAIN._replace(sentence="It saves 2 KB.")
    added = DecisionLine("fuse", "✓", "sum, line 4", "Prologue", "It reads.", "reduction", 1)
    declined = added._replace(mark="✗", location="exp, line 5", code="other_consumers")
    lost = added._replace(location="relu, line 6", rule="Epilogue", code="epilogue")
    lines = differences([CHAIN, lost], [first, added, declined])
    order = ["relu", "exp", "sum", "block"]
    assert [next(name for name in order if f"fuse · {name}" in line) for line in lines] == order


@pytest.mark.spec("V-22")
def test_a_declined_decision_repeated_by_the_cost_report_is_listed_once() -> None:
    before, after = f"{CHAIN}\nwhat it costs: none", f"{CHAIN}\n{DECLINED}\nwhat it costs: 1\n   1.43 µs  {DECLINED}"
    assert len(text_changes(before, after)) == 1
    cost = f"   1.43 µs  {DECLINED}"
    assert len(text_changes("", cost)) == 1


@pytest.mark.spec("V-22")
def test_differences_of_texts_are_decisions_or_else_other_lines() -> None:
    before, after = sample.mlp(), sample.mlp()
    assert text_changes(text(before), text(after)) == []
    after.fingerprint = "0" * 16
    assert [line for line in text_changes(text(before), text(after)) if line[0] in "-+"] == [
        "-loss · 7f3a90c2e1b45d68",
        "+loss · 0000000000000000",
    ]
    after.decisions = [row for row in after.decisions if row.code != "joins-two"]
    (line,) = text_changes(text(before), text(after))
    assert line.startswith("fuse · add, line 2: was ✗ ElementwiseChain [joins-two] (")


def test_many_differences_are_cut() -> None:
    many = [MERGED._replace(location=f"node{number}", sentence=f"No. {number}.") for number in range(100)]
    text = differences(many, [])
    assert len(text) == 41
    assert text[-1] == "… and 60 more"

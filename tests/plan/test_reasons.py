"""The catalogue of reasons: it declares every decision's reason, and assets/reasons.md explains it."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import explorer as ex
from assets.reasons import page
from explorer.plan.graph.reasons import CATALOGUE, Reason, RuleInfo
from explorer.plan.pipeline import PIPELINE, pass_of
from explorer.plan.rewrite.constant_folding import Folding
from explorer.record import from_json, to_json
from tests.golden.programs import PROGRAMS, recorded
from tests.laws.occasions import OCCASIONS
from tests.support.programs import prepared

ROOT = Path(__file__).parents[2]
PLAN = ROOT / "explorer" / "plan"
OWN = [
    reason
    for (owner, _), reason in CATALOGUE.items()
    if owner.startswith("explorer.") and not owner.startswith("explorer.course.")
]


def _undeclared(path: Path) -> Iterator[str]:
    """Yield calls that pass a string instead of a declared reason."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            texts = [part for part in node.args if isinstance(part, (ast.Constant, ast.JoinedStr, ast.BinOp))]
            if name in ("Applied", "Declined") or (name in ("decide", "decline") and texts):
                yield f"{path.name}:{node.lineno} {name}"


@pytest.mark.spec("P-2")
def test_every_rule_and_pass_has_one_info_record() -> None:
    """Rules, passes and criteria of passes have a RuleInfo with name, purpose and location."""
    passes = [pass_of(step) for step in PIPELINE]
    for decider in (*ex.Rule.rules, *passes):
        info = decider.info
        assert (info.name, info.owner) == (type(decider).__name__, type(decider))
        assert info.purpose == (type(decider).__doc__ or "").strip().split("\n")[0]
        assert "``" not in info.purpose, "a panel shows it as it stands"
    owners = [*map(type, passes), Folding]
    criteria = [info for owner in owners for info in vars(owner).values() if isinstance(info, RuleInfo)]
    names = {info.name: info for info in [*criteria, *[rule.info for rule in ex.Rule.rules]]}
    for program in PROGRAMS:
        for decision in recorded(program).decisions:
            assert decision.location == names[decision.rule].location
            assert decision.location.startswith("plan/")


@pytest.mark.spec("P-2")
def test_no_reason_is_given_as_a_string() -> None:
    """Rules and passes use only declared reasons, and the two answer classes are created in one place."""
    values = [result for path in PLAN.rglob("*.py") if path.name != "reasons.py" for result in _undeclared(path)]
    assert not values
    assert [*_undeclared(PLAN / "graph" / "reasons.py")]


def test_a_sentence_belongs_to_one_reason() -> None:
    """Code and sentence identify a decision's reason, so that recordings store each explanation once."""
    doubled = [key for key, count in Counter([(each.code, each.sentence) for each in OWN]).items() if count > 1]
    assert not doubled
    assert max(Counter([each.anchor for each in OWN]).values()) == 1


@pytest.mark.spec("P-2")
def test_the_page_is_up_to_date() -> None:
    """``python assets/reasons.py`` writes assets/reasons.md from the catalogue."""
    text = page()
    assert (ROOT / "assets" / "reasons.md").read_text(encoding="utf-8") == text
    assert not [each.anchor for each in OWN if f'<a id="{each.anchor}"></a>' not in text]


@pytest.mark.spec("V-2", "V-6")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_recording_contains_each_explanation_once(name: str) -> None:
    recording = recorded(name)
    explained = [(each.code, each.reason) for each in recording.explanations]
    assert len({*explained}) == len(explained)
    assert {(decision.code, decision.reason) for decision in recording.decisions} == {*explained}
    assert from_json(to_json(recording)).explanations == recording.explanations


def _tried(reason: Reason, **options: Any) -> list[Reason]:
    """Return the reasons in a reason's program under other options."""
    program = OCCASIONS[reason]
    build, own = program if isinstance(program, tuple) else (program, {})
    roots = build()
    roots = roots if isinstance(roots, list) else [roots]
    return [decision.reason for decision in prepared(*roots, **{**own, **options}).planned.graph.decisions]


@pytest.mark.spec("P-2", "P-18")
@pytest.mark.parametrize("reason", [each for each in OWN if "without=[" in each.change], ids=lambda each: each.anchor)
def test_omitting_a_pass_changes_a_decision_as_advised(reason: Reason) -> None:
    """If the advice contains ``without=["pass"]``, the decision disappears."""
    (name,) = re.findall(r'without=\["(\w+)"\]', reason.change)
    assert (reason in _tried(reason, without=(name,))) == ("unless" in reason.change)


@pytest.mark.spec("P-2", "P-18")
@pytest.mark.parametrize(
    "reason", [each for each in OWN if "Raise the limit" in each.change], ids=lambda each: each.anchor
)
def test_a_higher_limit_changes_a_decision_as_advised(reason: Reason) -> None:
    assert "ex.passes.Inline(limit=…)" in reason.change
    assert reason not in _tried(reason, inline=ex.passes.Inline(limit=10**6))


@pytest.mark.spec("P-2")
def test_a_code_is_explained_by_all_reasons_that_have_it() -> None:
    result = ex.reason("second_product")
    assert len(result) == 2
    assert all(each.meaning in repr(result) and each.change in repr(result) for each in result)
    with pytest.raises(ex.UnknownNameError, match="second_product"):
        ex.reason("second_prodct")


def test_a_user_defined_reason_is_declared_in_a_cell() -> None:
    class Own(ex.Rule, abstract=True):
        halved = ex.Reason("halved", "`{x}` is halved.")

    answer = Own.halved.applied(ex.tensor(1.0), x=1)
    assert (answer.entry, answer.facts) == (Own.halved, {"x": 1})
    assert Own.halved in ex.reason("halved")
    assert "halved" in str(ex.reason("halved"))

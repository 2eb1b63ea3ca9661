"""The glossary: terms of the planner, each explained once, and none without an explanation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import explorer
from explorer.plan.graph.reasons import CATALOGUE
from explorer.plan.pipeline import PIPELINE, pass_of
from explorer.record.glossary import GLOSSARY, inflections
from explorer.run.recording.recorder import build
from explorer.view.model.decision_facts import fact_labels, stage_counts
from tests.laws.occasions import OCCASIONS, occasion

HEADING = re.compile(r"heading\(([\"`])(.*?)\1")
ROW = re.compile(r'\["([a-z][a-z ,]*)",')
PLANNER = Path(explorer.__file__).parent / "plan"
WORD = re.compile(r"[A-Za-z][A-Za-z-]+")
PLAIN_TEXT = """
    again before by decision decisions declared depth depths division error even exp
    exponent exponentials factor factors graph groups index into last log model negative no nodes norm
    not number numbers of on one ones operations options order orders other pair pairs passes pick places plan
    power product products reshape rounds rows rule rules simplify slice sqrt square step sum sums
    terms through transpose two use uses weights with zero zeros after all alone apart axes below beside
    bits bodies bytes call computed cost count direct divisor equal estimated found given inner instead joined
    kept known labels least limit listed name node operation outer part parts position powers read recorded
    reuse row same saved second separate shape size source there together turned turns type value wanted whole
    wholes why without applied costs declined in needed parameter place update updates apply branch choice
    condition formula loop operator shapes text values asked for written calls divide divided
    copied copies copy join joins left picked round start work chosen divides effect harm near others picks plans
    changes program
"""
PLAIN = frozenset(PLAIN_TEXT.split())
"""words that the planner's code and its texts share, and that a NumPy user knows; every other one is a term"""


def texts() -> Iterator[str]:
    """All sentences that a panel can show of a plan: reasons with what they mean, and the purposes of passes."""
    for reason in CATALOGUE.values():
        yield f"{reason.sentence}\n{reason.meaning}\n{reason.change}"
    for step in PIPELINE:
        yield pass_of(step).purpose


def labels() -> Iterator[str]:
    """All labels of facts and counts, and the names of stages, of a program for each reason."""
    for reason in OCCASIONS:
        recording = build(occasion(reason).plan, "", {})
        for decision in recording.decisions:
            yield from fact_labels(decision).values()
        for stage in recording.stages:
            yield stage.name.replace("_", " ")
            yield from [name for name, _ in stage_counts(stage)]


def front_end() -> Iterator[str]:
    """All headings and names of rows that the panel's own code has."""
    for file in sorted((Path(explorer.__file__).parent / "view/static/panel").glob("*.js")):
        code = file.read_text(encoding="utf-8")
        for _, text in HEADING.findall(code):
            yield re.sub(r"\$\{.*?\}", "", text)
        yield from ROW.findall(code)


def names() -> set[str]:
    """The words that the planner's modules and classes are called by."""
    results: set[str] = set()
    for file in PLANNER.rglob("*.py"):
        results.update(file.stem.split("_"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                results.update(word.lower() for word in re.findall(r"[A-Z][a-z]+|[a-z]+", node.name))
    return results


def stems(word: str) -> set[str]:
    return {word, word.removesuffix("s"), word.removesuffix("es")}


def explained() -> set[str]:
    return {word.lower() for term in GLOSSARY for form in inflections(term) for word in WORD.findall(form)}


@pytest.mark.spec("V-2")
def test_every_term_that_a_panel_can_show_has_its_tip() -> None:
    """A word of a text by which the planner's code calls something, and a word of a label, is a term or plain."""
    code, known = names(), explained()
    said = {
        word.lower()
        for text in (*texts(), *front_end())
        for word in WORD.findall(re.sub(r"\{[^}]*\}|`[^`]*`", "", text))
    }
    shown = {word for word in said if stems(word) & code}
    shown |= {word.lower() for label in labels() for word in WORD.findall(label)}
    assert sorted(word for word in shown if word not in known and word not in PLAIN) == []
    assert sorted(PLAIN - shown) == [], "words that no text has"
    assert sorted(PLAIN & known) == [], "words that are explained"
    assert len(shown & known) > 30


@pytest.mark.spec("V-2")
def test_a_term_is_known_at_the_beginning_of_a_sentence_and_in_its_other_forms() -> None:
    for term, form in (("fused", "Fusion"), ("batch", "Batched"), ("temporary", "Temporaries"), ("consumer", "Reader")):
        assert form in inflections(term)
    for term in GLOSSARY:
        forms = inflections(term)
        assert term in forms
        assert {form[0].upper() + form[1:] for form in forms} <= set(forms)


@pytest.mark.spec("V-2")
def test_an_explanation_follows_its_term() -> None:
    """Each explanation is one line without a full stop, no two terms are spelt alike, and all stand in order."""
    assert all(text and "\n" not in text and not text.endswith(".") for text in GLOSSARY.values())
    forms = [form for term in GLOSSARY for form in inflections(term)]
    assert len(forms) == len(set(forms))
    assert list(GLOSSARY) == sorted(GLOSSARY, key=str.lower)

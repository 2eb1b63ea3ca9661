from dataclasses import replace

import pytest

from explorer.record import from_json, render, to_json
from explorer.record.reasons import counted_text
from tests.view import sample


def label(node: int) -> str:
    return f"node {node}"


@pytest.mark.parametrize(
    ("template", "facts", "said"),
    [
        ("in {count:place}", {"count": 1}, "in 1 place"),
        ("in {count:place}", {"count": 3000}, "in 3,000 places"),
        ("in {count:place}", {"count": 0}, "in 0 places"),
        ("{n:process} of {k:box}", {"n": 2, "k": 1}, "2 processes of 1 box"),
        ("{n:batch} of {k:axis|axes}", {"n": 1, "k": 3}, "1 batch of 3 axes"),
        ("{n:temporary|temporaries} of {n_bytes}", {"n": 1, "n_bytes": 6144}, "1 temporary of 6 KB"),
        ("{n:temporary|temporaries} of {n_bytes}", {"n": 2, "n_bytes": 1}, "2 temporaries of 1 B"),
        ("{count:equal expression}: {of}", {"count": 2, "of": {"node": 7}}, "2 equal expressions: node 7"),
        ("{} and {a b} stay, {x}", {"x": "{y}"}, "{} and {a b} stay, {y}"),
    ],
)
def test_facts_are_counted_with_their_noun(template, facts, said):
    assert render(template, facts, label) == said


@pytest.mark.parametrize(
    ("count", "noun", "said"),
    [
        (2, "process", "2 processes"),
        (1, "process", "1 process"),
        (0, "box", "0 boxes"),
        (3, "batch", "3 batches"),
        (2, "mesh", "2 meshes"),
        (1000, "value", "1,000 values"),
    ],
)
def test_things_are_counted(count: int, noun: str, said: str) -> None:
    assert counted_text(count, noun) == said


@pytest.mark.parametrize(
    ("fact", "value", "said"),
    [
        ("n_bytes", 1023, "1023 B"),
        ("n_bytes", 1024, "1 KB"),
        ("n_bytes", 1023 * 1024, "0.999 MB"),
        ("n_bytes", 5 * 2**40, "5 TB"),
        ("n_flops", 1, "1 flop"),
        ("n_flops", 999, "999 flops"),
        ("n_flops", 999_900, "1 M flops"),
        ("n_us", 999.7, "1 ms"),
        ("n_us", 999_700, "1 s"),
        ("same_bits", True, "yes"),
        ("parts", False, "no"),
    ],
)
def test_amounts_are_shown_in_an_appropriate_unit(fact, value, said):
    assert render(f"{{{fact}}}", {fact: value}, label) == said


@pytest.mark.parametrize(
    ("reason", "facts", "wrong"),
    [
        ("in {count:place}", {}, "'count' is none of the facts"),
        ("in {count:place}", {"count": "many"}, "'count' counts 'place' in decision .*expected an integer"),
        ("in {count:place|places}", {"count": True}, "expected an integer"),
    ],
)
def test_a_noun_counts_an_integer_among_the_facts(reason, facts, wrong):
    recording = sample.mlp()
    recording.decisions[0] = replace(recording.decisions[0], reason=reason, facts=facts)
    with pytest.raises(ValueError, match=wrong):
        from_json(to_json(recording))

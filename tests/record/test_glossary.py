"""The glossary: inflected forms of terms, and their order."""

from __future__ import annotations

import pytest

from explorer.record.glossary import GLOSSARY, inflections


@pytest.mark.spec("V-2")
def test_a_term_is_recognized_at_the_start_of_a_sentence_and_in_its_other_forms() -> None:
    for term, form in (("fused", "Fusion"), ("batch", "Batched"), ("temporary", "Temporaries"), ("consumer", "Reader")):
        assert form in inflections(term)
    for term in GLOSSARY:
        forms = inflections(term)
        assert term in forms
        assert {form[0].upper() + form[1:] for form in forms} <= set(forms)


@pytest.mark.spec("V-2")
def test_terms_are_sorted_and_no_form_belongs_to_two() -> None:
    forms = [form for term in GLOSSARY for form in inflections(term)]
    assert len(forms) == len(set(forms))
    assert list(GLOSSARY) == sorted(GLOSSARY, key=str.lower)

"""The glossary: terms of the planner, each explained once."""

import re

import pytest

from explorer.plan.graph.reasons import CATALOGUE
from explorer.record.glossary import GLOSSARY, inflections

FIELD_TERMS = (
    "arena", "batch", "block", "broadcast", "buffer", "cache", "channel", "constant", "dilation", "dynamic data",
    "elementwise", "fused", "inlined", "intermediate result", "kernel", "one-hot", "operand", "overflow", "padding",
    "pooling", "reduction", "root", "rounding", "stride", "tile", "tiling", "epilogue", "prologue", "topological",
    "view", "Winograd", "im2col", "workspace", "scratch memory",
)  # fmt: skip
"""words of the field that a NumPy user need not know; those that the catalogue uses must be explained"""


def _uses(text: str, term: str) -> bool:
    return any(re.search(rf"(?<![\w-]){re.escape(form)}(?![\w-])", text) for form in inflections(term))


@pytest.mark.spec("V-2")
def test_each_term_of_the_reasons_is_explained() -> None:
    """A term of the field that a reason, its meaning or its change uses stands in the glossary."""
    text = "\n".join(f"{row.sentence}\n{row.meaning}\n{row.change}" for row in CATALOGUE.values())
    assert [term for term in FIELD_TERMS if _uses(text, term) and term not in GLOSSARY] == []
    assert sum(_uses(text, term) for term in GLOSSARY) > 20


@pytest.mark.spec("V-2")
def test_an_explanation_follows_its_term() -> None:
    """Each explanation is one line without a full stop, and no two terms are spelt alike."""
    assert all(text and "\n" not in text and not text.endswith(".") for text in GLOSSARY.values())
    forms = [form for term in GLOSSARY for form in inflections(term)]
    assert len(forms) == len(set(forms))

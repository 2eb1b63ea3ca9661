import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.record.escape import visible
from explorer.view.base.font import shorten, width


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("conv1.weight", "conv1.weight"),
        ("α × β → 日本", "α × β → 日本"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\x00\x1b[31m", r"\x00\x1b[31m"),
        ("x\u202egnp.exe", r"x\u202egnp.exe"),
        ("\ud800\uffff", r"\ud800\uffff"),
        ("\u2028\u200f\ufeff", r"\u2028\u200f\ufeff"),
    ],
)
def test_invisible_characters_become_visible(given, shown):
    assert visible(given) == shown


@given(st.text(st.characters(codec=None)))
def test_visible_text_is_one_printable_line(text):
    shown = visible(text)
    assert len(shown.splitlines()) <= 1
    assert visible(shown) == shown
    shown.encode()


def test_exactly_the_invisible_and_reordering_characters_are_escaped():
    """In all of Unicode these are control characters, surrogates, line separators, and bidi controls."""
    turning = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        category = unicodedata.category(character)
        if category in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(character) in turning:
            assert visible(character).isascii(), hex(code)
        elif category[0] in "LMNPS" or category == "Zs":
            assert visible(character) == character, hex(code)


@given(st.text(), st.floats(20, 300), st.booleans())
def test_a_shortened_string_fits(text, limit, bold):
    assert width(shorten(text, limit, 12, bold), 12, bold) <= limit
    if width(text, 12, bold) <= limit:
        assert shorten(text, limit, 12, bold) == text


def test_a_long_name_keeps_its_start_and_its_end():
    short = shorten("encoder.layers.11.attention.self.query.weight", 150, 12)
    assert short.startswith("encoder.")
    assert short.endswith(".weight")
    assert "…" in short

"""Escaping of text from model files: hidden characters, and those that reorder text, become visible.

Names and texts of files that strangers wrote are shown in terminals, pictures, pages and errors. A name with a line
break could forge a line of output, and one with a right-to-left override hide what it says.
"""

from __future__ import annotations

import re

# Control characters, line and paragraph separators, bidirectional overrides, lone surrogates, non-characters: XML
# forbids some of them, terminals obey others.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufeff\ufffe\uffff]"
)
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escape(match: re.Match[str]) -> str:
    """Return the escape of one character."""
    character = match[0]
    code = ord(character)
    return _NAMED.get(character) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def visible(text: str) -> str:
    r"""Return the text on one line, each hidden or control character as its escape (``\n``, ``\x1b``, ``\u202e``)."""
    return text if text.isprintable() else _HIDDEN.sub(_escape, text)

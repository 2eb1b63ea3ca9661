"""Escaping of text from model files: hidden and reordering characters become visible.

Names and texts from untrusted files are shown in terminals, images, pages and errors. A name with a line break could
forge a line of output, and a name with a right-to-left override could disguise its content.
"""

from __future__ import annotations

import re

# Control characters, line and paragraph separators, bidirectional overrides, lone surrogates, non-characters: XML
# forbids some of them, and terminals execute others.
_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufeff\ufffe\uffff]"
)
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    code = ord(character)
    return _NAMED.get(character) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def visible(text: str) -> str:
    r"""Return ``text`` as one line, with hidden and control characters escaped (``\n``, ``\x1b``, ``\u202e``)."""
    return text if text.isprintable() else _HIDDEN.sub(_escape, text)


def shortened(text: str, length: int = 1_000) -> str:
    """Return a string of a model's author; after ``length`` characters, it is cut off and its length is appended."""
    return text if len(text) <= length else f"{text[:length]}… ({len(text):,} characters)"

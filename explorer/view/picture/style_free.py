"""A picture that can be read where a server's policy blocks styles: its shapes and texts have plain attributes, too.

Attributes of presentation count less than any rule of a style sheet, so that nothing changes where styles are allowed.
"""

from __future__ import annotations

import re

from explorer.view.base.markup import Markup
from explorer.view.base.palette import LIGHT

_SHAPE = f' fill="{LIGHT["node"]}" stroke="{LIGHT["edge"]}"'
_LINE = f' fill="none" stroke="{LIGHT["edge"]}"'
_TEXT = f' fill="{LIGHT["ink"]}" font-family="sans-serif" font-size="11"'

_ANCHORS = {**dict.fromkeys(("name", "type", "copies", "asked", "apart"), "middle"), "number": "end"}
"""class of a text → the place at which it stands, as the style sheet has it"""


def plain(picture: Markup) -> Markup:
    """Give the shapes and texts of a picture the attributes with which it can be read without styles."""
    return Markup(re.sub(r"<(rect|path|circle|polygon|text)(?=[ >/])([^>]*)", _with_attributes, picture))


def _with_attributes(found: re.Match[str]) -> str:
    tag, rest = found[1], found[2]
    if tag == "text":
        where = re.search(r'class="(\w+)"', rest)
        anchor = _ANCHORS.get(where[1] if where else "", "start")
        return f'<text{_TEXT} text-anchor="{anchor}"{rest}'
    return f"<{tag}{_LINE if tag == 'path' else _SHAPE}{rest}"

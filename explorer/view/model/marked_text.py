"""Documentation of operator types as blocks: a small subset of Markdown, which becomes text in any case.

Standards and docstrings mark paragraphs, lists, code, emphasis and links. Everything else, such as HTML, stays text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from textwrap import dedent
from typing import Literal, TypedDict

_DEEPEST = 4
"""largest depth of a list, and the least indentation of code"""
_ITEM = re.compile(r"( *)([*-]|[0-9]{1,3}[.)]) +(?=\S)")
_FENCE = re.compile(r" *```")
_HEADING = re.compile(r"#{1,6} +(?=\S)")
_BREAK = re.compile(r"<br */?>")
# None of the alternatives scans a text more than once: each stops at its own first character.
_INLINE = re.compile(
    r"``(?P<double>[^`]+)``|`(?P<code>[^`]+)`"
    r"|\[(?P<text>[^][]+)\]\((?P<target>[^()\s]*)\)"
    r"|(?P<address>https://[^\s<>()\[\]\"'`]*[\w/])"
    r"|(?<![\w*])(?P<stars>\*\*?)(?! )(?P<strong>[^*]+)(?<! )(?P=stars)(?![\w*])"
    r"|\\(?P<plain>[][<>*`\\])"
    r"|</?(?:b|i|p|em|strong|sub|sup)>"
)


class Code(TypedDict):
    """Part of a sentence that is written as code."""

    code: str


class Strong(TypedDict):
    """Part of a sentence that is emphasized."""

    strong: str


class Link(TypedDict):
    """Part of a sentence that links to a page."""

    link: str
    url: str
    """https address"""


class Block(TypedDict):
    """Paragraph, list item or code of a documentation."""

    kind: Literal["text", "item", "code"]
    depth: int
    """number of list items that contain it, with the item itself"""
    mark: str
    """number of the item of an ordered list, else "" """
    parts: list[str | Code | Strong | Link]
    """parts of the text, or lines of the code"""


@lru_cache(maxsize=1024)
def blocks(text: str) -> list[Block]:
    """Return the blocks of a documentation."""
    plain = dedent(_BREAK.sub("\n\n", text).expandtabs(4))
    return [_block(*found) for found in _blocks([line.rstrip() for line in plain.splitlines()]) if found[3]]


_Lines = tuple[Literal["text", "item", "code"], int, str, list[str]]


def _blocks(lines: list[str]) -> Iterator[_Lines]:
    """Yield the kind, depth, mark and lines of each block."""
    items: list[tuple[int, int]] = []
    """indentation of the marks and of the texts of the list items around the line"""
    block: _Lines = ("text", 0, "", [])
    is_fenced = was_blank = False
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if is_fenced or _FENCE.match(line):
            if _FENCE.match(line):
                yield block
                block = ("text" if is_fenced else "code", len(items), "", [])
                is_fenced = not is_fenced
            else:
                block[3].append(line)
            continue
        kind, margin = block[0], items[-1][1] if items else 0
        if not line:
            was_blank = True
            if kind == "code":
                block[3].append(line)
            continue
        # Tables stay as written, and so do the lines of a Python session up to the next empty line.
        is_code = indent >= margin + _DEEPEST and (kind == "code" or was_blank or indent >= _start(block) + _DEEPEST)
        is_session = kind == "code" and not was_blank and block[3][0].lstrip().startswith(">>>")
        is_code = is_code or is_session or line.lstrip().startswith(("|", ">>>"))
        item = None if is_code else _ITEM.match(line)
        if is_code:
            if kind != "code":
                yield block
                block = ("code", len(items), "", [])
            block[3].append(line)
        elif item:
            yield block
            while items and items[-1][0] >= indent:
                items.pop()
            items = [*items[: _DEEPEST - 1], (indent, item.end())]
            block = ("item", len(items), "" if item[2] in "*-" else item[2], [line[item.end() :]])
        elif was_blank or kind == "code" or _HEADING.match(line) or (items and indent <= items[-1][0]):
            yield block
            while items and items[-1][0] >= indent:
                items.pop()
            block = ("text", len(items), "", [line])
        else:
            block[3].append(line)
        was_blank = False
    yield block


def _start(block: _Lines) -> int:
    """Return the indentation of the first line of a text; the text of a list item begins after its mark."""
    return len(block[3][0]) - len(block[3][0].lstrip()) if block[3] and block[0] == "text" else 0


def _block(kind: Literal["text", "item", "code"], depth: int, mark: str, lines: list[str]) -> Block:
    if kind == "code":
        while lines and not lines[-1]:
            lines = lines[:-1]
        common = min((len(line) - len(line.lstrip()) for line in lines if line), default=0)
        return {"kind": kind, "depth": depth, "mark": mark, "parts": [line[common:] for line in lines]}
    text = " ".join([line.strip() for line in lines])
    if heading := _HEADING.match(text):
        return {"kind": kind, "depth": depth, "mark": mark, "parts": [{"strong": text[heading.end() :]}]}
    return {"kind": kind, "depth": depth, "mark": mark, "parts": list(_parts(text))}


def _parts(text: str) -> Iterator[str | Code | Strong | Link]:
    end = 0
    plain = ""
    for match in _INLINE.finditer(text):
        plain += text[end : match.start()]
        end = match.end()
        part = _part(match)
        if isinstance(part, str):
            plain += part
            continue
        if plain:
            yield plain
        plain = ""
        yield part
    if plain := plain + text[end:]:
        yield plain


def _part(match: re.Match[str]) -> str | Code | Strong | Link:
    if code := match["double"] or match["code"]:
        return {"code": code}
    if match["strong"]:
        return {"strong": match["strong"]}
    if match["address"]:
        return {"link": match["address"], "url": match["address"]}
    if match["text"]:
        # A standard's relative addresses have no page here.
        is_page = match["target"].startswith("https://")
        return {"link": match["text"], "url": match["target"]} if is_page else str(match["text"])
    return match["plain"] or ""

"""Documentation as blocks: the Markdown of standards and docstrings, and text that only looks like it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import defs

from explorer.view.model.marked_text import blocks


def text(*parts: Any) -> dict[str, Any]:
    return {"kind": "text", "depth": 0, "mark": "", "parts": list(parts)}


def code(depth: int, *lines: str) -> dict[str, Any]:
    return {"kind": "code", "depth": depth, "mark": "", "parts": list(lines)}


def item(depth: int, mark: str, *parts: Any) -> dict[str, Any]:
    return {"kind": "item", "depth": depth, "mark": mark, "parts": list(parts)}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("One\nparagraph.\n\nAnother.", [text("One paragraph."), text("Another.")]),
        ("`a` and ``b``", [text({"code": "a"}, " and ", {"code": "b"})]),
        ("**a** and *b c*", [text({"strong": "a"}, " and ", {"strong": "b c"})]),
        ("N x C*D1*D2 * a ** b*", [text("N x C*D1*D2 * a ** b*")]),
        ("# Title\n\nx", [text({"strong": "Title"}), text("x")]),
        ("[a](https://x.org) [b](IR.md) [c](javascript:x)", [text({"link": "a", "url": "https://x.org"}, " b c")]),
        ("See https://x.org/?b=1.", [text("See ", {"link": "https://x.org/?b=1", "url": "https://x.org/?b=1"}, ".")]),
        ("a<br>b<br/>c <i>d</i> <T>", [text("a"), text("b"), text("c d <T>")]),
        ("x:\n```\na = `b`\n\n  c\n```\ny", [text("x:"), code(0, "a = `b`", "", "  c"), text("y")]),
        ("x:\n\n    a\n\n    b\n\ny", [text("x:"), code(0, "a", "", "b"), text("y")]),
        ("| a | b |\n| - | - |", [code(0, "| a | b |", "| - | - |")]),
        ("Return x.\n\n>>> f(1)\n1\n\nMore.", [text("Return x."), code(0, ">>> f(1)", "1"), text("More.")]),
        ("  a\n\n  b\n      c", [text("a"), text("b"), code(0, "c")]),
        (
            "* a\n  b\n* c\n  - d\n\n    e\n\nf",
            [item(1, "", "a b"), item(1, "", "c"), item(2, "", "d"),
             {**text("e"), "depth": 2}, text("f")],
        ),
        ("1) a\n2. b\nc", [item(1, "1)", "a"), item(1, "2.", "b"), text("c")]),
        ("* a:\n        for i:\n          x", [item(1, "", "a:"), code(1, "for i:", "  x")]),
        ("", []),
        ("```\nnever closed", [code(0, "never closed")]),
    ],
)  # fmt: skip
def test_blocks(written: str, expected: list[Any]) -> None:
    assert blocks(written) == expected


def words(found: Any) -> str:
    return "".join([next(iter(part.values())) if isinstance(part, dict) else part for part in found["parts"]])


@given(st.text(alphabet="ab *-1.)`[](<>|#\\\n\thtps:/", max_size=200))
def test_any_text_has_blocks_in_lists_of_limited_depth(written: str) -> None:
    """Letters are neither lost nor added, an item follows for every depth, and links are pages."""
    found = blocks(written)
    depth = 0
    for block in found:
        assert 0 <= block["depth"] <= 4
        assert block["depth"] <= depth or block["kind"] == "item"
        depth = block["depth"]
        assert all(part["url"].startswith("https://") for part in block["parts"] if "url" in part)
    if not any(mark in written for mark in "[<"):
        assert "".join(map(words, found)).count("a") == written.count("a")


def test_the_standard_has_no_markup_left() -> None:
    """All documentation of the standard: no fences, and no marks of lists."""
    for schema in defs.get_all_schemas_with_history():
        for block in blocks(schema.doc or ""):
            if block["kind"] != "code":
                assert "```" not in words(block), schema.name
                assert not words(block).startswith(("* ", "- ")), schema.name


@pytest.mark.parametrize(
    "piece", ["`", "``a", "[", "[a](", "*", "*a", "**", "https://", "https://,", "<br>", "\\", "* ", "> "]
)
def test_unfinished_markup_is_scanned_once(piece: str) -> None:
    """A million characters take less than a second; a scan from each start would take hours."""
    assert all(block["kind"] in ("text", "item") for block in blocks(piece * (1_000_000 // len(piece))))

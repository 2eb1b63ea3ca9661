"""The two lines of text on a node, and what it says while it is a ghost; every text is already shortened to fit."""

from __future__ import annotations

from explorer.record import Recording
from explorer.view import font
from explorer.view.visible import visible

NAME, TYPE = 12.0, 10.0
"""font sizes in px: the bold first line, the soft second line"""
WIDEST = 212.0
"""px of text on a node at most"""

_SHORT = {"float": "f", "int": "i", "uint": "u", "complex": "c", "bfloat": "bf"}


def short_dtype(dtype: str) -> str:
    """Shorten a dtype's name: float32 to f32, int64 to i64, bool stays."""
    word = dtype.rstrip("0123456789")
    return _SHORT.get(word, word) + dtype[len(word) :]


def short_type(recording: Recording, row: int) -> str:
    """Say a type in few characters: ``32×48 f32``, ``scalar f32``, ``(2×2 f32, 3 i64)``; long tuples are cut."""
    kind = recording.types[row]
    if kind.dtype == "tuple":
        parts = [short_type(recording, part) for part in kind.parts[:4]]
        return "(" + ", ".join(parts) + (", …)" if len(kind.parts) > 4 else ")")
    shape = "×".join(map(str, kind.shape)) if kind.shape else "scalar"
    return f"{shape} {short_dtype(kind.dtype)}"


def source_text(recording: Recording, node: int) -> str:
    """Say where a node was written: ``In[3] line 2``, or nothing where that is unknown."""
    row = recording.nodes.source[node]
    return f"{recording.sources[row].where} line {recording.sources[row].line}" if row >= 0 else ""


class Lines:
    """The texts of a recording's nodes, each text kept once: ``texts`` is the table, ``of`` gives a node's row."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.texts: list[tuple[str, str, str]] = []
        self._rows: dict[tuple[str, str, str], int] = {}
        self._types: dict[int, str] = {}
        self._successor = {old: new for _, old, new in recording.substitutions}

    def of(self, node: int) -> int:
        """Return the row of a node's texts."""
        nodes = self.recording.nodes
        kind = nodes.type[node]
        if kind not in self._types:
            self._types[kind] = fit(short_type(self.recording, kind), TYPE)
        name = fit(self.recording.label(node), NAME, bold=True)
        row = (name, self._types[kind], fit(self._ghost(node), TYPE) if nodes.gone[node] >= 0 else "")
        found = self._rows.setdefault(row, len(self.texts))
        if found == len(self.texts):
            self.texts.append(row)
        return found

    def _ghost(self, node: int) -> str:
        nodes = self.recording.nodes
        if node not in self._successor:
            return "removed"
        new = self._successor[node]
        merged = nodes.operation[new] == nodes.operation[node] and nodes.born[new] < nodes.gone[node]
        where = source_text(self.recording, new if merged else node)
        word = "same as" if merged else "was"
        return f"{word} {where}" if where else f"{word} {self.recording.label(new if merged else node)}"


def fit(text: str, size: float, bold: bool = False) -> str:
    """Return the text safe to show and at most ``WIDEST`` px wide."""
    return font.shorten(visible(text[:500]), WIDEST, size, bold)


def node_size(kind: str, text: tuple[str, str, str]) -> tuple[int, int]:
    """Return the width and height in px that a node of a kind takes with its texts."""
    name, second, ghost = text
    wide = max(font.width(name, NAME, True), font.width(second, TYPE), font.width(ghost, TYPE))
    if kind in ("leaf", "input", "constant"):
        return max(72, _even(wide + 26)), 34
    return max(104, _even(wide + 22)), 40


def box_size(text: tuple[str, str]) -> tuple[int, int]:
    """Return the width and height in px of a closed box with its two lines."""
    wide = max(font.width(text[0], NAME, True), font.width(text[1], TYPE))
    return max(124, _even(wide + 40)), 48


def _even(value: float) -> int:
    return int(value + 1.999) // 2 * 2

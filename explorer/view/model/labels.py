"""Labels of nodes, shortened to fit: two lines of text for nodes and for ghosts.

Widths are measured here with a table of font metrics rather than by a browser, since layouts are built without one and
must be the same everywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from explorer.record import Group, Recording, shape_text
from explorer.record.escape import visible
from explorer.record.node_formulas import formula
from explorer.record.reasons import counted_text
from explorer.record.rows import UNKNOWN
from explorer.view.base import font
from explorer.view.model.operator_titles import OperatorTitle

NAME, TYPE, TITLE, PORT = 12.0, 10.0, 11.0, 9.0
"""font sizes in px: bold first line, soft second line, bold titles of boxes and groups, port names"""
LINE = 14
"""line height in px of the soft lines of a closed box"""
CALL_MARK = 8
"""px on each side of a call's name, for the mark that opens its body"""
WIDEST, WIDEST_TITLE = 212.0, 280.0
"""maximum width in px of text on a node and above a group"""
WIDEST_NOTE = 120.0
"""maximum width in px of an operator's type or name on its second line, which leaves space for its result's type"""
_CUT = 500
"""maximum number of measured characters of a text"""
_OPERAND = 64.0
"""maximum width in px of an operand's name in a formula"""

_NAMED = 2
"""maximum number of operations counted by name"""

_SHORT = {"float": "f", "int": "i", "uint": "u", "complex": "c", "bfloat": "bf"}


def short_dtype(dtype: str) -> str:
    """Shorten a dtype name, such as float32 to f32 and int64 to i64; bool is unchanged."""
    word = dtype.rstrip("0123456789")
    return _SHORT.get(word, word) + dtype[len(word) :]


def short_type(recording: Recording, row: int, names: Sequence[str] = ()) -> str:
    """Return a short form of a type: ``32×48 f32``, ``scalar f32``, ``(2×2 f32, 3 i64)``; long tuples are cut.

    With dimension names it is ``batch=32×48 f32``; ``?`` means an unknown type.
    """
    type_ = recording.types[row]
    if type_.dtype == "tuple":
        if not type_.parts:
            return UNKNOWN
        parts = [short_type(recording, part) for part in type_.parts[:4]]
        return "(" + ", ".join(parts) + (", …)" if len(type_.parts) > 4 else ")")
    device = "" if type_.device == "cpu" else f" on {type_.device}"
    return f"{shape_text(type_.shape, names)} {short_dtype(type_.dtype)}{device}"


def source_text(recording: Recording, node: int) -> str:
    """Return where a node was recorded: ``line 2``, ``net.py line 2``, or "" if unknown."""
    row = recording.nodes.source[node]
    return recording.sources[row].location if row >= 0 else ""


class Text(NamedTuple):
    """Texts of a node; all but the formula are shortened to fit."""

    name: str
    type: str
    ghost: str
    """second line while the node is a ghost, "" if it never is"""
    second: str
    """second line with the type, and the formula or the name of an operator of a file; "" if the type is sufficient"""
    formula: str
    """the full formula of the node"""
    operator: str
    """full title of the operator of a file that the node represents, "" if there is none"""


class Lines:
    """Table of the texts of a recording's nodes; ``of`` returns a node's row in ``texts``, which has no duplicates."""

    def __init__(self, recording: Recording, slot_of: list[int], operators: Mapping[int, OperatorTitle]) -> None:
        """Create the table; ``operators`` maps nodes that represent an operator of a file to the operator's title."""
        self.recording, self._slot_of, self._operators = recording, slot_of, operators
        self.texts: list[Text] = []
        self._rows: dict[tuple[str, int, tuple[str, ...], str, str, OperatorTitle | None], int] = {}
        self._successor = {old: new for _, old, new in recording.substitutions}
        self._compositions = {row.node: row for row in recording.compositions}
        self._batched = {group.decision: len(group.members) for group in recording.groups if group.kind == "batch"}

    def of(self, node: int) -> int:
        """Return the row of a node's texts."""
        nodes = self.recording.nodes
        names = self.recording.dimension_names(node)
        ghost = self._ghost(node) if nodes.gone[node] >= 0 else ""
        computed = self._computed(node)
        operator = self._operators.get(node)
        title = operator.title if operator else self.recording.named_label(node)
        key = (title, nodes.type[node], names, ghost, computed, operator)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = len(self.texts)
            type_ = short_type(self.recording, key[1], names)
            short = self._computed(node, _operand)
            note = fit(operator.note, TYPE, widest=WIDEST_NOTE) if operator else ""
            second = f"{short} → {type_}" if short else f"{note} · {type_}" if note else ""
            self.texts.append(
                Text(
                    fit(key[0], NAME, bold=True),
                    fit(type_, TYPE),
                    fit(ghost, TYPE),
                    fit(second, TYPE),
                    visible(computed),
                    visible(title) if operator else "",
                )
            )
        return row

    def _computed(self, node: int, shorten: Callable[[str], str] = str) -> str:
        """Return the formula of a node, or a call such as ``GELU(x)`` for the result of a known composition."""
        composition = self._compositions.get(node)
        if composition is None:
            return formula(self.recording, node, shorten)
        operand = shorten(self.recording.nodes.label[composition.operand]) if composition.operand >= 0 else "…"
        return f"{composition.name}({operand})"

    def _ghost(self, node: int) -> str:
        """Return the text of a removed node; "" if its replacement is in the same slot."""
        nodes = self.recording.nodes
        if node not in self._successor:
            count = self._batched.get(nodes.gone[node], 0)
            return f"one of {count:,} in a batch" if count else "removed"
        new = self._successor[node]
        if self._slot_of[new] == self._slot_of[node]:
            return ""
        equal = self.recording.label(new) == self.recording.label(node) and nodes.type[new] == nodes.type[node]
        where = source_text(self.recording, new)
        return f"same as {where}" if equal and where else f"now {self.recording.label(new)}"


def now_text(labels: Counter[str]) -> str:
    """Return the text of a box whose nodes were replaced, from counts of the new labels: ``now 1,000 × index0``."""
    counts = labels.most_common(_NAMED)
    rest = labels.total() - sum(count for _, count in counts)
    phrases = [f"{count:,} × {label}" for label, count in counts] + [f"{rest:,} more"] * (rest > 0)
    return fit(f"now {', '.join(phrases)}", TYPE)


def fit(text: str, size: float, bold: bool = False, widest: float = WIDEST) -> str:
    """Make a text safe to show and at most ``widest`` px wide."""
    # Cut first, since names come from files and may have any length. Names usually differ at their ends.
    cut = text if len(text) <= _CUT else f"{text[: _CUT // 2]}…{text[-_CUT // 2 :]}"
    return font.shorten(visible(cut), widest, size, bold)


def weights_text(weights: Sequence[tuple[str, str]]) -> str:
    """Return the names and shapes of the weights of a file's operator that fit into a line: ``W 8×1×3×3 · B 8``.

    Numbers are not listed. ``weights`` are the pairs of a FileOperator.
    """
    shapes = [(name, text.rpartition(" · ")[2].partition(" ")[0]) for name, text in weights]
    listed = [f"{fit(name, TYPE, widest=_OPERAND)} {shape}" for name, shape in shapes if shape != "scalar"]
    line = ""
    for number, each in enumerate(listed):
        longer = f"{line} · {each}" if line else each
        rest = len(listed) - number - 1
        if font.width(longer, TYPE) + font.width(" · 99 more", TYPE) * (rest > 0) > WIDEST:
            return f"{line} · {rest + 1} more" if line else fit(longer, TYPE)
        line = longer
    return line


def _operand(name: str) -> str:
    return fit(name, TYPE, widest=_OPERAND)


def group_titles(group: Group) -> list[tuple[str, float]]:
    """Return the titles of a group with their widths in px: its operations, and the shorter number of operations."""
    titles = [group.label, *[counted_text(len(group.members), "operation")] * (group.kind == "kernel")]
    shown = [fit(title, TITLE, bold=True, widest=WIDEST_TITLE) for title in titles]
    return [(title, round(font.width(title, TITLE, bold=True), 1)) for title in shown]


def title_within(titles: Sequence[tuple[str, float]], room: float) -> str:
    """Return the first title that fits into a width in px, or the last one; kernel_outlines.js has the same rule."""
    return next((title for title, width in titles if width <= room), titles[-1][0])


@lru_cache(maxsize=8192)
def node_size(role: str, text: Text) -> tuple[int, int]:
    """Return the width and height in px of a node with its texts."""
    second = text.second or text.type
    mark = 2 * CALL_MARK if role == "call" else 0
    wide = max(font.width(text.name, NAME, True) + mark, font.width(second, TYPE), font.width(text.ghost, TYPE))
    if role in ("leaf", "input", "constant"):
        return max(72, _even(wide + 26)), 34
    return max(104, _even(wide + 22)), 40


def box_size(text: tuple[str, ...]) -> tuple[int, int]:
    """Return the width and height in px of a closed box with its name and the lines below."""
    wide = max(font.width(text[0], NAME, True), *[font.width(line, TYPE) for line in text[1:]])
    return max(124, _even(wide + 40)), 34 + LINE * (len(text) - 1)


def _even(value: float) -> int:
    # Even sizes have integer halves, so the middles of nodes, where edges end, are at integer pixels.
    return int(value + 1.999) // 2 * 2

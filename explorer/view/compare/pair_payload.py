"""Payload of a comparison, sent along with the payloads of both recordings.

Its long tables are packed (columns.py). Side 0 is before, side 1 after::

    {"titles": [text, text], "options": [[name, before, after], …],      options that differ; "" for an unset option
     "start": [step, step],                                              initial steps
     "operators": [text, …],                                             differences of the operators of two model files
     "counts": [[name, before, after, difference], …],                   texts with units
     "partners": [node after, …],                                        partner of each node before; −1 for none
     "changed": [node before, …], "words": [[text, …], …],               nodes that differ, and their differences
     "folds": [[title, [node before, …], [text, …]], …],                 differences that follow from others
     "bodies": [[graph before, graph after], …],                         graphs whose nodes were compared
     "differences": [{"kind", "sign", "word", "many", "meaning"}, …],    kinds, with words for one and for several nodes
     "marks": [{"absent": kind, "standing": {node: kind}, "planned": {node: kind}}, …],    for each side: mark of nodes
                     without a counterpart at the step, marks of nodes with one, and these after kernels are chosen
     "steps": {"nodes": [[step, …], [step, …]], "steps": …}}             partner of each step (step_mapping.py)
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from explorer.record import Recording
from explorer.record.compare.comparison import Comparison
from explorer.view.compare.step_mapping import partners
from explorer.view.model.stage_texts import MIN_RATIO, count_value
from explorer.view.payload.columns import pack
from explorer.view.payload.recording_tables import shown
from explorer.view.picture.difference_marks import SIGNS, marks_json
from explorer.view.replay.steps import stage_ends


def title(recording: Recording) -> str:
    """Return the title and the fingerprint of a recording as one string."""
    return " · ".join(part for part in (recording.title or "recording", recording.fingerprint) if part)


def start(comparison: Comparison, steps: tuple[list[int], list[int]]) -> tuple[int, int]:
    """Return the initial steps of two views: 0 if the recorded graphs differ, else the ends of both plans."""
    stages = comparison.before.stages
    planned = [end for stage, end in zip(stages, stage_ends(comparison.before), strict=True) if stage.kind != "run"]
    before = planned[-1] if planned and comparison.nodes.equal else 0
    return before, steps[0][before]


def option_text(value: Any) -> str:
    """Format an option; names are separated by commas, and "" means none."""
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def paired(comparison: Comparison) -> dict[str, Any]:
    """Return the JSON data that two views need to show a comparison."""
    counterparts, changed = comparison.counterparts, comparison.nodes.changed
    steps = partners(comparison)
    data = {
        "titles": [title(comparison.before), title(comparison.after)],
        "options": [
            [name, option_text(before), option_text(after)]
            for name, (before, after) in comparison.options.items()
            if not comparison.is_across
        ],
        "start": list(start(comparison, steps["nodes"])),
        "operators": [] if comparison.operators is None else comparison.operators.lines(),
        "counts": [list(row) for row in counted(comparison, measured=True)],
        "folds": [[f"{fold.sign} {fold.title}", list(fold.nodes), list(fold.rows)] for fold in folds(comparison)],
        **pack(
            {
                "partners": [counterparts.get(node, -1) for node in range(len(comparison.before.nodes))],
                "changed": list(changed),
                "words": [
                    [f"{SIGNS['rewired' if node in comparison.nodes.rewired else 'changed']} {text}" for text in words]
                    for node, words in changed.items()
                ],
                "bodies": [list(pair) for pair in comparison.nodes.bodies.items()],
                **marks_json(comparison),
                "steps": {way: [list(side) for side in sides] for way, sides in steps.items()},
            }
        ),
    }
    return {name: shown(value) for name, value in data.items()}


_MIN_PERCENT = 0.05
"""smallest percentage difference that is shown"""
_MIN_FACTOR = 10
"""ratio above which a factor is shown instead of a percentage"""


class Count(NamedTuple):
    """Count as text, with "–" for a missing count, and "" for no difference."""

    name: str
    before: str
    after: str
    difference: str


def counted(comparison: Comparison, *, measured: bool) -> list[Count]:
    """Return as text the counts that either side has; include measured times only if ``measured``."""
    counts = []
    for name, (before, after) in comparison.counts.items():
        if (before is not None or after is not None) and (measured or name != "measured_us"):
            counts.append(
                Count(
                    _NAMES.get(name, name), _count(name, before), _count(name, after), _difference(name, before, after)
                )
            )
    return counts


_NAMES = {
    "bytes": "bytes written",
    "temporary_bytes": "bytes of temporaries",
    "peak_bytes": "peak memory",
    "estimated_us": "estimated time",
    "measured_us": "measured time",
}


def _count(name: str, value: float | None) -> str:
    return "–" if value is None else count_value(name, value)


def _difference(name: str, before: float | None, after: float | None) -> str:
    """Format the absolute and relative difference: ``−188 KB (−55 %)``, ``+1,992 (×200)``."""
    if before is None or after is None or before == after:
        return ""
    if name == "measured_us" and max(before, after) < MIN_RATIO * min(before, after):
        return "no more than two runs of one program differ by"
    text = f"{'+' if after > before else '−'}{_count(name, abs(after - before))}"
    if not before or not after:
        return text
    if max(before, after) >= _MIN_FACTOR * min(before, after):
        return f"{text} ({'×' if after > before else '÷'}{max(before, after) / min(before, after):,.0f})"
    percent = 100 * (after - before) / before
    if abs(percent) < _MIN_PERCENT:
        return text
    return f"{text} ({'+' if after > before else '−'}{abs(percent):.{0 if abs(percent) >= 1 else 1}f} %)"


MAX_ROWS = 3
"""maximum number of rewired nodes that are not folded, and of rows that a fold lists"""
RENAMED = "="
"""sign of nodes that are renamed but otherwise equal"""


class Fold(NamedTuple):
    """Nodes of the first graph that differ in the same way, each with a row of text."""

    sign: str
    phrase: str
    """phrase after the number of nodes: ``renamed``"""
    nodes: tuple[int, ...]
    rows: tuple[str, ...]

    @property
    def title(self) -> str:
        """Phrase for several nodes: ``4 nodes renamed``."""
        return f"{len(self.nodes):,} node{'s' * (len(self.nodes) > 1)} {self.phrase}"

    @property
    def summary(self) -> str:
        """The title and the first rows: ``4 nodes renamed: a → b, c → d, e → f and 1 more``."""
        rows = [row if count == 1 else f"{row} ×{count:,}" for row, count in Counter(self.rows).items()]
        rest = len(rows) - MAX_ROWS
        return f"{self.title}: {', '.join(rows[:MAX_ROWS])}" + (f" and {rest:,} more" if rest > 0 else "")


def folds(comparison: Comparison) -> list[Fold]:
    """Return the folded differences of a comparison; an empty list if it has none."""
    nodes, before, after = comparison.nodes, comparison.before, comparison.after
    folded = []
    if len(nodes.rewired) > MAX_ROWS:
        rewired = sorted(nodes.rewired)
        rows = [f"{before.label(node)} {'; '.join(nodes.changed[node])}" for node in rewired]
        folded.append(Fold(SIGNS["rewired"], "read something else", tuple(rewired), tuple(rows)))
    if nodes.renamed:
        names = [f"{before.label(node)} → {after.label(nodes.pairs[node])}" for node in nodes.renamed]
        folded.append(Fold(RENAMED, "renamed", nodes.renamed, tuple(names)))
    return folded

"""Payload of a comparison, added to the payloads of both recordings.

Its long tables are packed (columns.py). Side 0 is before, side 1 after::

    {"titles": [text, text], "options": [[name, before, after], …],      the options that differ; "" for an unset one
     "start": [step, step],                                              where to stand at first
     "counts": [[name, before, after, difference], …],                   as text, with units
     "partners": [node after, …],                                        for every node before, −1 for none
     "changed": [node before, …], "words": [[text, …], …],               the differences of each of those after
     "folds": [[title, [node before, …], [text, …]], …],                 differences that follow from others
     "bodies": [[graph before, graph after], …],                         whose nodes were compared
     "differences": [{"kind", "sign", "word", "many", "meaning"}, …],   the kinds, with their words for one and for many
     "marks": [{"absent": kind, "standing": {node: kind}, "planned": {node: kind}}, …],    of both sides' nodes: where
                     the counterpart does not stand; where it does; where it does and kernels are chosen
     "steps": {"nodes": [[step, …], [step, …]], "steps": …}}             step_mapping.py: where the other view stands
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from explorer.record import Recording
from explorer.record.compare.comparison import Comparison
from explorer.view.compare.step_mapping import partners
from explorer.view.model.stage_texts import CHANCE, count_value
from explorer.view.payload.columns import pack
from explorer.view.payload.recording_tables import shown
from explorer.view.picture.difference_marks import SIGNS, marks_json
from explorer.view.replay.steps import stage_ends


def title(recording: Recording) -> str:
    """Return the title of a recording with its fingerprint."""
    return " · ".join(part for part in (recording.title or "recording", recording.fingerprint) if part)


def start(comparison: Comparison, steps: tuple[list[int], list[int]]) -> tuple[int, int]:
    """Return the initial steps of two views: the recorded graphs if they differ, else the ends of both plans."""
    stages = comparison.before.stages
    planned = [end for stage, end in zip(stages, stage_ends(comparison.before), strict=True) if stage.kind != "run"]
    before = planned[-1] if planned and comparison.nodes.equal else 0
    return before, steps[0][before]


def option_text(value: Any) -> str:
    """Format an option; names are separated by commas, and "" means none."""
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def paired(comparison: Comparison) -> dict[str, Any]:
    """Return the JSON data from which two views show a comparison."""
    counterparts, changed = comparison.counterparts, comparison.nodes.changed
    steps = partners(comparison)
    data = {
        "titles": [title(comparison.before), title(comparison.after)],
        "options": [
            [name, option_text(before), option_text(after)] for name, (before, after) in comparison.options.items()
        ],
        "start": list(start(comparison, steps["nodes"])),
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


_LEAST = 0.05
"""smallest percentage difference that is shown"""
_TIMES = 10
"""ratio above which a factor is shown instead of a percentage"""


class Count(NamedTuple):
    """Count as text; "–" if a side has no count, and a difference of "" if the counts are equal."""

    name: str
    before: str
    after: str
    difference: str


def counted(comparison: Comparison, *, measured: bool) -> list[Count]:
    """Return the counts available on either side as text; times of runs only if ``measured``."""
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
    """Format a difference, absolute and relative: ``−188 KB (−55 %)``, ``+1,992 (×200)``."""
    if before is None or after is None or before == after:
        return ""
    if name == "measured_us" and max(before, after) < CHANCE * min(before, after):
        return "no more than two runs of one program differ by"
    said = f"{'+' if after > before else '−'}{_count(name, abs(after - before))}"
    if not before or not after:
        return said
    if max(before, after) >= _TIMES * min(before, after):
        return f"{said} ({'×' if after > before else '÷'}{max(before, after) / min(before, after):,.0f})"
    percent = 100 * (after - before) / before
    if abs(percent) < _LEAST:
        return said
    return f"{said} ({'+' if after > before else '−'}{abs(percent):.{0 if abs(percent) >= 1 else 1}f} %)"


FEW = 3
"""number of nodes that read something else above which they are folded; also the rows that a fold names"""
RENAMED = "="
"""sign of renamed nodes, which have no other difference"""


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
        rest = len(rows) - FEW
        return f"{self.title}: {', '.join(rows[:FEW])}" + (f" and {rest:,} more" if rest > 0 else "")


def folds(comparison: Comparison) -> list[Fold]:
    """Return the folded differences of a comparison; an empty list if it has none."""
    nodes, before, after = comparison.nodes, comparison.before, comparison.after
    folded = []
    if len(nodes.rewired) > FEW:
        rewired = sorted(nodes.rewired)
        rows = [f"{before.label(node)} {'; '.join(nodes.changed[node])}" for node in rewired]
        folded.append(Fold(SIGNS["rewired"], "read something else", tuple(rewired), tuple(rows)))
    if nodes.renamed:
        names = [f"{before.label(node)} → {after.label(nodes.pairs[node])}" for node in nodes.renamed]
        folded.append(Fold(RENAMED, "renamed", nodes.renamed, tuple(names)))
    return folded

"""Payload of a comparison, added to the payloads of both recordings.

Its long tables are packed (columns.py). Side 0 is before, side 1 after::

    {"titles": [text, text], "options": [[name, before, after], …],      the options that differ; "" for an unset one
     "start": [step, step],                                              where to stand at first
     "counts": [[name, before, after, difference], …],                   as text, with units
     "partners": [node after, …],                                        for every node before, −1 for none
     "changed": [node before, …], "words": [[text, …], …],               the differences of each of those after
     "folds": [[title, [node before, …], [text, …]], …],                 folds.py: differences that follow from others
     "bodies": [[graph before, graph after], …],                         whose nodes were compared
     "differences": [{"kind", "sign", "word", "many", "meaning"}, …],   the kinds, with their words for one and for many
     "marks": [{"absent": kind, "standing": {node: kind}, "planned": {node: kind}}, …],    of both sides' nodes: where
                     the counterpart does not stand; where it does; where it does and kernels are chosen
     "steps": {"nodes": [[step, …], [step, …]], "steps": …}}             step_mapping.py: where the other view stands
"""

from __future__ import annotations

from typing import Any

from explorer.record import Recording
from explorer.record.compare.comparison import Comparison
from explorer.view.compare.counts import counted
from explorer.view.compare.folds import folds
from explorer.view.compare.step_mapping import partners
from explorer.view.payload.columns import pack
from explorer.view.payload.recording_tables import shown
from explorer.view.picture.difference_marks import SIGNS, marks_json
from explorer.view.replay.steps import stage_ends


def title(recording: Recording) -> str:
    """Return the title of a recording with its fingerprint."""
    return " · ".join(part for part in (recording.title or "recording", recording.fingerprint) if part)


def start(comparison: Comparison, steps: tuple[list[int], list[int]]) -> tuple[int, int]:
    """Return the initial steps of two views: at the recorded graphs if they differ, else at the ends of both plans."""
    stages = comparison.before.stages
    planned = [end for stage, end in zip(stages, stage_ends(comparison.before), strict=True) if stage.kind != "run"]
    before = planned[-1] if planned and comparison.nodes.equal else 0
    return before, steps[0][before]


def option_text(value: Any) -> str:
    """Format an option: names separated by commas, nothing if there are none."""
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def paired(comparison: Comparison) -> dict[str, Any]:
    """Return the JSON data with which two views show a comparison."""
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

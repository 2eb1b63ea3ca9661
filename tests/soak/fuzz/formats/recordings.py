"""Recordings: JSON damaged as a structure and as a string; valid ones are drawn in every way."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import explorer as ex
from explorer.core.ir.recording_context import recording_at
from explorer.core.ir.source_location import SourceLocation
from explorer.record import Recording, Step, loads, to_json
from tests.golden.programs import PROGRAMS, perceptron, recorded
from tests.soak.fuzz.formats.probe import BrokenPromiseError, draw
from tests.soak.fuzz.values import damaged_plain, damaged_text

MAIN = "recording.json"
LONGEST = 600
"""maximum number of characters of an error message"""
_REFUSAL = re.compile(r"recording field recording.*: \S|this recording has schema |this is no recording: \S")
_Files = Mapping[str, bytes | None]


def seeds() -> dict[str, _Files]:
    """Return recordings of the golden programs, and of an executed program with its values."""
    seeded = {"run": _run(), **{name: _timeless(recorded, name) for name in PROGRAMS}}
    return {name: {MAIN: json.dumps(to_json(recording)).encode()} for name, recording in seeded.items()}


def _timeless(record: Callable[..., Recording], *arguments: str) -> Recording:
    """Return a recording without the times of planning, so that it is equal in every process."""
    record(*arguments)  # nodes shared by all uses of a function do not record which use was first
    recording = record(*arguments)
    recording.stages = [replace(stage, micros=0.0) for stage in recording.stages]
    return recording


def _run() -> Recording:
    """Return the perceptron's recording after a run, with a summary of each value and invented times."""
    recording = _timeless(_perceptron)
    run, schedule = recording.run, recording.schedule
    assert run is not None
    assert schedule is not None
    steps = [
        Step(step.kernel, 2.0 * place, 1.5, schedule.kernels[step.kernel].live) for place, step in enumerate(run.steps)
    ]
    recording.run = replace(run, steps=tuple(steps), micros=2.0 * len(steps))
    return recording


def _perceptron() -> Recording:
    plan = ex.EvalPlan(title="perceptron", record="values")
    with recording_at(None, SourceLocation("fuzz", 1, "perceptron")):
        roots = perceptron()
    for root in roots:
        plan.register(root)
    return plan.eval().recording


def mutate(files: _Files, chance: random.Random) -> _Files:
    whole = (files[MAIN] or b"").decode("utf-8", "surrogatepass")
    try:
        plain = json.loads(whole)
    except (ValueError, RecursionError):
        plain = None
    if plain is None or chance.random() < 0.2:
        return {MAIN: damaged_text(whole, chance).encode("utf-8", "surrogatepass")}
    return {MAIN: json.dumps(damaged_plain(plain, chance, chance.choice((1, 1, 2)))).encode("utf-8", "surrogatepass")}


def probe(path: Path, chance: random.Random, whole: bool) -> str:
    """Read a recording; it is rejected with a clear error, or answers every query of a view."""
    try:
        recording = loads(path.read_bytes().decode("utf-8", "surrogatepass"))
    except ValueError as error:
        refusal = str(error)
        if not (_REFUSAL.match(refusal) and refusal.isprintable() and len(refusal) <= LONGEST):
            raise BrokenPromiseError("the refusal does not say briefly what is wrong") from error
        return "clean"
    _ask(recording)
    draw(recording, chance, whole)
    return "fine"


def _ask(recording: Recording) -> None:
    plain = to_json(recording)
    if to_json(loads(json.dumps(plain, allow_nan=False))) != plain:
        raise BrokenPromiseError("a recording is another one after it was written and read")
    for decision in recording.decisions:
        recording.reason(decision)
    for node in range(len(recording.nodes)):
        recording.type_text(node)
        recording.decisions_of(node)
    for position in range(recording.end + 1):
        for body in range(len(recording.bodies)):
            list(recording.edges(position, body))
    if not all(0 <= root < len(recording.nodes) for root in recording.roots):
        raise BrokenPromiseError("a root is no node")

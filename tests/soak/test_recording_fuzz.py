"""Recordings from elsewhere are hostile: a damaged one is refused with a reason, or is one like any other."""

from __future__ import annotations

import copy
import json
import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from explorer.record import (
    Body,
    Decision,
    Group,
    Kernel,
    Nodes,
    Recording,
    Run,
    Schedule,
    Scope,
    Source,
    Stage,
    Step,
    Summary,
    Type,
    loads,
    to_json,
)

pytestmark = pytest.mark.soak

SECONDS = 15.0
LONGEST = 600
"""characters of a refusal"""
GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("**/*.json"))
REFUSAL = re.compile(r"recording field recording.*: \S|this recording has schema |this is no recording: \S")
VALUES: list[Callable[[random.Random], Any]] = [
    lambda r: r.choice([None, True, False, "", [], {}, 0, -1, 1.5, 10**30, -(10**30), "node", "schema", 1e308, "\x00"]),
    lambda r: r.randint(-3, 12),
    lambda r: [r.randint(-2, 8) for _ in range(r.randint(0, 4))],
    lambda r: {"node": r.choice([0, 3, 99, -1, "0", None])},
    lambda r: "{missing} {count_bytes}",
    lambda r: {r.choice(["", "1", "-1", "01", "x", "node"]): r.choice([0, "y", None])},
    lambda r: [[[[[[[[[[[[0]]]]]]]]]]]],
]


def sample() -> Recording:
    """tanh(a + 2) twice over: merged, fused, planned and run, so that every table has a row."""
    nodes = Nodes(
        operation=[0, 1, 2, 3, 3, 4],
        kind=["leaf", "constant", "operation", "operation", "operation", "operation"],
        label=["a", "2", "add", "tanh", "tanh", "fused"],
        type=[0, 1, 0, 0, 0, 0],
        operands=[(), (), (0, 1), (2,), (2,), (0,)],
        scope=[0, 0, 1, 1, 1, 1],
        source=[0, -1, 0, 0, 0, -1],
        flops=[0, 0, 6, 6, 6, 12],
        bytes=[24, 4, 24, 24, 24, 24],
        born=[-1, -1, -1, -1, -1, 1],
        gone=[-1, -1, 1, 1, 0, -1],
        body=[0] * 6,
        callee=[-1] * 6,
        attributes={3: {"axis": "0"}},
    )
    merged = Decision(
        1, "SameNumber", "applied", "same", "{node} is {other}", {"node": {"node": 4}, "other": {"node": 3}}, (4,), (3,)
    )
    fused = Decision(
        2,
        "ElementwiseChain",
        "applied",
        "chain",
        "{members} run as one: {saved_bytes} saved in {time_us}, {count} readers",
        {"members": [{"node": 2}, {"node": 3}], "saved_bytes": 24, "time_us": 1.5, "count": 1},
        (2, 3),
        (5,),
        1,
        "fuse.py:10",
    )
    kernel = Kernel((2, 3), 1, 0, 12, 24, 0, 1.5, 0, False, (5,), 1, "the only one", (0,), 24)
    value = Summary((2, 3), "float32", -1.0, 1.0, 0.0, 0.5, 0, 0, (1, 2, 3), ((0, 128, 255),), "[0.0]")
    return Recording(
        title="tanh twice",
        fingerprint="0f",
        options={"costs": "reference", "seed": 1},
        operations=["Source", "Constant", "Add", "Tanh", "Fused"],
        types=[Type((2, 3), "float32", "cpu"), Type((), "float32", "cpu"), Type((), "tuple", "cpu", (0, 1))],
        scopes=[Scope("", "top", -1), Scope("mlp", "layer", 0)],
        sources=[Source("In[1]", 1, "tanh(a + 2)")],
        bodies=[Body("", (0,), (3, 4))],
        nodes=nodes,
        stages=[
            Stage("record", "record", 0, 0, {"nodes": 5}),
            Stage("dedup", "pass", 0, 1, {"nodes": 4}, "once is enough", 3.5),
            Stage("fuse", "pass", 1, 2, {"nodes": 3}),
        ],
        decisions=[merged, fused],
        substitutions=[(0, 4, 3), (1, 3, 5)],
        groups=[Group(1, "kernel", "fused", (2, 3))],
        schedule=Schedule((kernel,), (24,), 24, 48),
        run=Run("simple", (Step(0, 0.0, 1.5, 24),), 2.0, {5: value}),
    )


def texts() -> list[str]:
    return [json.dumps(to_json(sample())), *(path.read_text(encoding="utf-8") for path in GOLDEN)]


def mutate(plain: Any, chance: random.Random) -> Any:
    """The plain form with one to three places replaced, removed, doubled, renamed or exchanged."""
    plain = copy.deepcopy(plain)
    for _ in range(chance.randint(1, 3)):
        places = _places(plain)
        if not places:
            return chance.choice(VALUES)(chance)
        holder, key = chance.choice(places)
        match chance.randrange(5):
            case 0 | 1:
                holder[key] = chance.choice(VALUES)(chance)
            case 2:
                del holder[key]
            case 3 if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[key]))
            case 3:
                holder[chance.choice(["", "node", "x" * 60, "\u202e"])] = holder.pop(key)
            case _:
                other, name = chance.choice(places)
                holder[key] = copy.deepcopy(other[name])
    return plain


def _places(plain: Any) -> list[tuple[Any, Any]]:
    places: list[tuple[Any, Any]] = []
    waiting = [plain]
    for value in waiting:
        keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
        places += [(value, key) for key in keys]
        waiting += [value[key] for key in keys]
    return places


def damage(text: str, chance: random.Random) -> str:
    """The text with characters changed, and a part of it cut out or repeated."""
    start = chance.randrange(len(text))
    end = min(len(text), start + chance.randint(1, 40))
    piece = chance.choice(
        ["", text[start:end] * 2, "[" * 200_000, "9" * 5000, "NaN", "1e999", "\\ud800", '"', "}", ","]
    )
    return text[:start] + piece + text[end:]


def read(text: str) -> bool:
    """Whether a text is a recording: then everything that a view asks of it has an answer."""
    try:
        recording = loads(text)
    except ValueError as refusal:
        text = str(refusal)
        if not (REFUSAL.match(text) and text.isprintable() and len(text) <= LONGEST):
            raise AssertionError("the refusal does not say what is wrong, and briefly") from refusal
        return False
    again = json.dumps(to_json(recording), allow_nan=False)
    assert to_json(loads(again)) == to_json(recording)
    for decision in recording.decisions:
        recording.reason(decision)
    for node in range(len(recording.nodes)):
        recording.type_text(node)
        recording.decisions_of(node)
    for position in range(recording.end + 1):
        for body in range(len(recording.bodies)):
            list(recording.edges(position, body))
    assert all(0 <= root < len(recording.nodes) for root in recording.roots)
    return True


def test_the_originals_are_recordings() -> None:
    assert all(map(read, texts()))


@pytest.mark.parametrize("way", ["fields", "text"])
def test_a_damaged_recording_is_refused_or_whole(way: str) -> None:
    """For a fixed time: every mutation of a recording is refused with a clear ValueError, or answers every question."""
    chance = random.Random(f"recording {way}")
    originals = texts()
    plain = [json.loads(text) for text in originals]
    ends = {True: 0, False: 0}
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        which = chance.randrange(len(originals))
        text = json.dumps(mutate(plain[which], chance)) if way == "fields" else damage(originals[which], chance)
        try:
            ends[read(text)] += 1
        except Exception as error:
            error.add_note(f"after {sum(ends.values())} mutations, for the recording {text[:20_000]}")
            raise
    assert min(ends.values()) > 100, f"the mutations are all alike: {ends}"

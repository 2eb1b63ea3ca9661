"""Probes of an opened model: it is checked, built, drawn, saved and run."""

from __future__ import annotations

import contextlib
import io
import random
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

import explorer as ex
from explorer.cli.main import main
from explorer.net import Net
from explorer.net.definition.serialization import dumps
from explorer.record import Recording
from explorer.run.evalplan import EvalPlan
from explorer.view.export.dot import to_graphviz
from explorer.view.export.html_page import html
from explorer.view.export.text import text
from explorer.view.export.why_text import why
from explorer.view.picture.svg import svg

ENTRIES = 200_000
"""maximum number of elements of the inputs that a net is run on"""
PEAK, FLOPS = 1 << 24, 10**8
"""maximum memory and work of plans that are run: a net may openly ask for more, which is no fault of explorer's"""
_CONTROLS = frozenset(("Cc", "Cs", "Zl", "Zp"))
_ORDERS = frozenset(("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"))
NODES = 3000
"""maximum number of nodes of graphs that are drawn: tests/bench measures how the time grows"""


class BrokenPromiseError(AssertionError):
    """A promise of explorer about every file is broken."""


def probe_model(path: Path, chance: random.Random, whole: bool) -> str:
    """Open a model and use it as users do; return "fine", or "clean" if it raises an error of explorer's family."""
    try:
        net = ex.open(path)
        repr(net)
        net.check()
        plan = net.preview_plan()  # rejected for a net with only plain values, or if the file has no shapes at all
    except ex.ExplorerError as error:
        _foreseen(error)
        return "clean"
    for problem in net.problems().values():
        _foreseen(problem)
    try:
        net.build()
    except ex.ExplorerError as error:
        _foreseen(error)
    draw(plan.recording, chance, whole)
    if whole or chance.random() < 0.3:
        plan.explain()
    if whole or chance.random() < 0.3:
        _run(net, plan)
    if whole or chance.random() < 0.1:
        _save(net, path)
    if whole or chance.random() < 0.05:
        command(["check", str(path)])
        command(["show", str(path), "-o", str(path.with_name("shown.txt"))])
    return "fine"


def draw(recording: Recording, chance: random.Random, whole: bool) -> None:
    """Draw a recording in some of the ways, or in all of them if the file is undamaged."""
    if len(recording.nodes) > NODES:
        return
    if whole or chance.random() < 0.3:
        shown = text(recording)
        if any(map(is_obeyed, shown.replace("\n", ""))):
            raise BrokenPromiseError("the text of a recording holds characters that command a terminal")
    if whole or chance.random() < 0.15:
        to_graphviz(recording).source  # noqa: B018 - the property writes the text
    if whole or chance.random() < 0.15:
        ElementTree.fromstring(svg(recording))
    if whole or chance.random() < 0.08:
        html(recording)
    if len(recording.nodes) and chance.random() < 0.2:
        why(recording, chance.randrange(len(recording.nodes)))


def command(arguments: list[str]) -> None:
    """Run a command of the command line; its output may contain no terminal control characters."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            main([*arguments, "--debug"])
        except (ex.ExplorerError, OSError):
            main(arguments)  # the message as users see it
    wrong = [line for line in printed.getvalue().split("\n") if any(map(is_obeyed, line))]
    if wrong:
        raise BrokenPromiseError(f"explorer {arguments[0]} prints {wrong[0]!r}")


def is_obeyed(character: str) -> bool:
    """Return whether a terminal interprets a character or reorders text because of it; a no-break space is ordinary."""
    return unicodedata.category(character) in _CONTROLS or unicodedata.bidirectional(character) in _ORDERS


def _foreseen(error: ex.ExplorerError) -> None:
    """Raise the cause of an explorer error if it is an unforeseen exception or a lack of memory."""
    result: BaseException | None = error
    while result is not None:
        cause = result.__cause__ or result.__context__
        if isinstance(result, ex.ReaderError) or _is_lack(cause):
            raise cause or result
        result = cause
    if not str(error).strip():
        raise BrokenPromiseError("an error without a message") from error


def _is_lack(error: BaseException | None) -> bool:
    """Return whether an allocation failed; explorer rejects sizes above the budget before that."""
    return isinstance(error, MemoryError) and not isinstance(error, ex.ExplorerError)


def _run(net: Net, plan: EvalPlan) -> None:
    """Run a net on zeros of the example shapes, if memory and work stay below the limits."""
    schedule = plan.recording.schedule
    if net.problems() or schedule is None:
        return
    if schedule.peak > PEAK or sum(kernel.flops for kernel in schedule.kernels) > FLOPS:
        return
    shapes = net.example_shapes()
    given: dict[str, Any] = {}
    for name, blob in net.inputs.items():
        if np.prod([float(length) for length in shapes[name]]) > ENTRIES:
            return
        given[name] = np.zeros(shapes[name], blob.dtype if blob.dtype in np.sctypeDict else "float32")
    try:
        with np.errstate(all="ignore"):
            net.run(given)
    except ex.ExplorerError as error:
        _foreseen(error)


def _save(net: Net, path: Path) -> None:
    """Save a net in explorer's own format, and check that opening it gives an equal net."""
    saved = path.with_name("saved.json")
    try:
        net.save(saved)
    except ex.ExplorerError as error:
        _foreseen(error)
        return
    again = ex.open(saved).definition
    if dumps(replace(again, name=net.definition.name)) != dumps(net.definition):  # NaN does not equal itself
        raise BrokenPromiseError("a net is another one after it was saved and opened")

"""Process that reads and plans one model's file for JupyterLab: ``python -m explorer.lab.model_worker``.

Jupyter's server (server_extension.py) starts it, and ends it when a file takes too long. Standard input holds one
request, a line of JSON::

    {"root": folder, "path": file below it, "node": id or null, "memory": bytes}

The process may allocate so many bytes where the system limits data: on Linux. Elsewhere a file may use all memory.

The answer is lines of JSON on standard output: any number of ``{"progress": {"phase", "what", "done", "total"}}``, then
``{"payload": …}`` (explorer/view/payload/view_payload.py) for a file, ``{"value": {"summary", "problem"}}`` for the
leaf of a node, or ``{"problem": {"given", "rule", "fix"}}``.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from explorer.core.errors import ExplorerError
from explorer.core.memory_budget import size_text
from explorer.core.progress import Progress, delayed, progress
from explorer.formats import open
from explorer.formats.recording_file import stored_recording
from explorer.record import Recording, Summary
from explorer.record.escape import visible
from explorer.record.gc_pause import gc_paused
from explorer.run.diagnosis.leaf_values import leaf_answer
from explorer.view.layout.box_layout import draw
from explorer.view.payload.view_payload import payload, turned

Answer = dict[str, Any]
_PATIENCE = 0.3
"""seconds after which progress is told"""


def reply(path: Path, node: int | None) -> Answer:
    """Return the payload of a model's file or a recording; with a node of it, the value of that leaf."""
    recording = stored_recording(path)
    if recording is not None:
        return _view(recording) if node is None else _value(None, "")
    plan = open(path).preview_plan()
    if node is None:
        return _view(plan.recording)
    if not 0 <= node < len(plan.recording.nodes):
        return _value(None, "the file has changed: reload it")
    return _value(*leaf_answer(plan.planned, node))


def _view(recording: Recording) -> Answer:
    """Return the payload of a recording, which flows down and can be turned."""
    with gc_paused():
        drawing = draw(recording)
        held = payload(recording, position=0, drawing=drawing)
        held["layout"]["turned"] = turned(drawing)
        return {"payload": held}


def _value(summary: Summary | None, problem: str) -> Answer:
    return {"value": {"summary": summary and asdict(summary), "problem": problem}}


def problem(error: Exception, memory: int = 0) -> Answer:
    """Return an error as what was given, the rule, and the fix; ``memory`` is the limit of the process in bytes."""
    if memory and _is_lack(error):
        parts = (
            f"reading the file takes more than {size_text(memory)}",
            "the memory of a process that reads a file must not exceed the server's limit",
            f"jupyter lab --ExplorerFiles.memory={4 * memory}",
        )
    elif isinstance(error, ExplorerError):
        parts = (error.given, error.rule, error.fix)
    elif isinstance(error, OSError):
        parts = (f"{error.filename}: {error.strerror}" if error.filename else str(error), "", "")
    else:
        parts = (
            f"unexpected {type(error).__name__}: {error}",
            "no file must make explorer fail: this is a fault of explorer itself",
            "explorer show FILE --debug shows where",
        )
    return {"problem": dict(zip(("given", "rule", "fix"), map(visible, parts), strict=True))}


def _is_lack(error: BaseException | None) -> bool:
    """Tell whether an allocation failed."""
    while error is not None:
        if isinstance(error, MemoryError) and not isinstance(error, ExplorerError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _limit(memory: int) -> None:
    """Limit the data of this process, where the system can: address space is reserved without being used."""
    try:
        import resource
    except ImportError:  # Windows
        return
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (memory if most == resource.RLIM_INFINITY else min(memory, most), most))


def answer(request: Answer, tell: Callable[[Answer], None]) -> None:
    """Answer a request: progress while it takes long, then the result or the problem."""

    def report(state: Progress) -> None:
        tell({"progress": {**asdict(state), "what": visible(state.what)}})

    try:
        os.chdir(request["root"])  # so that errors name files as JupyterLab does
        with delayed(lambda: nullcontext(report), after=_PATIENCE) as callback, progress(callback):
            result = reply(Path(request["path"]), request["node"])
    except Exception as error:
        result = problem(error, request.get("memory", 0))
    tell(result)


def main() -> None:
    """Answer the request on standard input, and end when the server does."""
    # What libraries print must not get between the lines of the answer.
    output = os.dup(1)
    os.dup2(2, 1)

    def tell(message: Answer) -> None:
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        rest = memoryview(text.encode("utf-8", "backslashreplace") + b"\n")
        while rest:
            rest = rest[os.write(output, rest) :]

    line = _line()
    if line:
        threading.Thread(target=_end_with_the_server, daemon=True).start()
        request = json.loads(line)
        _limit(request["memory"])
        answer(request, tell)


def _line() -> bytes:
    """Return the line on standard input; empty if the server ended before it wrote one."""
    parts: list[bytes] = []
    while part := os.read(0, 65536):
        parts.append(part)
        if part.endswith(b"\n"):
            return b"".join(parts)
    return b""


def _end_with_the_server() -> None:
    """Wait until standard input is closed, as a server that ends closes it, however it ends."""
    while os.read(0, 65536):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()

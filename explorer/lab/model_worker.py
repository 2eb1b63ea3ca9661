"""Process that reads and plans one model file for JupyterLab: ``python -m explorer.lab.model_worker``.

The Jupyter server (server_extension.py) starts the process, and kills it if a file takes too long. The request is one
line of JSON on standard input::

    {"root": folder, "path": file below it, "node": id or null, "memory": bytes}

``memory`` is the number of bytes that the process may allocate; it is enforced only on Linux.

The response consists of lines of JSON on standard output. Any number of ``{"progress": {"phase", "what", "done",
"total"}}`` is followed by a result: ``{"payload": …}`` (explorer/view/payload/view_payload.py) for a file, ``{"value":
{"summary", "problem"}}`` for a leaf, or ``{"problem": {"given", "rule", "fix"}}`` for an error.
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
from explorer.view.layout.placed_model import draw
from explorer.view.payload.view_payload import payload, turned

Message = dict[str, Any]
_PROGRESS_DELAY = 0.3
"""seconds before progress is reported"""


def result_of(path: Path, node: int | None) -> Message:
    """Return the payload of a model file or a recording, or the value of the leaf ``node`` if it is given."""
    recording = stored_recording(path)
    if recording is not None:
        return _view(recording) if node is None else _value(None, "")
    plan = open(path).preview_plan()
    if node is None:
        return _view(plan.recording)
    if not 0 <= node < len(plan.recording.nodes):
        return _value(None, "the file has changed: reload it")
    return _value(*leaf_answer(plan.planned, node))


def _view(recording: Recording) -> Message:
    """Return the payload of a recording, laid out downwards and to the right."""
    with gc_paused():
        drawing = draw(recording)
        view = payload(recording, position=0, drawing=drawing)
        view["layout"]["turned"] = turned(drawing)
        return {"payload": view}


def _value(summary: Summary | None, problem: str) -> Message:
    return {"value": {"summary": summary and asdict(summary), "problem": problem}}


def problem(error: Exception, memory: int = 0) -> Message:
    """Return an error as a dict with given, rule and fix; ``memory`` is the process's limit in bytes."""
    if memory and _is_out_of_memory(error):
        parts = (
            f"reading the file takes more than {size_text(memory)}",
            "a process that reads a file must not exceed the server's memory limit",
            f"jupyter lab --ExplorerFiles.memory={4 * memory}",
        )
    elif isinstance(error, ExplorerError):
        parts = (error.given, error.rule, error.fix)
    elif isinstance(error, OSError):
        parts = (f"{error.filename}: {error.strerror}" if error.filename else str(error), "", "")
    else:
        parts = (
            f"unexpected {type(error).__name__}: {error}",
            "explorer must not fail for any file, so this is a defect in explorer",
            "explorer show FILE --debug shows where it occurs",
        )
    return {"problem": dict(zip(("given", "rule", "fix"), map(visible, parts), strict=True))}


def _is_out_of_memory(error: BaseException | None) -> bool:
    """Return whether a failed allocation caused the error."""
    while error is not None:
        if isinstance(error, MemoryError) and not isinstance(error, ExplorerError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _limit(memory: int) -> None:
    """Limit this process's data segment, if possible; most of its address space is unused, so that is not limited."""
    try:
        import resource
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (memory if hard == resource.RLIM_INFINITY else min(memory, hard), hard))


def respond(request: Message, send: Callable[[Message], None]) -> None:
    """Send the response to a request: progress if it takes long, then the result or the problem."""

    def report(state: Progress) -> None:
        send({"progress": {**asdict(state), "what": visible(state.what)}})

    try:
        os.chdir(request["root"])  # so errors name files as JupyterLab does
        with delayed(lambda: nullcontext(report), after=_PROGRESS_DELAY) as callback, progress(callback):
            result = result_of(Path(request["path"]), request["node"])
    except Exception as error:
        result = problem(error, request.get("memory", 0))
    send(result)


def main() -> None:
    """Respond to the request on standard input, and exit when the server does."""
    # Libraries print to standard error, because standard output contains the response.
    output = os.dup(1)
    os.dup2(2, 1)

    def send(message: Message) -> None:
        line = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        rest = memoryview(line.encode("utf-8", "backslashreplace") + b"\n")
        while rest:
            rest = rest[os.write(output, rest) :]

    line = _line()
    if line:
        threading.Thread(target=_exit_with_the_server, daemon=True).start()
        request = json.loads(line)
        _limit(request["memory"])
        respond(request, send)


def _line() -> bytes:
    """Return the line on standard input; empty if the server exited first."""
    parts: list[bytes] = []
    while part := os.read(0, 65536):
        parts.append(part)
        if part.endswith(b"\n"):
            return b"".join(parts)
    return b""


def _exit_with_the_server() -> None:
    """Wait until standard input is closed, which happens however the server ends; then exit."""
    while os.read(0, 65536):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()

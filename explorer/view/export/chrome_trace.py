"""Trace export: the kernels of a run in Chrome's trace format, which ui.perfetto.dev and chrome://tracing open."""

from __future__ import annotations

import json
from typing import Any

from explorer.record import Recording
from explorer.record.escape import visible


def chrome_trace(recording: Recording) -> str:
    """Return the trace of the measured run as JSON; raise ValueError if the recording has no run.

    Each kernel is an event with its nodes, flops and bytes, in the row of its thread. The counter "live bytes" is the
    memory in use while a kernel runs.
    """
    run, schedule = recording.run, recording.schedule
    if run is None or schedule is None:
        raise ValueError("this recording has no measured run")
    events: list[dict[str, Any]] = [_named("process_name", 0, f"{visible(recording.title) or 'run'} · {run.executor}")]
    threads = sorted({step.thread for step in run.steps})
    events += [_named("thread_name", thread, f"worker {thread}" if thread else "calling thread") for thread in threads]
    once = {*recording.once}
    for step in sorted(run.steps, key=lambda step: step.start):
        kernel = schedule.kernels[step.kernel]
        result = kernel.nodes[-1]
        known = {
            "kernel": step.kernel,
            "type": visible(recording.type_text(result)),
            "nodes": [visible(recording.label(node)) for node in kernel.nodes],
            "flops": kernel.flops,
            "bytes": kernel.bytes,
            "estimated_us": kernel.estimate,
            "once": True if step.kernel in once else None,
        }
        event = {"name": visible(recording.label(result)), "cat": "kernel", "ph": "X", "pid": 0, "tid": step.thread}
        arguments = {name: value for name, value in known.items() if value is not None}
        events.append({**event, "ts": step.start, "dur": step.micros, "args": arguments})
        if step.live is not None:
            events.append({"name": "live bytes", "ph": "C", "pid": 0, "ts": step.start, "args": {"bytes": step.live}})
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}, ensure_ascii=False) + "\n"


def _named(kind: str, thread: int, name: str) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": 0, "tid": thread, "args": {"name": name}}

"""Script of the child process that creates onnxruntime's sessions, with the log and the optimized graph of each.

The first session has all graph transformers. In the second one, all are disabled. Then each transformer that changed
the graph is enabled, in the order in which they did. A transformer's effect is the difference of two graphs. The
argument is a folder with a job (job.json), to which the graphs, the logs and a report (sessions.json) are written.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

_EVENT = re.compile(r"^[^\n\]]*\] GraphTransformer (\S+) modified: ([01]) ", re.MULTILINE)
_SESSIONS = 60
"""maximum number of sessions"""
_PROVIDERS = ["CPUExecutionProvider"]


def main(folder: Path) -> None:
    """Create the sessions of a job, and measure runs of the first one if the job has inputs."""
    import onnxruntime  # an optional package

    job = json.loads((folder / "job.json").read_text())
    rows: list[dict[str, Any]] = []
    report = {"version": onnxruntime.__version__, "sessions": rows}
    first = _session(onnxruntime, folder, job, rows, [], profiling=job["inputs"] is not None)
    if job["inputs"] is not None:
        with np.load(folder / "inputs.npz") as stored:
            inputs = {name: stored[f"arr_{index}"] for index, name in enumerate(job["inputs"])}
        _measure(onnxruntime, first, inputs, job)
        Path(first.end_profiling()).rename(folder / "profile.json")
    del first
    tried, changed = _events(folder / "0.log")
    _session(onnxruntime, folder, job, rows, tried)
    always = _events(folder / "1.log")[1]
    steps = [name for name in changed if name not in always]
    for count in range(1, min(len(steps), _SESSIONS)):
        _session(
            onnxruntime,
            folder,
            job,
            rows,
            [name for name in tried if name not in steps[:count]],
            enabled=steps[count - 1],
        )
    rows[0]["enabled"] = steps[-1] if steps else ""
    rows[1]["always"] = always
    (folder / "sessions.json").write_text(json.dumps(report))


def _session(
    onnxruntime: Any, folder: Path, job: dict[str, Any], rows: list[dict[str, Any]], disabled: list[str], *,
    enabled: str = "", profiling: bool = False,
) -> Any:  # fmt: skip
    """Return a new session; write its log and its graph to files that are named by its number."""
    number, weights = len(rows), f"{len(rows)}.weights"
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.log_verbosity_level = 0, 4
    options.enable_profiling = profiling
    options.profile_file_prefix = str(folder / "profile")
    # With a memory pattern, all intermediate results are one allocation, and live bytes are not reported.
    options.enable_mem_pattern = False
    options.optimized_model_filepath = str(folder / f"{number}.onnx")
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", weights)
    options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "1024")
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", job["weights"])
    model = (folder / "given.onnx").read_bytes()
    errors = os.dup(2)
    with (folder / f"{number}.log").open("wb") as log:
        os.dup2(log.fileno(), 2)  # onnxruntime writes its log to this descriptor
        try:
            began = perf_counter()
            session = onnxruntime.InferenceSession(model, options, providers=_PROVIDERS, disabled_optimizers=disabled)
            seconds = perf_counter() - began
        finally:
            os.dup2(errors, 2)
            os.close(errors)
    (folder / weights).unlink(missing_ok=True)
    rows.append({"enabled": enabled, "seconds": seconds})
    return session


def _measure(onnxruntime: Any, session: Any, inputs: dict[str, Any], job: dict[str, Any]) -> None:
    """Run a session once to warm up, and then up to the job's number of runs and seconds."""
    options = onnxruntime.RunOptions()
    options.log_severity_level = 4
    session.run(None, inputs, options)
    began = perf_counter()
    for _ in range(job["runs"]):
        session.run(None, inputs, options)
        if perf_counter() - began > job["seconds"]:
            break


def _events(log: Path) -> tuple[list[str], list[str]]:
    """Return the transformers that ran, and those that changed the graph, in order and without repetitions."""
    rows = _EVENT.findall(log.read_text(errors="replace"))
    return list(dict.fromkeys([name for name, _ in rows])), list(
        dict.fromkeys([n for n, state in rows if state == "1"])
    )


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except Exception as error:  # onnxruntime's errors have types of its own
        sys.exit(f"{type(error).__name__}: {error}")

"""Script that compiles a jax program in a child process and measures it; story.py runs it.

The parent writes a folder with ``program`` (a program exported by jax), ``arguments.npz`` and ``order.json``. XLA
writes its dumps to ``dumps`` in this folder, and its log to the standard error output. The script writes
``result.json``.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

_WARM_RUNS, _RUNS = 3, 20
"""runs before the measured ones, and measured runs, of which each kernel's best is reported"""


def main(folder: Path) -> None:
    """Compile the program of a folder, measure it if ordered, and write the result."""
    import jax  # an optional package
    import jax.export

    order = json.loads((folder / "order.json").read_text())
    content = (folder / "program").read_bytes()
    exported = jax.export.deserialize(bytearray(content))
    if b"lapack" in content:  # jax before 0.8 finds LAPACK's functions when it lowers a call of one
        jax.jit(jax.numpy.linalg.eigh).lower(jax.ShapeDtypeStruct((1, 1), "float32"))

    def program(*leaves: Any) -> Any:
        return exported.call(*leaves)

    program.__name__ = order["name"]
    jitted = jax.jit(program, donate_argnums=tuple(order["donated"]), keep_unused=True)
    shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in exported.in_avals]
    lowered = jitted.lower(*shapes)
    dumps = {"xla_dump_to": str(folder / "dumps"), "xla_dump_hlo_pass_re": ".*", "xla_dump_hlo_as_text": True}
    start = time.perf_counter()
    compiled = lowered.compile(compiler_options=dumps)
    result = {"version": jax.__version__, "seconds": time.perf_counter() - start, "events": {}}
    if order["run"]:
        arguments = _arguments(folder, order, exported.in_avals)
        result["events"] = _measure(compiled, arguments, set(order["donated"]), folder / "profile")
    (folder / "result.json").write_text(json.dumps(result))


def _arguments(folder: Path, order: dict[str, Any], avals: Any) -> list[Any]:
    """Return the program's arguments; NumPy stores no types such as bfloat16, and no keys of random numbers."""
    import jax

    with np.load(folder / "arguments.npz") as stored:
        arrays = [stored[str(index)] for index in range(len(avals))]
    return [
        jax.random.wrap_key_data(array, impl=order["keys"][str(index)])
        if str(index) in order["keys"]
        else array.view(aval.dtype)
        for index, (array, aval) in enumerate(zip(arrays, avals, strict=True))
    ]


def _measure(compiled: Any, arguments: list[Any], donated: set[int], folder: Path) -> dict[str, float]:
    """Return the name of an event → its time in one run, in ns: the best of several runs."""
    import jax

    if not hasattr(jax.profiler, "ProfileData"):  # before jax 0.6
        return {}
    calls = [
        # a run overwrites the arguments that are donated to it
        [jax.numpy.array(value) if index in donated else value for index, value in enumerate(arguments)]
        for _ in range(_WARM_RUNS + _RUNS)
    ]
    for call in calls[:_WARM_RUNS]:
        jax.block_until_ready(compiled(*call))
    with jax.profiler.trace(str(folder)):
        for call in calls[_WARM_RUNS:]:
            jax.block_until_ready(compiled(*call))
    times: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for file in folder.rglob("*.xplane.pb"):
        for plane in jax.profiler.ProfileData.from_file(str(file)).planes:
            for line in plane.lines:
                for event in line.events:
                    times[event.name].append((event.start_ns, event.duration_ns))
    best = {}
    for name, events in times.items():
        per_run, rest = divmod(len(events), _RUNS)
        if per_run and not rest:  # a kernel in a loop runs several times per run
            durations = [duration for _, duration in sorted(events)]
            best[name] = min(sum(durations[run * per_run : (run + 1) * per_run]) for run in range(_RUNS))
    return best


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""XLA's adapter with jax: kernels with lines, refusals of the log, sizes and times."""

from __future__ import annotations

import re
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.compilers import record
from explorer.compilers.adapters.xla import story

pytestmark = pytest.mark.bench
jax = pytest.importorskip("jax")


@pytest.mark.parametrize("name", ["mlp", "attention", "convolution_net", "training_step"])
def test_kernels_trace_to_lines_and_each_refusal_is_recorded(name: str, tmp_path: Path) -> None:
    from tests.support.jax_programs import PROGRAMS  # imports jax

    function, arguments = PROGRAMS[name]
    begin = perf_counter()
    jax.jit(function).lower(*arguments).compile()
    compiled = perf_counter() - begin
    begin = perf_counter()
    written = story.compiled_in_child(jax.jit(function), *arguments)
    recording = story.recording_of_dumps(name, written)
    whole = perf_counter() - begin
    origins = recording.provenance.kernels
    assert all(origin.nodes for origin in origins)
    lines = sum(bool(origin.sources) for origin in origins)
    assert lines >= 0.95 * len(origins)
    if hasattr(jax.profiler, "ProfileData"):
        assert recording.run is not None
        assert len(recording.run.steps) == len(origins)
    unique = len(set(_refusals(written.log)))
    options = recording.options
    unplaced = options.get("refusals about unknown values", 0)
    assert len(recording.declined) + options.get("refusals into tuples", 0) + unplaced == unique
    assert unplaced <= 0.05 * unique
    assert "unknown rows of the log" not in options
    ex.explore(recording).save(tmp_path / "recording.json")
    size = (tmp_path / "recording.json").stat().st_size
    assert size <= 1_000_000
    print(
        f"\n{name:16} {len(origins):4} kernels, {lines:4} with lines, {len(recording.codes):3} with code, "
        f"{unique:4} refusals, {size / 1000:6.0f} KB, compiled in {compiled:.1f} s, recorded in {whole:.1f} s"
    )


def _refusals(log: str) -> list[tuple[str, str, str]]:
    """Return the refusals of a log, with the names of new fusions replaced by their instructions."""
    made: dict[str, str] = {}
    rows, reader, last = [], "", ""
    for line in log.splitlines():
        if match := re.search(r"Considering fusion of: %(\S+) = ", line):
            reader = match[1]
        elif match := re.search(r"Fusing %\S+ = .* into %(\S+) = ", line):
            last = match[1]
        elif match := re.search(r"created new fusion: %(\S+) = ", line):
            made[match[1]] = made.get(last, last)
        elif match := re.search(r"not fusing operand %(\S+) = .* because (.*)$", line):
            rows.append((made.get(match[1], match[1]), made.get(reader, reader), match[2]))
    return rows


def test_values_that_numpy_or_python_does_not_store(tmp_path: Path) -> None:
    """Keys of random numbers, bfloat16, Python numbers, nested results, donated and unread arguments, and loops."""

    def step(state: dict[str, Any], key: Any, rate: float, unread: Any) -> Any:
        noise = jax.random.normal(key, state["w"].shape, "bfloat16")
        w = jax.lax.fori_loop(0, 3, lambda i, w: jax.numpy.tanh(w * rate + noise), state["w"])
        return {"w": w}, jax.numpy.linalg.eigh(w.astype("float32"))

    state = {"w": jax.numpy.ones((4, 4), "bfloat16")}
    jitted = jax.jit(step, donate_argnums=0)
    recording = record("xla", jitted, state, jax.random.key(0), 0.5, np.ones(3))
    labels = [recording.nodes.label[node] for node in recording.bodies[0].inputs]
    assert labels == ["state['w']", "key", "rate", "unread"]
    operations = {recording.operations[recording.nodes.operation[node]] for node in range(len(recording.nodes))}
    assert {"while", "tanh"} <= operations
    assert recording.run is not None


@pytest.mark.parametrize(
    ("program", "arguments", "run", "problem"),
    [
        (np.tanh, (np.ones(3),), True, r"functions of jax\.jit.*compiler=\"xla\""),
        (jax.jit(lambda x, y: x + y), (np.ones(3),), True, "called with the arguments"),
        (jax.jit(lambda x, n: x * n, static_argnums=1), (np.ones(3), 2), True, "1 of 2 arguments are static"),
        (jax.jit(lambda x: jax.pure_callback(np.sin, x, x)), (np.ones(3),), True, "must not call back into Python"),
        (jax.jit(jax.numpy.tanh), (jax.ShapeDtypeStruct((3,), "float32"),), True, "has no elements"),
    ],
)
def test_programs_that_cannot_be_recorded(program: Any, arguments: tuple[Any, ...], run: bool, problem: str) -> None:
    with pytest.raises(ex.OperandError, match=f"(?s){problem}"):
        ex.explore(program, *arguments, compiler="xla", run=run)


def test_a_program_is_recorded_without_arrays() -> None:
    recording = record("xla", jax.jit(jax.numpy.tanh), jax.ShapeDtypeStruct((3,), "float32"), run=False)
    assert recording.run is None
    assert recording.schedule is not None

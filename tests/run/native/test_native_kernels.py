"""Compiled kernels compute NumPy's values, for every layout, and NumPy computes them where there is no compiler."""

from __future__ import annotations

import itertools
import os
import shlex
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.function import Parameter
from explorer.core.types.tensor_type import Array
from explorer.run.execution import program as program_module
from explorer.run.execution.binding import Binding
from explorer.run.execution.executors import EXECUTORS
from explorer.run.execution.executors.registry import RegisteredExecutor
from explorer.run.execution.observer import Observer
from explorer.run.execution.program import Program
from explorer.run.kernels.runners import Steps
from explorer.run.native import library
from explorer.run.plan_cache import cache
from explorer.run.runtime.timing import Timing

RNG = np.random.default_rng(0)
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, 88.8, -104.5], np.float32)


def numbers(*shape: int, dtype: str = "float32") -> Array:
    """Return normal numbers, with special values at the beginning."""
    values: Array = (RNG.normal(size=shape) * 3).astype(dtype)
    values.ravel()[: len(SPECIAL)] = SPECIAL[: values.size]
    return values


def both(build: Callable[[], ex.Expr], **options: Any) -> tuple[Array, Array, ex.EvalPlan]:
    """Return the values by NumPy and by compiled kernels, and the plan of the latter."""
    plan = ex.EvalPlan(kernels="native", **options)
    handle = plan.register(build())
    plan.eval()
    return ex.evaluate(build(), **options), handle.data(), plan


def compiled(plan: ex.EvalPlan) -> int:
    """Return how many kernels ran as C code."""
    return int(plan.recording.stages[-1].counts["compiled"])


@pytest.mark.spec("K-1", "K-4")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arithmetic_has_the_bits_of_numpy(dtype: str, compiler: None) -> None:
    a, b = ex.tensor(numbers(50, 200, dtype=dtype)), ex.tensor(numbers(50, 200, dtype=dtype))

    def build() -> ex.Expr:
        y = (a + b) * a - b / a
        y = ex.maximum(y, ex.minimum(a, 2)) + ex.sqrt(ex.absolute(b)) - ex.square(a) * 1.7
        return ex.where((y > a) & ~(b == 1), -y, 1 / ex.sign(b) + ex.relu(a) + ex.clip(b, -0.5, 0.25))

    expected, value, plan = both(build)
    assert compiled(plan) >= 1
    np.testing.assert_array_equal(value.view(f"i{value.itemsize}"), expected.view(f"i{value.itemsize}"))


@pytest.mark.spec("K-4")
def test_functions_agree_with_numpy(compiler: None) -> None:
    x = ex.tensor(numbers(100, 100))
    functions = [ex.exp, ex.tanh, ex.sigmoid, ex.erf, ex.gelu, ex.silu, ex.hardswish, ex.hardsigmoid, ex.leaky_relu]
    functions += [ex.expm1, ex.softplus, ex.softshrink, ex.elu, ex.sign]
    for function in functions:
        expected, value, plan = both(lambda function=function: function(x) * 2)
        assert compiled(plan) == 1, function
        np.testing.assert_allclose(value, expected, rtol=2e-6, atol=1e-6, err_msg=str(function))
    expected, value, _ = both(lambda: ex.log(ex.absolute(x)) + ex.rsqrt(ex.absolute(x) + 1) - ex.log1p(x))
    np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.spec("K-1")
def test_a_compiled_loop_needs_no_working_memory() -> None:
    """Values between operations are in registers of the processor; NumPy needs a block of memory for each."""
    x = ex.tensor(numbers(1000, 1000))
    plans = [ex.EvalPlan(kernels=kernels) for kernels in ("numpy", "native")]
    for plan in plans:
        plan.register(ex.tanh(x * 2) * ex.sigmoid(x + 1))
        plan.prepare()
    peaks = [plan.planned.schedule.peak for plan in plans]
    assert peaks[1] == x.type.nbytes < peaks[0]


@pytest.mark.spec("K-1")
@pytest.mark.parametrize("build", [lambda y: ex.tanh(y) * 2, lambda y: ex.softmax(y * 2)])
def test_the_plan_counts_the_copy_of_a_view_that_code_reads(build: Callable[[ex.Expr], ex.Expr]) -> None:
    x = Parameter(ex.TensorType((200, 200), "float32"), "x")()
    peaks = []
    for operand in (x, ex.transpose(x)):
        plan = ex.EvalPlan(kernels="native")
        plan.register(build(operand))
        peaks.append(plan.prepare().planned.schedule.peak)
    assert peaks[1] - peaks[0] == x.type.nbytes


@pytest.mark.spec("K-1")
@pytest.mark.parametrize("function", [ex.exp, ex.erf, ex.tanh, ex.relu])
def test_a_kernel_of_one_kind_of_operation(function: Callable[[Any], ex.Expr], compiler: None) -> None:
    """The kernel of a single kind of operation does not have the name of a function of C's library."""
    x = ex.tensor(numbers(100, 100))
    expected, value, plan = both(lambda: function(function(x)), without=["simplify"])
    assert compiled(plan) == 1
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.spec("K-4")
def test_every_nonzero_byte_of_a_boolean_is_true_and_1_as_a_number(compiler: None) -> None:
    booleans = ex.tensor(np.arange(10_000).astype(np.uint8).reshape(100, 100).view(bool))
    x = ex.tensor(RNG.normal(size=(100, 100)).astype(np.float32))
    for build in (
        lambda: booleans * x + 1,
        lambda: x + booleans + booleans,
        lambda: ex.where(booleans, x, x * 2) + 1,
        lambda: (x > booleans) & booleans & (x < 9),
        lambda: ex.maximum(x, booleans) * ~booleans,
    ):
        expected, value, plan = both(build)
        assert compiled(plan) == 1
        np.testing.assert_array_equal(value, expected)


@pytest.mark.spec("K-3")
def test_the_run_counts_the_compiled_kernels_of_branches(compiler: None) -> None:
    x = ex.tensor(RNG.normal(size=(100, 100)).astype(np.float32))
    expected, value, plan = both(
        lambda: ex.cond(ex.sum(x) > 0, lambda a: ex.tanh(a * 2) + 1, lambda a: ex.exp(a * 3) - 1, x)
    )
    assert compiled(plan) == 3
    assert "compiled 3 of its kernels" in plan.recording.stages[-1].purpose
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.spec("K-1")
def test_every_broadcasting_pattern(compiler: None) -> None:
    """All combinations of axes along which an operand has one element, and operands with fewer axes."""
    shape = (3, 5, 7, 40)
    x = ex.tensor(numbers(*shape))
    for pattern in range(16):
        part = tuple(size if pattern >> axis & 1 else 1 for axis, size in enumerate(shape))
        for cut in range(4):
            if any(size > 1 for size in part[:cut]):
                break
            other = ex.tensor(numbers(*part[cut:]))
            expected, value, plan = both(lambda other=other: x * other + 1 - other)
            assert compiled(plan) == 1
            np.testing.assert_array_equal(value, expected, err_msg=str(part[cut:]))


@pytest.mark.spec("K-1")
def test_any_memory_layout(compiler: None) -> None:
    """Operands in another layout than the code requires are copied."""
    x, y = numbers(60, 80, 3), numbers(60, 80, 3)
    layouts = [
        x,
        np.asfortranarray(x),
        x[::-1],
        x[:, ::-1],
        np.repeat(x, 2, axis=1)[:, ::2],
        x.transpose(1, 0, 2).copy().transpose(1, 0, 2),
    ]
    for layout in layouts:
        for other in (y, np.asfortranarray(y), y[:1], y[..., :1]):
            a, b = ex.tensor(layout), ex.tensor(other)
            expected, value, _ = both(lambda a=a, b=b: a * b + 1 - b)
            np.testing.assert_array_equal(value, expected)


@pytest.mark.spec("K-1")
def test_images_that_are_stored_pixel_by_pixel(compiler: None) -> None:
    images, filters = ex.tensor(numbers(2, 16, 20, 20)), ex.tensor(numbers(16, 16, 3, 3) / 50)
    scale = ex.tensor(numbers(16, 1, 1))

    def build() -> ex.Expr:
        y = ex.conv2d(ex.where(ex.isfinite(images), images, 0), filters)
        return ex.conv2d(ex.relu(y * scale * 1e-3) + 1 + ex.tanh(y), filters)

    expected, value, _ = both(build)
    np.testing.assert_allclose(value, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.spec("K-6", headline=True)
def test_threads_share_a_large_kernel_and_repeated_runs_have_the_same_bits(compiler: None) -> None:
    """Threads share the rows of a compiled kernel, and repeated runs have the same bits."""
    x = ex.tensor(numbers(3, 1 << 20))
    first = ex.evaluate(ex.exp(ex.tanh(x)) - x, kernels="native")
    for _ in range(3):
        np.testing.assert_array_equal(ex.evaluate(ex.exp(ex.tanh(x)) - x, kernels="native"), first)
    np.testing.assert_allclose(first, ex.evaluate(ex.exp(ex.tanh(x)) - x), rtol=1e-6, atol=1e-6)


@pytest.mark.spec("K-1")
def test_a_cached_program_computes_new_values(compiler: None) -> None:
    """The program is planned and compiled once; each evaluation passes other arrays."""
    for _ in range(4):
        x = numbers(80, 80)
        y = ex.tensor(x)
        plan = ex.EvalPlan(kernels="native")
        handle = plan.register(ex.sigmoid(y * 2) + y)
        plan.eval()
        assert compiled(plan) == 1
        np.testing.assert_allclose(handle.data(), ex.evaluate(ex.sigmoid(y * 2) + y), rtol=1e-6, atol=1e-6)


@pytest.mark.spec("K-1")
def test_every_run_of_a_program_has_its_own_result(compiler: None) -> None:
    """The addresses of operands are kept, and the address of the result is replaced."""
    x = ex.tensor(numbers(64, 200))
    parameter = ex.tensor(numbers(200))
    plan = ex.EvalPlan(kernels="native")
    plan.register(ex.exp(ex.tanh(x * 2) + parameter) * x)
    program = Program(plan.prepare().planned)
    expected = ex.evaluate(ex.exp(ex.tanh(x * 2) + parameter) * x)
    results = []
    for _ in range(4):
        EXECUTORS["simple"].run(program, None)
        results += program.take()
    assert len(program.libraries[0].functions) == 1
    assert len({result.__array_interface__["data"][0] for result in results}) == 4
    for result in results:
        np.testing.assert_allclose(result, expected, 1e-4)
        np.testing.assert_array_equal(result, results[0])


@pytest.mark.spec("K-5")
def test_code_is_compiled_once_and_loaded_from_the_cache(
    folder: Path, compiler: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = ex.tensor(numbers(90, 90))
    expected, value, _ = both(lambda: x * 3 + 1)
    (built,) = folder.glob("*.so")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    library.library.cache_clear()
    cache.clear()
    monkeypatch.setattr(library, "_started", None)  # nothing can be compiled
    _, again, plan = both(lambda: x * 3 + 1)
    assert compiled(plan) == 1
    np.testing.assert_array_equal(value, expected)
    np.testing.assert_array_equal(again, expected)
    assert built.exists()


@pytest.mark.spec("K-5")
def test_compilers_build_parts_of_long_code_at_the_same_time(
    folder: Path, compiler: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library, "_PART", 200)
    monkeypatch.setattr(library, "_processors", lambda: 2)
    x, images = ex.tensor(numbers(90, 90)), ex.tensor(numbers(1, 8, 40, 40))
    plan = ex.EvalPlan(kernels="native")
    results = [ex.tanh(x * 3) + 1, ex.softmax(x * 2), ex.max_pool2d(images, 2) * 2]
    handles = [plan.register(result) for result in results]
    plan.eval()
    assert compiled(plan) == 3
    assert len([*folder.glob("*.so")]) == 2
    for handle, result in zip(handles, results, strict=True):
        np.testing.assert_allclose(handle.data(), ex.evaluate(result), rtol=1e-6, atol=1e-6)


@pytest.mark.spec("K-5")
@pytest.mark.parametrize(
    ("lengths", "most", "expected"),
    [
        ((100,), 4, [1]),
        ((9_000, 9_000), 1, [2]),
        ((9_000, 9_000), 8, [1, 1]),
        ((3_000,) * 8, 8, [3, 2, 3]),
        ((30_000, 1_000, 1_000), 4, [1, 2]),
    ],
)
def test_parts_have_similar_lengths(lengths: tuple[int, ...], most: int, expected: list[int]) -> None:
    codes = [(f"f{index}", "x" * length) for index, length in enumerate(lengths)]
    parts = library._parts(codes, most)
    assert [len(part) for part in parts] == expected
    assert [code for part in parts for code in part] == codes


@pytest.mark.spec("K-5", headline=True)
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (None, "no C compiler is in PATH"),
        ("exit 3", "it ended with exit status 3"),
        ("sleep 60", "it did not end within 0.2 s"),
        ('while [ "$1" != -o ]; do shift; done; echo rubbish > "$2"', "failed"),
        ("true", "failed"),
        ("kill -9 $$", "it was ended by signal 9"),
        ('rm -r "$PWD"', "failed"),
        ("removed", "No such file or directory"),
    ],
)
def test_numpy_goes_on_without_a_working_compiler(
    script: str | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a compiler is missing, fails, hangs or writes rubbish, NumPy computes the kernels, and the run states why."""
    found = None if script is None else fake_compiler(tmp_path, script)
    if script == "removed":
        (tmp_path / "cc").unlink()
    monkeypatch.setattr(library, "compiler", lambda: found)
    monkeypatch.setattr(library, "_SECONDS", 0.2)
    x = ex.tensor(numbers(70, 90))
    with pytest.warns(RuntimeWarning, match=f"NumPy computes kernels that could be compiled, because .*{reason}"):
        expected, value, plan = both(lambda: ex.tanh(x * 3) + 1)
    np.testing.assert_array_equal(value, expected)
    assert compiled(plan) == 0
    assert reason in plan.recording.stages[-1].purpose
    assert plan.recording.stages[-1].purpose.count("NumPy ran all kernels") == 1
    ex.evaluate(x * 2 + ex.tanh(x), kernels="native")  # the same reason causes no second warning


def fake_compiler(folder: Path, script: str) -> library.Compiler:
    """Return a compiler that runs ``script`` of the shell."""
    path = folder / "cc"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return library.Compiler((str(path),), "cc", "fake 1.0")


@pytest.mark.spec("K-5")
def test_a_warning_names_the_message_of_the_compiler_and_the_line_of_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = fake_compiler(tmp_path, "echo 'cannot find crti.o' >&2; exit 1")
    monkeypatch.setattr(library, "compiler", lambda: found)
    x = ex.tensor(numbers(70, 90))
    with pytest.warns(RuntimeWarning, match=r"cc failed: it ended with exit status 1\. cannot find crti\.o") as caught:
        ex.evaluate(ex.tanh(x * 3) + 1, kernels="native")
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.spec("K-5")
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="only POSIX has process groups")
@pytest.mark.parametrize("end", ["wait", "exit 0"])
def test_the_child_process_of_a_compiler_that_hangs_is_ended(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As cc, the compiler starts another process, which inherits its output."""
    number = tmp_path / "child"
    found = fake_compiler(tmp_path, f"sleep 60 & echo $! > {number}.new; mv {number}.new {number}; {end}")
    monkeypatch.setattr(library, "compiler", lambda: found)
    monkeypatch.setattr(library, "_SECONDS", 0.5)
    x = ex.tensor(numbers(70, 90))
    began = time.monotonic()
    with pytest.warns(RuntimeWarning, match=r"it did not end within 0\.5 s"):
        ex.evaluate(ex.tanh(x * 3) + 1, kernels="native")
    assert time.monotonic() - began < 30
    assert has_ended(int(number.read_text()))


def has_ended(process: int) -> bool:
    """Wait until a process that was killed has ended, or is a zombie that nobody reads; False after ten seconds."""
    for _ in range(1000):
        try:
            status = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if status == "Z":
            return True
        time.sleep(0.01)
    return False


@pytest.mark.spec("K-5")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_a_compiler_ends_with_the_program_that_never_ran(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = tmp_path / "process"
    found = fake_compiler(tmp_path, f"echo $$ > {number}.new; mv {number}.new {number}; exec sleep 60")
    monkeypatch.setattr(library, "compiler", lambda: found)
    started = library.Library((("k", "void k(void *const *arrays, int64_t start, int64_t stop) {}\n"),))
    while not number.exists():
        time.sleep(0.01)
    del started
    assert has_ended(int(number.read_text()))
    assert not [*folder.iterdir()]


@pytest.mark.spec("K-5")
def test_numpy_runs_other_kernels_while_the_compiler_runs(
    compiler: None, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler runs in the background until the first compiled kernel, so results do not depend on its time."""
    actual, go = library.compiler(), tmp_path / "go"
    assert actual is not None
    script = f'while [ ! -e {go} ]; do sleep 0.01; done; exec {shlex.join(actual.command)} "$@"'
    found = fake_compiler(tmp_path, script)
    monkeypatch.setattr(library, "compiler", lambda: found)

    def run(program: Program, observer: Observer | None) -> Timing:
        timing = program.blank_timing()
        *others, last = range(len(program.runners))
        with np.errstate(all="ignore"):
            for index in others:
                program.run_kernel(index, timing, observer)
        assert not [*folder.glob("*.so")]
        go.touch()
        program.run_kernel(last, timing, observer)
        return timing

    monkeypatch.setitem(EXECUTORS, "held", RegisteredExecutor(run, 1))
    x, weight = ex.tensor(numbers(70, 90)), ex.tensor(numbers(90, 80))
    build = lambda: ex.tanh(ex.relu(ex.transpose(x @ weight)) * 3)  # noqa: E731
    plan = ex.EvalPlan(kernels="native", executor="held")
    handle = plan.register(build())
    plan.eval()
    assert compiled(plan) == 1
    np.testing.assert_allclose(handle.data(), ex.evaluate(build()), rtol=1e-6, atol=1e-6)


@pytest.mark.spec("K-5")
@pytest.mark.parametrize("record", ["times", "values"])
def test_times_of_kernels_do_not_include_the_compiler(
    record: Literal["times", "values"], compiler: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the compiler takes time here: an hour."""
    seconds = itertools.count(0, 3600)
    monkeypatch.setattr(library, "perf_counter_ns", lambda: next(seconds) * 10**9)
    real = library._Work.loaded
    monkeypatch.setattr(library._Work, "loaded", lambda work: advance() and real(work))
    now = [0]

    def advance() -> bool:
        now[0] += 3600 * 10**9
        return True

    monkeypatch.setattr(program_module, "perf_counter_ns", lambda: now[0])
    x = ex.tensor(numbers(100, 100))
    plan = ex.EvalPlan(kernels="native", record=record)
    plan.register(ex.tanh(ex.transpose(x @ x) * 2) + 1)
    plan.eval()
    run = plan.recording.run
    assert compiled(plan) == 1
    assert run is not None
    assert [step.micros for step in run.steps] == [0] * len(run.steps)


@pytest.mark.spec("K-5")
def test_a_damaged_file_in_the_cache_is_built_again(folder: Path, compiler: None) -> None:
    x = ex.tensor(numbers(60, 90))
    expected, _, _ = both(lambda: x * 5 + 1)
    (built,) = folder.glob("*.so")
    built.unlink()  # a loaded library must not be overwritten
    built.write_bytes(b"rubbish")
    library.library.cache_clear()
    cache.clear()
    _, value, plan = both(lambda: x * 5 + 1)
    assert compiled(plan) == 1
    np.testing.assert_array_equal(value, expected)


@pytest.mark.spec("K-5")
def test_a_compiler_error_is_one_line_and_equal_in_every_run(compiler: None) -> None:
    codes = (("k", "void k(void *const *arrays, int64_t start, int64_t stop) { wrong }\n"),)
    built = library.library(codes)
    library.library.cache_clear()
    assert built.obstacle == library.library(codes).obstacle
    assert "failed: it ended with exit status 1. kernels.c:" in built.obstacle
    assert "wrong" in built.obstacle
    assert built.obstacle.isprintable()


@pytest.mark.spec("K-5")
def test_without_a_home_numpy_goes_on(monkeypatch: pytest.MonkeyPatch, compiler: None) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.undo()
    monkeypatch.setattr(library.sys, "platform", "linux")
    monkeypatch.setattr(library.Path, "home", no_home)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    x = ex.tensor(numbers(71, 93))
    with pytest.warns(RuntimeWarning, match="there is no folder for compiled code"):
        expected, value, plan = both(lambda: ex.tanh(x * 3) + 1)
    np.testing.assert_array_equal(value, expected)
    assert "there is no folder for compiled code, which XDG_CACHE_HOME sets" in plan.recording.stages[-1].purpose


@pytest.mark.spec("K-5")
def test_the_cache_folder_is_never_in_the_working_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A relative XDG_CACHE_HOME is invalid: code that came with a model could be loaded from there."""
    monkeypatch.undo()
    monkeypatch.setattr(library.sys, "platform", "linux")
    monkeypatch.setattr(library.Path, "home", lambda: tmp_path)
    for name, expected in (
        (".", tmp_path / ".cache"),
        ("", tmp_path / ".cache"),
        (str(tmp_path / "c"), tmp_path / "c"),
    ):
        monkeypatch.setenv("XDG_CACHE_HOME", name)
        assert library.cache_folder() == expected / "explorer" / "kernels"


@pytest.mark.spec("K-5")
@pytest.mark.skipif(not hasattr(os, "getuid"), reason="only POSIX has these permissions")
def test_a_folder_that_others_can_write_is_not_used(folder: Path, compiler: None) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    built = library.library((("k", "void k(void *const *arrays, int64_t start, int64_t stop) {}\n"),))
    assert not built.functions
    assert "can be written by other users" in built.obstacle


ROWS = ex.tensor(RNG.normal(size=(64, 100)).astype(np.float32))
IMAGES = ex.tensor(RNG.normal(size=(1, 16, 40, 40)).astype(np.float32))
VIEWS: dict[str, tuple[tuple[int, ...], Callable[[ex.Expr], ex.Expr], Callable[[ex.Expr], ex.Expr]]] = {
    "column": ((64, 100), lambda v: v[:, :1], lambda v: ex.tanh(ROWS * v) + 1),
    "transposed": ((100, 64), ex.transpose, lambda v: ex.tanh(ROWS * v) + 1),
    "reversed": ((64, 100), lambda v: v[::-1], lambda v: ex.tanh(ROWS * v) + 1),
    "row of a softmax": ((64, 100), lambda v: v[:, :1], lambda v: ex.softmax(ROWS * v)),
    "filters": ((16, 1, 3, 6), lambda v: v[..., ::2], lambda v: ex.tanh(ex.conv2d(IMAGES, v, groups=16))),
    "few channels": ((8, 16, 2, 2), lambda v: v[:, ::8], lambda v: -by_pixel(ex.tanh(ex.conv2d(IMAGES[:, :2], v)))),
    "images": ((1, 16, 40, 80), lambda v: v[..., ::2], lambda v: ex.tanh(ex.max_pool2d(v, 2))),
    "channels": ((16, 1, 2), lambda v: v[..., :1], lambda v: ex.tanh(ex.max_pool2d(IMAGES, 2) * v)),
    "after a product": ((64, 100), lambda v: v[:, :1], lambda v: ex.tanh(ROWS @ ROWS.T * v)),
    "transposed after a product": ((64, 64), ex.transpose, lambda v: ex.tanh(ROWS @ ROWS.T * v)),
}


def by_pixel(y: ex.Expr) -> ex.Expr:
    """Return images whose channels are the last axis."""
    return ex.transpose(y, (0, 2, 3, 1))


@pytest.mark.spec("K-1", "K-3")
@pytest.mark.parametrize("name", VIEWS)
def test_a_kernel_that_reads_a_view_runs_as_c_code_in_every_run(
    name: str, compiler: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view in another memory layout than the code reads is copied, so that the stage *run* is right."""
    shape, view, build = VIEWS[name]
    monkeypatch.setattr(Steps, "bind", lambda *_: pytest.fail("NumPy computed the kernel"))

    def runs(build: Callable[[ex.Expr], ex.Expr], *arrays: Array) -> list[Array]:
        x = Parameter(ex.TensorType(arrays[0].shape, "float32"), "x")()
        plan = ex.EvalPlan(kernels="native", without=["memory_format"] if name == "filters" else [])
        plan.register(ex.sort(build(x)))  # the kernel's result is in the arena, at the same address in every run
        program = Program(plan.prepare().planned)
        results = []
        for array in arrays:
            program.bind({x: array})
            EXECUTORS["simple"].run(program, None)
            results += program.take()
        return results

    arrays = [RNG.normal(size=shape).astype(np.float32) for _ in range(3)]
    viewed = [np.ascontiguousarray(ex.evaluate(view(-ex.tensor(array)))) for array in arrays]
    for value, expected in zip(runs(lambda x: build(view(-x)), *arrays), runs(build, *viewed), strict=True):
        np.testing.assert_array_equal(value, expected)


@pytest.mark.spec("K-1")
@pytest.mark.parametrize("shape", [(64, 100), (64, 1)])
def test_a_result_in_memory_of_another_layout(shape: tuple[int, int], compiler: None) -> None:
    """The memory of a parameter that a step overwrites may have any layout."""
    x, factor = RNG.normal(size=(64, 100)).astype("f4"), RNG.normal(size=shape).astype("f4")
    plan = ex.EvalPlan(kernels="native")
    plan.register(ex.tanh(ex.tensor(x)) * ex.tensor(factor) + 1)
    planned = plan.prepare().planned
    out = np.asfortranarray(np.zeros_like(x))
    program = Program(planned, Binding((), {planned.schedule.roots[0]: out}))
    EXECUTORS["simple"].run(program, None)
    np.testing.assert_allclose(out, np.tanh(x) * factor + 1, 1e-5, 1e-6)


@pytest.mark.spec("K-1")
def test_operands_can_have_another_memory_layout_in_each_run(compiler: None) -> None:
    net = ex.Net("rows")
    net.input("x", (100, 300))
    net.output(net.Softmax("x", "y", axis=1))
    x = numbers(100, 300)[:, ::-1].copy() * 0.25
    x[~np.isfinite(x)] = 0
    unaligned = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)
    expected = net.run(x, kernels="native")
    for layout in (x, np.asfortranarray(x), x, unaligned, np.ascontiguousarray(x[::-1])[::-1], x):
        np.testing.assert_array_equal(net.run(layout, kernels="native"), expected)


@pytest.mark.spec("K-4")
@pytest.mark.parametrize("length", [3, 15, 31, 32, 33, 64, 100, 2049])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_extrema_of_rows_are_exact(length: int, dtype: str, compiler: None) -> None:
    """A number anywhere in a row can be the largest, and an extremum of numbers with NaN is NaN."""
    x = RNG.normal(size=(5 * length + 200, length)).astype(dtype)
    diagonal = np.arange(length)
    for block, number in enumerate((9, -9, np.nan, np.inf, -np.inf)):
        x[block * length + diagonal, diagonal] = number
    x[-1], x[-2], x[-3] = np.nan, np.inf, -np.inf
    for extremum in (ex.max, ex.min):
        expected, value, plan = both(lambda extremum=extremum: extremum(ex.tensor(x) * 2 + 1, axis=1))
        assert compiled(plan) == 1
        np.testing.assert_array_equal(value, expected)


@pytest.mark.spec("K-4")
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cumulative_sums_have_the_bits_of_numpy(axis: int, dtype: str, compiler: None) -> None:
    x = numbers(30, 40, 50, dtype=dtype)
    x[3:] = RNG.normal(size=(27, 40, 50))
    x[5, :, 7], x[7, 9] = -0.0, -0.0
    for operand in (x, x[::-1], np.asfortranarray(x)):
        expected, value, plan = both(lambda operand=operand: ex.cumsum(ex.tensor(operand), axis))
        assert compiled(plan) == 1
        np.testing.assert_array_equal(value.view(f"i{value.itemsize}"), expected.view(f"i{value.itemsize}"))

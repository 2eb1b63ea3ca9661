"""The choice of OpenBLAS's core: opt-in, tried in processes that may crash, told, and declined aloud."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from threadpoolctl import threadpool_info

import explorer as ex
from explorer.blas import benchmark_runs
from explorer.blas.benchmark_runs import (
    CORETYPE,
    VARIABLE,
    Trial,
    cores,
    fastest,
    remember,
    remembered,
    run_trial,
    run_trials,
)
from explorer.blas.core_selection import choose

OPENBLAS = any(library["internal_api"] == "openblas" for library in threadpool_info())
needs_openblas = pytest.mark.skipif(not OPENBLAS or not cores(), reason="NumPy multiplies with another BLAS here")
SHOW = """
import explorer as ex
from threadpoolctl import threadpool_info
plan = ex.EvalPlan()
plan.register(ex.tensor([1.0]) + 1)
plan.eval()
print({library["architecture"] for library in threadpool_info() if library["internal_api"] == "openblas"})
print(plan.explain())
"""


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Answers of this test alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(CORETYPE, raising=False)
    return tmp_path


def program(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str) -> None:
    path = folder / "trial.py"
    path.write_text(text)
    monkeypatch.setattr(benchmark_runs, "PROGRAM", path)


def python(text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", text], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


@pytest.mark.spec("P-14")
def test_by_default_nothing_is_chosen_or_told() -> None:
    """Without EXPLORER_BLAS a plan's text says nothing of BLAS: it is the same on every machine."""
    assert choose("") is None
    done = python(SHOW, **{VARIABLE: ""})
    assert done.returncode == 0
    assert "blas" not in done.stdout


@needs_openblas
def test_a_core_is_tried_in_a_process_of_its_own() -> None:
    own = run_trial("")
    assert own.usable
    assert own.offers_cores
    assert own.core
    assert own.gflops > 0


@needs_openblas
@pytest.mark.spec("P-14")
def test_a_core_that_was_asked_for_multiplies_and_is_told() -> None:
    """EXPLORER_BLAS=<core> before NumPy is loaded: OpenBLAS uses that core, and the plan's text names it."""
    asked = run_trial("").core
    if asked not in cores():
        pytest.skip(f"OpenBLAS's own choice here, {asked}, is not among the cores that are tried")
    remember([Trial("", "Prescott", 10.0, "", "openblas 0"), Trial(asked, asked, 20.0, "", "openblas 0")])
    for named in (asked, "auto"):
        done = python(SHOW, **{VARIABLE: named})
        assert done.stdout.startswith(f"{{'{asked}'}}"), done.stderr
        assert f"blas={asked} (20 GFLOP/s; Prescott by itself 10)" in done.stdout


def test_a_crash_is_an_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A core whose instructions the processor lacks kills its trial only, and is never chosen."""
    program(monkeypatch, tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    trial = run_trial("SapphireRapids")
    assert trial.wrong == "crashed with SIGILL"
    assert not trial.usable
    program(monkeypatch, tmp_path, "raise OSError('no such thing')")
    assert run_trial("Haswell").wrong == "ended with status 1: OSError: no such thing"


def test_the_fastest_core_that_is_right_and_there_is_chosen_where_it_gains_a_tenth() -> None:
    own = Trial("", "Haswell", 100.0, "", "openblas 1")
    false = Trial("Zen", "Haswell", 300.0, "", "openblas 1")
    wrong = Trial("Cooperlake", "Cooperlake", 300.0, "float32 1×1 by 1×1 is wrong", "openblas 1")
    fast = Trial("SkylakeX", "SkylakeX", 150.0, "", "openblas 1")
    assert fastest([own, false, wrong, fast]) is fast
    assert fastest([own, false, wrong, Trial("SkylakeX", "SkylakeX", 109.0)]) is own


def test_answers_are_kept_for_this_processor_and_numpy(cache: Path) -> None:
    assert remembered() == []
    made = [Trial("", "Haswell", 100.0, "", "openblas 1"), Trial("Zen", wrong="crashed with SIGILL")]
    remember(made)
    assert remembered() == made
    (cache / "explorer" / "blas.json").write_text("{")
    assert remembered() == []


def test_another_blas_is_not_asked_for_cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """MKL, Accelerate: one trial says which it is, and the choice is declined with a warning."""
    told = '{"library": "mkl 2026", "core": "", "wrong": "", "gflops": 9.0}'
    program(monkeypatch, tmp_path, f"print({told!r})")
    (own,) = run_trials(cores())
    assert not own.offers_cores
    remember([own])
    monkeypatch.delitem(sys.modules, "numpy")
    with pytest.warns(RuntimeWarning, match="NumPy multiplies with mkl 2026, and only OpenBLAS has cores"):
        decision = choose("auto")
    assert decision is not None
    assert decision.core == ""


def test_a_choice_that_comes_too_late_is_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy loaded before explorer, or a core set for OpenBLAS itself: a warning says why nothing changes."""
    with pytest.warns(RuntimeWarning, match="EXPLORER_BLAS=auto changes nothing: NumPy was loaded before explorer"):
        choose("auto")
    name = next(iter(cores()), "auto")
    monkeypatch.setenv(CORETYPE, "Prescott")
    with pytest.warns(RuntimeWarning, match=f"EXPLORER_BLAS={name} changes nothing: OPENBLAS_CORETYPE=Prescott is set"):
        choose(name)
    with pytest.raises(ex.UnknownNameError, match="SkylakeY"):
        choose("SkylakeY")

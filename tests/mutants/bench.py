"""Mutation testing: copies of the project in which one string is replaced, and the closest tests run."""

from __future__ import annotations

import compileall
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = (
    "explorer",
    "tests",
    "assets",
    "notebooks",
    "docs",
    "pyproject.toml",
    "README.md",
    "FEATURES.md",
    "CHANGELOG.md",
)
TIMEOUT = 300
"""timeout in seconds, after which a mutant counts as killed, unless its tests take a third of that without it"""
LONGEST = 1800
"""maximum seconds of the tests without a mutant"""
_MEMORY = 8 << 30
"""maximum bytes of a test process: a mutant whose loop does not end raises MemoryError before the machine has none"""
_PYTEST = f"""
import resource, sys, pytest
resource.setrlimit(resource.RLIMIT_AS, ({_MEMORY}, {_MEMORY}))
sys.exit(pytest.main(sys.argv[1:]))
"""
_KILLED, _SURVIVED, _TIMED_OUT = 1, 0, 124
_FAILED = ("FAILED", "ERROR")
_FAILED_TEST = re.compile(r"^FAILED (\S+::\S+)", re.MULTILINE)
"""the failed test in pytest's summary, if its name contains no spaces"""


@dataclass(frozen=True)
class Mutant:
    """One change of the code, and the closest tests.

    ``offset`` is the offset in the file of the occurrence of ``old``, or −1 if there is only one. ``survives`` is the
    reason why no test can or need kill the mutant, or "" if one must.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    survives: str = ""
    offset: int = -1

    def applied(self, text: str) -> str:
        """Return the file's text with the change; raise ValueError unless ``old`` is at its offset, or occurs once."""
        if self.offset >= 0:
            if not text.startswith(self.old, self.offset):
                raise ValueError(f"{self.name}: {self.file} has another text at {self.offset}")
            return text[: self.offset] + self.new + text[self.offset + len(self.old) :]
        if text.count(self.old) != 1:
            raise ValueError(
                f"{self.name}: its old text stands {text.count(self.old)} times in {self.file}, once is needed"
            )
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Verdict:
    """Outcome of a mutant: "killed", "survived", or "broken" if its tests could not run at all."""

    mutant: Mutant
    outcome: str
    told: str = ""
    """the test that failed, or the last lines of a broken run"""


@dataclass(frozen=True)
class Baseline:
    """Test run without a mutant: its failure, or "" if all tests passed, and its time."""

    failure: str
    seconds: float


class Copy:
    """A copy of the project in a separate folder, in which one mutant is tried at a time."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder = folder
        for part in PARTS:
            source, target = root / part, folder / part
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                shutil.copy2(source, target)
        compileall.compile_dir(folder / "explorer", quiet=2)

    def baseline(self, tests: Sequence[str]) -> Baseline:
        """Run tests on the unchanged code."""
        begin = time.monotonic()
        status, output = self._run(tests, LONGEST)
        return Baseline("" if status == _SURVIVED else _failure(output), time.monotonic() - begin)

    def attempt(self, mutant: Mutant, baselines: Baselines) -> Verdict:
        """Apply a mutant, run its tests until one fails, and restore the file; tests that also fail without it do not
        count."""
        status, output = self._run_with(mutant, TIMEOUT)
        failed = _FAILED_TEST.search(output)
        if status == _SURVIVED:
            return Verdict(mutant, "survived")
        if status == _KILLED and failed is not None and not baselines.of((failed[1],), self).failure:
            return Verdict(mutant, "killed", _failure(output))
        baseline = baselines.of(mutant.tests, self)
        if baseline.failure:
            return Verdict(mutant, "broken", f"fails without the mutant: {baseline.failure}")
        if status == _TIMED_OUT and 3 * baseline.seconds > TIMEOUT:
            status, output = self._run_with(mutant, 3 * baseline.seconds)
        return self._verdict(mutant, status, output)

    def _run_with(self, mutant: Mutant, limit: float) -> tuple[int, str]:
        path = self.folder / mutant.file
        whole = path.read_text(encoding="utf-8")
        path.write_text(mutant.applied(whole), encoding="utf-8")
        self._forget_compiled(path)
        try:
            return self._run(mutant.tests, limit)
        finally:
            path.write_text(whole, encoding="utf-8")
            self._forget_compiled(path)

    def _run(self, tests: Sequence[str], limit: float) -> tuple[int, str]:
        command = [sys.executable, "-c", _PYTEST, "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
        command += ["-p", "no:nbval"]  # importing it takes longer than most tests
        command += ["--hypothesis-profile", "first", *tests]
        settings = {
            "PYTHONPATH": str(self.folder),
            "PYTHONDONTWRITEBYTECODE": "",  # avoid compiling tests again; the mutant's compiled file is deleted
            "CI": "true",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }
        try:
            run = subprocess.run(
                command,
                cwd=self.folder,
                env={**os.environ, **settings},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return _TIMED_OUT, f"no end after {limit:.0f} s"
        return run.returncode, run.stdout + run.stderr

    @staticmethod
    def _verdict(mutant: Mutant, status: int, output: str) -> Verdict:
        if status == _SURVIVED:
            return Verdict(mutant, "survived")
        failure = _failure(output)
        # 2: the mutant breaks the import of a test file
        if status in (_KILLED, _TIMED_OUT) or (status == 2 and failure.startswith(_FAILED)):
            return Verdict(mutant, "killed", failure)
        return Verdict(mutant, "broken", "\n".join(output.strip().splitlines()[-5:]))

    @staticmethod
    def _forget_compiled(path: Path) -> None:
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()


def _failure(output: str) -> str:
    """Return the line of pytest's output with the last failed test, or else the last line."""
    lines = output.strip().splitlines() or ["no output"]
    return ([line for line in lines if line.startswith(_FAILED)] or lines)[-1]


class Baselines:
    """Test runs without a mutant, one for each set of tests."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: dict[tuple[str, ...], threading.Lock] = {}
        self._known: dict[tuple[str, ...], Baseline] = {}

    def of(self, tests: tuple[str, ...], copy: Copy) -> Baseline:
        """Return the run of these tests; the first caller runs them in its copy, and others wait."""
        with self._guard:
            lock = self._locks.setdefault(tests, threading.Lock())
        with lock:
            if tests not in self._known:
                self._known[tests] = copy.baseline(tests)
            return self._known[tests]


@contextmanager
def copies(count: int, root: Path = ROOT) -> Iterator[queue.Queue[Copy]]:
    """Make copies of the project, which are removed at the end."""
    with tempfile.TemporaryDirectory(prefix="explorer-mutants-") as name:
        free: queue.Queue[Copy] = queue.Queue()
        for number in range(count):
            free.put(Copy(Path(name) / str(number), root))
        yield free


def attempts(mutants: Sequence[Mutant], jobs: int, root: Path = ROOT) -> Iterator[Verdict]:
    """Try several mutants at a time, and yield the verdicts as they arrive."""
    baselines = Baselines()
    with copies(jobs, root) as free, ThreadPoolExecutor(jobs) as pool:

        def attempt(mutant: Mutant) -> Verdict:
            copy = free.get()
            try:
                return copy.attempt(mutant, baselines)
            finally:
                free.put(copy)

        for future in as_completed([pool.submit(attempt, mutant) for mutant in mutants]):
            yield future.result()

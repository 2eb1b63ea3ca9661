"""The bench for mutants: copies of the project in which one text is changed, and the nearest tests run."""

from __future__ import annotations

import compileall
import os
import queue
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PARTS = ("explorer", "tests", "assets", "notebooks", "pyproject.toml", "README.md", "FEATURES.md", "CHANGELOG.md")
TIMEOUT = 300
"""seconds after which a mutant counts as killed: its tests do not end"""
_KILLED, _SURVIVED = 1, 0


@dataclass(frozen=True)
class Mutant:
    """One change of the code, and the tests that stand nearest to it.

    ``place`` tells which occurrence of ``old`` is meant, as its offset in the file; −1 where there is one only.
    ``survives`` is why no test can or need kill it, "" for one that must be killed.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    survives: str = ""
    place: int = -1

    def applied(self, text: str) -> str:
        """Return the file's text with the change; raises ValueError unless ``old`` stands at its place, or once."""
        if self.place >= 0:
            if not text.startswith(self.old, self.place):
                raise ValueError(f"{self.name}: {self.file} has another text at {self.place}")
            return text[: self.place] + self.new + text[self.place + len(self.old) :]
        if text.count(self.old) != 1:
            raise ValueError(
                f"{self.name}: its old text stands {text.count(self.old)} times in {self.file}, once is needed"
            )
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: "killed", "survived", or "broken" where its tests could not run at all."""

    mutant: Mutant
    outcome: str
    told: str = ""
    """the test that failed, or the last lines of a run that broke"""


class Copy:
    """A copy of the project in a folder of its own, on which one mutant is tried at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for part in PARTS:
            source, target = ROOT / part, folder / part
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            elif source.exists():
                shutil.copy2(source, target)
        compileall.compile_dir(folder / "explorer", quiet=2)

    def attempt(self, mutant: Mutant) -> Verdict:
        """Apply a mutant, run its tests until one fails, and restore the file."""
        path = self.folder / mutant.file
        whole = path.read_text(encoding="utf-8")
        path.write_text(mutant.applied(whole), encoding="utf-8")
        self._forget_compiled(path)
        try:
            return self._verdict(mutant, *self._run(mutant.tests))
        finally:
            path.write_text(whole, encoding="utf-8")
            self._forget_compiled(path)

    def _run(self, tests: Sequence[str]) -> tuple[int, str]:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider"]
        command += ["--hypothesis-profile", "first", *tests]
        settings = {
            "PYTHONPATH": str(self.folder),
            "PYTHONDONTWRITEBYTECODE": "1",
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
                timeout=TIMEOUT,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return _KILLED, f"no end after {TIMEOUT} s"
        return run.returncode, run.stdout + run.stderr

    @staticmethod
    def _verdict(mutant: Mutant, status: int, output: str) -> Verdict:
        lines = output.strip().splitlines()
        if status == _SURVIVED:
            return Verdict(mutant, "survived")
        failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
        if status == _KILLED or (failed and status == 2):  # 2: the mutant breaks the import of a test file
            return Verdict(mutant, "killed", (failed or lines or [""])[-1])
        return Verdict(mutant, "broken", "\n".join(lines[-5:]))

    @staticmethod
    def _forget_compiled(path: Path) -> None:
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()


@contextmanager
def copies(count: int) -> Iterator[queue.Queue[Copy]]:
    """Make copies of the project, removed at the end."""
    with tempfile.TemporaryDirectory(prefix="explorer-mutants-") as name:
        free: queue.Queue[Copy] = queue.Queue()
        for number in range(count):
            free.put(Copy(Path(name) / str(number)))
        yield free


def attempts(mutants: Sequence[Mutant], jobs: int) -> Iterator[Verdict]:
    """Try mutants, so many at a time; yields verdicts as they come."""
    with copies(jobs) as free, ThreadPoolExecutor(jobs) as pool:

        def attempt(mutant: Mutant) -> Verdict:
            copy = free.get()
            try:
                return copy.attempt(mutant)
            finally:
                free.put(copy)

        for future in as_completed([pool.submit(attempt, mutant) for mutant in mutants]):
            yield future.result()

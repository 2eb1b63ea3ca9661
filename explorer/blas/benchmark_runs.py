"""Benchmark runs of OpenBLAS's cores, each in its own process, and their stored results."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from explorer.core.errors import FileError
from explorer.core.files.atomic_write import write_file

VARIABLE = "EXPLORER_BLAS"
CORETYPE = "OPENBLAS_CORETYPE"
X86 = ("Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids")
ARM = ("ARMV8", "NEOVERSEN1", "NEOVERSEN2", "NEOVERSEV1", "A64FX")
CORES = {"x86_64": X86, "AMD64": X86, "aarch64": ARM, "arm64": ARM}
"""machine → cores worth benchmarking"""
PROGRAM = Path(__file__).with_name("core_benchmark.py")
_GAIN = 1.1
"""minimum speedup over OpenBLAS's default core: less is noise"""
_ROUNDS = 2
"""runs per core, of which the fastest counts: other work on the machine slows some of them"""
_SECONDS = 60


@dataclass(frozen=True)
class Trial:
    """Result of a run with a requested core, or with OpenBLAS's default if ``asked`` is empty."""

    asked: str
    core: str = ""
    """core that OpenBLAS used; another one if it lacks the requested core"""
    gflops: float = 0.0
    """10⁹ float32 operations per second"""
    wrong: str = ""
    """description of a wrong result or a crash; empty if there was none"""
    library: str = ""
    """name and version of the BLAS"""

    @property
    def usable(self) -> bool:
        """Whether the requested core exists and computes correct products."""
        return not self.wrong and self.asked in ("", self.core)

    @property
    def offers_cores(self) -> bool:
        """Whether the BLAS has selectable cores, as OpenBLAS does."""
        return self.library.startswith("openblas")


def cores() -> tuple[str, ...]:
    """Return the cores that can be requested on this machine."""
    return CORES.get(platform.machine(), ())


def run_trial(asked: str) -> Trial:
    """Benchmark a core in its own process; a crash is a result, too."""
    environment = {name: value for name, value in os.environ.items() if name not in (CORETYPE, VARIABLE)}
    if asked:
        environment[CORETYPE] = asked
    command = [sys.executable, "-P", str(PROGRAM)]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Trial(asked, wrong=f"took more than {_SECONDS} seconds")
    except OSError as error:
        return Trial(asked, wrong=f"could not be tried: {error}")
    if done.returncode:
        return Trial(asked, wrong=_ended(done.returncode, done.stderr))
    return Trial(asked, **json.loads(done.stdout))


def _ended(status: int, errors: str) -> str:
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"crashed with {signal.Signals(-status).name}"
    last = errors.strip().splitlines()[-1:] or [""]
    return f"ended with status {status}: {last[0]}"


def run_trials(names: Sequence[str]) -> list[Trial]:
    """Benchmark OpenBLAS's default, then the named cores; only the default if NumPy's BLAS has no selectable cores."""
    own = run_trial("")
    if not own.offers_cores:
        return [own]
    found = [own, *[run_trial(name) for name in names]]
    for _ in range(_ROUNDS - 1):
        again = [run_trial(trial.asked) if trial.usable else trial for trial in found]
        found = [
            max(pair, key=lambda trial: (bool(trial.wrong), trial.gflops)) for pair in zip(found, again, strict=True)
        ]
    return found


def fastest(trials: Sequence[Trial]) -> Trial:
    """Return the fastest usable core if it is 10 % faster than OpenBLAS's default, else the default."""
    own = trials[0]
    best = max([trial for trial in trials if trial.usable], key=lambda trial: trial.gflops, default=own)
    return best if own.wrong or best.gflops >= _GAIN * own.gflops else own


def remembered() -> list[Trial]:
    """Return the stored results for this processor and NumPy; none if there are none yet."""
    try:
        rows = json.loads(_file().read_text(encoding="utf-8"))[_key()]
        return [Trial(**row) for row in rows]
    except (OSError, ValueError, KeyError, TypeError):
        return []  # missing, or written by another version: the benchmark runs again


def remember(trials: Sequence[Trial]) -> None:
    """Store results for the next time; if that fails, the benchmark runs again."""
    path = _file()
    with contextlib.suppress(OSError, FileError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, json.dumps({_key(): [asdict(trial) for trial in trials]}))


def _file() -> Path:
    """Return the file of results in the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(home) if home else Path.home() / ".cache") / "explorer" / "blas.json"


def _key() -> str:
    """Return the key of the results: processor, cores, NumPy."""
    return f"{processor()} × {os.cpu_count()}, NumPy {version('numpy')} in {sys.prefix}"


def processor() -> str:
    """Return the processor's name."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()

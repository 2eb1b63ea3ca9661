"""Trials of OpenBLAS's cores, each in a process of its own, and the memory of their answers."""

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
"""machine → the cores that are worth a trial"""
PROGRAM = Path(__file__).with_name("core_benchmark.py")
_GAIN = 1.1
"""a core is chosen over OpenBLAS's own choice from this much of its speed on: less is noise"""
_ROUNDS = 2
"""trials of each core, of which the fastest counts: other work on the machine slows some of them"""
_SECONDS = 60


@dataclass(frozen=True)
class Trial:
    """How NumPy multiplied when a core was asked for, or with OpenBLAS's own choice where ``asked`` is empty."""

    asked: str
    core: str = ""
    """the core that OpenBLAS used: another one where it has none of that name"""
    gflops: float = 0.0
    """10⁹ float32 operations a second"""
    wrong: str = ""
    """what was wrong: a result, a crash; empty if nothing"""
    library: str = ""
    """which BLAS it was, with its version"""

    @property
    def usable(self) -> bool:
        """Whether the core that was asked for is there and multiplies rightly."""
        return not self.wrong and self.asked in ("", self.core)

    @property
    def offers_cores(self) -> bool:
        """Whether the BLAS is one that can be asked for a core: OpenBLAS."""
        return self.library.startswith("openblas")


def cores() -> tuple[str, ...]:
    """The cores that can be asked for on this machine."""
    return CORES.get(platform.machine(), ())


def run_trial(asked: str) -> Trial:
    """Try a core in a process of its own; its crash is an answer too."""
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
    """OpenBLAS's own choice, then the cores named; the first alone where NumPy's BLAS offers no choice."""
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
    """OpenBLAS's own choice, or the fastest usable core where that gains a tenth."""
    own = trials[0]
    best = max([trial for trial in trials if trial.usable], key=lambda trial: trial.gflops, default=own)
    return best if own.wrong or best.gflops >= _GAIN * own.gflops else own


def remembered() -> list[Trial]:
    """The trials of this processor with this NumPy, as they were kept; none where they were not made yet."""
    try:
        held = json.loads(_file().read_text(encoding="utf-8"))[_key()]
        return [Trial(**each) for each in held]
    except (OSError, ValueError, KeyError, TypeError):
        return []  # there is none, or it is another version's: trials are made anew


def remember(trials: Sequence[Trial]) -> None:
    """Keep trials for the next time; where that cannot be written they are made again."""
    path = _file()
    with contextlib.suppress(OSError, FileError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, json.dumps({_key(): [asdict(trial) for trial in trials]}))


def _file() -> Path:
    """The file of answers, in the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    return (Path(home) if home else Path.home() / ".cache") / "explorer" / "blas.json"


def _key() -> str:
    """What the answers hold for: processor, cores, NumPy."""
    return f"{processor()} × {os.cpu_count()}, NumPy {version('numpy')} in {sys.prefix}"


def processor() -> str:
    """The processor's name."""
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()

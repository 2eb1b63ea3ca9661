"""Builds the C code of a plan as a shared library, which is cached on disk by its content.

A compiler that is missing, fails, hangs or writes something else is no error: NumPy computes the kernels instead, and
the stage of the run states why.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter_ns
from typing import Any, NamedTuple, TypeAlias

from explorer.plan.codegen.elements import functions_for
from explorer.plan.codegen.kernel_code import KernelCode, StepFunction
from explorer.record.caller_warning import warn_caller
from explorer.record.fork_locks import renew_in_children
from explorer.run.runtime.timing import Note

Function: TypeAlias = Callable[[Any, Any, Any], None]
"""C function of a kernel: address of the addresses of operands and result, first and last iteration.

Converting three numbers takes as long as the call; instances of ctypes are passed as they are.
"""
FLAGS = (
    # not gnu11, in which linux and asm are no identifiers
    "-std=c11",
    "-O3",
    "-march=native",
    # no fused multiply-add where the program has two operations, so that they are rounded as in NumPy
    "-ffp-contract=off",
    # these two change no values; they let the compiler compute both sides of a selection
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fPIC",
    "-shared",
    # compilers use half the width of AVX-512 by default; on processors without it, this changes nothing
    *(["-mprefer-vector-width=512"] if platform.machine() in ("x86_64", "AMD64") else []),
)
RUN_CALLS = """\
struct call {
    void (*function)(void *const *arrays, int64_t start, int64_t stop);
    void *const *arrays;
    int64_t start, stop;
};

void run_calls(const struct call *calls, int64_t start, int64_t stop) {
    for (int64_t i = start; i < stop; i++) {
        calls[i].function(calls[i].arrays, calls[i].start, calls[i].stop);
    }
}
"""
"""C function that makes calls of kernels' functions in sequence, so that Python calls a C function only once"""
_SECONDS = 60.0
"""time limit of the compiler"""
_NAMES = ("cc", "gcc", "clang")
NO_COMPILER = f"no C compiler is in PATH ({', '.join(_NAMES)}); pip install ziglang adds one."
_PART = 8_000
"""least number of characters of a part of the code that has its own compiler, which takes about 0.1 s"""
_TAIL = 300
"""characters of the compiler's messages in a note"""


class Library:
    """Functions of a plan's kernels, which the compiler builds while NumPy prepares the program and runs other kernels.

    Several compilers build parts of long code at the same time.

    The first kernel that needs a function waits until the compiler ends, so which kernels are compiled does not depend
    on the time that this takes. Any number of threads can wait.
    """

    compiler = ""
    """name of the compiler; "" if there is none"""

    def __init__(self, codes: Sequence[tuple[str, str]]) -> None:
        """Start the compiler for ``codes``, pairs of a name and the C code of the function, unless they are cached."""
        self._lock = threading.Lock()
        self._works: list[_Work] = []
        """parts of the code; empty before and after the compiler runs"""
        self._result: _Result | None = None
        self.waited = 0
        """ns for which a thread waited for the compiler"""
        if (found := compiler()) is None:
            self._result = _Result({}, None, NO_COMPILER)
        else:
            self.compiler = found.name
            self._begin(found, _parts(codes, _processors()))

    def _begin(self, found: Compiler, parts: Sequence[Sequence[tuple[str, str]]]) -> None:
        try:
            folder = _own(cache_folder())
        except (OSError, RuntimeError) as error:
            reason = f"there is no folder for compiled code, which XDG_CACHE_HOME sets: {error}."
            self._result = _Result({}, None, reason)
            return
        try:
            self._works = [_Work(found, part, folder) for part in parts]
            renew_in_children(self)
        except OSError as error:
            self._result = self._failed(error)

    @property
    def functions(self) -> Mapping[str, Function]:
        """Functions by name, when the compiler has ended; none if they could not be built."""
        return self._ended().functions

    @property
    def run_calls(self) -> Function | None:
        """Function of the code ``RUN_CALLS``, when the compiler has ended; None if there are no functions."""
        return self._ended().run_calls

    @property
    def obstacle(self) -> str:
        """Why there are no functions, as the end of a sentence; "" if there are."""
        return self._ended().obstacle

    def warn(self) -> None:
        """Warn, once per process for each reason, if there are no functions."""
        if self.obstacle:
            _warn(self.obstacle)

    def _ended(self) -> _Result:
        if self._result is None:
            with self._lock:
                if self._result is None:
                    began = perf_counter_ns()
                    self._result, self._works = self._built(self._works), []
                    self.waited = perf_counter_ns() - began
        return self._result

    def _built(self, works: Sequence[_Work]) -> _Result:
        try:
            functions = {name: function for work in works for name, function in work.functions().items()}
            return _Result(functions, functions.pop("run_calls"), "")
        except (OSError, AttributeError, subprocess.SubprocessError) as error:
            return self._failed(error)

    def renew(self) -> None:
        """In a forked process, use NumPy if the compiler has not ended, because it belongs to the parent process."""
        self._lock = threading.Lock()
        if self._works:
            for work in self._works:
                work.disown()
            self._result = _Result({}, None, f"this process was forked while {self.compiler} ran.")

    def _failed(self, error: Exception) -> _Result:
        return _Result({}, None, f"{self.compiler} failed: {_message(error)}")


class _Result(NamedTuple):
    functions: Mapping[str, Function]
    run_calls: Function | None
    obstacle: str


@functools.cache
def _warn(obstacle: str) -> None:
    warn_caller(f"NumPy computes kernels that could be compiled, because {obstacle}", RuntimeWarning)


def notes(libraries: Sequence[Library]) -> tuple[Note, ...]:
    """Return how the functions of a plan and of the bodies that it calls were built, or why there are none."""
    count = sum([len(each.functions) for each in libraries])
    built = [each.compiler for each in libraries if each.functions]
    texts = [f"{built[0]} compiled {count} of its kernels."] if built else []
    obstacles = dict.fromkeys([each.obstacle for each in libraries if each.obstacle])
    texts += [f"NumPy ran {'other' if built else 'all'} kernels, because {obstacle}" for obstacle in obstacles]
    return (Note(" ".join(texts), {"compiled": count}),) if texts else ()


@functools.lru_cache(maxsize=256)
def library(codes: tuple[tuple[str, str], ...]) -> Library:
    """Begin to build functions; ``codes`` are pairs of a name and the C code of the function."""
    return Library(codes)


def library_of(codes: Sequence[KernelCode | StepFunction]) -> Library:
    """Begin to build the functions of a plan's kernels."""
    return library(tuple(sorted({code.name: code.text for code in codes}.items())))


class Compiler(NamedTuple):
    """C compiler of this machine."""

    command: tuple[str, ...]
    name: str
    version: str


@functools.cache
def compiler() -> Compiler | None:
    """Return the first C compiler in PATH, or the one of the package ziglang; None if there is none."""
    commands: list[tuple[str, ...]] = [(path,) for path in map(shutil.which, _NAMES) if path]
    if find_spec("ziglang") is not None:
        # -P: not from the working folder, which may hold a downloaded model
        commands.append((sys.executable, "-P", "-m", "ziglang", "cc"))
    for command in commands:
        try:
            shown = _output(_started([*command, "--version"]))
        except (OSError, subprocess.SubprocessError):
            continue
        version = shown.decode(errors="replace").split("\n")[0].strip()
        return Compiler(command, Path(command[0]).name if len(command) == 1 else "ziglang", version)
    return None


@functools.cache
def _machine() -> str:
    """Return what distinguishes processors for which the same code is compiled differently."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        flags = platform.processor()
    return f"{platform.system()} {platform.machine()} {flags}"


def cache_folder() -> Path:
    """Return the folder of compiled kernels in the user's cache directory; raise RuntimeError if there is no home."""
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME", ""))
        if not base.is_absolute():  # by XDG's rule a relative path is invalid; it could be in the folder of a model
            base = Path.home() / ".cache"
    return base / "explorer" / "kernels"


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _parts(codes: Sequence[tuple[str, str]], most: int) -> list[list[tuple[str, str]]]:
    """Divide functions into at most ``most`` parts of similar lengths, each of which is worth its own compiler."""
    length = sum([len(text) for _, text in codes])
    count = max(1, min(most, length // _PART))
    parts: list[list[tuple[str, str]]] = [[] for _ in range(count)]
    before = 0
    for name, text in codes:
        parts[(before + len(text) // 2) * count // length].append((name, text))
        before += len(text)
    return [part for part in parts if part]


class _Work:
    """A part of the compiled code in the cache folder, or the compiler that writes it."""

    def __init__(self, compiler: Compiler, part: Sequence[tuple[str, str]], folder: Path) -> None:
        code = "\n".join([text for _, text in part])
        source = "\n".join([functions_for(code), code, RUN_CALLS])
        self._names = [*[name for name, _ in part], "run_calls"]
        key = "\n".join([*compiler.command, compiler.version, *FLAGS, _machine(), source])
        self._path = folder / f"{hashlib.sha256(key.encode()).hexdigest()}.so"
        self._cached = _cached(self._path)
        self._ends: list[weakref.finalize[..., Any]] = []
        if self._cached is None:
            self._folder = Path(tempfile.mkdtemp(dir=folder))
            self._ends.append(weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True))
            (self._folder / "kernels.c").write_text(source, encoding="utf-8")
            # relative names, so that messages are the same in every run
            command = [*compiler.command, *FLAGS, "-o", "kernels.so", "kernels.c", "-lm"]
            self._process = _started(command, self._folder)
            self._ends.append(weakref.finalize(self, _kill, self._process))  # called before the folder is removed

    def functions(self) -> dict[str, Function]:
        """Return the functions of this part, and ``run_calls``, when the compiler has ended."""
        loaded = self.loaded()
        return {name: _function(loaded, name) for name in self._names}

    def loaded(self) -> ctypes.CDLL:
        """Load the code when the compiler has ended; after an interrupt, the compiler continues."""
        if self._cached is not None:
            return self._cached
        _output(self._process)
        built = self._folder / "kernels.so"
        try:
            loaded = ctypes.CDLL(str(built))
        except OSError as error:
            raise OSError(str(error).replace(f"{self._folder}{os.sep}", "")) from None  # the same message in every run
        built.replace(self._path)  # another process may have written the same file; either is complete
        return loaded

    def disown(self) -> None:
        """Leave the compiler to the process that started it."""
        for end in self._ends:
            end.detach()


def _cached(path: Path) -> ctypes.CDLL | None:
    if not path.exists():
        return None
    try:
        return ctypes.CDLL(str(path))
    except OSError:  # a damaged file is built again
        path.unlink(missing_ok=True)
        return None


def _started(command: Sequence[str], folder: Path | None = None) -> subprocess.Popen[bytes]:
    """Start a compiler, with its child processes in a group, so that all of them can be ended."""
    return subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def _output(process: subprocess.Popen[bytes]) -> bytes:
    """Return what a compiler printed; raise SubprocessError, and end all its processes, if it hangs or fails."""
    try:
        out, messages = process.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        _kill(process)
        raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args, out, messages)
    return out


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a compiler and the processes that it started, which may have inherited its streams."""
    if process.returncode is None:  # its number, which is the group's number, belongs to no other process yet
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def _own(folder: Path) -> Path:
    """Create a folder that only this user can write; raise PermissionError if another user owns it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if hasattr(os, "getuid"):
        status = folder.stat()
        if status.st_uid != os.getuid() or status.st_mode & 0o022:
            raise PermissionError(f"{folder} can be written by other users")
    return folder


def _function(loaded: ctypes.CDLL, name: str) -> Function:
    function = getattr(loaded, name)
    function.restype, function.argtypes = None, (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    return function  # type: ignore[no-any-return]  # ctypes has no types for functions


def _message(error: Exception) -> str:
    """Return what failed, as the end of a sentence."""
    if isinstance(error, subprocess.TimeoutExpired):
        return f"it did not end within {error.timeout:g} s."
    if isinstance(error, subprocess.CalledProcessError):
        said = " ".join((error.stderr or b"").decode(errors="replace").split())[:_TAIL]
        if error.returncode < 0:
            return f"it was ended by signal {-error.returncode}. {said}".rstrip()
        return f"it ended with exit status {error.returncode}. {said}".rstrip()
    return f"{error}."

"""Atomic replacement of files: by concurrent threads and processes, through links, on full and read-only disks."""

from __future__ import annotations

import ast
import dis
import functools
import gc
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from explorer.core.errors import FileError
from explorer.core.files import atomic_write as module
from explorer.core.files.atomic_write import Replacement, remove_abandoned, replacing, scratch_files, write_file

SOURCE = Path(__file__).parents[3] / "explorer"
_FULL_DISK = """
import resource, sys
from explorer.core.errors import FileError
from explorer.core.files.atomic_write import replacing
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    with replacing(sys.argv[1]) as file:
        for _ in range(100):
            file.write(b"x" * 10_000)
except FileError as error:
    print(error)
"""
_KILLED = """
import os, signal, sys
from explorer.core.files.atomic_write import replacing
with replacing(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def content(target: Path) -> bytes:
    data = target.read_bytes()
    assert data == data[:1] * len(data), "a mixture of two contents"
    return data


@pytest.mark.spec("I-13")
def test_a_reader_always_sees_one_complete_content(tmp_path: Path) -> None:
    """Threads replace one file while another reads it; no scratch files remain."""
    target = tmp_path / "x"
    write_file(target, b"0")
    running = True
    failures: list[BaseException] = []

    def write(mark: bytes) -> None:
        try:
            for size in range(1, 30):
                write_file(target, mark * size * 1000)
        except BaseException as error:
            failures.append(error)

    def read() -> None:
        try:
            while running:
                content(target)
        except BaseException as error:
            failures.append(error)

    writers = [threading.Thread(target=write, args=(mark,)) for mark in (b"a", b"b", b"c", b"d")]
    reader = threading.Thread(target=read)
    for thread in (*writers, reader):
        thread.start()
    for thread in writers:
        thread.join()
    running = False
    reader.join()
    assert not failures
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_processes_with_equal_pids_do_not_share_a_scratch_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers on one volume can have processes with equal pids, so scratch files have unique names."""
    monkeypatch.setattr(os, "getpid", lambda: 1)
    with Replacement(tmp_path / "x") as one, Replacement(tmp_path / "x") as other:
        assert one.scratch != other.scratch
        for new, text in ((one, b"one"), (other, b"other")):
            new.file.write(text)
            new.complete()
            new.replace()
    assert (tmp_path / "x").read_bytes() == b"other"


def test_a_failing_block_keeps_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "x"
    target.write_text("old")

    def fail(failure: type[BaseException]) -> None:
        with replacing(target) as file:
            file.write(b"new")
            raise failure

    for failure in (KeyboardInterrupt, ValueError):
        with pytest.raises(failure):
            fail(failure)
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["x"]


def test_an_interrupt_during_the_rename_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    target = tmp_path / "x"
    target.write_text("old")
    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_file(target, "new")
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["x"]


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o027)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_modes_and_links_are_preserved(tmp_path: Path) -> None:
    """A new file has the umask's mode, an old one keeps its mode; a link's target is written."""
    write_file(tmp_path / "new", "1")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    for mode in (0o600, 0o444, 0o755):
        (tmp_path / "new").chmod(mode)
        write_file(tmp_path / "new", f"{mode}")
        assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == mode
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to("elsewhere/target")
    for text in ("through a link to nothing", "through a link to a file"):
        write_file(tmp_path / "link", text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "elsewhere/target").read_text() == text
    assert sorted(os.listdir(tmp_path)) == ["elsewhere", "link", "new"]
    assert os.listdir(tmp_path / "elsewhere") == ["target"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none/x", "mkdir -p "),
        ("file/x", "is a file, or lies in one"),
        ("folder", "name a file in it"),
        ("pipe", "a device, a pipe"),
        ("loop", "a link to itself"),
        ("n" * 300, "shorter name"),
        ("n\0", "cannot be written"),
        ("n\ud800", "cannot be written"),
    ],
)
def test_an_unwritable_target_raises_an_error_before_anything_is_written(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(FileError) as caught, replacing(tmp_path / name):
        raise AssertionError("never reached")
    assert said in str(caught.value)
    assert caught.value.path == str(tmp_path / name)
    assert caught.value.fix
    assert sorted(os.listdir(tmp_path)) == before


@pytest.mark.parametrize(("number", "said"), [("EROFS", "read-only"), ("EACCES", "writable"), ("ENOSPC", "free some")])
def test_errors_about_a_read_only_or_full_folder_contain_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str, said: str
) -> None:
    """The error contains target, reason and fix, and never the scratch file's name."""
    import errno

    (tmp_path / "x").write_text("old")
    code = getattr(errno, number)

    def refused(path: str, *_: object) -> int:
        raise OSError(code, os.strerror(code), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(module.os, "open", refused)
        with pytest.raises(FileError, match=said) as caught:
            write_file(tmp_path / "x", "new")
    assert str(caught.value).startswith(f"{tmp_path / 'x'}: ")
    assert os.strerror(code) in str(caught.value)
    assert "explorer~" not in str(caught.value)
    assert os.listdir(tmp_path) == ["x"]
    assert (tmp_path / "x").read_text() == "old"


def test_a_disk_that_fills_up_keeps_the_old_file(tmp_path: Path) -> None:
    """The error names the lack of space, the old file is intact, and no scratch file remains."""
    target = tmp_path / "x"
    target.write_text("old")
    done = subprocess.run([sys.executable, "-c", _FULL_DISK, str(target)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{target}: there is no room for it: File too large\n")
    assert "fix: free some space" in done.stdout
    assert not done.stderr
    assert os.listdir(tmp_path) == ["x"]
    assert target.read_text() == "old"


def test_the_next_save_removes_scratch_files_of_killed_writers(tmp_path: Path) -> None:
    """Scratch files of live writers stay."""
    target = tmp_path / "x"
    target.write_text("old")
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", _KILLED, str(target)], check=False)
        assert done.returncode == -signal.SIGKILL
    (left,) = scratch_files(target)  # each run removes the scratch file of the one before it
    assert left.read_bytes() == b"half"
    assert target.read_text() == "old"
    with Replacement(target) as live:
        live.file.write(b"live")
        (tmp_path / ".x.note.explorer~").touch()  # not one of our scratch files
        write_file(target, "new")
        assert not left.exists()
        assert scratch_files(target) == [live.scratch]
        live.complete()
        live.replace()
    assert target.read_bytes() == b"live"
    assert sorted(os.listdir(tmp_path)) == [".x.note.explorer~", "x"]


def test_a_scratch_file_that_is_removed_before_it_is_locked_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked, calls = module.locked, []

    def late(handle: int) -> bool | None:
        if not calls:
            calls.append(handle)
            remove_abandoned(tmp_path / "x")
        return locked(handle)

    monkeypatch.setattr(module, "locked", late)
    write_file(tmp_path / "x", "new")
    assert calls
    assert os.listdir(tmp_path) == ["x"]


def test_scratch_files_stay_on_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Saves work there, too."""
    monkeypatch.setattr(module, "locked", lambda handle: None)
    with Replacement(tmp_path / "x") as other:
        write_file(tmp_path / "x", "new")
        assert other.scratch.exists()
    assert os.listdir(tmp_path) == ["x"]


def writes(source: Path) -> list[str]:
    """Return the calls in a package that write to disk outside the module for it."""
    results = []
    for path in sorted(source.rglob("*.py")):
        # The hook runs while a wheel is built, and writes to a new folder.
        if path in (source / "core" / "files" / "atomic_write.py", source / "lab" / "build_hook.py"):
            continue
        # These write to temporary folders, which a compiler or the calling process reads.
        if path == source / "run" / "native" / "library.py" or path.is_relative_to(source / "compilers" / "adapters"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func)
            texts = [
                str(part.value)
                for part in (*node.args, *(word.value for word in node.keywords))
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            ]
            opens = name in ("open", "io.open", "gzip.open") or name.endswith((".open", "fdopen"))
            method = name.rpartition(".")[2]
            for_writing = any(set(text) <= set("wax+bt") and set(text) & set("wax") for text in texts)
            if (
                (opens and for_writing and not name.startswith("archive."))
                or method in ("write_text", "write_bytes", "mkstemp", "NamedTemporaryFile", "savez", "tofile")
                or name in ("os.replace", "os.rename", "shutil.move", "shutil.copy", "np.save")
            ):
                results.append(f"{path.relative_to(source)}:{node.lineno} {name}")
    return results


def test_only_one_module_writes_files() -> None:
    assert not writes(SOURCE)


@pytest.mark.parametrize(
    "line", ['open("x", "wb")', 'Path("x").open(mode="w")', 'Path("x").write_text("")', "os.replace(a, b)"]
)
def test_a_write_in_another_module_is_found(tmp_path: Path, line: str) -> None:
    (tmp_path / "new.py").write_text(line)
    assert len(writes(tmp_path)) == 1


def interrupted_at(moment: int, work: Callable[[], object]) -> bool:
    """Return whether an interrupt was raised at the given occasion, counted from 0, at which Python checks for
    interrupts.

    These are the start of a function, the return from a call, and the jump back of a loop.
    """
    count = 0
    last: dict[FrameType, str] = {}

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        if event == "opcode":
            name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            before = last.get(frame, "RESUME")
            last[frame] = name
            if before == "RESUME" or before.startswith(("CALL", "JUMP_BACKWARD")):
                count += 1
                if count == moment + 1:
                    signal.raise_signal(signal.SIGINT)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return count > moment


def replace_once(target: Path) -> None:
    with Replacement(target) as new:
        new.file.write(b"new")
        new.complete()
        new.replace()


@pytest.mark.spec("V-20")
@pytest.mark.parametrize("save", [replace_once, lambda target: write_file(target, b"new")], ids=["block", "write_file"])
def test_an_interrupt_at_any_moment_leaves_no_scratch_file(tmp_path: Path, save: Callable[[Path], None]) -> None:
    """At each occasion of a save the folder contains the old or the new file afterwards."""
    target = tmp_path / "x"
    before = signal.getsignal(signal.SIGINT)

    moment = 0
    while True:
        target.write_bytes(b"old")
        gc.disable()  # an interrupt in another library's gc callback is not one of the save
        try:
            interrupted = interrupted_at(moment, functools.partial(save, target))
        finally:
            gc.enable()
        assert os.listdir(tmp_path) == ["x"], f"after an interrupt at moment {moment}"
        assert target.read_bytes() in (b"old", b"new")
        assert signal.getsignal(signal.SIGINT) is before
        if not interrupted:
            break
        moment += 1
    assert moment > 100
    assert target.read_bytes() == b"new"

"""Two files of one model: concurrent or killed saves never mix the graph of one save with weights of another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.core.files.atomic_write import Replacement, scratch_files
from explorer.formats.common import paired_files as module
from tests.formats.common.pairs import TYPES, net, number

ENDINGS = {"m.pnnx.param": "m.pnnx.bin", "m.json": "m.npz"}
formats = pytest.mark.parametrize("name", list(ENDINGS))
# A child process for each number read; the n-th disk operation of its save is the last, or is interrupted.
_KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from pairs import net
import explorer.formats
new = net(1)
def save_until(step):
    count = 0
    def counting(call):
        def counted(*arguments, **named):
            nonlocal count
            count += 1
            if count == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **named)
        return counted
    for name in ("open", "fsync", "replace", "unlink", "close"):
        setattr(os, name, counting(getattr(os, name)))
    new.save(sys.argv[2])
for line in sys.stdin:
    child = os.fork()
    if not child:
        save_until(int(line))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
_SAVING = """
import sys
sys.path.insert(0, sys.argv[1])
from pairs import net
nets = [net(int(number)) for number in sys.argv[3:]]
print("ready", flush=True)
sys.stdin.readline()
for _ in range(20):
    for one in nets:
        one.save(sys.argv[2])
"""


def files(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


@pytest.mark.spec("I-13")
@formats
def test_no_reader_sees_a_mixed_pair(tmp_path: Path, name: str) -> None:
    """Threads and processes save different nets to one path: every reader, during and after, finds one complete net."""
    path = tmp_path / name
    net(0).save(path)
    here = str(Path(__file__).parent)
    children = [
        subprocess.Popen(
            [sys.executable, "-c", _SAVING, here, str(path), *numbers],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for numbers in (("0", "1"), ("2", "3"))
    ]
    failures: list[BaseException] = []
    seen: set[int] = set()

    def save() -> None:
        try:
            nets = [net(2), net(1)]
            for _ in range(10):
                for one in nets:
                    one.save(path)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=save) for _ in range(2)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("\n")
        child.stdin.flush()
    for thread in threads:
        thread.start()
    while any(child.poll() is None for child in children) or any(thread.is_alive() for thread in threads):
        seen.add(number(path))
    for thread in threads:
        thread.join()
    for child in children:
        _, errors = child.communicate()
        assert child.returncode == 0, errors
    assert not failures
    assert len(seen) > 1
    number(path)
    assert files(tmp_path) == sorted([name, ENDINGS[name]])


@pytest.mark.spec("I-13")
@formats
def test_a_save_killed_at_any_step_leaves_one_complete_net(tmp_path: Path, name: str) -> None:
    """After each disk operation the old or the new net opens, and the next save cleans up."""
    path = tmp_path / name
    outcomes = []
    with subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(Path(__file__).parent), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        for step in range(1, 40):
            net(0).save(path)
            assert files(tmp_path) == sorted([name, ENDINGS[name]])
            print(step, file=parent.stdin, flush=True)
            status = int(parent.stdout.readline())
            outcomes.append(number(path))
            if status == 0:
                break
            assert status == -signal.SIGKILL
        else:
            pytest.fail("the save never came to its end")
    assert outcomes == sorted(outcomes), "the old net, and from some step on the new one"
    assert set(outcomes) == {0, 1}


@formats
def test_a_graph_that_could_not_follow_its_weights_is_found_and_kept(tmp_path: Path, name: str, monkeypatch) -> None:
    """The error reports it, and the graph is read from its scratch file."""
    path = tmp_path / name
    net(0).save(path)
    renamed = []
    replace = os.replace

    def once(source: Path, target: Path) -> None:
        if renamed:
            raise OSError(5, "Input/output error")
        renamed.append(target)
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", once)
        with pytest.raises(ex.FileError, match="Input/output error"):
            net(1).save(path)
    assert number(path) == 1
    assert len(scratch_files(path)) == 1
    net(2).save(path)
    assert number(path) == 2
    assert files(tmp_path) == sorted([name, ENDINGS[name]])


@formats
def test_an_interrupt_between_the_two_files_completes_the_save(tmp_path: Path, name: str, monkeypatch) -> None:
    path = tmp_path / name
    net(0).save(path)
    replace = Replacement.replace

    def interrupted(self: Replacement) -> None:
        replace(self)
        if self.path.name == ENDINGS[name]:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Replacement, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            net(1).save(path)
    assert number(path) == 1
    assert files(tmp_path) == sorted([name, ENDINGS[name]])


@formats
def test_a_mixed_pair_raises_an_error(tmp_path: Path, name: str) -> None:
    """Passing the weights explicitly accepts the two files as they are."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    net(0).save(tmp_path / "a" / name)
    net(1).save(tmp_path / "b" / name)
    os.replace(tmp_path / "a" / name, tmp_path / "b" / name)
    path, beside = tmp_path / "b" / name, tmp_path / "b" / ENDINGS[name]
    with pytest.raises(ex.FileError, match="was saved with another text") as caught:
        ex.open(path)
    taken = eval(caught.value.fix.partition(": ")[2].split(", and save")[0], {"ex": ex})  # the fix in the error
    assert taken["last"].type == "nn.ReLU"
    assert taken["fc"].weight.array.all()
    taken.save(path)
    assert ex.open(path)["last"].type == "nn.ReLU"
    assert beside.exists()


@formats
def test_weights_without_a_reference_to_a_graph_are_accepted(tmp_path: Path, name: str) -> None:
    """Line endings converted by a checkout do not matter, either."""
    path, beside = tmp_path / name, tmp_path / ENDINGS[name]
    net(0).save(path)
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert number(path) == 0
    with zipfile.ZipFile(beside, "a") as archive:
        archive.comment = b""
    path.write_text(path.read_text().replace("nn.ReLU", "nn.Tanh"))
    assert ex.open(path)["last"].type == "nn.Tanh"


def test_unneeded_weights_are_ignored(tmp_path: Path) -> None:
    """A net without weights is saved over one with weights; the old weights file stays and is not read."""
    path = tmp_path / "m.json"
    net(0).save(path)
    plain = ex.Net("plain")
    plain.input("x", (2,))
    plain.Relu("x", "y")
    plain.output("y")
    plain.save(path)
    assert files(tmp_path) == ["m.json", "m.npz"]
    np.testing.assert_array_equal(ex.open(path).run(np.ones(2, np.float32)), [1, 1])


def test_equal_nets_give_equal_files(tmp_path: Path) -> None:
    for name, beside in ENDINGS.items():
        for folder in ("a", "b"):
            (tmp_path / folder).mkdir(exist_ok=True)
            net(1).save(tmp_path / folder / name)
        for file in (name, beside):
            assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_a_full_disk_keeps_both_old_files(tmp_path: Path) -> None:
    path = tmp_path / "m.pnnx.param"
    net(0).save(path)
    program = (
        "import resource, sys; sys.path.insert(0, sys.argv[1])\n"
        "from pairs import net\n"
        "import explorer as ex\n"
        "new = net(1)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))\n"
        "try:\n    new.save(sys.argv[2])\nexcept ex.FileError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(Path(__file__).parent), str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(f"{tmp_path / 'm.pnnx.bin'}: there is no room for it")
    assert number(path) == 0
    assert files(tmp_path) == ["m.pnnx.bin", "m.pnnx.param"]


def test_a_reader_tries_again_after_a_concurrent_save(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "m.json"
    net(0).save(path)
    opened = module._open
    saves = iter([1, 2, 3])
    archives = []

    def late(beside: Path):
        for one in saves:
            net(one).save(path)
            break
        archives.append(opened(beside))
        return archives[-1]

    monkeypatch.setattr(module, "_open", late)
    result = ex.open(path)
    assert TYPES.index(result["last"].type) == 3
    *passed_over, last = archives
    assert len(passed_over) == 3
    assert all(archive.fp is None for archive in passed_over)  # closed before the next attempt
    assert last.fp is not None


@formats
def test_weights_of_an_unreadable_graph_are_closed(tmp_path: Path, name: str, monkeypatch) -> None:
    path = tmp_path / name
    net(0).save(path)
    path.write_bytes(b"no model")
    archives = []
    opened = module._open

    def noted(beside: Path):
        archives.append(opened(beside))
        return archives[-1]

    monkeypatch.setattr(module, "_open", noted)
    with pytest.raises(ex.FileError):
        ex.open(path)
    (archive,) = archives
    assert archive.fp is None

"""Ctrl-C at any moment of a command, including its imports: one line, and status 130."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from explorer.cli import main
from explorer.core import interrupts

MODEL = str(Path(__file__).parents[2] / "assets" / "models" / "resnet18.pnnx.param")
IMPORTED = "explorer.core.interrupts"
SOAK = int(os.environ.get("EXPLORER_SOAK_INTERRUPTS", "40"))
# A command that runs longer than any delay here, so that only an interrupt ends it.
_ENDLESS = """
import sys
import explorer.core.interrupts
import explorer.cli.commands.show as show
work = show.execute
def again(options):
    while True:
        work(options)
show.execute = again
from explorer.cli import main
sys.exit(main())
"""


def interrupted_after(delay: float, folder: Path) -> tuple[int, list[str]]:
    """Return status and standard error lines of a command interrupted some seconds after its first import."""
    program = folder / "explorer"
    program.write_text(_ENDLESS)
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", str(program), "show", MODEL, "-o", "out.txt"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.rstrip().endswith(IMPORTED):
            break
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    # communicate() would lose what was already read, such as the start of a line
    late = threading.Timer(120, process.kill)
    late.start()
    said = process.stderr.read()
    process.stderr.close()
    process.wait()
    late.cancel()
    # the weights of this model are missing, which is reported whenever it is shown
    others = ("import time:", "cannot run: ")
    return process.returncode, [line for line in said.splitlines() if not line.startswith(others)]


def check(delays: list[float], folder: Path) -> None:
    for delay in delays:
        status, said = interrupted_after(delay, folder)
        assert (status, said) == (130, ["explorer: interrupted"]), f"after {delay} s: {said}"
        assert set(os.listdir(folder)) <= {"explorer", "out.txt"}


@pytest.mark.spec("V-20")
def test_an_interrupt_at_any_moment_prints_one_line(tmp_path: Path) -> None:
    """Some moments during imports and work give status 130, one line, and no remaining files."""
    chance = random.Random(0)
    check([0.0, *(chance.uniform(0, 3) for _ in range(3))], tmp_path)


@pytest.mark.soak
def test_interrupts_at_many_moments(tmp_path: Path) -> None:
    """EXPLORER_SOAK_INTERRUPTS is the number of moments."""
    chance = random.Random(1)
    check([chance.uniform(0, 4) for _ in range(SOAK)], tmp_path)


def test_an_interrupt_during_a_finalizer_is_raised_again() -> None:
    """Python ignores exceptions in finalizers, so the interrupt is delivered again."""

    class Last:
        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0)

    def work() -> None:
        Last()
        time.sleep(60)

    with interrupts.raised() as result:
        with pytest.raises(KeyboardInterrupt):
            work()
        assert result.came


def test_a_program_that_imports_explorer_keeps_its_interrupt_handling() -> None:
    program = "import signal, explorer; assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    subprocess.run([sys.executable, "-c", program], check=True)
    before = signal.getsignal(signal.SIGINT)
    handler = lambda *_: None  # noqa: E731  # a handler of the program's own
    try:
        signal.signal(signal.SIGINT, handler)
        with interrupts.raised():
            assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_command_line_is_recognized_by_its_program_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for program, given, expected in (
        ("/usr/bin/explorer", [], True),
        ("-m", ["python", "-m", "explorer", "show"], True),
        ("-m", ["python", "-m", "pytest"], False),
        ("work.py", [], False),
        ("-c", [], False),
    ):
        monkeypatch.setattr(sys, "argv", [program])
        monkeypatch.setattr(sys, "orig_argv", given)
        assert interrupts._is_command_line() is expected


def test_an_error_caused_by_an_interrupt_is_reported_as_an_interrupt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Interrupted code may fail with any error."""

    def work(options: object) -> int:
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(60)
        except KeyboardInterrupt:
            raise ValueError("half done") from None
        return 0

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        monkeypatch.setattr("explorer.cli.commands.check.execute", work)
        assert main(["check", MODEL]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "explorer: interrupted\n"


def test_an_interrupt_before_the_handler_is_installed_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["explorer.cli.main"], "terminal", interrupted)
    assert main(["check", MODEL]) == 130
    assert capsys.readouterr().err == "explorer: interrupted\n"

"""Progress on a terminal: a line shows the progress, and Ctrl-C ends the command cleanly."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import explorer as ex
from explorer.cli.support.progress_line import line, progress_text
from explorer.cli.support.terminal import Outlet

MODEL = str(Path(__file__).parents[3] / "assets" / "digits.pnnx.param")
ARRAYS = MODEL.replace(".pnnx.param", ".npz:images")


def test_a_line_shows_the_current_work(monkeypatch: pytest.MonkeyPatch) -> None:
    assert progress_text(ex.Progress("planning", "fuse (9 nodes)")) == "planning fuse (9 nodes)"
    text = progress_text(ex.Progress("running", "conv2d\x1b[31m", 6, 12))
    assert text == f"▕{'█' * 12}{' ' * 12}▏ 6/12 running conv2d\\x1b[31m"
    monkeypatch.setenv("COLUMNS", "30")
    stream = io.StringIO()
    with line(Outlet(stream)) as draw:
        draw(ex.Progress("running", "conv2d", 6, 12))
    drawn, gone = stream.getvalue().split("\r\x1b[K")[1:]
    assert (len(drawn), gone) == (29, "")


SLOW = """
import sys, time
import explorer.run.execution.executors.simple as simple
from explorer.cli import main
progress = simple.Progress
def slowly(*given):
    time.sleep(float(sys.argv[1]))
    return progress(*given)
simple.Progress = slowly
sys.exit(main(sys.argv[2:]))
"""


def on_a_terminal(*arguments: str, interrupt: bool) -> tuple[int, str]:
    """Return the exit status and all terminal output; interrupt the command once the line is shown."""
    terminal, end = pty.openpty()
    command = [sys.executable, "-c", SLOW, *arguments]
    process = subprocess.Popen(command, stdin=end, stdout=end, stderr=end, start_new_session=True)
    os.close(end)
    written = b""
    while True:
        try:
            written += os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
        if interrupt and b"running" in written:
            process.send_signal(signal.SIGINT)
            interrupt = False
    os.close(terminal)
    return process.wait(), written.decode()


@pytest.mark.spec("V-20")
def test_the_line_appears_in_long_runs_and_is_removed_at_the_end() -> None:
    """A run longer than a second shows a bar with its operation, and leaves nothing of it."""
    status, written = on_a_terminal("0.15", "run", MODEL, "--input", ARRAYS, "--top", "1", interrupt=False)
    assert status == 0
    drawn, *_, result = written.split("\r\x1b[K")
    assert drawn == "inputs in order: images as '0'\r\n"
    assert "running" in written
    assert "█" in written
    assert result.startswith("15: float32 (12, 10)")


@pytest.mark.spec("V-20")
def test_an_interrupt_ends_the_command_cleanly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C during a long run, the line is removed, the exit status is 130, and no file is written."""
    monkeypatch.chdir(tmp_path)
    status, written = on_a_terminal("0.3", "run", MODEL, "--input", ARRAYS, "-o", "out.npz", interrupt=True)
    assert status == 130
    assert written.endswith("\r\x1b[Kexplorer: interrupted\r\n")
    assert "Traceback" not in written
    assert list(tmp_path.iterdir()) == []

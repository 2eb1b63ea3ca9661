"""Terminal output: no control characters of files or names in any command, and closed streams."""

from __future__ import annotations

import ast
import io
import itertools
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import explorer as ex
from explorer.cli import main
from explorer.cli.support.terminal import Outlet, print_error, terminal

SOURCE = Path(__file__).parents[3] / "explorer"
MODEL = str(Path(__file__).parents[3] / "assets" / "digits.pnnx.param")
EVIL = "\x1b]0;pwn\x07\x1b[31mRED\u202e\x9b\r\nforged"
WRITERS = ("print", "write", "writelines")
HIDDEN = ("\x1b", "\x07", "\u202e", "\x9b", "\r", "\x00", "\x7f", "\u2028", "\u200f")


def evil_onnx(path: str, *, runs: bool) -> None:
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Relu", ["x" + EVIL], ["y" + EVIL], name="n" + EVIL, doc_string="d" + EVIL)]
    if not runs:
        nodes.append(helper.make_node("Foo" + EVIL, ["y" + EVIL], ["z" + EVIL], name="m" + EVIL, **{"a" + EVIL: EVIL}))
    graph = helper.make_graph(
        nodes, "g" + EVIL, [value("x" + EVIL, 1, [4])], [value("y" + EVIL, 1, [4])], doc_string="doc" + EVIL
    )
    Path(path).write_bytes(helper.make_model(graph, producer_name="p" + EVIL).SerializeToString())


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write files with hostile contents and names."""
    monkeypatch.chdir(tmp_path)
    evil_onnx("runs.onnx", runs=True)
    evil_onnx("odd.onnx", runs=False)
    evil_onnx(f"f{EVIL}.onnx", runs=True)
    ex.open("runs.onnx").save("named.json")
    plain = json.loads(Path("named.json").read_text())
    Path("named.json").write_text(json.dumps({**plain, "name": "N" + EVIL}))
    np.savez("one.npz", **{"a" + EVIL: np.ones(4, np.float32)})
    np.savez("two.npz", **{"a" + EVIL: np.ones(4, np.float32), "b" + EVIL: np.ones(4, np.float32)})
    Path(f"i{EVIL}.npz").write_bytes(Path("one.npz").read_bytes())
    Path("labels.txt").write_text("\n".join(f"\x1b[31mL{number}\u202e" for number in range(4)))
    return tmp_path


MODELS = ["runs.onnx", "odd.onnx", "named.json", f"f{EVIL}.onnx", f"none{EVIL}.onnx"]
COMMANDS = [
    *[[command, model] for command in ("show", "check") for model in MODELS],
    ["lab", MODELS[-1]],
    *[["show", model, "-o", output] for model in MODELS for output in ("-", f"o{EVIL}.txt", f"o.{EVIL}", "o.json")],
    *[["why", model, name + EVIL] for model in MODELS for name in "nz"],
    *[["diff", one, other] for one, other in itertools.pairwise(MODELS)],
    ["diff", "runs.onnx", "odd.onnx", "-o", f"d{EVIL}.txt"],
    *[["run", model, "--input", "one.npz", "-o", f"o{EVIL}.npz", "--top", "2", "--labels", "labels.txt", "--plan"]
      for model in MODELS],
    *[["run", "runs.onnx", "--input", given]
      for given in ("one.npz", "two.npz", f"i{EVIL}.npz", f"one.npz:{EVIL}", f"none{EVIL}.npz", f"one.npz{EVIL}")],
    ["run", "runs.onnx", "--input", "one.npz", "--labels", f"none{EVIL}.txt", "--top", "1"],
    *[["compare", one, other, "--input", "one.npz"] for one in (*MODELS, f"none{EVIL}") for other in MODELS[:2]],
    *[["compare", "runs.onnx", "runs.onnx", "--input", "one.npz", "-o", f"o{EVIL}{end}"] for end in (".csv", ".json")],
    *[["profile", model] for model in MODELS],
    *[["cut", model, "--outputs", name, "-o", f"c{EVIL}.onnx"] for model in MODELS for name in ("y" + EVIL, EVIL)],
    *[["edit", model, "--shape", f"x{EVIL}=8", "--rename", f"y{EVIL}=z{EVIL}", "-o", "e.json"] for model in MODELS],
    ["show", MODEL, "--input", f"x{EVIL}.png"],
    ["show", f"none{EVIL}.onnx", "--debug"],
    ["check", "runs.onnx", f"--{EVIL}"],
    [EVIL],
]  # fmt: skip


@pytest.mark.spec("I-5", "V-14")
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command)[:40].encode().hex()[:40])
def test_no_command_prints_a_control_character(command: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """With hostile files, no escape sequence, bidi override or forged line reaches a terminal."""
    try:
        status = main(command)
    except SystemExit as ended:  # from argparse
        status = int(ended.code or 0)
    said = capfd.readouterr()
    assert status in (0, 1, 2)
    assert said.out or said.err
    for text in (said.out, said.err):
        assert not [character for character in HIDDEN if character in text], text
    if "unrecognized" not in said.err and "invalid choice" not in said.err and "--debug" not in command:
        assert not [line for line in (said.out + said.err).splitlines() if line.startswith("forged")]
    assert "unexpected" not in said.err


def test_output_of_other_printers_is_escaped_too(capfd: pytest.CaptureFixture[str]) -> None:

    with terminal():
        sys.stderr.write(warnings.formatwarning(EVIL, UserWarning, EVIL, 1))
        print(EVIL)
    said = capfd.readouterr()
    assert "\x1b" not in said.out + said.err
    assert said.out == "\\x1b]0;pwn\\x07\\x1b[31mRED\\u202e\\x9b\\r\nforged\n"


def test_errors_escape_names_in_tracebacks_and_notebooks() -> None:
    """Messages of explorer's errors are safe everywhere, and so are the text forms of nets and operators."""
    net = ex.open("runs.onnx")
    shown = [repr(net), *(repr(operator) for operator in net.operators.values())]
    odd = ex.open("odd.onnx")
    shown += [*map(str, odd.unknown()), *odd.check()]
    expr = net.nodes("n" + EVIL)[0]
    shown += [repr(expr), str(expr), repr(expr.scope), net.preview_plan().explain(), repr(net.preview_plan())]
    for path in (f"none{EVIL}.onnx", f"none{EVIL}.param"):
        with pytest.raises(ex.FileError) as caught:
            ex.open(path)
        shown.append(str(caught.value))
        assert "\nforged" not in str(caught.value)
    with pytest.raises(ex.UnknownNameError) as unknown:
        net["none" + EVIL]
    shown.append(str(unknown.value))
    for text in shown:
        assert not [character for character in HIDDEN if character in text], text


def prints(source: Path) -> list[str]:
    """Return the locations in a package, outside the module for it, that print or write to a standard stream."""
    results = []
    for path in sorted(source.rglob("*.py")):
        if path.relative_to(source).as_posix() == "cli/support/terminal.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            writes = isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in WRITERS
            text = ast.unparse(node) if writes else ""
            streams = ("sys.stdout.write", "sys.stderr.write", "sys.__std", "os.write(", "print(", "sys.stdout.buffer")
            if text.startswith(streams):
                results.append(f"{path.relative_to(source).as_posix()}: {text}")
    return results


def test_only_one_module_prints() -> None:
    """Exceptions are an interrupt's constant line, and JSON in a server's pipe.

    A tensor's ``show`` and ``show_shapes`` print only numbers.
    """
    allowed = {
        "core/ir/tensor.py: print('{} channels, {} rows, {} columns'.format(*self.shapes))",
        "core/ir/tensor.py: print(f'channel {channel}:\\n{matrix}')",
        "cli/main.py: print(LINE, end='', file=sys.stderr)",
        "core/interrupts.py: os.write(2, LINE.encode())",
        "lab/model_worker.py: os.write(output, rest)",
    }
    assert set(prints(SOURCE)) == allowed


def test_a_print_in_another_module_is_found(tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text("import sys\nprint(1)\nsys.stdout.write('')\n")
    assert len(prints(tmp_path)) == 2


def shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        env={**os.environ, "EXPLORER": f"{sys.executable} -m explorer", "MODEL": MODEL},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("$EXPLORER show $MODEL -o - | head -0", 0, ""),
        ("$EXPLORER --help | head -0", 0, ""),
        ("$EXPLORER check $MODEL >&-", 0, ""),
        ("$EXPLORER check none.param 2>&-", 2, ""),
        ("$EXPLORER check none.param >&- 2>&- <&-", 2, ""),
        ("$EXPLORER check $MODEL 2>/dev/full >/dev/full", 2, ""),
        ("$EXPLORER check $MODEL >/dev/full", 2, "explorer: standard output: No space left on device\n"),
        ("PYTHONIOENCODING=ascii $EXPLORER show $MODEL -o - >/dev/null", 0, ""),
    ],
)
def test_closed_and_full_streams_give_a_status_and_no_traceback(command: str, status: int, said: str) -> None:
    """With closed, full and broken standard streams the command works, and its status reports them."""
    done = shell(command)
    assert done.returncode == status, done.stderr
    assert done.stderr == said


def test_a_closed_pipe_does_not_end_the_work(folder: Path) -> None:
    done = shell("$EXPLORER run runs.onnx --input one.npz --plan -o out.npz | head -0")
    assert done.returncode == 0
    assert (folder / "out.npz").exists()


def test_characters_missing_in_an_encoding_are_written_as_escapes(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w", encoding="ascii") as file:
        Outlet(file).write("a × b\n")
    assert (tmp_path / "out").read_text() == "a \\xd7 b\n"


def test_a_line_that_is_overwritten_is_flushed() -> None:
    seen = io.BytesIO()
    outlet = Outlet(io.TextIOWrapper(io.BufferedWriter(Kept(seen)), encoding="utf-8"))
    outlet.draw_over("half done")
    assert seen.getvalue().endswith(b"half done")


class Kept(io.RawIOBase):
    """A file that stores its bytes elsewhere."""

    def __init__(self, seen: io.BytesIO) -> None:
        self._seen = seen

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        return self._seen.write(bytes(data))


def test_a_system_error_without_a_file_keeps_its_message(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(OSError("no space left"))
    print_error(OSError(2, "No such file", "a.onnx"))
    assert capsys.readouterr().err == "explorer: no space left\nexplorer: a.onnx: No such file\n"


def test_no_file_gets_the_descriptor_of_a_closed_stream() -> None:
    """The command's output file and its messages never mix, whichever stream was closed at the start."""
    program = (
        "import os, sys\n"
        "for number in (0, 1):\n    os.close(number)\n"
        "sys.stdin = sys.stdout = None\n"
        "from explorer.cli.support.terminal import terminal\n"
        "with terminal():\n    opened = os.open(os.devnull, os.O_RDONLY)\n"
        "sys.exit(0 if opened > 2 else 1)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_an_outlet_that_outlives_its_stream_is_collected_silently() -> None:
    """Python flushes what it collects, but a stream closed before has nothing left to flush."""
    stream = io.StringIO()
    outlet = Outlet(stream)
    outlet.write("a line\n")
    stream.close()
    outlet.close()

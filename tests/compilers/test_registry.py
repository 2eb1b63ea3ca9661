"""An adapter is one file, and its compiler records programs in a child process with a time limit."""

from __future__ import annotations

from pathlib import Path

import pytest

import explorer as ex
from explorer.compilers import adapters, compilers, record
from explorer.compilers.child import run_python

ADAPTER = """
from explorer.compilers import Compiler, Snapshot, Value, recording_of

def _record(program, *args, run):
    given = {"x": Value("x", kind="leaf", shape=args[0].shape), "a": Value(program, ("x",), args[0].shape)}
    return recording_of(f"{program}, run={run}", [Snapshot("given", given, ("a",))])

COMPILER = Compiler(package="PACKAGE", install="pip install toy", record=_record)
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """File of an adapter whose package is installed."""
    monkeypatch.setattr(adapters, "__path__", [*adapters.__path__, str(tmp_path)])
    file = tmp_path / f"toy_{tmp_path.name.replace('-', '_')}.py"
    file.write_text(ADAPTER.replace("PACKAGE", "numpy"))
    return file


def test_an_adapter_is_one_file(toy: Path) -> None:
    """X-2: the file's name is the compiler's name, and a view of its recording needs nothing else."""
    assert toy.stem in compilers()
    view = ex.explore("tanh", ex.tensor([1.0, 2.0]), compiler=toy.stem, run=False, depth=1)
    assert view.recording.title == "tanh, run=False"
    assert view.recording.named_label(1) == "tanh"


def test_an_unknown_compiler_is_an_error(toy: Path) -> None:
    with pytest.raises(ex.UnknownNameError, match="compiler"):
        record("xlaa", "tanh")


def test_a_compiler_that_is_not_installed_is_named_with_its_install_command(toy: Path) -> None:
    toy.write_text(ADAPTER.replace("PACKAGE", "no_such_package"))
    with pytest.raises(ex.StateError, match="no_such_package is not installed") as caught:
        record(toy.stem, "tanh", ex.tensor([1.0]))
    assert caught.value.fix == "pip install toy"


def test_a_planning_option_is_an_error(toy: Path) -> None:
    with pytest.raises(ex.UnknownNameError, match="record"):
        ex.explore("tanh", ex.tensor([1.0]), compiler=toy.stem, record="times")


def test_a_child_that_fails_or_hangs_is_an_error(tmp_path: Path) -> None:
    script = tmp_path / "child.py"
    script.write_text("import sys\nprint(sys.argv[1])")
    assert run_python(script, ["fine"], compiler="toy").stdout == "fine\n"
    script.write_text("raise SystemExit('out of registers')")
    with pytest.raises(ex.StateError, match="toy failed with exit status 1: out of registers"):
        run_python(script, compiler="toy")
    script.write_text("import time\ntime.sleep(60)")
    with pytest.raises(ex.StateError, match=r"toy did not finish in 0\.5 s"):
        run_python(script, compiler="toy", seconds=0.5)

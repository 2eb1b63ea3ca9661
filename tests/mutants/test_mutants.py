"""Named mutants match the code; ``make soak`` tries some of them."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import pytest

from tests.mutants.bench import ROOT, Mutant, attempts
from tests.mutants.catalogue import CATALOGUE, PACKAGES, named, named_in, package_of
from tests.mutants.sampling import changes

SHARE = int(os.environ.get("EXPLORER_MUTANTS_SHARE", "8"))
"""a soak run tries one of so many named mutants; 1 tries all"""

SETTLED = (
    "cli",
    "compilers",
    "core",
    "data",
    "formats",
    "gradients",
    "layers",
    "net",
    "ops",
    "plan",
    "record",
    "run",
    "testing",
    "view",
)
"""packages whose named mutants are all killed or explained; for the others ``make mutants`` lists the surviving ones"""


def test_every_named_mutant_matches_its_file_once_and_is_code() -> None:
    """When code changes, its mutants must be updated: each old string occurs once, and the new one is valid Python."""
    for mutant in named():
        mutated = mutant.applied((ROOT / mutant.file).read_text(encoding="utf-8"))
        if mutant.file.endswith(".py"):
            ast.parse(mutated)
        for path in mutant.tests:
            assert (ROOT / path.partition("::")[0]).exists(), f"{mutant.name}: {path} is not there"


def test_the_closest_tests_of_each_package_exist() -> None:
    """Random mutants are tried with them."""
    assert [path for paths in PACKAGES.values() for path in paths if not (ROOT / path).exists()] == []


def test_named_mutants_have_unique_names_and_are_in_the_file_of_their_package() -> None:
    for path in CATALOGUE.iterdir():
        assert {package_of(mutant.file) for mutant in named_in(path)} == {path.stem}
    names = [mutant.name for mutant in named()]
    assert len(set(names)) == len(names)


def test_random_changes_are_different_code() -> None:
    text = "def f(x):\n    é = x < 1 and not x\n    if é:\n        return max(x, 2)\n    x += 1\n    return -x\n"
    result = changes(text)
    assert len(result) > 8
    for change in result:
        assert text[change.offset :].startswith(change.old)
        ast.parse(text[: change.offset] + change.new + text[change.offset + len(change.old) :])


CONFTEST = """
from hypothesis import settings
settings.register_profile("first", deadline=None)
"""
DOUBLE_TEST = """
from explorer.double import double
with open({log!r}, "a") as file:
    file.write("run ")

def test_double():
    assert double(3) == {expected}
"""


@pytest.mark.soak
def test_only_tests_that_pass_without_a_mutant_kill_it(tmp_path: Path) -> None:
    """Failing or missing tests leave a mutant untried; the test that kills a mutant runs once without one."""
    root = tmp_path / "project"
    for folder in ("explorer", "tests"):
        (root / folder).mkdir(parents=True)
    (root / "explorer" / "__init__.py").write_text("", encoding="utf-8")
    # pytest loads the installed package's plugin from the package with this name
    (root / "explorer" / "pytest_plugin.py").write_text("", encoding="utf-8")
    (root / "explorer" / "double.py").write_text("def double(x):\n    return 2 * x\n", encoding="utf-8")
    (root / "tests" / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    for name, expected in {"right": "6", "wrong": "7", "blind": "double(3)"}.items():
        code = DOUBLE_TEST.format(log=str(tmp_path / name), expected=expected)
        (root / "tests" / f"test_{name}.py").write_text(code, encoding="utf-8")

    def mutant(new: str, name: str) -> Mutant:
        return Mutant(f"{name} {new}", "explorer/double.py", "2 * x", new, (f"tests/test_{name}.py",))

    mutants = [mutant("3 * x", "right"), mutant("x", "right")]
    mutants += [mutant("3 * x", name) for name in ("wrong", "blind", "missing")]
    verdicts = {verdict.mutant.name: verdict for verdict in attempts(mutants, 1, root)}
    assert {name: verdict.outcome for name, verdict in verdicts.items()} == {
        "right 3 * x": "killed",
        "right x": "killed",
        "wrong 3 * x": "broken",
        "blind 3 * x": "survived",
        "missing 3 * x": "broken",
    }
    assert "tests/test_wrong.py::test_double" in verdicts["wrong 3 * x"].told
    counts = {name: (tmp_path / name).read_text().count("run") for name in ("right", "wrong", "blind")}
    assert counts == {"right": 2 + 1, "wrong": 1 + 2, "blind": 1}


@pytest.mark.soak
def test_named_mutants_are_killed() -> None:
    """Each tried mutant makes one of the closest tests fail, or has a reason to survive."""
    chosen = [mutant for mutant in named() if package_of(mutant.file) in SETTLED][:: max(1, SHARE)]
    verdicts = list(attempts(chosen, os.cpu_count() or 2))
    left = [v for v in verdicts if v.outcome != "killed" and not (v.outcome == "survived" and v.mutant.survives)]
    assert not left, "\n".join(f"{v.outcome}: {v.mutant.name} {v.told}" for v in left)

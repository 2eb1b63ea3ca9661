"""The named mutants stand where they say; in ``make soak`` a part of them is tried."""

from __future__ import annotations

import ast
import os

import pytest

from tests.mutants.bench import ROOT, attempts
from tests.mutants.catalogue import CATALOGUE, named, named_in, package_of
from tests.mutants.sampling import changes

SHARE = int(os.environ.get("EXPLORER_MUTANTS_SHARE", "8"))
"""one of so many named mutants is tried in a soak run; 1 tries all"""

SETTLED = ("cli", "core", "data", "grad", "ops", "plan", "run", "view")
"""packages all of whose named mutants are killed or answered; of the others ``make mutants`` tells which are not"""


def test_every_named_mutant_stands_in_its_file_once_and_is_code() -> None:
    """Code that has moved on takes its mutants along: each old text is there once, and the new one is Python."""
    for mutant in named():
        mutated = mutant.applied((ROOT / mutant.file).read_text(encoding="utf-8"))
        if mutant.file.endswith(".py"):
            ast.parse(mutated)
        for path in mutant.tests:
            assert (ROOT / path.partition("::")[0]).exists(), f"{mutant.name}: {path} is not there"


def test_named_mutants_stand_in_the_file_of_their_package_under_names_of_their_own() -> None:
    for path in CATALOGUE.iterdir():
        assert {package_of(mutant.file) for mutant in named_in(path)} == {path.stem}
    names = [mutant.name for mutant in named()]
    assert len(set(names)) == len(names)


def test_drawn_changes_are_code_that_differs() -> None:
    text = "def f(x):\n    é = x < 1 and not x\n    if é:\n        return max(x, 2)\n    x += 1\n    return -x\n"
    found = changes(text)
    assert len(found) > 8
    for change in found:
        assert text[change.place :].startswith(change.old)
        ast.parse(text[: change.place] + change.new + text[change.place + len(change.old) :])


@pytest.mark.soak
def test_named_mutants_are_killed() -> None:
    """Tests bite: each mutant that is tried makes one of the nearest tests fail, or its survival is answered for."""
    chosen = [mutant for mutant in named() if package_of(mutant.file) in SETTLED][:: max(1, SHARE)]
    verdicts = list(attempts(chosen, max(1, (os.cpu_count() or 2) // 2)))
    left = [v for v in verdicts if v.outcome != "killed" and not (v.outcome == "survived" and v.mutant.survives)]
    assert not left, "\n".join(f"{v.outcome}: {v.mutant.name} {v.told}" for v in left)

"""Files from elsewhere are hostile: a damaged file is rejected with a reason or used as any other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.soak.fuzz import campaign
from tests.soak.fuzz.cases import FORMATS, case
from tests.soak.fuzz.formats.corpus import hostile
from tests.soak.fuzz.worker import stored_case

pytestmark = pytest.mark.soak

CASES = int(os.environ.get("EXPLORER_FUZZ_CASES", "10000"))
SEED = int(os.environ.get("EXPLORER_FUZZ_SEED", "0"))
JOBS = int(os.environ.get("EXPLORER_FUZZ_JOBS", "2"))


def test_no_damaged_file_crashes_explorer(capsys: pytest.CaptureFixture[str]) -> None:
    """Every damaged file opens, is drawn and runs, or raises an error of explorer's family, within limits."""
    result = campaign.run(CASES, SEED, JOBS)
    with capsys.disabled():
        print(f"\n{result.table()}")
    assert not result.finds, f"{len(result.finds)} cases failed\n{result.report()}"
    for name, counts in result.counts.items():
        assert min(counts[kind] for kind in campaign.RIGHT) > 0, f"the mutations of {name} are all alike: {counts}"


@pytest.mark.parametrize("name", FORMATS)
def test_a_case_is_reproducible_from_its_seed_and_number(name: str, tmp_path: Path) -> None:
    """A stored case contains everything that a replay needs."""
    for number in (0, 500, 501):
        result = case(name, 3, number)
        assert case(name, 3, number) == result
        result.keep(tmp_path / f"{number}")
        again = stored_case(tmp_path / f"{number}")
        assert again == result
        assert again.is_whole == result.is_whole
        assert again.chance.random() == result.chance.random()
    assert case(name, 4, 501).files != result.files


def test_hostile_files_are_small() -> None:
    assert all(path.stat().st_size < 20_000 for path in hostile(""))

"""Settings of all tests: markers, rules in CI, and hypothesis profiles."""

from __future__ import annotations

import gc
import os
import signal
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings

ELSEWHERE = ("gpu", "hosts")
"""markers of tests that need hardware or another environment; without it they are deselected and counted"""

BROWSER = Path(__file__).parent / "browser"

_CI = bool(os.environ.get("CI"))
_deselected: Counter[str] = Counter()

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("local", deadline=None)
settings.register_profile("first", settings.get_profile("ci"), phases=(Phase.explicit, Phase.generate))
"""profile for finding only whether a test fails (tests/mutants), without shrinking examples"""
settings.load_profile("ci" if _CI else "local")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A background job of a shell ignores interrupts, and tests that interrupt themselves would never end.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def native_kernels() -> Iterator[None]:
    """Compile the kernels of all plans if EXPLORER_TEST_KERNELS is native."""
    if os.environ.get("EXPLORER_TEST_KERNELS") != "native":
        yield
        return
    from tests.support.native_kernels import compiled_by_default

    with compiled_by_default():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail skipped tests in CI."""
    report = yield
    if not hasattr(report, "wasxfail"):
        _fail_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Fail skipped files in CI, such as those that require a missing package."""
    report = yield
    _fail_skipped(report)
    return report


def _fail_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    if _CI and report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} skips, and nothing skips in CI: {reason}"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Check that browser tests are in tests/browser or are benchmarks, since no run would select them elsewhere."""
    for item in items:
        if not item.get_closest_marker("browser"):
            continue
        if not item.get_closest_marker("bench") and BROWSER not in item.path.parents:
            raise pytest.UsageError(f"{item.nodeid} is marked browser and stands outside of {BROWSER}: move it there")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Freeze the twenty thousand test items, because they made each `gc.collect()` take 0.7 s."""
    gc.freeze()


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    _deselected.update(mark for item in items for mark in ELSEWHERE if item.get_closest_marker(mark))


def pytest_sessionfinish(session: pytest.Session) -> None:
    worker = getattr(session.config, "workeroutput", None)
    if worker is not None:
        worker["deselected"] = dict(_deselected)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the maximum of the counts of pytest-xdist workers, each of which collects all tests."""
    for mark, count in getattr(node, "workeroutput", {}).get("deselected", {}).items():
        _deselected[mark] = max(_deselected[mark], count)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _CI or _deselected:
        counts = ", ".join(f"{_deselected[mark]} {mark}" for mark in ELSEWHERE)
        terminalreporter.write_line(f"deselected, because they run elsewhere: {counts}")

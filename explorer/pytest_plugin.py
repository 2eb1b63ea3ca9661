"""pytest plugin that shortens tracebacks, and lists the decisions that differ if a notebook cell's outputs differ.

pytest imports this module in every environment that has explorer installed, even for unrelated projects. Therefore the
rest of the package is only imported when an explorer output differs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

_FINGERPRINT = re.compile(r"^.* · [0-9a-f]{16}$", re.MULTILINE)
"""line that ends with a fingerprint in a plan's canonical text"""

_reported = pytest.StashKey[dict[tuple[str, ...], int]]()
"""reported differences → number of the notebook cell that reported them"""

_configs: list[pytest.Config] = []
"""configurations of the running pytest sessions, innermost last"""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option that rewrites plan files."""
    parser.getgroup("explorer").addoption(
        "--explorer-update",
        action="store_true",
        help="write the files of explorer.testing.assert_same_plan anew, where a plan differs from its file",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Store the configuration, because assertions have no access to the pytest session."""
    _configs.append(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the configuration of a finished session."""
    _configs.remove(config)


def update() -> bool:
    """Return whether ``explorer.testing.assert_same_plan`` should rewrite its files."""
    return bool(_configs) and bool(_configs[-1].getoption("explorer_update"))


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Exclude stored views from nbval's comparison, because their compressed data depends on the Python build."""
    nbval = sys.modules.get("nbval.plugin")
    if nbval is not None and isinstance(collector, nbval.IPyNbFile):
        collector.skip_compare = (*collector.skip_compare, "application/vnd.explorer+json")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shorten the tracebacks of explorer errors, and replace nbval's report if a cell's outputs differ."""
    _shorten(call, item.config)
    report = yield
    nbval = sys.modules.get("nbval.plugin")
    if report.when == "call" and report.failed and nbval is not None and isinstance(item, nbval.IPyNbCell):
        # nbval sets this only for failed comparisons; cells that raise an error keep their traceback
        stored, computed = (_values(item, outputs) for outputs in (item.cell.outputs, item.test_outputs or ()))
        texts = [text for values in (*stored.values(), *computed.values()) for text in values if isinstance(text, str)]
        if getattr(item, "comparison_traceback", None) and any(map(_FINGERPRINT.search, texts)):
            from explorer.testing.notebook_failure import failure_text

            reported = item.parent.stash.setdefault(_reported, {})
            report.longrepr = failure_text(item.cell_num, item.cell.source, stored, computed, reported)
    return report


def _shorten(call: pytest.CallInfo[None], config: pytest.Config) -> None:
    """Remove explorer's frames from an explorer error's traceback, except in explorer's own tests."""
    errors, tracebacks = (sys.modules.get(f"explorer.record.{name}") for name in ("errors", "tracebacks"))
    if call.excinfo is None or errors is None or tracebacks is None:
        return
    error = call.excinfo.value
    if isinstance(error, errors.ExplorerError) and Path(__file__).parent != config.rootpath / "explorer":
        tracebacks.shorten(error)
        call.excinfo = pytest.ExceptionInfo.from_exception(error)


def _values(item: Any, outputs: Any) -> dict[str, list[Any]]:
    """Return output values in the form in which nbval compares them, keyed by MIME type or stream name."""
    values: dict[str, list[Any]] = {}
    for output in outputs:
        fields = {output.name: output.text} if output.output_type == "stream" else output.get("data", {})
        for key, value in fields.items():
            if key not in item.parent.skip_compare:
                values.setdefault(key, []).append(item.sanitize(value))
    return values

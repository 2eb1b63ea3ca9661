"""Plugin for pytest: short tracebacks, and failing notebook cells that name the decisions that differ.

pytest imports this module whenever explorer is installed, in projects too that never use it. So it imports nothing else
of the package until outputs that explorer made have failed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

_FINGERPRINT = re.compile(r"^.* · [0-9a-f]{16}$", re.MULTILINE)
"""line of a canonical text that ends with the fingerprint of a plan"""

_reported = pytest.StashKey[dict[tuple[str, ...], int]]()
"""differences that cells of a notebook have reported, with the numbers of the cells"""

_configs: list[pytest.Config] = []
"""configurations of the running sessions, the innermost last"""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option that writes kept plans anew."""
    parser.getgroup("explorer").addoption(
        "--explorer-update",
        action="store_true",
        help="write the files of explorer.testing.assert_same_plan anew, where a plan differs from its file",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Note the option for assertions, which know no session."""
    _configs.append(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Forget the options of a session that has ended."""
    _configs.remove(config)


def update() -> bool:
    """Tell whether ``explorer.testing.assert_same_plan`` is to write its files anew."""
    return bool(_configs) and bool(_configs[-1].getoption("explorer_update"))


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Leave stored views out of nbval's comparison: their compression differs between builds of Python."""
    nbval = sys.modules.get("nbval.plugin")
    if nbval is not None and isinstance(collector, nbval.IPyNbFile):
        collector.skip_compare = (*collector.skip_compare, "application/vnd.explorer+json")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Shorten tracebacks of explorer's errors; replace nbval's report of a cell whose outputs differ."""
    _shorten(call, item.config)
    report = yield
    nbval = sys.modules.get("nbval.plugin")
    if report.when == "call" and report.failed and nbval is not None and isinstance(item, nbval.IPyNbCell):
        # Only a comparison that failed leaves a trace; a cell that raised keeps its traceback.
        stored, computed = (_values(item, outputs) for outputs in (item.cell.outputs, item.test_outputs or ()))
        texts = [text for values in (*stored.values(), *computed.values()) for text in values if isinstance(text, str)]
        if getattr(item, "comparison_traceback", None) and any(map(_FINGERPRINT.search, texts)):
            from explorer.testing.notebook_failure import failure_text

            reported = item.parent.stash.setdefault(_reported, {})
            report.longrepr = failure_text(item.cell_num, item.cell.source, stored, computed, reported)
    return report


def _shorten(call: pytest.CallInfo[None], config: pytest.Config) -> None:
    """Leave only the user's frames in the traceback of an error of explorer, except in explorer's own tests."""
    errors, tracebacks = (sys.modules.get(f"explorer.core.{name}") for name in ("errors", "tracebacks"))
    if call.excinfo is None or errors is None or tracebacks is None:
        return
    error = call.excinfo.value
    if isinstance(error, errors.ExplorerError) and Path(__file__).parent != config.rootpath / "explorer":
        tracebacks.shorten(error)
        call.excinfo = pytest.ExceptionInfo.from_exception(error)


def _values(item: Any, outputs: Any) -> dict[str, list[Any]]:
    """Return the values of outputs by MIME type or name of the stream, as nbval compares them."""
    values: dict[str, list[Any]] = {}
    for output in outputs:
        fields = {output.name: output.text} if output.output_type == "stream" else output.get("data", {})
        for key, value in fields.items():
            if key not in item.parent.skip_compare:
                values.setdefault(key, []).append(item.sanitize(value))
    return values

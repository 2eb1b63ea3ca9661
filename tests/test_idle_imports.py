"""Imports ahead of need: between two cells of a user, but never in a script or a program that runs notebooks."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from jupyter_client.manager import start_new_kernel

from explorer import idle_imports

RESNET = Path(__file__).parents[1] / "assets" / "models" / "resnet18.onnx"
IMPORTED = "import sys; print('explorer.view.widget.preview' in sys.modules)"
ENDED = "m = sys.modules.get('explorer.view.payload.script_bundle'); print(bool(m and m.script.cache_info().currsize))"
"""code that prints whether the last step has been done, which is after the last import"""


@pytest.fixture(scope="module")
def run() -> Iterator[Callable[[str, bool], str]]:
    """Run a cell in a new kernel, from a front end that allows input or not; return its output."""
    manager, client = start_new_kernel(kernel_name="python3")

    def run(code: str, reader: bool) -> str:
        printed: list[str] = []

        def collect(message: dict[str, dict[str, str]]) -> None:
            printed.append(message["content"].get("text", "") + "".join(message["content"].get("traceback", ())))

        client.execute_interactive(code, output_hook=collect, allow_stdin=reader, timeout=60)
        return "".join(printed)

    yield run
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_a_kernel_imports_between_two_cells_what_the_first_picture_needs(run: Callable[[str, bool], str]):
    """After a user's cell has imported explorer, idle time is used; a program's cell, here the first, starts
    nothing."""
    assert run(f"import explorer as ex; {IMPORTED}", False) == "False\n"
    time.sleep(1)
    assert run(IMPORTED, False) == "False\n"
    begun = "from explorer.idle_imports import import_when_idle; print(import_when_idle())"
    assert run(begun, False) == "False\n"
    assert run(begun, True) == "True\n"
    until = time.monotonic() + 60
    while run(ENDED, True) != "True\n":
        assert time.monotonic() < until
        time.sleep(0.05)
    ready = "import sys; before = set(sys.modules)"
    shown = f"from IPython.display import display; display(ex.open({str(RESNET)!r}).explore())"
    left = "print([name for name in sys.modules if name not in before and name.startswith(('explorer', 'onnx'))])"
    assert "Traceback" not in run(f"{ready}; {shown}", True)
    assert run(left, True) == "[]\n"


def test_a_script_imports_nothing_ahead():
    """It has no event loop that could be idle."""
    code = "import explorer.idle_imports as idle; assert not idle.import_when_idle(); import explorer; " + IMPORTED
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize("error", [ImportError, OSError, TypeError])
def test_idle_imports_end_at_a_module_that_fails_to_import(monkeypatch: pytest.MonkeyPatch, error: type[Exception]):
    """The cell that needs the module raises the error, while the event loop ignores it."""
    monkeypatch.setattr(idle_imports, "MODULES", ("broken", "explorer.formats"))
    monkeypatch.setattr(idle_imports, "BEFORE", 0)
    errors: list[dict[str, object]] = []
    steps: list[str] = []

    def load(name: str) -> None:
        steps.append(name)
        raise error(name)

    monkeypatch.setattr(idle_imports, "import_module", load)

    async def idle() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
        assert idle_imports.import_when_idle()
        await asyncio.sleep(0.2)

    asyncio.run(idle())
    assert (steps, errors) == (["broken"], [])

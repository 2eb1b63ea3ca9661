"""Programs that put an object of their own in the place of IPython's shell, as Solara does."""

from __future__ import annotations

import subprocess
import sys

import pytest

NOTHING = "class Shell: pass"
SOLARA = """
class Publisher:
    def publish(self, *args, **options): pass
class Events:
    def register(self, *args): pass
class Shell:
    kernel, events, user_ns, custom_exceptions, display_pub = object(), Events(), {}, (), Publisher()
    def showtraceback(self): pass
    def set_parent(self, *args): pass
"""
BROKEN = """
class Completer: pass
class Kernel:
    def get_parent(self): return None
class Shell:
    Completer, kernel, compile = Completer(), Kernel(), compile
"""
SCRIPT = """
import IPython
{shell}
shell = Shell()
IPython.get_ipython = IPython.core.getipython.get_ipython = lambda: shell
import explorer as ex
import numpy as np
y = np.tanh(ex.tensor(np.ones((2, 3)), name="x")) + 1
view = ex.explore(y)
data, _ = view._repr_mimebundle_()
assert all(type(part) in (str, dict) for part in data.values())
# Such programs close a model with the cell or for the visitor that it was made for, so views must not share one.
assert ex.explore(y).front_end is not view.front_end
print("<svg" in data["image/svg+xml"], "tanh" in data["text/plain"])
class Halved(ex.Elementwise):
    \"\"\"x / 2.\"\"\"
    examples = (ex.Example(ex.real(2, 3)),)
    def kernel(self, out, x): return np.multiply(x, 0.5, out=out)
    def gradient(self, g, y, x): return (g * 0.5,)
from contextlib import nullcontext
from explorer.cell_outputs import preview
from explorer.in_notebook import progress_bar
with progress_bar() or nullcontext(), preview():
    print(ex.evaluate(y).shape)
try:
    y @ y
except ex.OperandError as error:
    print("OperandError" in "".join(error._render_traceback_()))
"""


@pytest.mark.spec("V-16")
@pytest.mark.parametrize("shell", [NOTHING, SOLARA, BROKEN])
def test_a_shell_that_lacks_parts_of_ipython_breaks_nothing(shell: str) -> None:
    """Import, views, declarations and errors do without completion, events, or a request to answer."""
    command = [sys.executable, "-W", "error", "-c", SCRIPT.format(shell=shell)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.stderr == ""
    assert ended.stdout == "True True\n(2, 3)\nTrue\n"


@pytest.mark.parametrize("state", ["sys.modules['IPython'] = types.ModuleType('IPython')", "import IPython"])
def test_ipython_without_a_shell_or_half_imported_breaks_nothing(state: str) -> None:
    script = f"import sys, types; {state}; import explorer as ex; print(ex.tensor(1.0).uid)"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (ended.stderr, ended.stdout) == ("", "1000\n")

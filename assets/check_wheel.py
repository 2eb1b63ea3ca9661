"""Check the wheel in dist/ in an empty environment: ``python assets/check_wheel.py [PYTHON …]``.

For this Python, or for each given one, a new virtual environment gets the wheel from dist/ and its dependencies from
the package index. It must then run README's five lines, ``explorer show``, the pytest plugin and the JupyterLab
extension, away from the sources. The script needs only the standard library.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLAN_TEST = """
import explorer as ex

def test_fused():
    plan = ex.EvalPlan()
    plan.register(ex.tanh(ex.tensor([1.0, 2.0]) * 2 + 1))
    plan.eval()
    ex.testing.assert_fused(plan, "add", "tanh")
"""


def built(folder: Path) -> Path:
    """Return the only wheel in a folder."""
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        sys.exit(f"{folder} has {len(wheels)} wheels; it must have one: rm -r dist; python -m build")
    return wheels[0]


def check_contents(wheel: Path) -> None:
    """Exit with a message unless the wheel has all files of the package, and no others."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/")]
    sources = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "explorer").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    package = {name for name in names if name.startswith("explorer/")}
    others = {name.split("/")[0] for name in names} - {"explorer"}
    faults = [
        *[f"lacks {name}" for name in sorted(sources - package)],
        *[f"has {name}, which is not a source" for name in sorted(package - sources)],
        *[f"has the folder {name}" for name in sorted(others) if not name.endswith((".dist-info", ".data"))],
    ]
    if faults:
        sys.exit(f"{wheel.name} " + "\n".join(faults))


def five_lines() -> str:
    """Return the program of README's section "Five lines"."""
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Five lines")[2]
    program = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    if program is None:
        sys.exit("README.md has no program in its section Five lines")
    return program[1]


def run(folder: Path, *command: str | Path) -> str:
    """Return what a program prints, run in a folder without PYTHONPATH; exit with its output if it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}")
    return done.stdout + done.stderr


def check_install(wheel: Path, python: str) -> None:
    """Install the wheel for a Python into an empty environment, and use it; exit with a message if a part fails."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(folder, python, "-m", "venv", "environment")
        programs = folder / "environment" / ("Scripts" if os.name == "nt" else "bin")
        installed = programs / "python"
        run(folder, installed, "-m", "pip", "install", "--quiet", wheel)
        (folder / "five.py").write_text(five_lines(), encoding="utf-8")
        run(folder, installed, "five.py")
        run(folder, programs / "explorer", "show", ROOT / "assets" / "digits.pnnx.param", "-o", "digits.html")
        if "<svg" not in (folder / "digits.html").read_text(encoding="utf-8"):
            sys.exit("explorer show wrote a page without a picture")
        run(folder, installed, "-m", "pip", "install", "--quiet", "pytest", "jupyterlab>=4.6,<5")
        (folder / "test_plan.py").write_text(PLAN_TEST, encoding="utf-8")
        report = run(folder, installed, "-m", "pytest", "test_plan.py")
        if "explorer-graphs-" not in report or "1 passed" not in report:
            sys.exit(f"pytest does not load the plugin:\n{report}")
        extensions = run(folder, programs / "jupyter", "labextension", "list")
        if not re.search(r"explorer-graphs v\S+ .*enabled.*OK", extensions):
            sys.exit(f"JupyterLab does not list the extension:\n{extensions}")
        version = run(
            folder, installed, "-c", "import sys, numpy; print(sys.version.split()[0], 'NumPy', numpy.__version__)"
        )
        print(f"{wheel.name}: Python {version.strip()}: passed", flush=True)


if __name__ == "__main__":
    found = built(ROOT / "dist")
    check_contents(found)
    for python in sys.argv[1:] or [sys.executable]:
        check_install(found, python)

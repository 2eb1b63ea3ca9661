"""The walk-throughs of CONTRIBUTING.md work: each is made in a copy of the package, and tried there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SNIPPET = re.compile(r'^( *)```python file=(\S+)(?: after="(.*)")?\n(.*?)^\1```$', re.MULTILINE | re.DOTALL)
SECTIONS = {
    part.split("\n")[0]: [
        (path, after, textwrap.dedent(code)) for _, path, after, code in SNIPPET.findall(part.partition("\n")[2])
    ]
    for part in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("\n## ")[1:]
}

TRIALS = {
    "Add an operation": (
        4,
        """
        from explorer.formats.pnnx.operators import TABLE as PNNX

        v = np.linspace(-2, 2, 6).reshape(2, 3)
        x = ex.tensor(v)
        np.testing.assert_allclose(ex.evaluate(ex.bell(x)), 1 / (1 + v**2))
        (slope,) = ex.grad(ex.bell(x).sum(), [x])
        np.testing.assert_allclose(ex.evaluate(slope), -2 * v / (1 + v**2) ** 2)
        assert "nn.Bell" in PNNX.types() and "F.bell" in PNNX.types()
        ex.save(ex.bell, "bell.onnx", {"x": v.shape})
        np.testing.assert_allclose(ex.open("bell.onnx").run(v.astype("float32")), 1 / (1 + v**2), rtol=1e-6)
        """,
    ),
    "Add a rule": (
        1,
        """
        v = np.linspace(-2, 2, 6)
        x = ex.tensor(v)
        plan = ex.EvalPlan()
        handle = plan.register(ex.cos(abs(x)))
        plan.eval()
        np.testing.assert_array_equal(handle.data(), np.cos(v))
        assert [row.code for row in plan.recording.decisions if row.rule == "CosineOfAbsolute"] == ["even"]
        """,
    ),
    "Add a pass": (
        2,
        """
        plan = ex.EvalPlan()
        plan.register(abs(ex.tensor([-1.0, 2.0])))
        plan.eval()
        assert [row.code for row in plan.recording.decisions if row.rule == "CountAbsolute"] == ["counted"]
        assert "count_absolute" in [stage.name for stage in plan.recording.stages]
        """,
    ),
    "Add a file format": (
        2,
        """
        Path("small.types").write_text("nn.ReLU nn.Tanh")
        net = ex.open("small.types")
        np.testing.assert_array_equal(net.run(np.array([-1.0, 0.0])), [0.0, 0.0])
        """,
    ),
    "Add an executor": (
        2,
        """
        assert ex.executors()["plain"] == "Run the kernels in the planned order."
        plan = ex.EvalPlan(executor="plain")
        handle = plan.register(ex.exp(ex.tensor([0.0])).sum())
        plan.eval()
        assert handle.data() == 1
        """,
    ),
    "Add a heat metric": (
        1,
        """
        from explorer.view.model.heat import heat_json

        plan = ex.EvalPlan()
        plan.register(ex.tensor([1.0]) + ex.tensor([2.0]))
        plan.prepare()
        (row,) = [row for row in heat_json(plan.recording) if row["name"] == "operands"]
        assert sorted(row["values"]) == [0, 0, 2]
        """,
    ),
}


@pytest.mark.parametrize("section", TRIALS)
def test_a_walk_through_works_as_it_stands(section: str, tmp_path: Path) -> None:
    """Its snippets are put into the files that they name, no more of them than it says, and the result is tried."""
    files, trial = TRIALS[section]
    _follow(section, tmp_path)
    assert len({path for path, _, _ in SECTIONS[section]}) == files
    script = "from pathlib import Path\n\nimport numpy as np\n\nimport explorer as ex\n" + textwrap.dedent(trial)
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_operation_that_was_added_keeps_the_laws(tmp_path: Path) -> None:
    """Laws of operations and of what ONNX files say of them find the new one, and nothing that is missing."""
    _follow("Add an operation", tmp_path)
    files = [
        "laws/test_shapes.py",
        "laws/test_legality.py",
        "laws/test_kernels.py",
        "formats/onnx/writing/test_operations.py",
    ]
    chosen = "bell or written_or_says or reference_of_its_own"
    command = ["-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "no:nbval", "-k", chosen]
    command += [f"tests/{file}" for file in files]
    path = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, env=path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("[bell-") > 9


def test_every_snippet_belongs_to_a_trial() -> None:
    assert {section for section, snippets in SECTIONS.items() if snippets} == TRIALS.keys()


def _follow(section: str, copy: Path) -> None:
    """Make the change of a walk-through in a copy of the package and its tests."""
    for room in ("explorer", "tests"):
        shutil.copytree(ROOT / room, copy / room)  # with what is compiled of files that stay as they are
    shutil.copy(ROOT / "pyproject.toml", copy)
    for path, after, code in SECTIONS[section]:
        _enter(copy / path, after, code)


def _enter(path: Path, after: str, code: str) -> None:
    """Write a new file; else put imports at the top, and the rest behind the line that ends in ``after``, or last."""
    if not path.exists():
        path.write_text(code, encoding="utf-8")
        return
    text = path.read_text(encoding="utf-8")
    imports, _, rest = code.partition("\n\n") if code.startswith("from ") else ("", "", code)
    future = "from __future__ import annotations\n"
    assert text.count(future) == 1
    text = text.replace(future, future + imports + "\n")
    if after:
        assert text.count(after + "\n") == 1, f"{after!r} in {path}"
        text = text.replace(after + "\n", f"{after}\n{textwrap.indent(rest, '    ')}")
    else:
        text += f"\n\n{rest.strip()}\n"
    path.write_text(text, encoding="utf-8")

"""The walkthroughs in CONTRIBUTING.md work and pass the project's checks, which run in a copy of the project."""

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
SNIPPET = re.compile(r'^( *)```python file=(\S+)(?: after="([^\n]*)")?\n(.*?)^\1```$', re.MULTILINE | re.DOTALL)
SECTIONS = {
    part.split("\n")[0]: [
        (path, after, textwrap.dedent(code)) for _, path, after, code in SNIPPET.findall(part.partition("\n")[2])
    ]
    for part in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("\n## ")[1:]
}

TRIALS = {
    "Add an operation": (
        3,
        """
        from explorer.formats.pnnx.operators import TABLE as PNNX

        v = np.linspace(-2, 2, 6).reshape(2, 3)
        x = ex.tensor(v)
        np.testing.assert_allclose(ex.evaluate(ex.bump(x)), 1 / (1 + v**2))
        (slope,) = ex.grad(ex.bump(x).sum(), [x])
        np.testing.assert_allclose(ex.evaluate(slope), -2 * v / (1 + v**2) ** 2)
        assert "nn.Bump" in PNNX.types() and "F.bump" in PNNX.types()
        ex.save(ex.bump, "bump.onnx", {"x": v.shape})
        np.testing.assert_allclose(ex.open("bump.onnx").run(v.astype("float32")), 1 / (1 + v**2), rtol=1e-6)
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
        plan.register(ex.tensor([2.0, 3.0]) ** ex.tensor([1.5, 2.5]))
        plan.eval()
        assert [row.code for row in plan.recording.decisions if row.rule == "CountPowers"] == ["counted"]
        assert "count_powers" in [stage.name for stage in plan.recording.stages]
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


LAWS = {
    "tests/test_floors.py": "",
    "tests/test_names.py": "editors",
    "tests/core/ir/test_hooks.py": "",
    "tests/ops/catalogue/test_help_pages.py": "bump",
    "tests/laws/test_shapes.py": "bump or has_a_reference",
    "tests/laws/test_legality.py": "bump",
    "tests/laws/test_kernels.py": "bump or examples_cover",
    "tests/laws/test_gradients.py": "bump",
    "tests/laws/test_numerics.py": "cosine",
    "tests/laws/test_other_dtypes.py": "cosine",
    "tests/laws/test_numpy.py": "shared_with_numpy",
    "tests/laws/test_claims.py": "cosine or countpowers or every_reason",
    "tests/plan/test_reasons.py": "cosine or countpowers or page_is_up_to_date or belongs_to_one or one_info_record",
    "tests/formats/test_no_code_runs.py": "types",
    "tests/formats/onnx/writing/test_operations.py": "bump or written_or_raises",
    "tests/view/model/test_heat.py": "",
}
"""test files with checks of the project, and which of their tests must find the additions"""
PROSE = """
from tests import prose

checks = (prose.missing_docstrings, prose.relative_clauses, prose.missing_examples, prose.reasons, prose.glossary)
faults = [fault for check in checks for fault in check()]
assert not faults, faults
"""


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the repository with all changes in CONTRIBUTING.md."""
    copy = tmp_path_factory.mktemp("copy")
    for folder in ("explorer", "tests", "assets"):
        shutil.copytree(ROOT / folder, copy / folder)  # with compiled files of everything unchanged
    for file in ("pyproject.toml", "CONTRIBUTING.md"):
        shutil.copy(ROOT / file, copy)
    for snippets in SECTIONS.values():
        for path, after, code in snippets:
            _enter(copy / path, after, code)
    _run(copy, "assets/reasons.py")
    return copy


@pytest.mark.parametrize("section", TRIALS)
def test_a_walkthrough_works_as_written(section: str, changed: Path) -> None:
    """Its snippets belong to as many package files as it states, and the additions can be used."""
    files, trial = TRIALS[section]
    assert len({path for path, _, _ in SECTIONS[section] if path.startswith("explorer/")}) == files
    _run(
        changed,
        "-c",
        "from pathlib import Path\n\nimport numpy as np\n\nimport explorer as ex\n" + textwrap.dedent(trial),
    )


def test_the_additions_pass_the_checks_of_the_project(changed: Path) -> None:
    """Test import order, names for editors, laws and prose in the copy."""
    chosen = " or ".join(
        [f"({Path(file).name} and ({name}))" if name else Path(file).name for file, name in LAWS.items()]
    )
    output = _run(changed, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p", "no:nbval", "-k", chosen, *LAWS)
    for file in LAWS:
        assert f"{file}::" in output, f"{file} has no test of what was added"
    assert output.count("[bump-") > 9
    _run(changed, "-c", PROSE)


def test_every_snippet_belongs_to_a_walkthrough() -> None:
    assert {section for section, snippets in SECTIONS.items() if snippets} == TRIALS.keys()


def _run(copy: Path, *arguments: str) -> str:
    """Run Python in the copy, and return its output."""
    path = {**os.environ, "PYTHONPATH": str(copy)}
    done = subprocess.run([sys.executable, *arguments], cwd=copy, env=path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _enter(path: Path, after: str, code: str) -> None:
    """Write a new file, or insert imports at the top and the rest after the line that ends with ``after``, or at the
    end."""
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

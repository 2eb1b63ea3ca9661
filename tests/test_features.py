"""Generation of FEATURES.md from the tests (``make features``), and a test that the file is current.

Tests name the rows that they show with ``@pytest.mark.spec("V-1")``. One test per row has
``@pytest.mark.spec("V-1", headline=True)``, with this row as the first argument. The first sentence of its docstring is
the row's main claim.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).parent
FEATURES = TESTS.parent / "FEATURES.md"
ROW = re.compile(r"(?P<family>[CIPTVUQXKH]|M-[DOLE])-?(?P<number>[1-9]\d*)")
FAMILIES = {
    "M-D": "data",
    "M-O": "operations and expressions",
    "M-L": "layers",
    "M-E": "evaluation",
    "C": "nets",
    "I": "model files",
    "T": "training",
    "P": "planning",
    "V": "views",
    "U": "numbers",
    "Q": "an engineer's questions",
    "X": "other runtimes and compilers",
    "K": "compiled kernels",
    "H": "hosts",
}
"""The families of row ids, in the order of the table."""
OUT = {"skip", "skipif", "xfail"}
"""Marks of tests that may not run, and therefore show nothing."""


class Test(NamedTuple):
    __test__ = False
    path: str
    name: str
    sentence: str
    rows: tuple[str, ...]
    headline: str = ""
    """row whose main claim the test shows"""


def marked(tests: Path) -> list[Test]:
    """Return the tests that name rows, ordered by path and line."""
    results = []
    for path in sorted(tests.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        settings = [
            n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "pytestmark"
        ]
        results += _tests(tree.body, settings, path.relative_to(tests.parent).as_posix(), "")
    return results


def _tests(body: list[ast.stmt], marks: list[ast.expr], path: str, owner: str) -> list[Test]:
    results = []
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            results += _tests(node.body, [*marks, *node.decorator_list], path, f"{owner}{node.name}::")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            calls = [mark for expression in [*marks, *node.decorator_list] for mark in ast.walk(expression)]
            names = {ast.unparse(mark) for mark in calls if isinstance(mark, ast.Attribute)}
            specs = [m for m in calls if isinstance(m, ast.Call) and ast.unparse(m.func) == "pytest.mark.spec"]
            rows = tuple(row for mark in specs for row in map(ast.literal_eval, mark.args))
            headline = next((ast.literal_eval(mark.args[0]) for mark in specs if mark.keywords), "")
            if rows and not names & {f"pytest.mark.{mark}" for mark in OUT}:
                sentence = _sentence(ast.get_docstring(node) or "")
                results.append(Test(path, owner + node.name, sentence, rows, headline))
    return results


def _sentence(docstring: str) -> str:
    text = " ".join(docstring.split())
    return re.split(r"(?<=[.!?])\s+(?=[A-Z`])", text)[0].rstrip(".").replace("|", r"\|")


def _order(row: str) -> tuple[int, int]:
    result = ROW.fullmatch(row)
    if not result:
        raise ValueError(
            f"{row!r} is no row id: it is a family ({', '.join(FAMILIES)}) and a number, as in V-1 or M-D3"
        )
    return list(FAMILIES).index(result["family"]), int(result["number"])


class Row(NamedTuple):
    """A row of tests/rows.toml."""

    title: str
    open: str = ""
    owed: bool = False


def rows_of(tests: Path) -> dict[str, Row]:
    """Return a dict of ids and rows, in the order of the table; raise ValueError for an invalid id."""
    written = tomllib.loads((tests / "rows.toml").read_text(encoding="utf-8"))
    return {row: Row(**written[row]) for row in sorted(written, key=_order)}


def _headline(row: str, tests: list[Test]) -> Test:
    """Return the test that shows a row's main claim; raise ValueError unless there is exactly one."""
    headlines = [test for test in tests if test.headline == row]
    if len(headlines) != 1 or not headlines[0].sentence:
        found = ", ".join(f"{test.path}::{test.name}" for test in headlines) or "none"
        raise ValueError(
            f"the headline of {row} is {found}: one of its {len(tests)} tests, with a docstring whose first sentence "
            f'is the main claim, must have @pytest.mark.spec("{row}", headline=True)'
        )
    return headlines[0]


def table(tests: Path) -> str:
    """Return the text of FEATURES.md; raise ValueError if the tests and tests/rows.toml contradict each other."""
    rows, result = rows_of(tests), marked(tests)
    naming: dict[str, list[Test]] = {}
    for test in result:
        for row in dict.fromkeys(test.rows):
            _order(row)
            naming.setdefault(row, []).append(test)
    for row, showing in naming.items():
        if row not in rows:
            raise ValueError(f"{row} is no row of tests/rows.toml, but {showing[0].name} names it")
        if rows[row].owed:
            raise ValueError(f"{row} is owed in tests/rows.toml, but {showing[0].name} shows it: say what is open")
    lines = [
        "# Features",
        "",
        "Each row describes a feature and the test that demonstrates it. `make features` generates this page from the",
        "tests and tests/rows.toml. *Open* names what a row still lacks. A row marked *owed* has not been started.",
    ]
    last = None
    for row, (title, missing, owed) in rows.items():
        family = list(FAMILIES)[_order(row)[0]]
        if family != last:
            lines += [
                "",
                f"## {FAMILIES[family].capitalize()}",
                "",
                "| id | row | what works | test |",
                "| --- | --- | --- | --- |",
            ]
        last = family
        if owed:
            lines.append(f"| {row} | {title} | *owed* | |")
            continue
        if row not in naming:
            raise ValueError(f"{row} has no test that names it, and is not owed in tests/rows.toml")
        test = _headline(row, naming[row])
        ending = f" *Open: {missing}.*" if missing else ""
        lines.append(f"| {row} | {title} | {test.sentence}{ending} | `{test.path}::{test.name}` |")
    return "\n".join(lines) + "\n"


def test_features_are_up_to_date() -> None:
    """FEATURES.md lists every row with a test or as owed, and no test names another row."""
    written = FEATURES.read_text(encoding="utf-8") if FEATURES.exists() else ""
    assert written == table(TESTS), "FEATURES.md and the tests differ: run `make features`"


@pytest.fixture
def tests(tmp_path: Path) -> Path:
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "rows.toml").write_text('[V-2]\ntitle = "the panel"\n[M-D3]\ntitle = "categories"\nopen = "types"\n')
    return folder


def test_a_row_names_its_headline(tests: Path) -> None:
    """A row has the sentence of its headline test; no, several, or undocumented headline tests are rejected."""
    (tests / "test_a.py").write_text("@pytest.mark.spec('V-2')\ndef test_why_panel():\n    '''A detail.'''\n")
    headline = (
        "@pytest.mark.spec('{}', '{}', headline=True)\ndef test_{}():\n    '''The panel says\n    why. And more.'''\n"
    )
    (tests / "test_b.py").write_text(headline.format("V-2", "M-D3", "more"))
    with pytest.raises(ValueError, match=r"the headline of M-D3 is none: one of its 1 tests"):
        table(tests)
    (tests / "test_c.py").write_text(headline.format("M-D3", "V-2", "types"))
    rows = [line for line in table(tests).splitlines() if "`tests" in line]
    assert rows == [
        "| M-D3 | categories | The panel says why *Open: types.* | `tests/test_c.py::test_types` |",
        "| V-2 | the panel | The panel says why | `tests/test_b.py::test_more` |",
    ]
    (tests / "test_b.py").write_text(headline.format("M-D3", "V-2", "more"))
    with pytest.raises(ValueError, match=r"M-D3 is tests/test_b.py::test_more, tests/test_c.py::test_types"):
        table(tests)
    (tests / "test_b.py").write_text("@pytest.mark.spec('V-2', headline=True)\ndef test_bare(): ...\n")
    with pytest.raises(ValueError, match=r"V-2 is tests/test_b.py::test_bare: one of its 3 tests, with a docstring"):
        table(tests)


def test_rows_without_a_test_are_owed_or_refused(tests: Path) -> None:
    """A row without a test is in the table only if it is marked as owed."""
    (tests / "rows.toml").write_text('[T-1]\ntitle = "modules"\nowed = true\n[V-2]\ntitle = "the panel"\n')
    with pytest.raises(ValueError, match="V-2 has no test"):
        table(tests)
    (tests / "test_a.py").write_text("@pytest.mark.spec('V-2', headline=True)\ndef test_why():\n    '''Say why.'''\n")
    assert "| T-1 | modules | *owed* | |" in table(tests).splitlines()
    (tests / "test_b.py").write_text("@pytest.mark.spec('T-1')\ndef test_module(): ...\n")
    with pytest.raises(ValueError, match="T-1 is owed"):
        table(tests)
    (tests / "test_b.py").write_text("@pytest.mark.spec('V-9')\ndef test_selection(): ...\n")
    with pytest.raises(ValueError, match="V-9 is no row"):
        table(tests)


def test_marks_of_modules_classes_and_parameters_count(tests: Path) -> None:
    (tests / "test_a.py").write_text(
        "pytestmark = pytest.mark.spec('P-1')\n"
        "@pytest.mark.spec('P-2')\n"
        "class TestFuse:\n"
        "    @pytest.mark.parametrize('x', [pytest.param(1, marks=pytest.mark.spec('P-3'))])\n"
        "    def test_chain(self, x): ...\n"
    )
    assert [(test.name, test.rows) for test in marked(tests)] == [("TestFuse::test_chain", ("P-1", "P-2", "P-3"))]


@pytest.mark.parametrize("mark", sorted(OUT))
def test_a_test_that_may_not_run_shows_nothing(tests: Path, mark: str) -> None:
    (tests / "test_a.py").write_text(f"@pytest.mark.spec('P-1')\n@pytest.mark.{mark}(reason='x')\ndef test_x(): ...\n")
    assert not marked(tests)


@pytest.mark.parametrize("row", ["Z-1", "V-0", "V1.", "M-3", "v-1"])
def test_an_unknown_id_is_refused(tests: Path, row: str) -> None:
    (tests / "test_a.py").write_text(f"@pytest.mark.spec('{row}')\ndef test_x(): ...\n")
    with pytest.raises(ValueError, match="is no row id"):
        table(tests)


if __name__ == "__main__":
    FEATURES.write_text(table(TESTS), encoding="utf-8")
    sys.stdout.write(f"{FEATURES.name}: {len(FEATURES.read_text(encoding='utf-8').splitlines())} lines\n")

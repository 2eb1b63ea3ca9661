"""README.md and docs/ are correct: examples run, links have targets, and commands exist."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = {path.relative_to(ROOT).as_posix(): path for path in (README, *sorted((ROOT / "docs").glob("**/*.md")))}
TEXTS = {name: path.read_text(encoding="utf-8") for name, path in PAGES.items()}
LINK = re.compile(r'\]\((?!https?:|#explorer:)([^)]+)\)|(?:src|srcset)="([^"]+)"')


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXTS[name], re.DOTALL | re.MULTILINE)


def run(folder: Path, *arguments: str) -> None:
    """Run Python in a folder, and assert that it succeeds."""
    ended = subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def located(text: str) -> str:
    """Replace ``assets/``, which is relative to the repository's root in pages, by the absolute path."""
    return re.sub(r"\bassets/", f"{(ROOT / 'assets').as_posix()}/", text)


def headings(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub generates them."""
    outside = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", outside, re.MULTILINE)
    }


COMMANDS = sorted(
    {
        line.partition("#")[0].strip()
        for name in PAGES
        for block in blocks(name, "sh")
        for line in block.splitlines()
        if line.startswith("explorer ")
    }
)


@pytest.mark.parametrize("name", [name for name in PAGES if blocks(name, "python") and name != "docs/hosts.md"])
def test_the_lines_run(name: str, tmp_path: Path) -> None:
    """The Python blocks of a page run in order, exactly as printed.

    They run in a separate process, because other tests declare operations with the same names.
    `make hosts` runs the programs of docs/hosts.md, which need other packages.
    """
    (tmp_path / "page.py").write_text(located("\n".join(blocks(name, "python"))), encoding="utf-8")
    run(tmp_path, "page.py")


@pytest.mark.spec("H-9", headline=True)
def test_the_readme_has_every_part() -> None:
    """Introduce Explorer in the README: picture, install, five lines, three uses, other tools, where it runs, links."""
    assert [line[3:] for line in TEXTS["README.md"].splitlines() if line.startswith("## ")] == [
        "Install",
        "Five lines",
        "Three uses",
        "Explorer or …?",
        "Where it runs",
        "Links",
    ]
    assert "<picture>" in TEXTS["README.md"]
    assert blocks("README.md", "python")
    assert COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_runs(command: str, tmp_path: Path) -> None:
    """Each ``explorer`` command in the pages succeeds on the repository's files."""
    run(tmp_path, "-m", *shlex.split(located(command)))


@pytest.mark.parametrize(
    ("name", "target"), sorted({(name, "".join(link)) for name, text in TEXTS.items() for link in LINK.findall(text)})
)
def test_a_link_leads_somewhere(name: str, target: str) -> None:
    file, _, part = target.partition("#")
    path = PAGES[name].parent / file if file else PAGES[name]
    assert path.exists()
    if part:
        assert part in headings(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", [name for name in PAGES if name.startswith("docs/")])
def test_a_page_begins_with_its_question_and_is_listed(name: str) -> None:
    """A page has a title and then one question in bold, which the index repeats."""
    lines = TEXTS[name].splitlines()
    assert lines[0].startswith("# ")
    question = re.fullmatch(r"\*\*(.+\?)\*\*", lines[2])
    assert question
    if name != "docs/README.md":
        assert f"({PAGES[name].name}) | {question[1]} |" in TEXTS["docs/README.md"]


def test_the_table_of_hosts_names_every_test_of_a_host() -> None:
    named = set(re.findall(r"`tests/hosts/(test_\w+\.py)`", TEXTS["docs/hosts.md"]))
    assert named == {path.name for path in (ROOT / "tests" / "hosts").glob("test_*.py")}


def test_the_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {name: set(re.findall(r"(?:`|^)make ([a-z]+)", text, re.MULTILINE)) for name, text in TEXTS.items()}
    assert {"lab", "test"} <= named["README.md"]
    assert set().union(*named.values()) <= targets

"""Releases: versions and dates agree, workflows cover what the package supports, and the release script tags."""

from __future__ import annotations

import itertools
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
import trove_classifiers  # hatchling requires it
import yaml
from packaging.specifiers import SpecifierSet

import explorer as ex
from assets import metadata_hook, release
from assets.documentation.build import SITE

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in (ROOT / ".github/workflows").iterdir()
}


@pytest.mark.spec("H-11", headline=True)
def test_the_newest_section_of_the_changelog_is_this_version() -> None:
    """Release from files that agree: the package, the citation and the changelog have one version, newest first."""
    sections = release.sections(ROOT)
    assert next(iter(sections)) == ex.__version__ == yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"]
    assert [
        date for _, (date, _) in itertools.islice(sections.items(), 1, None) if not re.fullmatch(r"[\d-]{10}", date)
    ] == []
    assert "### What is stable" in sections[ex.__version__][1]


def test_no_release_has_more_notes_than_a_user_reads() -> None:
    assert {version for version, (_, body) in release.sections(ROOT).items() if len(body.splitlines()) > 150} == set()


def test_units_run_on_every_supported_python_and_system() -> None:
    """The matrix contains each Python of the classifiers, and they are those that `requires-python` allows."""
    matrix = WORKFLOWS["test"]["jobs"]["units"]["strategy"]["matrix"]
    named = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", line)]
    assert matrix["python"] == named
    assert [named[0]] == [
        version for version in (f"3.{n}" for n in range(8, 12)) if version in SpecifierSet(PROJECT["requires-python"])
    ]
    assert {name.partition("-")[0] for name in matrix["os"]} == {"ubuntu", "macos", "windows"}


def test_the_oldest_dependencies_are_tested() -> None:
    (numpy,) = [need for need in PROJECT["dependencies"] if need.startswith("numpy")]
    oldest = re.search(r">=([\d.]+)", numpy)
    assert oldest
    steps = [step.get("run", "") for step in WORKFLOWS["test"]["jobs"]["oldest"]["steps"]]
    assert any(f'"numpy=={oldest[1]}.*"' in step for step in steps)


def test_only_the_publishing_job_can_publish_and_no_secret_is_stored() -> None:
    """PyPI trusts the job by its identity token; the token of the notes can only write to the repository."""
    jobs = WORKFLOWS["release"]["jobs"]
    assert [name for name, job in jobs.items() if job.get("permissions", {}).get("id-token") == "write"] == ["publish"]
    assert jobs["publish"]["environment"] == "pypi"
    for path in (ROOT / ".github/workflows").iterdir():
        assert "secrets." not in path.read_text(encoding="utf-8")
    for workflow in WORKFLOWS.values():
        assert workflow["permissions"] == {"contents": "read"}


@pytest.mark.spec("H-10")
def test_the_documentation_is_published_from_main_and_tags_only() -> None:
    """The job that builds the site uploads it, and only the job that publishes it may write to the pages."""
    flow = WORKFLOWS["docs"]
    assert flow[True] == {"push": {"branches": ["main"], "tags": ["v*"]}}  # YAML 1.1 reads the key "on" as true
    jobs = flow["jobs"]
    build, publish = jobs["build"]["steps"], jobs["publish"]
    (upload,) = [step["with"] for step in build if step.get("uses", "").startswith("actions/upload-pages-artifact@")]
    assert "make docs" in [step.get("run") for step in build]
    assert ROOT / upload["path"] == SITE
    assert publish["needs"] == "build"
    assert publish["environment"]["name"] == "github-pages"
    (step,) = publish["steps"]
    assert step["uses"].startswith("actions/deploy-pages@")
    assert f"steps.{step['id']}.outputs.page_url" in publish["environment"]["url"]
    assert {name: job.get("permissions") for name, job in jobs.items()} == {
        "build": None,
        "publish": {"pages": "write", "id-token": "write"},
    }


def test_scripts_and_targets_of_workflows_exist() -> None:
    steps = [
        step.get("run", "") for flow in WORKFLOWS.values() for job in flow["jobs"].values() for step in job["steps"]
    ]
    scripts = {name for step in steps for name in re.findall(r"\b(?:assets|tests)/[\w/.]+", step)}
    assert {"assets/check_wheel.py", "assets/release.py"} <= scripts
    assert not [name for name in scripts if not (ROOT / name).exists()]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = {name for step in steps for name in re.findall(r"\bmake (\w+)", step)}
    assert not [name for name in targets if f"\n{name}: " not in makefile]


@pytest.mark.parametrize("name", ["bug", "feature"])
def test_issue_forms_are_valid(name: str) -> None:
    form = yaml.safe_load((ROOT / f".github/ISSUE_TEMPLATE/{name}.yml").read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= form.keys()
    assert all(part["attributes"]["label"] for part in form["body"])
    assert len({part["id"] for part in form["body"]}) == len(form["body"])


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a repository with the files that a release changes."""
    for name in ("explorer/__init__.py", "CHANGELOG.md", "CITATION.cff"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    changelog = (tmp_path / "CHANGELOG.md").read_text(encoding="utf-8")
    (tmp_path / "CHANGELOG.md").write_text(changelog.replace("## [", "## [9.8.7] - Unreleased\n\n- New.\n\n## [", 1))
    for command in (
        ["init", "-q"],
        ["config", "user.email", "a@example.org"],
        ["config", "user.name", "A"],
        ["add", "."],
    ):
        release.git(tmp_path, *command)
    release.git(tmp_path, "commit", "-qm", "Start")
    return tmp_path


def test_a_release_is_one_commit_with_a_tag(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Version and date are written into all files, and `--check` and `--notes` accept them."""
    release.main(["9.8.7"], checkout)
    assert capsys.readouterr().out == "git push --atomic origin HEAD v9.8.7\n"
    assert release.git(checkout, "describe") == "v9.8.7"
    assert release.git(checkout, "show", "--stat", "--format=%s").splitlines()[0] == "Release 9.8.7"
    release.main(["--check", "v9.8.7"], checkout)
    release.main(["--notes", "v9.8.7"], checkout)
    assert capsys.readouterr().out == "- New.\n"
    with pytest.raises(SystemExit, match="already a tag"):
        release.main(["9.8.7"], checkout)


def test_a_release_that_does_not_agree_is_refused(checkout: Path) -> None:
    """A version that the changelog does not begin with, uncommitted changes, and a version that is none."""
    before = release.git(checkout, "rev-parse", "HEAD")
    with pytest.raises(SystemExit, match=r"must begin with ## \[9\.9\.9\]"):
        release.main(["9.9.9"], checkout)
    with pytest.raises(SystemExit, match=r"the release 9\.8\.7 must have one version and one date"):
        release.main(["--check", "v9.8.7"], checkout)
    with pytest.raises(SystemExit, match="give a version"):
        release.main(["next"], checkout)
    (checkout / "CITATION.cff").write_text("version: 1\n")
    with pytest.raises(SystemExit, match="commit your changes first"):
        release.main(["9.8.7"], checkout)
    assert release.git(checkout, "rev-parse", "HEAD") == before


@pytest.mark.spec("H-9")
def test_a_package_built_on_github_has_absolute_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyPI shows the README with links to pages and images of the tag; elsewhere, links are relative."""
    hook: Any = metadata_hook.Addresses(str(ROOT), {})
    monkeypatch.delenv("GITHUB_REPOSITORY", raising=False)
    here: dict[str, Any] = {}
    hook.update(here)
    assert here == {
        "readme": {"content-type": "text/markdown", "text": (ROOT / "README.md").read_text(encoding="utf-8")}
    }
    monkeypatch.setenv("GITHUB_REPOSITORY", "someone/explorer")
    monkeypatch.setenv("GITHUB_REF_NAME", "v1.2.3")
    there: dict[str, Any] = {}
    hook.update(there)
    page = there["readme"]["text"]
    targets = re.findall(r'\]\(([^)]+)\)|(?:src|srcset)="([^"]+)"', page)
    assert not [target for pair in targets for target in pair if target and not target.startswith("https://")]
    assert "https://github.com/someone/explorer/blob/v1.2.3/docs/install.md" in page
    assert "https://github.com/someone/explorer/raw/v1.2.3/assets/screenshots/explorer-dark.png" in page
    assert there["urls"]["Issues"] == "https://github.com/someone/explorer/issues"


def test_classifiers_are_known_to_pypi() -> None:
    """PyPI rejects an upload with an unknown classifier."""
    assert set(PROJECT["classifiers"]) <= trove_classifiers.classifiers

"""Commit and tag a release: ``python assets/release.py 0.2.0``.

The script writes the version and today's date into the package, CHANGELOG.md and CITATION.cff, commits them and adds
the tag v0.2.0. Nothing is pushed; it prints the command that pushes both, after which .github/workflows/release.yml
publishes the version. ``--check v0.2.0`` only checks that the files agree with a tag, and ``--notes v0.2.0`` prints
the version's part of the changelog.
"""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSION = r"\d+\.\d+\.\d+"


def git(root: Path, *arguments: str) -> str:
    """Return the output of a git command; exit with its message if it fails."""
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


def sections(root: Path) -> dict[str, tuple[str, str]]:
    """Return the date, or "Unreleased", and the body of each version in CHANGELOG.md, newest first."""
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    parts = re.split(rf"^## \[({VERSION})\] - (.+)$", changelog, flags=re.MULTILINE)[1:]
    return {
        version: (date, body.strip()) for version, date, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    }


def replaced(path: Path, pattern: str, by: str) -> None:
    """Replace the only match of a pattern in a file; exit with a message if there is none or more than one."""
    content, count = re.subn(pattern, by, path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    if count != 1:
        sys.exit(f"{path.name} has {count} lines like {pattern}; it must have one")
    path.write_text(content, encoding="utf-8")


def check(root: Path, version: str) -> None:
    """Exit with a message unless the package, the changelog and the citation have this version, with one date."""
    package = re.search(r'^__version__ = "(.+)"$', (root / "explorer/__init__.py").read_text("utf-8"), re.MULTILINE)
    cited = dict(
        re.findall(r"^(version|date-released): (.+)$", (root / "CITATION.cff").read_text("utf-8"), re.MULTILINE)
    )
    newest, (date, _) = next(iter(sections(root).items()))
    found = {
        "explorer/__init__.py": (package and package[1], date),
        "CHANGELOG.md": (newest, date),
        "CITATION.cff": (cited.get("version"), cited.get("date-released")),
    }
    wrong = [f"{file} has {state}" for file, state in found.items() if state != (version, date)]
    if wrong or not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        sys.exit(
            "\n".join([f"the release {version} must have one version and one date", *wrong, f"the date is {date}"])
        )


def release(root: Path, version: str) -> None:
    """Write the version and today's date, commit them, and add a tag."""
    if git(root, "status", "--porcelain"):
        sys.exit("commit your changes first: git status lists them")
    if f"v{version}" in git(root, "tag").split():
        sys.exit(f"there is already a tag v{version}; a release needs a new version")
    newest, (date, _) = next(iter(sections(root).items()))
    if (newest, date) != (version, "Unreleased"):
        sys.exit(f"CHANGELOG.md must begin with ## [{version}] - Unreleased; it begins with ## [{newest}] - {date}")
    today = datetime.date.today().isoformat()
    replaced(root / "CHANGELOG.md", rf"^## \[{re.escape(version)}\] - Unreleased$", f"## [{version}] - {today}")
    replaced(root / "explorer/__init__.py", r'^__version__ = ".+"$', f'__version__ = "{version}"')
    replaced(
        root / "CITATION.cff", r"^version: .+(\ndate-released: .+)?$", f"version: {version}\ndate-released: {today}"
    )
    check(root, version)
    git(root, "commit", "--all", "--message", f"Release {version}")
    git(root, "tag", "--annotate", f"v{version}", "--message", f"Explorer {version}")
    print(f"git push --atomic origin HEAD v{version}")


def main(arguments: list[str], root: Path = ROOT) -> None:
    """Release a version, or check it or print its notes."""
    version = arguments[-1].removeprefix("v") if arguments else ""
    if not re.fullmatch(VERSION, version) or len(arguments) > 2:
        sys.exit("give a version: python assets/release.py 0.2.0")
    match arguments[:-1]:
        case []:
            release(root, version)
        case ["--check"]:
            check(root, version)
        case ["--notes"]:
            print(sections(root)[version][1])
        case [other]:
            sys.exit(f"{other} is no option of release.py; there are --check and --notes")


if __name__ == "__main__":
    main(sys.argv[1:])

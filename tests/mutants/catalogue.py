"""Named mutants, with a file in named/ for each package, and a table of packages with their closest tests."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tests.mutants.bench import Mutant

PACKAGES: dict[str, tuple[str, ...]] = {
    "core": ("tests/core", "tests/laws", "tests/conformance"),
    "ops": ("tests/ops", "tests/laws", "tests/conformance"),
    "data": ("tests/data", "tests/conformance"),
    "gradients": ("tests/gradients", "tests/laws/test_gradients.py", "tests/conformance"),
    "plan": ("tests/plan", "tests/golden", "tests/laws", "tests/run"),
    "run": ("tests/run", "tests/golden", "tests/plan/passes/test_buffers.py", "tests/plan/test_values.py"),
    "net": ("tests/net", "tests/formats/test_explorer_json.py", "tests/formats/pnnx", "tests/cli/test_main.py"),
    "formats": ("tests/formats", "tests/net"),
    "layers": ("tests/layers", "tests/conformance"),
    "train": ("tests/train", "tests/net/test_workspace.py"),
    "record": ("tests/record", "tests/golden", "tests/view", "tests/cli/test_main.py"),
    "cli": ("tests/cli", "tests/cli/test_main.py"),
    "compilers": ("tests/compilers", "tests/laws/test_snapshots.py"),
    "testing": ("tests/testing",),
    "view": ("tests/view",),
}
"""package → its closest tests"""
CATALOGUE = Path(__file__).with_name("named")
"""folder of the named mutants, in ``<package>.toml``"""


def named() -> list[Mutant]:
    """Read the named mutants of all packages; those without explicit tests use their package's."""
    return [mutant for path in sorted(CATALOGUE.glob("*.toml")) for mutant in named_in(path)]


def named_in(path: Path) -> list[Mutant]:
    """Read the named mutants in one file."""
    written = tomllib.loads(path.read_text(encoding="utf-8"))
    return [
        Mutant(
            name,
            fields["file"],
            fields["old"],
            fields["new"],
            tuple(fields.get("tests", PACKAGES[package_of(fields["file"])])),
            fields.get("survives", ""),
        )
        for name, fields in written.items()
    ]


def package_of(file: str) -> str:
    """Return the package of a file in explorer/."""
    return file.split("/")[1].removesuffix(".py")

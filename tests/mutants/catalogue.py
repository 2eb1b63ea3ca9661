"""The named mutants: a file a package in named/, and a table of packages with the tests that stand nearest."""

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
    "testing": ("tests/testing",),
    "view": ("tests/view",),
}
"""package → the tests that stand nearest to it"""
CATALOGUE = Path(__file__).with_name("named")
"""the folder of the named mutants: ``<package>.toml``"""


def named() -> list[Mutant]:
    """Read the named mutants of all packages; those without tests of their own take their package's."""
    return [mutant for path in sorted(CATALOGUE.glob("*.toml")) for mutant in named_in(path)]


def named_in(path: Path) -> list[Mutant]:
    """Read the named mutants of one file."""
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
    """Return the package of a file of explorer/."""
    return file.split("/")[1].removesuffix(".py")

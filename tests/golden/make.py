"""Rewrite the golden recordings: ``python tests/golden/make.py``. Review the difference before committing it."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent))

from tests.golden.programs import PROGRAMS, recorded  # noqa: E402
from tests.golden.rows import as_text  # noqa: E402


def main() -> None:
    """Write one file for each program."""
    for name in PROGRAMS:
        recording = recorded(name)
        (HERE / f"{name}.json").write_text(as_text(recording), encoding="utf-8")
        sys.stdout.write(f"{name}: {len(recording.nodes)} nodes, {recording.end} decisions\n")


if __name__ == "__main__":
    main()

"""Write the golden recordings anew: ``python tests/golden/make.py``. Look at the difference before committing it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent))

from explorer.view.text import text  # noqa: E402
from tests.golden.programs import PROGRAMS, plain, recorded  # noqa: E402


def main() -> None:
    """Write one text and one JSON file for each program."""
    for name in PROGRAMS:
        recording = recorded(name)
        (HERE / f"{name}.txt").write_text(text(recording), encoding="utf-8")
        (HERE / f"{name}.json").write_text(as_text(recording), encoding="utf-8")
        sys.stdout.write(f"{name}: {len(recording.nodes)} nodes, {recording.end} decisions\n")


def as_text(recording: object) -> str:
    """The JSON, one line a table, so that differences can be read."""
    found = plain(recording)  # type: ignore[arg-type]
    rows = [f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in found.items()]
    return "{\n" + ",\n".join(rows) + "\n}\n"


if __name__ == "__main__":
    main()

"""Rewrite the golden recordings, and the published schema: ``python tests/golden/make.py``.

Review the difference before committing it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent))

from explorer.record import json_schema  # noqa: E402
from explorer.record.json_form import codec  # noqa: E402
from tests.golden.programs import PROGRAMS, recorded  # noqa: E402
from tests.golden.rows import as_text  # noqa: E402


def main() -> None:
    """Write one file for each program, and the schema of all."""
    schema = json.dumps(json_schema(), indent=1) + "\n"
    Path(codec.__file__).with_name("recording.schema.json").write_text(schema, encoding="utf-8")
    for name in PROGRAMS:
        recording = recorded(name)
        (HERE / f"{name}.json").write_text(as_text(recording), encoding="utf-8")
        sys.stdout.write(f"{name}: {len(recording.nodes)} nodes, {recording.end} decisions\n")


if __name__ == "__main__":
    main()

"""Write explorer/__init__.pyi, the public names for editors and mypy: ``python assets/public_names.py``."""

from __future__ import annotations

from pathlib import Path

import explorer

STUB = Path(explorer.__file__).with_suffix(".pyi")
_HEAD = '''\
"""Public names, written by assets/public_names.py; at run time, each is imported at its first use (__init__.py)."""

# The star import is all operations, and the order is that of the lists of names.
# ruff: noqa: F403, I001

'''


def stub() -> str:
    """Return the text of the stub, which imports each public name and the functions of all operations."""
    lines = [f"from explorer import {name} as {name}" for name in explorer._PACKAGES]
    for module, names in explorer._NAMES.items():
        lines += [f"from explorer.{module} import {name} as {name}" for name in names.split()]
    lines += ["from explorer.ops.catalogue.functions import *", "", "__version__: str", "__all__: list[str]"]
    return _HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")

"""Write the diagram of packages in CONTRIBUTING.md from their imports: ``python assets/rooms.py``.

The height of a package is one more than the greatest height among its imports. Its folders and imports follow.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "explorer"
GUIDE = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- packages: written by assets/rooms.py -->\n", "<!-- end of packages -->\n"


@cache
def imported(path: Path) -> set[str]:
    """Return the packages of explorer that a file imports, including imports under ``TYPE_CHECKING``."""
    return set(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "explorer":
            names = [f"explorer.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        else:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in names:
            if name.startswith("explorer."):
                yield name.split(".")[1]


def packages() -> dict[str, set[str]]:
    """Return a dict of packages and the packages that each imports."""
    found: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        if not name.startswith("__"):
            found.setdefault(name, set()).update(imported(path))
    return {name: {other for other in others if other in found} - {name} for name, others in found.items()}


def drawing() -> str:
    """Return the packages from the highest to the lowest, with their folders and imports."""
    imports = packages()
    height: dict[str, int] = {}
    while len(height) < len(imports):
        ready = {name for name in imports if name not in height and imports[name] <= height.keys()}
        if not ready:
            raise ValueError(f"packages import each other: {sorted(imports.keys() - height.keys())}")
        height.update({name: 1 + max([height[other] for other in imports[name]], default=-1) for name in ready})
    lines = []
    for name in sorted(imports, key=lambda name: (-height[name], name)):
        folder = SOURCE / name
        folders = sorted(path.parent.name for path in folder.glob("*/__init__.py"))
        below = ", ".join(sorted(imports[name], key=lambda other: (-height[other], other)))
        lines.append(f"{height[name]:2}  {name:8} {' · '.join(folders)}".rstrip())
        lines += [f"             ↓ {below}"] if below else []
    return "```text\n" + "\n".join(lines) + "\n```\n"


def drawn(text: str) -> str:
    """Return the guide with a current diagram."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + drawing() + END + rest.partition(END)[2]


if __name__ == "__main__":
    GUIDE.write_text(drawn(GUIDE.read_text(encoding="utf-8")), encoding="utf-8")

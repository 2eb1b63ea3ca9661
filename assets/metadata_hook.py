"""Metadata hook that adds the repository's addresses to a package built on GitHub.

GitHub states the repository and the tag in the environment. Elsewhere, the package has no addresses, because a checkout
does not state which public copy it comes from.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(
    r'(?<=\]\()(?!https?:|#|mailto:)([^)\s]+)(?=\))|(?<=src=")(?!https?:)([^"]+)|(?<=srcset=")(?!https?:)([^"]+)'
)


def repository(environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the repository's address and the tag or branch, or None outside of GitHub."""
    if "GITHUB_REPOSITORY" not in environment:
        return None
    server = environment.get("GITHUB_SERVER_URL", "https://github.com")
    return f"{server}/{environment['GITHUB_REPOSITORY']}", environment.get("GITHUB_REF_NAME", "main")


def urls(address: str, ref: str) -> dict[str, str]:
    """Return the project's addresses, as PyPI shows them next to the description."""
    return {
        "Homepage": address,
        "Documentation": f"{address}/blob/{ref}/docs/README.md",
        "Source": address,
        "Issues": f"{address}/issues",
        "Changelog": f"{address}/blob/{ref}/CHANGELOG.md",
    }


def absolute(readme: str, address: str, ref: str) -> str:
    """Return the README with absolute links to pages and images, since PyPI has no files next to it."""

    def target(match: re.Match[str]) -> str:
        path = next(part for part in match.groups() if part)
        kind = "raw" if path.endswith((".png", ".webp", ".svg")) else "blob"
        return f"{address}/{kind}/{ref}/{path}"

    return _LINK.sub(target, readme)


class Addresses(MetadataHookInterface):
    """Hook that hatchling calls when it builds the package from a checkout."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the README and the project's addresses."""
        readme = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        found = repository(os.environ)
        if found is not None:
            readme = absolute(readme, *found)
            metadata["urls"] = urls(*found)
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}

"""Build hook of the wheel: writes the JupyterLab extension into it, with the front end of this version.

The wheel switches Jupyter's server extension (server_extension.py) on, too, which opens models' files in JupyterLab.

JupyterLab loads extensions from files, so the wheel needs the front end joined and with a digest in its path, since
browsers keep such files. The sources stay the only copy: nothing of this is committed.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import shutil
import sys
import tempfile
import types
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "explorer-graphs"
SHARE = f"share/jupyter/labextensions/{NAME}"
SERVER = "etc/jupyter/jupyter_server_config.d/explorer-graphs.json"
ENABLED = {"ServerApp": {"jpserver_extensions": {"explorer.lab.server_extension": True}}}
"""server extensions that the wheel switches on"""


def front_end(package: Path) -> tuple[str, str]:
    """Return the front end's script and style sheet; the package itself is not imported, since it needs NumPy."""
    stand_in = types.ModuleType("explorer")
    stand_in.__path__ = [str(package)]
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "explorer"}
    for name in before:
        del sys.modules[name]
    sys.modules["explorer"] = stand_in
    try:
        bundle = importlib.import_module("explorer.view.payload.script_bundle")
        return bundle.script(), bundle.stylesheet()
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "explorer"]:
            del sys.modules[name]
        sys.modules.update(before)


def write(package: Path, target: Path, version: str) -> None:
    """Write the extension's files into a folder, anew."""
    shutil.rmtree(target, ignore_errors=True)
    static = target / "static"
    static.mkdir(parents=True)
    sources = package / "lab" / "extension"
    own = ("documents.js", "document_types.json", "documents.css")
    entry, *documents = [(sources / name).read_text(encoding="utf-8") for name in ("remote_entry.js", *own)]
    texts = [entry, *documents, *front_end(package)]
    digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
    names = (f"remoteEntry.{digest}.js", *own, "explorer.js", "explorer.css")
    for name, text in zip(names, texts, strict=True):
        folder = static / digest
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    build = {
        "load": f"static/{digest}/remoteEntry.{digest}.js",
        "extension": "./extension",
        "mimeExtension": "./mime",
    }
    described = {
        "name": NAME,
        "version": version,
        "description": "Shows views of Explorer in notebooks without a kernel",
        "license": "MIT",
        "jupyterlab": {"_build": build},
    }
    (target / "package.json").write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
    shutil.copy(package / "lab" / "extension" / "install.json", target)


class LabExtension(BuildHookInterface[Any]):
    """Hook that hatchling calls for every wheel, the editable ones among them."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the extension and name its files as data of the wheel."""
        self.folder = tempfile.mkdtemp()
        target = Path(self.folder) / "labextension"
        write(Path(self.root) / "explorer", target, self.metadata.version)
        for path in sorted(target.rglob("*")):
            if path.is_file():
                build_data["shared_data"][str(path)] = f"{SHARE}/{path.relative_to(target).as_posix()}"
        switch = Path(self.folder) / "server.json"
        switch.write_text(json.dumps(ENABLED, indent=2) + "\n", encoding="utf-8")
        build_data["shared_data"][str(switch)] = SERVER

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the files, which the wheel holds now."""
        shutil.rmtree(self.folder)

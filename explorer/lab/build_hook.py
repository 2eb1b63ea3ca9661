"""Build hook that adds the JupyterLab extension, including the front end, to the wheel.

The wheel also enables the Jupyter server extension (server_extension.py), which opens model files in JupyterLab. The
path of the front end contains a digest, because browsers cache such files. Generated files are not committed.
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
"""configuration that enables the server extension"""


def front_end(package: Path) -> tuple[str, str]:
    """Return the front end's script and style sheet, without importing the package, which requires NumPy."""
    placeholder = types.ModuleType("explorer")
    placeholder.__path__ = [str(package)]
    loaded = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "explorer"}
    for name in loaded:
        del sys.modules[name]
    sys.modules["explorer"] = placeholder
    try:
        bundle = importlib.import_module("explorer.view.payload.script_bundle")
        return bundle.script(), bundle.stylesheet()
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "explorer"]:
            del sys.modules[name]
        sys.modules.update(loaded)


def write(package: Path, target: Path, version: str) -> None:
    """Write the extension's files into a folder, replacing its contents."""
    shutil.rmtree(target, ignore_errors=True)
    static = target / "static"
    static.mkdir(parents=True)
    sources = package / "lab" / "extension"
    own = ("documents.js", "document_types.json", "documents.css")
    entry, *documents = [(sources / name).read_text(encoding="utf-8") for name in ("remote_entry.js", *own)]
    contents = [entry, *documents, *front_end(package)]
    digest = hashlib.sha256("\0".join(contents).encode()).hexdigest()[:16]
    names = (f"remoteEntry.{digest}.js", *own, "explorer.js", "explorer.css")
    for name, content in zip(names, contents, strict=True):
        folder = static / digest
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    build = {
        "load": f"static/{digest}/remoteEntry.{digest}.js",
        "extension": "./extension",
        "mimeExtension": "./mime",
    }
    manifest = {
        "name": NAME,
        "version": version,
        "description": "Shows views of Explorer in notebooks without a kernel",
        "license": "MIT",
        "jupyterlab": {"_build": build},
    }
    (target / "package.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    shutil.copy(package / "lab" / "extension" / "install.json", target)


class LabExtension(BuildHookInterface[Any]):
    """Hook that hatchling calls for every wheel, including editable ones."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the extension and add its files to the wheel's data."""
        self.folder = tempfile.mkdtemp()
        target = Path(self.folder) / "labextension"
        write(Path(self.root) / "explorer", target, self.metadata.version)
        for path in sorted(target.rglob("*")):
            if path.is_file():
                build_data["shared_data"][str(path)] = f"{SHARE}/{path.relative_to(target).as_posix()}"
        configuration = Path(self.folder) / "server.json"
        configuration.write_text(json.dumps(ENABLED, indent=2) + "\n", encoding="utf-8")
        build_data["shared_data"][str(configuration)] = SERVER

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the files that are now in the wheel."""
        shutil.rmtree(self.folder)

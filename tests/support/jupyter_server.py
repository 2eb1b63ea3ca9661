"""Jupyter server with the extension, for tests: no user settings, one folder, one token."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote

from onnx import TensorProto, helper

ROOT = Path(__file__).parents[2]
TOKEN = "a-token-of-these-tests"


@dataclass(frozen=True)
class Server:
    """A Jupyter server and the folder that it serves."""

    url: str
    root: Path

    def get(self, path: str, *, token: str = TOKEN, query: str = "", **headers: str) -> tuple[int, list[Any]]:
        """Return the status and the lines of a response; the path is sent unchanged."""
        request = urllib.request.Request(f"{self.url}/explorer/view/{path}{query}", headers=headers)
        if token:
            request.add_header("Authorization", f"token {token}")
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, [json.loads(line) for line in response.read().splitlines() if line]
        except HTTPError as error:
            with error:
                return error.code, [json.loads(error.read())]

    def answer(self, path: str, query: str = "") -> dict[str, Any]:
        """Return the last line of the response for a file in the folder."""
        status, lines = self.get(quote(path), query=query)
        assert status == 200, lines
        assert all(list(line) == ["progress"] for line in lines[:-1])
        result: dict[str, Any] = lines[-1]
        return result

    def ask(self, path: str) -> socket.socket:
        """Return a connection that requested a file, with small buffers, and has read nothing."""
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(60)
        client.connect(("127.0.0.1", int(self.url.rpartition(":")[2])))
        lines = (f"GET /explorer/view/{path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: token {TOKEN}", "", "")
        client.sendall("\r\n".join(lines).encode())
        return client

    def problem(self, path: str) -> dict[str, str]:
        """Return the problem that the server reports for a file in the folder."""
        result: dict[str, str] = self.answer(path)["problem"]
        assert set(result) == {"given", "rule", "fix"}
        return result


@contextmanager
def started(home: Path, root: Path, *options: str) -> Generator[Server]:
    """Run a server for a folder; ``home`` contains its settings and its log."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folders = {name: str(home / name) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")}
    environment = {**os.environ, **folders, "PYTHONPATH": str(ROOT), "JUPYTER_PLATFORM_DIRS": "1"}
    command = [sys.executable, "-m", "jupyter", "server", "--no-browser", "--allow-root", "--ip=127.0.0.1"]
    command += [f"--port={port}", "--ServerApp.port_retries=0", f"--ServerApp.root_dir={root}"]
    command += [
        f"--IdentityProvider.token={TOKEN}",
        "--ServerApp.jpserver_extensions=explorer.lab.server_extension=True",
        *options,
    ]
    log = home / "log.txt"
    with log.open("w") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
    try:
        _wait(f"http://127.0.0.1:{port}/api/status?token={TOKEN}", process, log)
        yield Server(f"http://127.0.0.1:{port}", root)
    finally:
        process.terminate()
        process.wait(20)


def large_view(path: Path, operators: int) -> None:
    """Write a model whose view has 8 kB for each operator, more than sockets buffer."""
    nodes = [helper.make_node("Relu", [f"v{k}"], [f"v{k + 1}"], name=f"{k}" + "n" * 4000) for k in range(operators)]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("v0", f"v{operators}"))
    path.write_bytes(helper.make_model(helper.make_graph(nodes, "wide", [x], [y])).SerializeToString())


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError:
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < end, log.read_text()[-3000:]
            time.sleep(0.1)

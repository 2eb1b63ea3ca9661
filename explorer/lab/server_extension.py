"""Jupyter server extension, which plans model files opened in JupyterLab and sends their views.

The Jupyter server imports this module whenever explorer is installed, so it imports no other part of the package. Each
file is read by a separate process (model_worker.py) with limited memory and time, so the server remains responsive.

Only files that Jupyter's file browser shows are served: below its folder after resolving symbolic links, not hidden
(unless hidden files are shown), and of a type in document_types.json. Requests from other sites are rejected.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_core.paths import is_hidden
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.serverapp import ServerApp
from jupyter_server.utils import ApiPath, to_os_path, url_path_join
from tornado import web
from tornado.iostream import StreamClosedError
from traitlets import Float, Int
from traitlets.config import LoggingConfigurable

WORKER = (sys.executable, "-P", "-m", "explorer.lab.model_worker")
"""command of the worker; -P prevents importing files from the server's folder as modules"""
TYPES = Path(__file__).parent / "extension" / "document_types.json"
"""file types that explorer opens in JupyterLab, which the extension's script reads too"""
EXTENSIONS = tuple(extension for kind in json.loads(TYPES.read_text("utf-8")) for extension in kind["extensions"])
_CHUNK = 1 << 16
_IDLE_SECONDS = 600.0
"""seconds for which an idle process waits for the next file; such a process has already imported the package"""
_EXIT_SECONDS = 5.0
"""time limit in seconds for a killed process to exit, and for a client to read the last line of a response"""

Problem = dict[str, str]
Send = Callable[[bytes], Awaitable[None]]


class RefusedFileError(Exception):
    """Error for a file that is not served, with the HTTP status of the response."""

    def __init__(self, status: int, given: str, rule: str, fix: str) -> None:
        super().__init__(given)
        self.status = status
        self.problem: Problem = {"given": given, "rule": rule, "fix": fix}


class ExplorerFiles(LoggingConfigurable):
    """Pool of processes that read model files."""

    deadline = Float(60.0, config=True, help="Time limit in seconds for reading and sending a model file.")
    at_once = Int(2, min=1, config=True, help="Maximum number of model files that are read at the same time.")
    memory = Int(
        4 << 30, min=1 << 28, config=True, help="Memory limit in bytes of a process that reads a file (Linux)."
    )

    def __init__(self, worker: Sequence[str] = WORKER, **options: Any) -> None:
        super().__init__(**options)
        self._worker = worker
        self._slots = asyncio.Semaphore(self.at_once)
        self._idle: Process | None = None
        self._is_preparing = False
        self._drop: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None

    async def read(self, request: dict[str, Any], send: Send) -> None:
        """Send the response to a request, or a problem if its process fails or takes too long.

        Raise TimeoutError if the client does not read the problem.
        """
        try:
            async with self._slots, asyncio.timeout(self.deadline):
                status = await self._forward({**request, "memory": self.memory}, send)
        except TimeoutError:
            problem = {
                "given": f"{request['path']!r} was not read and sent in {self.deadline:g} seconds",
                "rule": "a file must be read, and its view sent, within the server's deadline",
                "fix": f"jupyter lab --ExplorerFiles.deadline={10 * self.deadline:g}",
            }
        else:
            if status == 0:
                await self._prepare()
                return
            self.log.warning("explorer: the process that read %r exited with status %s", request["path"], status)
            problem = {
                "given": f"the process that read {request['path']!r} exited with status {status}",
                "rule": "the process must run until its response is complete, but it was killed, or memory ran out",
                "fix": "explorer show FILE in a terminal shows where it fails",
            }
        async with asyncio.timeout(_EXIT_SECONDS):
            # The first newline ends an incomplete line of the process.
            await send(b"\n" + json.dumps({"problem": problem}).encode() + b"\n")

    async def _forward(self, request: dict[str, Any], send: Send) -> int:
        """Send the output of a process; return its exit status."""
        process = self._take_idle()
        while True:
            is_fresh, is_sent = process is None, False
            process = process or await self._start()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                with suppress(ConnectionError):  # the process has exited
                    process.stdin.write(json.dumps(request).encode() + b"\n")
                    while chunk := await process.stdout.read(_CHUNK):
                        is_sent = True
                        await send(chunk)
                status = await process.wait()
            finally:
                await self._end(process)
            # If the idle process was killed while it waited, a new one reads the file.
            if status == 0 or is_fresh or is_sent:
                return status
            process = None

    def _take_idle(self) -> Process | None:
        """Return the idle process, which waits for a file, or None."""
        process, self._idle = self._idle, None
        if self._drop is not None:
            self._drop.cancel()
        if process is None or process.returncode is not None:
            return None
        if sys.platform != "win32":
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)  # it may have been stopped
        return process

    async def _prepare(self) -> None:
        """Start an idle process, which imports the package and waits for the next file."""
        if self._idle is not None or self._is_preparing:
            return
        # Set before the await, since otherwise each concurrent request would start a process.
        self._is_preparing = True
        try:
            self._idle = await self._start()
        finally:
            self._is_preparing = False
        self._drop = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self.close)

    async def _start(self) -> Process:
        # In a new session, so Ctrl-C in the server's terminal does not interrupt it.
        return await asyncio.create_subprocess_exec(*self._worker, stdin=PIPE, stdout=PIPE, start_new_session=True)

    def close(self) -> None:
        """Kill the idle process."""
        process, self._idle = self._idle, None
        if self._drop is not None:
            self._drop.cancel()
        if process is not None:
            self._closing = asyncio.ensure_future(self._end(process))

    async def closed(self) -> None:
        """Wait until the killed idle process has exited."""
        if self._closing is not None:
            await self._closing

    async def _end(self, process: Process) -> None:
        """Kill a process and wait a limited time for its exit."""
        if process.returncode is None:
            process.kill()
        try:
            # communicate() reads the remaining output, without which asyncio does not detect the exit.
            await asyncio.wait_for(process.communicate(), _EXIT_SECONDS)
        except TimeoutError:
            self.log.warning(
                "explorer: process %s did not exit within %g seconds after it was killed", process.pid, _EXIT_SECONDS
            )


def checked_path(path: str, root: str, *, hidden: bool) -> str:
    """Return the path of a served file, relative to the root; raise RefusedFileError for any other file."""
    base = Path(os.path.realpath(root))
    file = Path(os.path.normpath(to_os_path(ApiPath(path), str(base))))
    try:
        # A link may lead out of the folder, or to a hidden file in it.
        paths = (file, Path(os.path.realpath(file)))
        is_served = os.path.isfile(file) and all(each.is_relative_to(base) for each in paths)
        is_served = is_served and (hidden or not any(is_hidden(str(each), str(base)) for each in paths))
    except (OSError, ValueError):  # a name that no file can have
        is_served = False
    if not is_served:
        raise RefusedFileError(
            404,
            f"{path!r} is not a file that JupyterLab shows",
            "a file must be in JupyterLab's folder, also after resolving symbolic links, and must not be hidden",
            "move the file into that folder, or start JupyterLab in the file's folder",
        )
    if not file.name.lower().endswith(EXTENSIONS):
        raise RefusedFileError(
            404,
            f"{path!r} is not a model file that explorer opens in JupyterLab",
            f"the name must end with one of {', '.join(EXTENSIONS)}",
            "explorer show FILE in a terminal opens files of all formats",
        )
    return str(file.relative_to(base))


class ModelHandler(APIHandler):
    """Handler of ``GET /explorer/view/PATH``, with ``?node=ID`` for a leaf's value.

    The response consists of JSON lines, described in model_worker.py; the last line is the result.
    """

    auth_resource = "contents"

    def initialize(self, files: ExplorerFiles) -> None:
        """Set the pool of processes that read files."""
        self.files = files
        self._reading: asyncio.Task[None] | None = None

    @web.authenticated
    @authorized
    async def get(self, path: str) -> None:
        """Send the view of a file."""
        # Another site's page may send the user's cookies, but not this server's XSRF token or referrer.
        self.check_xsrf_cookie()
        try:
            request = self._request(path)
        except RefusedFileError as error:
            self.set_status(error.status)
            await self.finish(json.dumps({"problem": error.problem}))
            return
        self.set_header("Content-Type", "application/x-ndjson")
        self.set_header("Cache-Control", "no-store")
        self._reading = asyncio.ensure_future(self.files.read(request, self._send))
        try:
            await self._reading
        except (asyncio.CancelledError, StreamClosedError):
            return  # the user closed the tab
        except TimeoutError:
            self.detach().close()  # the client does not read
            return
        await self.finish(set_content_type="application/x-ndjson")

    def _request(self, path: str) -> dict[str, Any]:
        root = getattr(self.contents_manager, "root_dir", None)
        if not root or not os.path.isdir(root):
            raise RefusedFileError(
                501,
                f"{type(self.contents_manager).__name__} does not store files on this server's disk",
                "a model file must be on the disk of the Jupyter server",
                "explorer show FILE on the machine that has the file",
            )
        node = self.get_query_argument("node", None)
        if node is not None and not (node.isascii() and node.isdecimal() and len(node) < 12):
            raise RefusedFileError(400, f"the node {node!r}", "a node must be an integer id", "?node=0")
        name = checked_path(path, root, hidden=bool(self.contents_manager.allow_hidden))
        return {"root": os.path.realpath(root), "path": name, "node": None if node is None else int(node)}

    async def _send(self, chunk: bytes) -> None:
        self.write(chunk)
        await self.flush()

    def on_connection_close(self) -> None:
        """Stop reading if the user has closed the tab."""
        super().on_connection_close()
        if self._reading is not None:
            self._reading.cancel()


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "explorer.lab.server_extension"}]


def _load_jupyter_server_extension(server: ServerApp) -> None:
    files = ExplorerFiles(parent=server)
    route = url_path_join(server.web_app.settings["base_url"], "explorer/view", "(.*)")
    server.web_app.add_handlers(  # type: ignore[no-untyped-call]  # tornado declares no type
        ".*$", [(route, ModelHandler, {"files": files})]
    )

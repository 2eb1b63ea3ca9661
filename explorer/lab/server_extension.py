"""Extension of Jupyter's server: plans the model's file that was opened in JupyterLab, and sends its view.

Jupyter's server imports this module whenever explorer is installed. It therefore imports nothing else of the package: a
separate process reads each file (model_worker.py). That process is ended when reading and sending take longer than a
deadline, and its memory is limited. The server stays responsive whatever the file is and whatever its clients do.

Only files are served that Jupyter's own file browser shows, below its folder after all symbolic links and not hidden
unless it shows hidden files, and of them only those that the explorer's documents open (document_types.json). Only
pages of the server are answered.
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
"""-P: a file in the server's folder must not be imported in place of a module"""
TYPES = Path(__file__).parent / "extension" / "document_types.json"
"""types of the files that the explorer opens in JupyterLab; the extension's script reads them, too"""
ENDINGS = tuple(ending for kind in json.loads(TYPES.read_text("utf-8")) for ending in kind["extensions"])
_CHUNK = 1 << 16
_SPARE = 600.0
"""seconds for which a process waits for the next file, so that it opens without the time of an import"""
_END = 5.0
"""seconds that a killed process may take to end, and a client to read the last line of an answer"""

Problem = dict[str, str]
Send = Callable[[bytes], Awaitable[None]]


class RefusedFileError(Exception):
    """File that is not served, with the status of the answer."""

    def __init__(self, status: int, given: str, rule: str, fix: str) -> None:
        super().__init__(given)
        self.status = status
        self.problem: Problem = {"given": given, "rule": rule, "fix": fix}


class ExplorerFiles(LoggingConfigurable):
    """Processes that read models' files, a few at a time."""

    deadline = Float(60.0, config=True, help="Seconds after which reading and sending a model's file is ended.")
    at_once = Int(2, min=1, config=True, help="Models' files that are read at the same time, at most.")
    memory = Int(4 << 30, min=1 << 28, config=True, help="Bytes that a process that reads a file may use, on Linux.")

    def __init__(self, worker: Sequence[str] = WORKER, **options: Any) -> None:
        super().__init__(**options)
        self._worker = worker
        self._places = asyncio.Semaphore(self.at_once)
        self._spare: Process | None = None
        self._is_preparing = False
        self._drop: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None

    async def read(self, request: dict[str, Any], send: Send) -> None:
        """Send the lines of the answer to a request, or of a problem if its process fails or takes too long.

        Raises TimeoutError if the client does not read the problem, either.
        """
        try:
            async with self._places, asyncio.timeout(self.deadline):
                status = await self._pass_on({**request, "memory": self.memory}, send)
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
            self.log.warning("explorer: the process that read %r ended with status %s", request["path"], status)
            problem = {
                "given": f"the process that read {request['path']!r} ended with status {status}",
                "rule": "the process must live until its answer is whole: it was ended from outside, or memory ran out",
                "fix": "explorer show FILE in a terminal shows where",
            }
        async with asyncio.timeout(_END):
            # The first newline ends a line that the process began, so that the last line is the answer.
            await send(b"\n" + json.dumps({"problem": problem}).encode() + b"\n")

    async def _pass_on(self, request: dict[str, Any], send: Send) -> int:
        """Send the output of a process; return the status that it ended with."""
        process = self._waiting()
        while True:
            is_fresh, is_sent = process is None, False
            process = process or await self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                with suppress(ConnectionError):  # the process has ended
                    process.stdin.write(json.dumps(request).encode() + b"\n")
                    while chunk := await process.stdout.read(_CHUNK):
                        is_sent = True
                        await send(chunk)
                status = await process.wait()
            finally:
                await self._end(process)
            # One that was killed while it waited is no fault of the file.
            if status == 0 or is_fresh or is_sent:
                return status
            process = None

    def _waiting(self) -> Process | None:
        """Return the process that waits for a file, if there is one."""
        process, self._spare = self._spare, None
        if self._drop is not None:
            self._drop.cancel()
        if process is None or process.returncode is not None:
            return None
        if sys.platform != "win32":
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGCONT)  # someone may have stopped it
        return process

    async def _prepare(self) -> None:
        """Let a process import the package before the next file is opened."""
        if self._spare is not None or self._is_preparing:
            return
        # Noted before the wait: readings that end together would each start one, and all but the last would live on.
        self._is_preparing = True
        try:
            self._spare = await self._started()
        finally:
            self._is_preparing = False
        self._drop = asyncio.get_running_loop().call_later(_SPARE, self.close)

    async def _started(self) -> Process:
        # A new session: Ctrl-C in the server's terminal asks whether to stop, and must not end a reading.
        return await asyncio.create_subprocess_exec(*self._worker, stdin=PIPE, stdout=PIPE, start_new_session=True)

    def close(self) -> None:
        """Let the process that waits end."""
        process, self._spare = self._spare, None
        if self._drop is not None:
            self._drop.cancel()
        if process is not None:
            self._closing = asyncio.ensure_future(self._end(process))

    async def closed(self) -> None:
        """Wait until the process that waited has ended."""
        if self._closing is not None:
            await self._closing

    async def _end(self, process: Process) -> None:
        """Kill a process and wait until it has ended, for a limited time."""
        if process.returncode is None:
            process.kill()
        try:
            # communicate() also reads what is left: asyncio notes the end of a process only after that of its output.
            await asyncio.wait_for(process.communicate(), _END)
        except TimeoutError:
            self.log.warning("explorer: process %s did not end within %g seconds of its kill", process.pid, _END)


def located(path: str, root: str, *, hidden: bool) -> str:
    """Return the path of a served file, relative to the root; raises RefusedFileError for any other file."""
    base = Path(os.path.realpath(root))
    named = Path(os.path.normpath(to_os_path(ApiPath(path), str(base))))
    try:
        # A link may lead out of the folder, or to a hidden file in it.
        places = (named, Path(os.path.realpath(named)))
        is_served = os.path.isfile(named) and all(place.is_relative_to(base) for place in places)
        is_served = is_served and (hidden or not any(is_hidden(str(place), str(base)) for place in places))
    except (OSError, ValueError):  # a name that no file can have
        is_served = False
    if not is_served:
        raise RefusedFileError(
            404,
            f"{path!r} is no file that JupyterLab shows",
            "a file must lie in JupyterLab's folder, after all symbolic links too, and not be hidden",
            "move the file into that folder, or start JupyterLab in the file's folder",
        )
    if not named.name.lower().endswith(ENDINGS):
        raise RefusedFileError(
            404,
            f"{path!r} is no model's file that JupyterLab opens with the explorer",
            f"the name must end with one of {', '.join(ENDINGS)}",
            "explorer show FILE in a terminal opens files of all formats",
        )
    return str(named.relative_to(base))


class ModelHandler(APIHandler):
    """Handler of ``GET /explorer/view/PATH``, with ``?node=ID`` for a leaf's value.

    It answers with lines of JSON (explorer/lab/model_worker.py says which); the last line is the result.
    """

    auth_resource = "contents"

    def initialize(self, files: ExplorerFiles) -> None:
        """Take what reads files."""
        self.files = files
        self._reading: asyncio.Task[None] | None = None

    @web.authenticated
    @authorized
    async def get(self, path: str) -> None:
        """Send the view of a file."""
        # A page of another site may send the reader's cookies, but neither this server's XSRF token nor its referrer.
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
            return  # the tab was closed
        except TimeoutError:
            self.detach().close()  # the client reads nothing
            return
        await self.finish(set_content_type="application/x-ndjson")

    def _request(self, path: str) -> dict[str, Any]:
        root = getattr(self.contents_manager, "root_dir", None)
        if not root or not os.path.isdir(root):
            raise RefusedFileError(
                501,
                f"{type(self.contents_manager).__name__} keeps no files on this server's disk",
                "a model's file must be on the disk of Jupyter's server",
                "explorer show FILE, where the file is",
            )
        node = self.get_query_argument("node", None)
        if node is not None and not (node.isascii() and node.isdecimal() and len(node) < 12):
            raise RefusedFileError(400, f"the node {node!r}", "a node must be given by its number", "?node=0")
        name = located(path, root, hidden=bool(self.contents_manager.allow_hidden))
        return {"root": os.path.realpath(root), "path": name, "node": None if node is None else int(node)}

    async def _send(self, chunk: bytes) -> None:
        self.write(chunk)
        await self.flush()

    def on_connection_close(self) -> None:
        """End the reading for a tab that was closed."""
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

"""Extension of Jupyter's server: plans the model's file that was opened in JupyterLab, and sends its view.

Jupyter's server imports this module whenever explorer is installed. So it stands beside the package, whose import takes
time, and imports nothing of it: a file is read by a process of its own (explorer/lab/model_worker.py), which is ended
when it takes too long. The server stays responsive whatever the file is.

Only files are served that Jupyter's own file browser shows: below its folder after all symbolic links, and not hidden
unless it shows hidden files.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Sequence
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
_CHUNK = 1 << 16
_SPARE = 600.0
"""seconds for which a process waits for the next file, so that it opens without the time of an import"""

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

    deadline = Float(60.0, config=True, help="Seconds after which the reading of a model's file is ended.")
    at_once = Int(2, min=1, config=True, help="Models' files that are read at the same time, at most.")

    def __init__(self, worker: Sequence[str] = WORKER, **options: Any) -> None:
        super().__init__(**options)
        self._worker = worker
        self._places = asyncio.Semaphore(self.at_once)
        self._spare: Process | None = None
        self._is_preparing = False
        self._drop: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None

    async def read(self, request: dict[str, Any], send: Send) -> None:
        """Send the lines of the answer to a request, those of a problem if its process fails or takes too long."""
        async with self._places:
            process = await self._taken()
            try:
                problem = await self._pass_on(process, request, send)
            finally:
                await _end(process)
        if problem is not None:
            # A line that the process began is ended, so that the last line is the answer.
            await send(b"\n" + json.dumps({"problem": problem}).encode() + b"\n")
        else:
            await self._prepare()

    async def _pass_on(self, process: Process, request: dict[str, Any], send: Send) -> Problem | None:
        """Send the output of a process; return what went wrong."""
        assert process.stdin is not None
        assert process.stdout is not None
        clock = asyncio.get_running_loop().time
        left = self.deadline
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            while True:
                # What a slow connection takes is not the file's fault.
                start = clock()
                chunk = await asyncio.wait_for(process.stdout.read(_CHUNK), max(left, 0.0))
                left -= clock() - start
                if not chunk:
                    break
                await send(chunk)
            status = await asyncio.wait_for(process.wait(), max(left, 1.0))
        except TimeoutError:
            return {
                "given": f"{request['path']!r} was read for {self.deadline:g} seconds and was not done",
                "rule": "a file must be read within the server's deadline",
                "fix": f"jupyter lab --ExplorerFiles.deadline={10 * self.deadline:g}",
            }
        except (ConnectionError, asyncio.IncompleteReadError):
            status = await process.wait()
        if status == 0:
            return None
        self.log.warning("explorer: the process that read %r ended with status %s", request["path"], status)
        return {
            "given": f"the process that read {request['path']!r} ended with status {status}",
            "rule": "the process must live until its answer is whole: it was ended from outside, or memory ran out",
            "fix": "explorer show FILE in a terminal shows where",
        }

    async def _taken(self) -> Process:
        """Return the process that waits, or a new one."""
        process, self._spare = self._spare, None
        if self._drop is not None:
            self._drop.cancel()
        if process is not None and process.returncode is None:
            return process
        return await self._started()

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
        # A session of its own: Ctrl-C in the server's terminal asks whether to stop, and must not end a reading.
        return await asyncio.create_subprocess_exec(*self._worker, stdin=PIPE, stdout=PIPE, start_new_session=True)

    def close(self) -> None:
        """Let the process that waits end."""
        process, self._spare = self._spare, None
        if self._drop is not None:
            self._drop.cancel()
        if process is not None:
            self._closing = asyncio.ensure_future(_end(process))

    async def closed(self) -> None:
        """Wait until the process that waited has ended."""
        if self._closing is not None:
            await self._closing


async def _end(process: Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


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
    return [{"module": "explorer_jupyter"}]


def _load_jupyter_server_extension(server: ServerApp) -> None:
    files = ExplorerFiles(parent=server)
    route = url_path_join(server.web_app.settings["base_url"], "explorer/view", "(.*)")
    server.web_app.add_handlers(  # type: ignore[no-untyped-call]  # tornado declares no type
        ".*$", [(route, ModelHandler, {"files": files})]
    )

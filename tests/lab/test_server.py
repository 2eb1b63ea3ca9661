"""The Jupyter server extension on a separate server: what it serves, what it rejects, and fault tolerance."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Generator
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock
from urllib.error import HTTPError
from urllib.parse import quote

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine
from tornado.web import Application

import explorer as ex
from explorer.lab import model_worker
from explorer.lab.server_extension import EXTENSIONS, ExplorerFiles, ModelHandler
from explorer.record import to_json
from explorer.view.payload.view_payload import payload
from tests.support.jupyter_server import TOKEN, Server, large_view, started

ASSETS = Path(__file__).parents[2] / "assets"
UNOPENED = ("model.pt2", "MODEL.PT2", "model.pt", "model.zip", "model.onnx.pt2", "weights.txt", "model", "model.csv")
HOSTILE = '<img src=x onerror=alert(1)>"];evil[label="\u202e.onnx'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    """A Jupyter server whose folder has a model, a link to outside, and more."""
    home = tmp_path_factory.mktemp("jupyter")
    _fill(home / "models")
    with started(home, home / "models") as server:
        yield server


def _fill(root: Path) -> None:
    root.mkdir()
    for name in ("digits.onnx", "digits.pnnx.param", "digits.pnnx.bin"):
        shutil.copy(ASSETS / name, root)
    shutil.copy(ASSETS / "digits.pnnx.param", root / "alone.pnnx.param")
    (root.parent / "outside.onnx").write_bytes((ASSETS / "digits.onnx").read_bytes())
    (root / "link.onnx").symlink_to(root.parent / "outside.onnx")
    (root / "inside.onnx").symlink_to(root / "digits.onnx")
    (root / ".hidden.onnx").write_bytes((ASSETS / "digits.onnx").read_bytes())
    (root / "unhidden.onnx").symlink_to(root / ".hidden.onnx")
    (root / "folder.onnx").mkdir()
    for name in UNOPENED:
        (root / name).write_bytes((ASSETS / "digits.onnx").read_bytes())
    large_view(root / "large.onnx", 2500)
    (root / "damaged.onnx").write_bytes(b"\xff\x00not a model")
    (root / HOSTILE.replace("/", "_")).write_bytes(_model_of_hostile_names())
    recording = ex.explore(ex.tanh(ex.tensor(np.ones(3)))).recording
    (root / "plan.explorer.json").write_text(json.dumps(to_json(recording)))
    (root / "old.explorer.json").write_text('{"schema": 99, "stages": []}')


def _model_of_hostile_names() -> bytes:
    node = helper.make_node("Relu", ["x"], ["y"], name=HOSTILE)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    model = helper.make_model(helper.make_graph([node], HOSTILE, [x], [y]))
    onnx.checker.check_model(model)
    data: bytes = model.SerializeToString()
    return data


@pytest.mark.spec("V-17")
@pytest.mark.parametrize("name", ["digits.onnx", "digits.pnnx.param", "inside.onnx"])
def test_the_view_of_a_model_equals_the_view_of_its_plan(server: Server, name: str) -> None:
    """The server returns the view of a model's file, planned as in `explorer show`."""
    plan = ex.open(server.root / name).preview_plan()
    shown = server.answer(name)["payload"]
    assert len(shown["layout"].pop("turned")) > 0
    assert shown == json.loads(json.dumps(payload(plan.recording, position=0)))


@pytest.mark.spec("V-6", "V-17")
def test_a_weight_is_read_on_request(server: Server) -> None:
    """Its value comes from the file next to the graph, and a missing file is reported."""
    recording = ex.open(server.root / "digits.pnnx.param").preview_plan().recording
    labels = [recording.label(node) for node in range(len(recording.nodes))]
    weight = labels.index("conv2.weight")
    value = server.answer("digits.pnnx.param", f"?node={weight}")["value"]
    assert value["summary"]["std"] > 0
    lost = server.answer("alone.pnnx.param", f"?node={weight}")["value"]
    assert lost["summary"] is None
    assert "alone.pnnx.bin" in lost["problem"]
    assert server.answer("plan.explorer.json", "?node=0")["value"]["summary"] is None
    assert "changed" in server.answer("digits.onnx", "?node=99999")["value"]["problem"]


def test_a_recording_is_shown_unchanged(server: Server) -> None:
    stages = server.answer("plan.explorer.json")["payload"]["recording"]["stages"]
    assert [stage["name"] for stage in stages][-1] == "run"
    assert "schema" in server.problem("old.explorer.json")["given"]


@pytest.mark.parametrize("name", ["damaged.onnx", "old.explorer.json"])
def test_an_invalid_model_gives_a_problem_with_its_rule(server: Server, name: str) -> None:
    """The response for a damaged file has the given value, the rule, and the fix."""
    result = server.problem(name)
    assert name in result["given"]
    assert result["rule"]
    assert str(server.root) not in json.dumps(result)


def test_hostile_names_are_data(server: Server) -> None:
    """File names and names in files are sent as JSON, with visible bidi control characters."""
    shown = server.answer(HOSTILE)["payload"]
    assert "\u202e" not in json.dumps(shown, ensure_ascii=False)
    assert "<img src=x" in json.dumps(shown)


@pytest.mark.spec("V-17")
@pytest.mark.parametrize(
    "path",
    [
        "../outside.onnx",
        "..%2foutside.onnx",
        "%2e%2e/outside.onnx",
        "folder.onnx/../../outside.onnx",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "link.onnx",
        ".hidden.onnx",
        "unhidden.onnx",
        "folder.onnx",
        "absent.onnx",
        "digits.onnx%00.txt",
        "a" * 5000,
        "",
    ],
)
def test_only_files_visible_in_the_file_browser_are_served(server: Server, path: str) -> None:
    """Paths and links to outside the folder, and hidden files and folders, are rejected equally."""
    status, (answer,) = server.get(path)
    assert status in (403, 404)
    if "problem" in answer:
        assert "JupyterLab's folder" in answer["problem"]["rule"]
    assert "payload" not in answer


def test_requests_without_the_token_are_rejected(server: Server) -> None:
    """Test no token, a wrong one, and a page of another site."""
    assert server.get("digits.onnx", token="")[0] == 403
    assert server.get("digits.onnx", token="wrong")[0] == 403
    assert server.get("digits.onnx", token="", Origin="https://example.org")[0] in (403, 404)


@pytest.mark.parametrize("name", UNOPENED)
def test_only_supported_extensions_are_read(server: Server, name: str) -> None:
    """Other files are rejected before a process reads them: a .pt2 never reaches torch's unpickler."""
    status, (answer,) = server.get(quote(name))
    assert status == 404
    assert ".onnx" in answer["problem"]["rule"]
    assert "explorer show" in answer["problem"]["fix"]
    assert {".pt2", ".pt"}.isdisjoint(EXTENSIONS)


def test_requests_from_other_sites_are_rejected(server: Server) -> None:
    """With the user's cookies, a request also needs the server's XSRF token or referrer."""
    jar = CookieJar()
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    browser.open(f"{server.url}/login?token={TOKEN}", timeout=30).close()
    (token,) = [cookie.value for cookie in jar if cookie.name == "_xsrf"]

    def status(**headers: str) -> int:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            with browser.open(urllib.request.Request(f"{server.url}/explorer/view/digits.onnx", headers=names)) as got:
                return int(got.status)
        except HTTPError as error:
            with error:
                return error.code

    assert status(Referer=f"{server.url}/lab") == status(X_XSRFToken=token or "") == 200
    for headers in (
        {}, {"Referer": "http://evil.example/", "Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"}, {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Referer": "null"},
        {"Referer": f"{server.url}.evil.example/"}, {"Referer": "http://localhost:1/"}, {"X_XSRFToken": "wrong"},
        {"Referer": f"http://evil.example/{server.url}"}, {"Referer": server.url.replace("http:", "")[2:] + "@evil"},
    ):  # fmt: skip
        assert status(**headers) in (403, 404), headers


def test_the_server_opens_files_after_clients_disconnect_from_large_views(server: Server) -> None:
    """Tabs closed while their view is sent release their slots."""
    for _ in range(3):
        client = server.ask("large.onnx")
        received = 0
        while received < 300_000:
            received += len(client.recv(1 << 14))
        client.close()
    assert "payload" in server.answer("digits.onnx")


@pytest.mark.parametrize(("begin", "item", "end"), [('{"stages":[', "{},", "{}]}"), ("[", "[],", "[]]")])
def test_a_file_that_needs_too_much_memory_is_a_problem(tmp_path: Path, begin: str, item: str, end: str) -> None:
    """A file's process has a memory limit, and the problem contains how to raise it."""
    (tmp_path / "lists.json").write_text(begin + item * 10_000_000 + end)
    request = {"root": str(tmp_path), "path": "lists.json", "node": None}
    ((line,),) = read(ExplorerFiles(memory=1 << 29), request)
    assert line["problem"]["given"] == "reading the file takes more than 512 MB"
    assert line["problem"]["fix"] == "jupyter lab --ExplorerFiles.memory=2147483648"


def test_nothing_can_be_written(server: Server) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        request = urllib.request.Request(
            f"{server.url}/explorer/view/digits.onnx",
            data=b"{}",
            method=method,
            headers={"Authorization": f"token {TOKEN}"},
        )
        with pytest.raises(HTTPError) as refused:
            urllib.request.urlopen(request, timeout=10)
        assert refused.value.code in (403, 405)
        refused.value.close()


def test_a_node_is_a_number(server: Server) -> None:
    for query in ("?node=x", "?node=-1", "?node=%D9%A1"):
        status, (answer,) = server.get("digits.onnx", query=query)
        assert status == 400
        assert "integer" in answer["problem"]["rule"]


def read(files: ExplorerFiles, *requests: dict[str, Any]) -> list[list[Any]]:
    """Process requests for files concurrently, and return their response lines."""

    async def run() -> list[list[Any]]:
        async def one(request: dict[str, Any]) -> list[Any]:
            parts: list[bytes] = []

            async def send(chunk: bytes) -> None:
                parts.append(chunk)

            await files.read(request, send)
            return [json.loads(line) for line in b"".join(parts).splitlines() if line.endswith(b"}")]

        try:
            return await asyncio.gather(*map(one, requests))
        finally:
            files.close()
            await files.closed()

    return asyncio.run(run())


def worker(code: str) -> list[str]:
    return [sys.executable, "-c", code]


REQUEST = {"root": str(ASSETS), "path": "digits.onnx", "node": None}


@pytest.mark.spec("V-17")
def test_reading_a_file_too_long_is_terminated(tmp_path: Path) -> None:
    """After the deadline the process has ended, and the response contains how to extend it."""
    note = tmp_path / "pid"
    code = (
        f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); print('{{', flush=True); time.sleep(600)"
    )
    files = ExplorerFiles(worker=worker(code), deadline=2.0)
    ((line,),) = read(files, REQUEST)
    assert line["problem"]["fix"] == "jupyter lab --ExplorerFiles.deadline=20"
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


@pytest.mark.parametrize("code", ["import os; os.abort()", "raise SystemExit(3)", "import sys; sys.stdin.close(); 1/0"])
def test_a_process_that_crashes_is_a_problem(code: str, capfd: pytest.CaptureFixture[str]) -> None:
    ((line,),) = read(ExplorerFiles(worker=worker(code)), REQUEST)
    assert "exited with status" in line["problem"]["given"]


ENDLESS = "import os, sys; sys.stdin.readline()\nwhile 1: os.write(1, bytes(65536))"


def test_clients_that_disconnect_or_do_not_read_release_their_slot() -> None:
    """A disconnected client releases it immediately, and one that does not read at the deadline."""

    async def run() -> bytes:
        files = ExplorerFiles(worker=worker(ENDLESS), deadline=60.0)
        stuck = lambda _: asyncio.Event().wait()  # noqa: E731
        for _ in range(4):  # twice the number of slots
            leaving = [asyncio.ensure_future(files.read(REQUEST, stuck)) for _ in range(2)]
            await asyncio.sleep(0.2)
            for reading in leaving:
                reading.cancel()
            await asyncio.wait_for(asyncio.wait(leaving), 10)
        files.deadline = 1.0
        slow = [asyncio.ensure_future(files.read(REQUEST, stuck)) for _ in range(2)]
        await asyncio.sleep(0.1)
        files._worker, parts = worker("print('{}')"), []

        async def send(chunk: bytes) -> None:
            parts.append(chunk)

        await asyncio.wait_for(files.read(REQUEST, send), 10)
        files.close()
        await files.closed()
        for each in await asyncio.gather(*slow, return_exceptions=True):
            assert isinstance(each, TimeoutError)
        return b"".join(parts)

    assert asyncio.run(run()) == b"{}\n"


@pytest.mark.parametrize("sign", ["SIGKILL", "SIGSTOP", "SIGTERM"])
def test_an_idle_process_that_was_killed_or_stopped_loses_no_request(sign: str) -> None:
    async def run() -> list[bytes]:
        files, parts = ExplorerFiles(worker=worker("import sys; sys.stdin.readline(); print('{}')"), deadline=20.0), []

        async def send(chunk: bytes) -> None:
            parts.append(chunk)

        for _ in range(3):
            await files.read(REQUEST, send)
            assert files._idle is not None
            files._idle.send_signal(getattr(signal, sign))
        await files.read(REQUEST, send)
        files.close()
        await files.closed()
        return parts

    assert b"".join(asyncio.run(run())).split() == [b"{}"] * 4


def test_the_number_of_concurrent_readers_is_limited(tmp_path: Path) -> None:
    """Many open tabs use only a few processes."""
    code = (
        "import os, sys, time; sys.stdin.readline(); folder = sys.argv[1];"
        "own = os.path.join(folder, str(os.getpid())); open(own, 'w').close(); time.sleep(0.2);"
        "print(len(os.listdir(folder)), flush=True); os.remove(own)"
    )
    files = ExplorerFiles(worker=[*worker(code), str(tmp_path)], at_once=2)

    async def answer() -> int:
        chunks: list[bytes] = []

        async def send(chunk: bytes) -> None:
            chunks.append(chunk)

        await files.read(REQUEST, send)
        return int(b"".join(chunks))

    async def run() -> list[int]:
        counts = await asyncio.gather(*(answer() for _ in range(5)))
        files.close()
        await files.closed()
        return counts

    assert max(asyncio.run(run())) <= 2


def test_requests_that_end_together_start_one_idle_process() -> None:
    """Otherwise both would start one, and the second would run until the server ends."""
    started: list[asyncio.subprocess.Process] = []

    class Files(ExplorerFiles):
        async def _start(self) -> asyncio.subprocess.Process:
            await asyncio.sleep(0.3)  # both requests have ended by then
            started.append(await super()._start())
            return started[-1]

    async def run() -> None:
        files = Files(worker=worker("import sys; sys.stdin.readline()"), at_once=2)
        await asyncio.gather(*(files.read(REQUEST, AsyncMock()) for _ in range(2)))
        files.close()
        await files.closed()

    asyncio.run(run())
    assert len(started) == 3
    assert all(process.returncode is not None for process in started)


@pytest.mark.spec("V-17")
def test_a_closed_tab_ends_its_request(tmp_path: Path) -> None:
    """The process of an abandoned request is terminated."""
    note = tmp_path / "pid"
    code = (
        f"import os, time; open({str(note)!r} + '~', 'w').write(str(os.getpid()));"
        f"os.rename({str(note)!r} + '~', {str(note)!r}); time.sleep(600)"
    )

    async def run() -> None:
        files = ExplorerFiles(worker=worker(code))
        request = HTTPServerRequest(
            start_line=RequestStartLine("GET", "/explorer/view/a", "HTTP/1.1"),
            headers=HTTPHeaders({"Host": "localhost"}),
            connection=Mock(),
        )
        handler = ModelHandler(Application(), request, files=files)

        async def send(chunk: bytes) -> None:
            raise AssertionError(chunk)

        handler._reading = asyncio.ensure_future(files.read(REQUEST, send))
        while not note.exists():
            await asyncio.sleep(0.01)
        handler.on_connection_close()
        with pytest.raises(asyncio.CancelledError):
            await handler._reading

    asyncio.run(run())
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.read_text()), 0)


@pytest.mark.spec("V-17", "V-20")
def test_a_long_request_reports_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress precedes the view only for a file that takes long."""
    request = {**REQUEST, "root": str(ASSETS)}
    monkeypatch.chdir(ASSETS)
    for patience, has_progress in ((0.0, True), (600.0, False)):
        monkeypatch.setattr(model_worker, "_PROGRESS_DELAY", patience)
        lines: list[dict[str, Any]] = []
        model_worker.respond(request, lines.append)
        assert list(lines[-1]) == ["payload"]
        phases = {line["progress"]["phase"] for line in lines[:-1]}
        assert bool(phases) is has_progress
        assert phases <= {"reading", "building", "planning"}


def test_a_defect_of_a_reader_is_a_problem_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unforeseen exception is reported in one line, so that every request gets a response."""

    def fail(path: Path) -> Any:
        raise ZeroDivisionError("by \x1b[31m zero")

    monkeypatch.setattr(model_worker, "open", fail)
    monkeypatch.chdir(ASSETS)
    lines: list[dict[str, Any]] = []
    model_worker.respond(REQUEST, lines.append)
    (line,) = lines
    assert "ZeroDivisionError: by \\x1b[31m zero" in line["problem"]["given"]
    assert "defect in explorer" in line["problem"]["rule"]


def test_the_server_does_not_import_the_package() -> None:
    """Jupyter's server loads the extension quickly, since importing the package takes time."""
    code = "import explorer.lab.server_extension, sys; assert not {'explorer.core', 'numpy'} & {*sys.modules}"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_worker_ends_with_its_server() -> None:
    """An idle or reading process ends when its standard input is closed, as after the server is killed."""
    command = [sys.executable, "-P", "-m", "explorer.lab.model_worker"]
    done = subprocess.run(command, input=b"", capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, b"")

"""The JupyterLab server extension with clients that disconnect, do not read, or request forbidden files."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Generator
from pathlib import Path

import psutil
import pytest

from tests.soak.fuzz.cases import FORMATS, case
from tests.support.jupyter_server import Server, large_view, started

pytestmark = pytest.mark.soak

ASSETS = Path(__file__).parents[2] / "assets"
DEADLINE = 10
"""seconds within which the server must end a request"""
MODEL = (ASSETS / "digits.onnx").read_bytes()
OUTSIDE = (
    "out.onnx",
    ".hidden.onnx",
    "link.onnx",
    "pipe.onnx",
    "folder.onnx",
    "zero.onnx",
    "x.pt2",
    "self.onnx",
    "../up.onnx",
)
FORMS = (
    "{}", "/{}", "//{}", "./{}", "%2e/{}", "%2e%2e/{}", "a/../../{}", "..%2f{}", "%252e%252e/{}", "..%5c{}", "{}%00",
    "{}%00.onnx", "{}/", "{}#x", "%ff{}",
)  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    home = tmp_path_factory.mktemp("doors")
    root = home / "models"
    (root / "folder.onnx").mkdir(parents=True)
    large_view(root / "large.onnx", 2500)
    for path in ("good.onnx", ".hidden.onnx", "x.pt2", "../out.onnx", "../up.onnx"):
        (root / path).write_bytes(MODEL)
    for name, target in (("link", "../out.onnx"), ("zero", "/dev/zero"), ("self", "self.onnx")):
        (root / f"{name}.onnx").symlink_to(target)
    os.mkfifo(root / "pipe.onnx")
    with started(home, root, f"--ExplorerFiles.deadline={DEADLINE}") as opened:
        yield opened


def assert_answers(server: Server, seconds: float) -> None:
    """Assert that another user's file is answered in time, and that only the idle process remains."""
    begin = time.monotonic()
    assert "payload" in server.answer("good.onnx")
    assert time.monotonic() - begin < seconds
    time.sleep(1)
    servers = [each for each in psutil.Process().children() if "jupyter" in " ".join(each.cmdline())]
    workers = [child for each in servers for child in each.children(recursive=True)]
    assert len([child for child in workers if child.status() != psutil.STATUS_ZOMBIE]) <= 1


def test_the_server_responds_after_20_clients_disconnect_from_a_large_view(server: Server) -> None:
    """Clients read a part of a large view and disconnect, one after the other and all at once."""
    for wait in (0.0, 0.5) * 10:
        client = server.ask("large.onnx")
        received = 0
        while received < 300_000:
            received += len(client.recv(1 << 14))
        time.sleep(wait)
        client.close()
    for client in [server.ask("large.onnx") for _ in range(6)]:
        client.close()
    assert_answers(server, DEADLINE)


def test_the_server_responds_while_clients_do_not_read(server: Server) -> None:
    """Each client that stays connected without reading occupies a slot until the deadline."""
    clients = [server.ask("large.onnx") for _ in range(4)]
    time.sleep(2)
    assert_answers(server, 3 * DEADLINE)
    for client in clients:
        client.close()


def test_the_server_rejects_paths_outside_its_folder(server: Server) -> None:
    """Request every spelling of such paths with and without the token: nothing is read."""
    for path, form, token in itertools.product(OUTSIDE, FORMS, (None, "", "wrong")):
        begin = time.monotonic()
        status, (answer,) = server.get(form.format(path), **({} if token is None else {"token": token}))
        assert status in (400, 403, 404), (form, path)
        assert "payload" not in answer
        assert time.monotonic() - begin < 2
    assert_answers(server, DEADLINE)


def test_the_server_responds_after_damaged_files(server: Server) -> None:
    """Each damaged model or recording from the fuzzer gives an answer or a problem."""
    for number, (name, extension) in itertools.product(
        range(500, 510), (("onnx", ".onnx"), ("recordings", ".explorer.json"))
    ):
        data = case(name, 11, number).files[FORMATS[name].main]
        (server.root / f"case{extension}").write_bytes(data or b"")
        answer = server.answer(f"case{extension}")
        assert answer.keys() in ({"payload"}, {"problem"})
        assert "fault of explorer" not in answer.get("problem", {}).get("rule", "")
    assert_answers(server, DEADLINE)

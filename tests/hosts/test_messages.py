"""VS Code and Colab, which cannot run here: a kernel gets their messages, and a page has its own widget manager.

VS Code names each cell in the metadata of a request, and marks its theme in the page's classes. Colab does not name
cells, and an output needs the URL of a widget manager, which anywidget gets from `google.colab` (replaced here).
"""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import pytest
from jupyter_client import BlockingKernelClient, KernelManager
from playwright.sync_api import Locator, Page, expect

from tests.hosts.conftest import CELL, SECONDS, Host

pytestmark = pytest.mark.hosts

WIDGET = "application/vnd.jupyter.widget-view+json"
VS_CODE = {"cellId": "vscode-notebook-cell:/home/reader/book.ipynb#W0sZmlsZQ%3D%3D"}
URL = "https://ssl.gstatic.com/colaboratory-static/widgets/colab-cdn-widget-manager/manager.min.js"
COLAB = f"""
import sys, types
output = types.ModuleType("google.colab.output")
output._widgets = types.SimpleNamespace(_installed_url="")
output.enable_custom_widget_manager = lambda: vars(output._widgets).update(_installed_url="{URL}")
sys.modules["google.colab.output"] = output
"""
MANAGER = """
const models = new Map();
/** A model as the anywidget front-end specification describes it, and no more. */
function model(id, state) {
    if (models.has(id)) return models.get(id);
    const listeners = [], changed = {};
    const tell = (event, ...values) => {
        for (const [heard, act] of [...listeners]) if (heard === event) act(...values);
    };
    const made = {
        get: (name) => state[name],
        set: (name, value) => { changed[name] = state[name] = value; tell(`change:${name}`); },
        save_changes: () => {
            window.send(id, { method: "update", state: { ...changed }, buffer_paths: [] });
            for (const name of Object.keys(changed)) delete changed[name];
        },
        send: (content) => window.send(id, { method: "custom", content }),
        on: (event, act) => listeners.push([event, act]),
        off: (event, act) => listeners.splice(listeners.findIndex((each) => each[0] === event && each[1] === act), 1),
        widget_manager: { get_model: async (id) => models.get(id) },
        take: ({ method, state: news, content }) => {
            if (method === "custom") return tell("msg:custom", content);
            Object.assign(state, news);
            for (const name of Object.keys(news ?? {})) tell(`change:${name}`);
        },
    };
    models.set(id, made);
    return made;
}
window.take = (id, data) => models.get(id)?.take(data);
window.show = async (states, shown) => {
    for (const [id, state] of Object.entries(states)) model(id, state);
    const url = URL.createObjectURL(new Blob([states[shown]._esm], { type: "text/javascript" }));
    const { default: widget } = await import(url);
    await widget.initialize({ model: models.get(shown) });
    await widget.render({ model: models.get(shown), el: document.body });
};
"""


@dataclass
class Kernel:
    """A kernel, and the messages about models and outputs that it has sent."""

    client: BlockingKernelClient
    opened: list[dict[str, Any]] = field(default_factory=list)
    changes: list[dict[str, Any]] = field(default_factory=list)

    def execute(self, code: str, metadata: dict[str, str]) -> dict[str, Any]:
        """Run a cell of a reader, and return the content of its result."""
        request = self.client.session.msg("execute_request", _request(code), metadata=metadata)
        self.client.shell_channel.send(request)
        result: dict[str, Any] = {}
        while True:
            message = self.client.get_iopub_msg(timeout=SECONDS)
            kind, content = message["msg_type"], message["content"]
            assert kind != "error", "\n".join(content["traceback"])
            if kind == "comm_open":
                self.opened.append(message)
            elif kind == "comm_msg":
                self.changes.append(content)
            elif kind == "execute_result":
                result = content
            elif kind == "status" and content["execution_state"] == "idle" and _answers(message, request):
                return result

    def send(self, model: str, data: dict[str, Any]) -> None:
        """Send a page's message to a model."""
        message = self.client.session.msg("comm_msg", {"comm_id": model, "data": data})
        self.client.shell_channel.send(message)


def _answers(message: dict[str, Any], request: dict[str, Any]) -> bool:
    return bool(message["parent_header"].get("msg_id") == request["header"]["msg_id"])


def _request(code: str) -> dict[str, Any]:
    return {
        "code": code,
        "silent": False,
        "store_history": True,
        "user_expressions": {},
        "allow_stdin": True,
        "stop_on_error": False,
    }


@pytest.fixture
def kernel(host: Host) -> Generator[Kernel]:
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd=str(host.folder), env=host.environment())
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=SECONDS)
    yield Kernel(client)
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def shown(host: Host, kernel: Kernel, model: str, page: Page) -> Locator:
    """Show a model in a page with a widget manager, and connect it with the kernel."""
    states = {each["content"]["comm_id"]: each["content"]["data"]["state"] for each in kernel.opened}
    page.expose_function("send", kernel.send)
    page.add_script_tag(content=MANAGER)
    page.evaluate("([states, shown]) => window.show(states, shown)", [json.loads(json.dumps(states)), model])
    return page.locator(".explorer-view")


@pytest.mark.spec("H-1", "V-16")
@pytest.mark.parametrize(("name", "metadata", "start"), [("vscode", VS_CODE, ""), ("colab", {}, COLAB)])
def test_a_view_follows_the_messages_of_vs_code_and_colab(
    host: Host, kernel: Kernel, name: str, metadata: dict[str, str], start: str
) -> None:
    """Send a view as VS Code and Colab expect it: models before their view, the picture, and Colab's widget manager."""
    kernel.execute(start, metadata)
    result = kernel.execute(host.observed(CELL), metadata)
    assert {"text/html", "image/svg+xml", "text/plain", WIDGET} <= result["data"].keys()
    model = result["data"][WIDGET]["model_id"]
    ids = [message["content"]["comm_id"] for message in kernel.opened]
    view = kernel.opened[ids.index(model)]
    assert view["content"]["target_name"] == "jupyter.widget"
    assert view["metadata"]["version"].split(".")[0] == "2"
    references = [value for value in view["content"]["data"]["state"].values() if str(value).startswith("IPY_MODEL_")]
    assert references
    assert all(ids.index(each.removeprefix("IPY_MODEL_")) < ids.index(model) for each in references)
    colab = result["metadata"].get(WIDGET, {}).get("colab")
    assert colab == ({"custom_widget_manager": {"url": URL}} if start else None)

    page = host.open("about:blank")
    page.evaluate("name => { if (name === 'vscode') document.body.classList.add('vscode-dark'); }", name)
    drawn = shown(host, kernel, model, page)
    host.check(drawn, name)
    expect(drawn).to_have_attribute("data-theme", "dark" if name == "vscode" else "light")
    kernel.changes.clear()
    # Another cell, since a cell that runs again closes its views.
    kernel.execute("view.stage = 'fuse'", {key: f"{value}#2" for key, value in metadata.items()})
    for change in kernel.changes:
        page.evaluate("([id, data]) => window.take(id, data)", [change["comm_id"], change["data"]])
    expect(drawn.locator(".ex-rail [aria-current]")).to_contain_text("fuse")

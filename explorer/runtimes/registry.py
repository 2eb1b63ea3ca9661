"""Registry of runtimes. A runtime's package is imported when a net is first run with it."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TypeVar

from explorer.core.errors import ExplorerError, OperandError, StateError
from explorer.core.late import late
from explorer.core.registry import Registry
from explorer.runtimes.contract import Runtime

_Result = TypeVar("_Result")


def _own(name: str, package: str, extra: str, extension: str, module: str) -> Runtime:
    install = f"pip install 'explorer-graphs[{extra}]'" if extra else f"pip install {package}"
    return Runtime(name, package, install, extension, late(f"explorer.runtimes.{module}:open_file"))


RUNTIMES: Registry[str, Runtime] = Registry(
    "runtime",
    {
        runtime.name: runtime
        for runtime in (
            _own("onnxruntime", "onnxruntime", "onnxruntime", ".onnx", "onnx_runtime"),
            _own("onnx.reference", "onnx", "", ".onnx", "onnx_reference"),
            _own("litert", "ai_edge_litert", "litert", ".tflite", "litert"),
        )
    },
)
"""runtimes by name"""


def installed(name: str) -> Runtime:
    """Return a runtime; raise StateError if its package is not installed."""
    runtime = RUNTIMES.find(name)
    if find_spec(runtime.package) is None:
        raise missing(runtime)
    return runtime


def missing(runtime: Runtime) -> StateError:
    """Return the error for a runtime that is not installed."""
    return StateError(
        f"{runtime.name} is not installed",
        rule=f"a run with {runtime.name} requires the package {runtime.package}",
        fix=runtime.install,
    )


def answered(runtime: Runtime, call: Callable[[], _Result]) -> _Result:
    """Return the result of a call of a runtime, which may raise anything.

    Raise StateError if its package cannot be imported, and OperandError, with the runtime's message, for other errors.
    """
    try:
        return call()
    except ExplorerError:
        raise
    except ImportError as error:
        raise missing(runtime) from error
    except Exception as error:
        raise OperandError(
            f"{runtime.name} does not run this file: {str(error).strip()[:300]}",
            rule="a runtime must accept the file and these inputs",
            fix="net.check() lists problems of the file; other runtimes: " + ", ".join(map(repr, RUNTIMES)),
        ) from error

"""Values of an ONNX file's operands, computed by ONNX Runtime or by the onnx package's evaluator.

ONNX Runtime runs without graph optimizations, so that values can be compared operator by operator: a fused operator
could hide the operator that differs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeAlias

import numpy as np
import onnx

from explorer.core.errors import OperandError, StateError
from explorer.core.types.tensor_type import Array
from explorer.net import Net

Run: TypeAlias = Callable[[str, Mapping[str, Array]], dict[str, Any]]
"""(file path, values of its inputs) → values of its operands"""


def reference_values(net: Net, reference: Any, inputs: Mapping[str, Array]) -> tuple[str, dict[str, Array]]:
    """Return the name of the runtime, and the values that it computes, keyed by operand.

    An InferenceSession passed as ``reference`` returns only outputs. Raise OperandError if the runtime is unknown or
    rejects the file, StateError if it is not installed.
    """
    runtime, run = _runtime(net, reference)
    try:
        values = run(net.definition.source, inputs)
    except ImportError as error:
        raise _missing(runtime) from error
    except Exception as error:  # a runtime may raise anything
        raise OperandError(
            f"{runtime} does not run this file: {str(error).strip()[:300]}",
            rule="a reference must run the file for these inputs",
            fix=f"compare with another reference: {' or '.join(map(repr, RUNTIMES))}, or a net",
        ) from error
    # Results that are sequences of arrays, or None, are skipped.
    return runtime, {name: np.asarray(value) for name, value in values.items() if hasattr(value, "dtype")}


def check_runtime(net: Net, name: str) -> None:
    """Raise OperandError if a runtime cannot read a net's file, StateError if the runtime is not installed."""
    _runtime(net, name)
    if find_spec(name.partition(".")[0]) is None:
        raise _missing(name)


def _missing(runtime: str) -> StateError:
    return StateError(
        f"{runtime} is not installed",
        rule=f"a comparison with {runtime} requires the package",
        fix=f"pip install {runtime}",
    )


def _runtime(net: Net, reference: Any) -> tuple[str, Run]:
    """Return a runtime with its name; raise OperandError if it is unknown or the net is not from an ONNX file."""
    if hasattr(reference, "get_outputs") and hasattr(reference, "run"):
        names = [output.name for output in reference.get_outputs()]
        return "onnxruntime", lambda path, inputs: dict(zip(names, reference.run(names, dict(inputs)), strict=True))
    if not isinstance(reference, str) or reference not in RUNTIMES:
        known = ", ".join(map(repr, RUNTIMES))
        raise OperandError(
            f"a reference of type {type(reference).__name__}: {reference!r:.80}",
            rule=f"a reference must be a net, {known}, an InferenceSession of onnxruntime, or a dict of arrays",
            fix='net.compare("onnx.reference", x)',
        )
    if not net.definition.source.endswith(".onnx"):
        raise OperandError(
            f"net {net.name!r} of {net.definition.source or 'no file'}",
            rule=f"a net that is compared with {reference} must have been opened from an .onnx file",
            fix='net.save("net.onnx"); ex.open("net.onnx").compare(…)',
        )
    return reference, RUNTIMES[reference]


def _session(path: str, inputs: Mapping[str, Array]) -> dict[str, Any]:
    runtime: Any = import_module("onnxruntime")
    model = onnx.load(path)
    known = {value.name for value in model.graph.output}
    names = [name for node in model.graph.node for name in node.output if name]
    model.graph.output.extend([onnx.ValueInfoProto(name=name) for name in names if name not in known])
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    # for an empty list of names, `run` would return the outputs
    return dict(zip(names, session.run(names, dict(inputs)), strict=True)) if names else {}


def _evaluator(path: str, inputs: Mapping[str, Array]) -> dict[str, Any]:
    from onnx.reference import ReferenceEvaluator  # slow to import, because it imports every operator

    with warnings.catch_warnings():
        # The evaluator triggers NumPy warnings for numbers that NumPy functions handle silently.
        warnings.simplefilter("ignore")
        values: Any = ReferenceEvaluator(path).run(None, dict(inputs), intermediate=True)
    return dict(values)


RUNTIMES: dict[str, Run] = {
    "onnxruntime": _session,
    "onnx.reference": _evaluator,
}
"""name in ``net.compare`` → runtime"""

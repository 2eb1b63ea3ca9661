"""The evaluator of the onnx package, which computes each operator with NumPy and measures nothing."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from typing import Any

import onnx

from explorer.runtimes import onnx_file


def open_file(path: str) -> _Model:
    """Open an ONNX file."""
    return _Model(path)


class _Model:
    version, placement = str(onnx.__version__), ""

    def __init__(self, path: str) -> None:
        self._path = path
        model = onnx_file.loaded(path)
        self.nodes = onnx_file.nodes_of(model)
        self._outputs = [value.name for value in model.graph.output]

    def outputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs by name."""
        return self.values(inputs, self._outputs)

    def values(self, inputs: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
        """Return the values of operands by name."""
        from onnx.reference import ReferenceEvaluator  # slow to import, because it imports every operator

        with warnings.catch_warnings():
            # The evaluator triggers NumPy warnings for numbers that NumPy functions handle silently.
            warnings.simplefilter("ignore")
            values: Any = ReferenceEvaluator(self._path).run(None, dict(inputs), intermediate=True)
        return {name: onnx_file.as_result(values[name]) for name in names if name in values}

    def types(self, names: Collection[str]) -> dict[str, tuple[tuple[int | None, ...], str]]:
        """Return no types, since the evaluator infers none."""
        return {}

    def measure(self, inputs: Mapping[str, Any], runs: int | None = None) -> None:
        """Return None, since the evaluator measures nothing."""

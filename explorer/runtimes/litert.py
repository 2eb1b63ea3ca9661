"""LiteRT (TensorFlow Lite's interpreter), whose Python interface reports the values of tensors, but no operator times.

Values are computed without delegates, which would keep the values inside a partition of the graph.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from importlib.metadata import version
from time import perf_counter
from typing import Any

import numpy as np

from explorer.runtimes.contract import FileNode, Measurement

_RUNS = 5


def open_file(path: str, signature: str = "") -> _Model:
    """Open the first graph of a TensorFlow Lite file, or the graph of a signature."""
    return _Model(path, signature)


class _Model:
    placement = "CPU"

    def __init__(self, path: str, signature: str) -> None:
        from ai_edge_litert.interpreter import Interpreter, OpResolverType  # an optional package

        self.version = version("ai-edge-litert")
        self._path, self._library, self._signature = path, Interpreter, signature
        plain = Interpreter(
            path,
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            experimental_preserve_all_tensors=True,
        )
        self._plain: Any = plain
        known = plain._get_full_signature_list()
        if signature:
            self._graph = int(plain.get_signature_runner(signature)._subgraph_index)
            named = known[signature]
            self._inputs, self._outputs = ([*map(int, named[side].values())] for side in ("inputs", "outputs"))
        else:
            self._graph, named = 0, next(iter(known.values())) if len(known) == 1 else {}
            self._inputs = [each["index"] for each in plain.get_input_details()]
            self._outputs = [each["index"] for each in plain.get_output_details()]
        self._keys = {int(index): name for side in ("outputs", "inputs") for name, index in named.get(side, {}).items()}
        """tensor index → name in the signature"""
        self._names = _tensor_names(plain.get_tensor_details(self._graph), [*self._inputs, *self._outputs], self._keys)
        # The only list of operators, which has those of the first graph.
        operators: Any = [] if self._graph else plain._get_ops_details()
        self.nodes = [
            FileNode(
                each["op_name"],
                tuple([self._names.get(index, "") for index in each["inputs"]]),
                tuple([self._names.get(index, "") for index in each["outputs"]]),
            )
            for each in operators
        ]

    def outputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs by name."""
        self._run(self._usual, inputs)
        return {self._names[index]: self._usual.get_tensor(index, self._graph) for index in self._outputs}

    def values(self, inputs: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
        """Return the values of operands by name, computed without delegates."""
        self._run(self._plain, inputs)
        wanted = {index: name for index, name in self._names.items() if name in names and index not in self._inputs}
        return {name: np.array(self._plain.get_tensor(index, self._graph)) for index, name in wanted.items()}

    def types(self, names: Collection[str]) -> dict[str, tuple[tuple[int | None, ...], str]]:
        """Return the types that the file declares for its tensors."""
        details = {self._names[each["index"]]: each for each in self._plain.get_tensor_details(self._graph)}
        return {
            name: (
                tuple([None if size < 0 else int(size) for size in details[name]["shape_signature"]]),
                np.dtype(details[name]["dtype"]).name,
            )
            for name in names
            if name in details
        }

    def measure(self, inputs: Mapping[str, Any], runs: int | None = None) -> Measurement:
        """Measure whole runs with LiteRT's usual delegates."""
        times = []
        for _ in range(1 + (runs or _RUNS)):
            began = perf_counter()
            self._run(self._usual, inputs)
            times.append(perf_counter() - began)
        method = "Its Python interface reports only the time of the whole run, and no times of operators."
        return Measurement((), min(times[1:]) * 1e6, method, runs=len(times) - 1)

    @cached_property
    def _usual(self) -> Any:
        return self._library(self._path)

    def _run(self, interpreter: Any, inputs: Mapping[str, Any]) -> None:
        if self._signature:
            run = interpreter.get_signature_runner(self._signature)
            run(**{self._keys[index]: inputs[self._names[index]] for index in self._inputs})
            return
        for index in self._inputs:
            interpreter.resize_tensor_input(index, np.shape(inputs[self._names[index]]))
        interpreter.allocate_tensors()
        for index in self._inputs:
            interpreter.set_tensor(index, inputs[self._names[index]])
        interpreter.invoke()


def _tensor_names(tensors: list[dict[str, Any]], ends: list[int], keys: Mapping[int, str]) -> dict[int, str]:
    """Return tensor index → unique name, by the same rule as the reader of the files (formats/tflite/reader.py)."""
    details = sorted(tensors, key=lambda each: each["index"])
    file_names = {each["name"] for each in details}
    own = {each["index"]: each["name"] for each in details}
    names: dict[int, str] = {}
    taken: set[str] = set()
    for index in sorted({*ends}):
        name = keys.get(index, "")
        if name and name not in taken and name not in file_names - {own[index]}:
            names[index] = name
            taken.add(name)
    for index, given in own.items():
        if index not in names:
            name = given if given and given not in taken else f"{given or 'tensor'}:{index}"
            while name in taken:
                name += "'"
            names[index] = name
            taken.add(name)
    return names

"""onnxruntime: values from a session without graph optimizations, times from a session with its default ones.

A fused operator could hide the operator whose value differs, so values are computed node by node. Times are those of a
usual session. Its graph differs from the file's, and `optimized_graph` maps its kernels back to the file's nodes.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

import onnx

from explorer.runtimes import onnx_file
from explorer.runtimes.contract import MeasuredKernel, Measurement
from explorer.runtimes.onnx_profile import bytes_before, bytes_in_use, medians, warm_runs
from explorer.runtimes.optimized_graph import OptimizedNode, computed_nodes

_RUNS, _MAX_TOTAL = 20, 1.0
"""maximum number of measured runs, and maximum total seconds of all of them except the last"""
_PROVIDERS = ("CPUExecutionProvider",)
_DTYPES = {f"tensor({name})": name for name in ("bool", "int8", "int16", "int32", "int64")}
_DTYPES |= {f"tensor({name})": name for name in ("uint8", "uint16", "uint32", "uint64", "bfloat16")}
_DTYPES |= {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16"}
_DTYPES |= {"tensor(complex64)": "complex64", "tensor(complex128)": "complex128"}
"""type in onnxruntime → dtype"""
_FATAL = 4
"""level at which onnxruntime prints messages; errors are raised anyway"""


def open_file(path: str) -> _Model:
    """Open an ONNX file."""
    return _Model(path)


class _Model:
    placement = ", ".join(_PROVIDERS)

    def __init__(self, path: str) -> None:
        import onnxruntime  # an optional package

        self._library: Any = onnxruntime
        self.version = str(onnxruntime.__version__)
        self._folder = onnx_file.external_folder(path)
        self._model = onnx_file.loaded(path)
        self.nodes = onnx_file.nodes_of(self._model)
        self._outputs = [value.name for value in self._model.graph.output]

    def outputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the outputs by name."""
        return _results(self._session, self._outputs, inputs)

    def values(self, inputs: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
        """Return the values of operands by name, from a session without graph optimizations."""
        wanted = self._computed(names)
        # for an empty list of names, `run` would return the outputs
        return _results(self._plain_session(wanted), wanted, inputs) if wanted else {}

    def types(self, names: Collection[str]) -> dict[str, tuple[tuple[int | None, ...], str]]:
        """Return the types that onnxruntime infers when it opens the file."""
        wanted = self._computed(names)
        outputs = self._plain_session(wanted).get_outputs() if wanted else []
        known = [(each, _DTYPES.get(each.type, "")) for each in outputs if each.name in wanted]
        return {
            each.name: (tuple([size if isinstance(size, int) else None for size in each.shape]), dtype)
            for each, dtype in known
            if dtype
        }

    def _computed(self, names: Collection[str]) -> list[str]:
        """Return the names of operands that nodes compute, without repetitions."""
        known = {name for node in self.nodes for name in node.outputs if name}
        return [name for name in dict.fromkeys(names) if name in known]

    def _plain_session(self, names: list[str]) -> Any:
        """Return a session without graph optimizations that also returns operands."""
        options = self._options()
        options.graph_optimization_level = self._library.GraphOptimizationLevel.ORT_DISABLE_ALL
        return self._new_session(onnx_file.with_outputs(self._model, names), options)

    def measure(self, inputs: Mapping[str, Any], runs: int | None = None) -> Measurement:
        """Measure the fastest of several warm runs with onnxruntime's profiler and default graph optimizations.

        Without a number of runs, there are as many as fit into a second, at most 20.
        """
        with tempfile.TemporaryDirectory() as folder:
            options = self._options()
            options.enable_profiling = True
            options.profile_file_prefix = f"{folder}/profile"
            # With a memory pattern, all intermediate results are one allocation, and live bytes are not reported.
            options.enable_mem_pattern = False
            options.optimized_model_filepath = f"{folder}/optimized.onnx"
            options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "weights")
            options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "1024")
            session = self._new_session(self._model, options)
            first = _timed_run(session, inputs)
            times = [_timed_run(session, inputs)] if runs or first < _MAX_TOTAL else []
            while times and len(times) < (runs or _RUNS) and (runs or sum(times) < _MAX_TOTAL):
                times.append(_timed_run(session, inputs))
            events = json.loads(Path(session.end_profiling()).read_text())
            optimized = onnx.load(f"{folder}/optimized.onnx", load_external_data=False)
        plain = min([_timed_run(self._session, inputs) for _ in range(1 + len(times))])
        return self._measurement(events, optimized, plain * 1e6)

    def _measurement(self, events: list[dict[str, Any]], optimized: onnx.ModelProto, plain: float) -> Measurement:
        """Return the measurement of the fastest run in a profile; a run without the profiler took ``plain`` µs."""
        runs = warm_runs(events)
        steps, whole = min(runs, key=lambda run: run[1])
        middles = medians(steps, runs)
        given = self._model
        constants = onnx_file.weights_of(given) | onnx_file.weights_of(optimized)
        rows = [
            OptimizedNode(
                node.op_type,
                tuple(onnx_file.read_names(node)),
                tuple(node.output),
                node.name,
                next((str(each.s, "utf-8", "replace") for each in node.attribute if each.name == "activation"), ""),
            )
            for node in optimized.graph.node
        ]
        sources = [value.name for value in given.graph.input]
        computed = computed_nodes(self.nodes, rows, sources, constants, onnx_file.equal_weights(given))
        numbers: dict[str, list[int]] = {}
        for index, row in enumerate(rows):
            numbers.setdefault(row.name or row.type, []).append(index)
        begin = steps[0]["ts"] if steps else 0
        floor = bytes_before(steps[0]) if steps else 0
        parts: dict[int, list[tuple[int, dict[str, Any]]]] = {}
        middle: dict[int, float] = {}
        unplaced: list[tuple[str, float]] = []
        for step, median_time in zip(steps, middles, strict=True):
            op_name = str(step["args"].get("op_name", ""))
            found = numbers.get(step["name"].removesuffix("_kernel_time")) or numbers.get(op_name, [])
            # if names are not unique, nodes run in the order of the graph
            index = found.pop(0) if len(found) > 1 else found[0] if found else -1
            group = computed.groups.get(index, -1)
            if computed.nodes.get(group):
                parts.setdefault(group, []).append((index, step))
                middle[group] = middle.get(group, 0.0) + median_time
            else:
                unplaced.append((op_name, float(step["dur"])))
        kernels = []
        for group, members in parts.items():
            work = [index for index, _ in members if index not in computed.conversions]
            types = [rows[index].type for index in work or [members[0][0]]]
            kernels.append(
                MeasuredKernel(
                    computed.nodes[group],
                    " + ".join(dict.fromkeys(types)),
                    float(members[0][1]["ts"] - begin),
                    float(sum([step["dur"] for _, step in members])),
                    max([bytes_in_use(step, floor) for _, step in members]),
                    str(members[0][1]["args"].get("provider", "")),
                    conversions=len(members) - len(work),
                    is_exact=computed.exact[group],
                    median=middle[group],
                )
            )
        inside = sum([step["dur"] for step in steps])
        span = steps[-1]["ts"] + steps[-1]["dur"] - begin if steps else 0
        between, around = span - inside, whole - span
        return Measurement(
            tuple(kernels),
            float(whole),
            "Times are from a session with onnxruntime's default graph optimizations, values from a session without. "
            f"Of this run's {whole:,.0f} µs, kernels took {inside:,.0f} µs; {between:,.0f} µs were between them, where "
            f"the profiler records each kernel, and {around:,.0f} µs before the first and after the last one. Without "
            f"the profiler, which also adds to the times of kernels, a run took {round(plain):,} µs.",
            max([bytes_in_use(step, floor) for step in steps], default=0),
            computed.folded,
            tuple(unplaced),
            len(runs),
            float(between),
            float(around),
        )

    @cached_property
    def _session(self) -> Any:
        return self._new_session(self._model, self._options())

    def _options(self) -> Any:
        options = self._library.SessionOptions()
        options.log_severity_level = _FATAL
        # the message is passed as bytes, without its path
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", self._folder)
        return options

    def _new_session(self, model: onnx.ModelProto, options: Any) -> Any:
        return self._library.InferenceSession(model.SerializeToString(), options, providers=[*_PROVIDERS])


def _results(session: Any, names: list[str], inputs: Mapping[str, Any]) -> dict[str, Any]:
    results = session.run(names, dict(inputs))
    return {name: onnx_file.as_result(value) for name, value in zip(names, results, strict=True)}


def _timed_run(session: Any, inputs: Mapping[str, Any]) -> float:
    """Run a session; return the seconds that it took."""
    began = perf_counter()
    session.run(None, dict(inputs))
    return perf_counter() - began

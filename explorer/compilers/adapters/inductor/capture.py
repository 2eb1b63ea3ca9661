"""Capture of what Inductor does with a program: graphs after each pass, the scheduler's loops and log, code, and times.

Everything is collected in this process, through the hooks that torch's own passes go through, and all settings of torch
are restored. Without a C++ compiler, or with ``run=False``, compilation ends after fusion, when everything is decided.
Only Dynamo's first graph is compiled; the program's further graphs run without compilation and are counted.
"""

from __future__ import annotations

import logging
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any
from unittest import mock

import numpy as np

from explorer.compilers.adapters.inductor.rows import Capture, Frame, Graph, Loop, Node
from explorer.core.errors import OperandError, StateError, class_text
from explorer.core.ir.source_location import CodeLocation
from explorer.net.net import Net
from explorer.run.recording.variable_tables import source_texts

_RUNS = 20
"""number of measured runs"""
_SECONDS = 3.0
"""time after which no further run is measured"""
_LONG = 80
"""maximum number of characters of an attribute"""
_FRAME = re.compile(r'File "([^"\n]+)", line (\d+), in [^\n]*\n[ \t]*([^\n]*)')
_FUSION_LOG = "torch._inductor.scheduler.__fusion"


class _AllIsDecided(BaseException):
    """Raised in the scheduler after fusion; no handler of torch's errors may catch it."""


def capture(program: Any, args: Sequence[Any], *, run: bool) -> Capture:
    """Compile a program with Inductor and return what it did.

    Args:
        program: torch module or function.
        args: arguments of a call; arrays become tensors.
        run: whether to generate and compile code and to measure the kernels.

    Raises:
        OperandError: if ``program`` cannot be called.
        StateError: if Dynamo finds no graph in it.
    """
    torch = import_module("torch")
    program = import_module("torch._dynamo.eval_frame").innermost_fn(getattr(program, "_orig_mod", program))
    if not callable(program) or isinstance(program, (type, Net)):
        raise OperandError(
            f"Inductor was given {class_text(program)}",
            rule="Inductor compiles torch modules and functions of tensors",
            fix='ex.explore(torch_module, x, compiler="inductor")',
        )
    collector = _Collector(torch, _missing_compiler() if run else "run=False")
    tensors = [torch.from_numpy(np.array(each)) if _is_array(torch, each) else each for each in args]
    torch_config, dynamo_config = (import_module(f"torch.{name}.config") for name in ("_inductor", "_dynamo"))
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(torch.no_grad())
        stack.enter_context(torch_config.patch(collector.options(torch_config)))
        # a program may be recorded more often than torch compiles one by default
        limits = dict.fromkeys(("recompile_limit", "accumulated_recompile_limit"), 1 << 20)
        stack.enter_context(dynamo_config.patch(limits))
        stack.enter_context(collector.hooks())
        torch.compile(program, backend=collector.compile, dynamic=False)(*tensors)
        collector.measure()
    if not collector.graphs:
        raise StateError(
            f"{_title(program)} contains no graph",
            rule="Inductor compiles the operations on tensors that Dynamo traces",
            fix="record a function that computes tensors from its arguments, with torch operations",
        )
    return collector.captured(_title(program))


def _title(program: Any) -> str:
    return str(getattr(program, "__name__", type(program).__name__))


def _is_array(torch: Any, value: Any) -> bool:
    return hasattr(value, "__array__") and not isinstance(value, torch.Tensor)


def _missing_compiler() -> str:
    """Return why code cannot be compiled; "" if there is a C++ compiler."""
    builder = import_module("torch._inductor.cpp_builder")
    try:
        builder.get_cpp_compiler()
    except Exception as error:  # the class of the error depends on torch's version and on the platform
        return f"no C++ compiler ({type(error).__name__})"
    return ""


@dataclass
class _Collector:
    """Hooks in the compiler, and what they collected."""

    torch: Any
    stopped: str
    """why compilation ends after fusion; "" if it does not"""
    graphs: list[tuple[Any, Graph]] = field(default_factory=list)
    """module and graph after each pass"""
    loops: tuple[Loop, ...] = ()
    log: list[str] = field(default_factory=list)
    kernels: tuple[tuple[str, tuple[str, ...]], ...] = ()
    code: str = ""
    calls: dict[str, tuple[str, ...]] = field(default_factory=dict)
    times: tuple[tuple[str, float], ...] = ()
    micros: float | None = None
    reasons: list[str] = field(default_factory=list)
    """why Dynamo ended each graph; "" for the end of the program"""
    leaves: dict[str, str] = field(default_factory=dict)
    """placeholder of Dynamo's graph → name in the program"""
    lines: dict[str, set[int]] = field(default_factory=dict)
    """file name → traced lines of the program"""
    _key: Any = None
    """key of the newest graph, which changes with its nodes"""
    _is_recording: bool = False
    _compiled: Callable[..., Any] | None = None
    _inputs: tuple[Any, ...] = ()

    def options(self, config: Any) -> dict[str, Any]:
        """Return the options of Inductor that record a compilation."""
        options: dict[str, Any] = {
            "force_disable_caches": True,  # a cached compilation decides nothing
            "_pre_fusion_custom_pass": _after(config._pre_fusion_custom_pass, self._before_fusion),
            "_post_fusion_custom_pass": _after(config._post_fusion_custom_pass, self._after_fusion),
        }
        if not self.stopped:
            options |= {"trace.provenance_tracking_level": 1, "cpp.enable_kernel_profile": True}
        return options

    @contextmanager
    def hooks(self) -> Iterator[None]:
        """Observe passes, log rows and generated code."""
        observer = import_module("torch.fx.passes.graph_transform_observer").GraphTransformObserver
        lowering = import_module("torch._inductor.graph").GraphLowering
        scheduled = import_module("torch._inductor.scheduler").SchedulerNode
        logger = logging.getLogger(_FUSION_LOG)
        handler = _Lines(self)
        level, propagate = logger.level, logger.propagate
        with ExitStack() as stack:
            for method in ("apply_gm_pass", "apply_graph_pass"):
                stack.enter_context(mock.patch.object(observer, method, self._observed(getattr(observer, method))))
            stack.enter_context(mock.patch.object(lowering, "save_output_code", staticmethod(self._save_code)))
            stack.enter_context(mock.patch.object(scheduled, "codegen", _marked(scheduled.codegen)))
            logger.addHandler(handler)
            logger.setLevel(logging.DEBUG)
            logger.propagate = False
            try:
                yield
            finally:
                logger.removeHandler(handler)
                logger.setLevel(level)
                logger.propagate = propagate

    def compile(self, module: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Backend of Dynamo: compile its first graph with Inductor, and run all others as they are."""
        end = module.compile_subgraph_reason
        self.reasons.append(end.reason.splitlines()[0] if end is not None and end.graph_break else "")
        if len(self.reasons) > 1:
            return module.forward  # type: ignore[no-any-return]  # an FX module, which torch does not type
        self.leaves = _leaves(module)
        self._add("", module, "torch")
        self._is_recording = True
        try:
            compiled = import_module("torch._inductor.compile_fx").compile_fx(module, inputs)
        except _AllIsDecided:
            return module.forward  # type: ignore[no-any-return]  # torch has no types here
        finally:
            self._is_recording = False

        def call(*inputs: Any) -> Any:
            self._inputs = inputs
            return compiled(*inputs)

        self._compiled = compiled
        return call

    def measure(self) -> None:
        """Run the compiled graph several times and keep the best time of each kernel."""
        if self._compiled is None or not self._inputs:
            return
        profiler = import_module("torch.profiler")
        os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # or the profiler writes lines to standard error
        until = time.perf_counter() + _SECONDS
        with profiler.profile(activities=[profiler.ProfilerActivity.CPU]) as profile:
            for _ in range(_RUNS):
                self._compiled(
                    *[each.clone() if isinstance(each, self.torch.Tensor) else each for each in self._inputs]
                )
                if time.perf_counter() > until:
                    break
        runs: dict[int, list[tuple[str, float]]] = {}
        totals = []
        for event in profile.events():
            if _is_run(event):
                totals.append(float(event.time_range.elapsed_us()))
            elif event.cpu_parent is not None and _is_run(event.cpu_parent):
                runs.setdefault(event.cpu_parent.id, []).append((event.name, float(event.time_range.elapsed_us())))
        if totals and len({tuple(name for name, _ in calls) for calls in runs.values()}) == 1:
            self.micros = min(totals)
            self.times = tuple(
                (same[0][0], min(micros for _, micros in same)) for same in zip(*runs.values(), strict=True)
            )

    def captured(self, title: str) -> Capture:
        inner = {id(part) for module, _ in self.graphs for part in module.modules() if part is not module}
        graphs = [graph for module, graph in self.graphs if id(module) not in inner]
        return Capture(
            title=title,
            version=self.torch.__version__,
            graphs=tuple(graphs),
            loops=self.loops,
            log=tuple(self.log),
            kernels=self.kernels,
            code=self.code,
            calls=self.calls,
            times=self.times,
            micros=self.micros,
            other_graphs=tuple(reason for reason in self.reasons[:-1]),
            incomplete=self.stopped,
            texts=tuple(source_texts(self.lines)),
        )

    def _observed(self, apply: Callable[..., Any]) -> Callable[..., Any]:
        """Return a method that applies a pass and takes a snapshot of the graph."""

        def observed(observer: Any, pass_function: Any) -> Any:
            if not self._is_recording:
                return apply(observer, pass_function)
            self._add("", observer.gm)
            start = time.perf_counter()
            result = apply(observer, pass_function)
            self._add(observer.passname, observer.gm, micros=1e6 * (time.perf_counter() - start))
            return result

        return observed

    def _add(self, pass_name: str, module: Any, level: str = "", micros: float = 0.0) -> None:
        """Add a snapshot of the graph; between named passes, only if it changed."""
        key = [(node.name, node.target, repr(node.args), repr(node.kwargs)) for node in module.graph.nodes]
        if key == self._key:
            if pass_name:
                self.graphs.append((module, Graph(pass_name, self.graphs[-1][1].level, None, micros=micros)))
            return
        self._key = key
        level = level or ("aten" if any(_is_aten(node) for node in module.graph.nodes) else "torch")
        self.graphs.append((module, self._graph(pass_name, level, module, micros)))

    def _graph(self, pass_name: str, level: Any, module: Any, micros: float) -> Graph:
        leaf = self.torch.utils._pytree.tree_leaves
        is_node = self.torch.fx.Node
        nodes, results = [], []
        for node in module.graph.nodes:
            operands = tuple(each.name for each in leaf((node.args, node.kwargs)) if isinstance(each, is_node))
            if node.op == "output":
                results = list(operands)
            else:
                nodes.append(self._node(node, operands))
        if level == "aten":
            results = self._users_results(results)
        return Graph(pass_name, level, tuple(nodes), tuple(results), micros)

    def _users_results(self, results: list[str]) -> list[str]:
        """Return the results of the program; AOTAutograd adds mutated inputs before them, and saved values after."""
        metadata = self.torch._guards.TracingContext.get().fw_metadata
        mutated = 0 if metadata is None else metadata.num_mutated_inp_runtime_indices
        return results[mutated : mutated + len(self.graphs[0][1].results)]

    def _node(self, node: Any, operands: tuple[str, ...]) -> Node:
        value = node.meta.get("val", node.meta.get("example_value"))
        tensors = value if isinstance(value, (tuple, list)) else [value]
        parts = tuple(
            (tuple(int(size) for size in each.shape), str(each.dtype).removeprefix("torch."))
            for each in tensors
            if isinstance(each, self.torch.Tensor)
        )
        is_leaf = node.op in ("placeholder", "get_attr")
        is_item = _operation(node) == "getitem" and len(operands) == 1
        name = self.leaves.get(node.name, node.name) if is_leaf else _operation(node)
        return Node(
            name=node.name,
            operation=name,
            operands=operands,
            parts=parts,
            kind="leaf" if is_leaf else "item" if is_item else "operation",
            is_view=bool(getattr(node.target, "is_view", False)),
            attributes={} if is_leaf else _attributes(node, self.torch.fx.Node),
            scope=() if is_leaf else _scope(node),
            frames=() if is_leaf else self._frames(node.meta.get("stack_trace") or ""),
            origin=_origin(node),
        )

    def _frames(self, trace: str) -> tuple[Frame, ...]:
        """Return the lines of the user's program in a stack trace of torch."""
        library = os.path.dirname(self.torch.__file__) + os.sep
        frames = []
        for filename, line, text in _FRAME.findall(trace):
            if not filename.startswith(library):
                self.lines.setdefault(filename, set()).add(int(line))
                location = CodeLocation.of(filename, int(line), text.strip())
                frames.append(Frame(location.where, location.line, location.text))
        return tuple(frames)

    def _before_fusion(self, nodes: Any) -> Any:
        graph = import_module("torch._inductor.virtualized").V.graph
        if getattr(graph, "parent", None) is None and self._is_recording:
            self._add("", graph.module)
            position = {node.name: number for number, node in enumerate(graph.module.graph.nodes)}
            self.loops = tuple(_loop(node, position) for each in nodes for node in each.get_nodes())
            self.log.clear()
        return nodes

    def _after_fusion(self, nodes: Any) -> Any:
        graph = import_module("torch._inductor.virtualized").V.graph
        if getattr(graph, "parent", None) is None and self._is_recording:
            self.kernels = tuple(
                (node.get_name(), tuple(each.get_name() for each in node.get_nodes())) for node in nodes
            )
            if self.stopped:
                raise _AllIsDecided
        return nodes

    def _save_code(self, code: str) -> None:
        if self._is_recording and not self.code:
            debug = import_module("torch._inductor.debug")
            self.code = code
            nodes = debug._inductor_triton_kernel_to_post_grad_node_info
            self.calls = {call: tuple(names) for call, names in nodes.items()}


class _Lines(logging.Handler):
    """Handler that keeps the rows of a log while a graph is compiled."""

    def __init__(self, collector: _Collector) -> None:
        super().__init__(logging.DEBUG)
        self._collector = collector

    def emit(self, record: logging.LogRecord) -> None:
        if self._collector._is_recording:
            message = record.getMessage()
            # a candidate's line also lists its operations with their stacks
            self._collector.log.append(message.partition("), ")[0] if message.startswith(" ") else message)


def _after(first: Callable[[Any], Any] | None, then: Callable[[Any], Any]) -> Callable[[Any], Any]:
    # torch copies its options, which is possible for functions, but not for methods of a collector
    return lambda nodes: then(nodes if first is None else first(nodes))


def _marked(codegen: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that precedes the code of a loop with comments that name the loop."""

    def marked(node: Any, *args: Any, **options: Any) -> Any:
        kernel = import_module("torch._inductor.virtualized").V.kernel
        for part in ("compute", "stores"):
            if hasattr(getattr(kernel, part, None), "writeline"):
                getattr(kernel, part).writeline(f"// loop {node.get_name()}")
        return codegen(node, *args, **options)

    return marked


def _leaves(module: Any) -> dict[str, str]:
    """Return placeholder → name in the program: ``x``, ``l1.weight``."""
    names = {}
    for node in module.graph.nodes:
        source = getattr(node.meta.get("grapharg"), "source", None)
        if node.op == "placeholder" and source is not None:
            names[node.name] = _readable(source.name if isinstance(source.name, str) else source.name())
    return names


def _readable(source: str) -> str:
    """Return the name of a value as users write it: ``l1.weight`` for ``L['self']._modules['l1']._parameters[…]``."""
    name = re.sub(r"getattr\((\S+), '([^']+)'\)", r"\1.\2", source)
    name = re.sub(r"\.?_(?:modules|parameters|buffers)\['([^']+)'\]", r".\1", name)
    name = re.sub(r"^[LG]\['([^']+)'\]", r"\1", name)
    return name.removeprefix("self.").replace("__closure__", "closure")[:_LONG]


def _operation(node: Any) -> str:
    """Return the name of a node's operation, without namespace and overload: ``addmm``, ``linear``."""
    target = node.target
    if isinstance(target, str):
        return target
    if target is getattr:
        return str(node.args[1])
    packet = getattr(target, "overloadpacket", None)
    return str(getattr(packet or target, "__name__", target))


def _is_aten(node: Any) -> bool:
    return hasattr(node.target, "overloadpacket")


def _attributes(node: Any, is_node: type) -> dict[str, str]:
    """Return the arguments of a node that are no values of the graph, and its full name if that has an overload."""
    schema = getattr(node.target, "_schema", None)
    names = [each.name for each in schema.arguments] if schema is not None else []
    attributes = {}
    pairs = [(names[index] if index < len(names) else str(index), each) for index, each in enumerate(node.args)]
    for name, value in (*pairs, *node.kwargs.items()):
        if not isinstance(value, is_node) and value is not None:
            attributes[name] = str(value)[:_LONG]
    if schema is not None:
        attributes["operator"] = str(node.target)
    return attributes


def _scope(node: Any) -> tuple[str, ...]:
    """Return the modules around a node, outermost first, each by its name in the module around it."""
    scope: list[str] = []
    outer = ""
    for path, _ in (node.meta.get("nn_module_stack") or {}).values():
        name = _readable(path).strip(".")
        if name and name != "self":
            scope.append(name.removeprefix(f"{outer}.") if outer else name)
            outer = name
    return tuple(scope)


def _origin(node: Any) -> str:
    """Return the name of the node of Dynamo's graph from which a node was made."""
    sources = node.meta.get("from_node") or ()
    name = ""
    while sources:
        name, sources = sources[0].name, sources[0].from_node
    return str(name)


def _loop(node: Any, position: dict[str, int]) -> Loop:
    written = node.node
    origins = {*getattr(written, "origins", ())}
    if (origin := written.get_origin_node()) is not None and type(node).__name__.startswith("Extern"):
        # the origins of a library call include operations that are written to memory before the call
        origins = {each for each in origins if getattr(each.target, "is_view", False)} | {origin}
    names = sorted({each.name for each in origins} & position.keys(), key=position.__getitem__)
    return Loop(
        name=node.get_name(),
        kind=type(node).__name__,
        form=type(written).__name__,
        nodes=tuple(names),
        buffers=tuple(node.get_buffer_names()),
        library=str(getattr(written, "python_kernel_name", None) or ""),
    )


def _is_run(event: Any) -> bool:
    """Return whether a profiler's event is a run of the compiled graph."""
    return bool(event.name.startswith("## Call CompiledFxGraph"))

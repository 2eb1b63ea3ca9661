"""XLA, the compiler of jax: its passes, what it fuses and refuses to fuse, kernels, code, memory and times on the CPU.

A program is exported by jax (public functions only), so that lines of the user's program survive, and compiled in a
child process (child.py): XLA reads the flags of its log when it starts. XLA writes the module
after each pass that changed it (a dump), and its log states which pairs of instructions were not fused, and why.
"""

from __future__ import annotations

import inspect
import json
import linecache
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from explorer.compilers.adapters.xla import hlo
from explorer.compilers.adapters.xla.memory import read_memory
from explorer.compilers.child import run_python
from explorer.compilers.snapshots import Compiled, CompiledKernel, Snapshot, Value, recording_of, refusal
from explorer.core.errors import OperandError, StateError
from explorer.core.ir.source_location import cell_name
from explorer.record import Recording
from explorer.record.rows import Source
from explorer.run.recording.variable_tables import source_texts

TESTED = ("0.5.3", "0.7.2", "0.10.2")
"""versions of jax with which the adapter was tested"""
_LOGS = ("instruction_fusion", "cpu_instruction_fusion")
"""files of XLA whose log states the decisions about fusion"""
_ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "0",
    "TF_CPP_VMODULE": ",".join([*(f"{file}=5" for file in _LOGS), "hlo_pass_pipeline=1"]),
    "JAX_PLATFORMS": "cpu",
    "JAX_ENABLE_COMPILATION_CACHE": "false",  # a program from the cache runs no passes
}
_CHILD = Path(__file__).with_name("child.py")


def record(program: Any, *args: Any, run: bool = True) -> Recording:
    """Return the recording of what XLA does with a function that ``jax.jit`` returned, called with ``args``."""
    return recording_of_dumps(_title(program), compiled_in_child(program, *args, run=run))


class Dumps(NamedTuple):
    """Files and log that XLA writes about a program."""

    files: Mapping[str, str]
    """file name → text"""
    log: str
    inputs: Sequence[str]
    """names of the program's inputs"""
    result: Mapping[str, Any]
    """version of jax and times of kernels, as child.py writes them"""


def compiled_in_child(program: Any, *args: Any, run: bool = True) -> Dumps:
    """Return the files and the log that XLA writes about a function that ``jax.jit`` returned, called with ``args``."""
    with tempfile.TemporaryDirectory(prefix="explorer-xla-") as folder:
        inputs = _export(Path(folder), program, args, run)
        output = run_python(_CHILD, [folder], environment=_ENVIRONMENT, compiler="XLA")
        paths = [path for path in Path(folder, "dumps").iterdir() if is_used(path.name)]
        files = {path.name: path.read_text(errors="replace") for path in paths}
        result = json.loads(Path(folder, "result.json").read_text())
    return Dumps(files, output.stderr, inputs, result)


def is_used(name: str) -> bool:
    """Return whether the adapter reads the file of this name."""
    ends = (_CODE_FILE, *_MEMORY_FILES, _GIVEN_FILE, _FINAL_FILE)
    return name.endswith(ends) or (_DUMP.search(name) is not None and ".after_pipeline-start." not in name)


def _title(program: Any) -> str:
    return f"{getattr(program, '__name__', 'program')} · XLA"


def _export(folder: Path, program: Any, args: Sequence[Any], run: bool) -> list[str]:
    """Write a program and its arguments to a folder, and return the names of the arguments' arrays."""
    import jax  # an optional package
    import jax.export

    if not isinstance(program, jax.stages.Wrapped):
        raise OperandError(
            f"{program!r}",
            rule="XLA compiles functions of jax.jit",
            fix='ex.explore(jax.jit(f), x, compiler="xla")',
        )
    leaves, structure = jax.tree_util.tree_flatten((args, {}))
    abstract = any(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves)
    if run and abstract:
        raise OperandError(
            "an argument is a jax.ShapeDtypeStruct, which has no elements",
            rule="a measured program needs arrays",
            fix="pass arrays, or run=False",
        )
    try:
        inspect.signature(program).bind(*args)
    except TypeError as error:
        raise OperandError(
            f"{_title(program)}: {error}",
            rule="the program is called with the arguments that follow it",
            fix='ex.explore(jax.jit(f), x, y, compiler="xla")',
        ) from error
    try:
        exported = jax.export.export(program, platforms=["cpu"])(*args)
    except NotImplementedError as error:
        raise _not_exported(program, error) from error
    if len(exported.in_avals) != len(leaves):
        raise OperandError(
            f"{len(leaves) - len(exported.in_avals)} of {len(leaves)} arguments are static",
            rule="all arguments of a recorded program are arrays",
            fix="bind static arguments: jax.jit(functools.partial(f, n=3))",
        )
    # Flat arguments and results need no classes of the user's program in the child process.
    results = jax.tree_util.tree_structure([0] * len(exported.out_avals))
    flat = replace(exported, in_tree=jax.tree_util.tree_structure((tuple(leaves), {})), out_tree=results)
    try:
        (folder / "program").write_bytes(flat.serialize())
    except (NotImplementedError, ValueError, KeyError) as error:
        raise _not_exported(program, error) from error
    keys: dict[str, str] = {}
    arrays: dict[str, Any] = {}
    for index, leaf in enumerate(leaves):
        if abstract:
            continue
        if jax.dtypes.issubdtype(exported.in_avals[index].dtype, jax.dtypes.prng_key):
            keys[str(index)] = str(jax.random.key_impl(leaf))
            leaf = jax.random.key_data(leaf)
        # a Python number has the type that jax gave it
        arrays[str(index)] = (
            np.asarray(leaf) if str(index) in keys else np.asarray(leaf, exported.in_avals[index].dtype)
        )
    np.savez(folder / "arguments.npz", **arrays)
    donated = jax.tree_util.tree_leaves(program.trace(*args).args_info, is_leaf=lambda row: hasattr(row, "donated"))
    order = {
        "name": re.sub(r"\W", "_", getattr(program, "__name__", "program")),
        "run": run,
        "keys": keys,
        "donated": [index for index, row in enumerate(donated) if row.donated],
    }
    (folder / "order.json").write_text(json.dumps(order))
    return _argument_names(program, structure)


def _not_exported(program: Any, error: Exception) -> OperandError:
    return OperandError(
        f"jax cannot export {_title(program)}: {error}",
        rule="a recorded program must not call back into Python, nor call code that jax does not export",
        fix="remove jax.debug.print and jax.pure_callback from the program",
    )


def _argument_names(program: Any, structure: Any) -> list[str]:
    """Return the names of the arguments' arrays: ``params['w']``, ``x``."""
    import jax

    try:
        names = list(inspect.signature(program).parameters)
    except (TypeError, ValueError):
        names = []
    paths = jax.tree_util.tree_flatten_with_path(jax.tree_util.tree_unflatten(structure, range(structure.num_leaves)))
    found = []
    for path, _ in paths[0]:
        position = path[1].idx
        name = names[position] if position < len(names) else f"argument {position}"
        found.append(name + jax.tree_util.keystr(path[2:]))
    counts = Counter(found)
    return [name if counts[name] == 1 else f"{name} ({index})" for index, name in enumerate(found)]


@dataclass(slots=True)
class LogPass:
    """Pass in XLA's log."""

    pipeline: str
    name: str
    order: int
    """line of the log at which the pass ended; in versions that do not log it, at which it began"""
    micros: int = 0
    following: str = ""
    """next pass of the pipeline"""
    refusals: list[tuple[str, str, str]] = field(default_factory=list)
    """(operand, reader, reason) of pairs that the pass did not fuse, each once"""


@dataclass(slots=True)
class Log:
    """Passes of a log, in the order in which they ended, and rows that are left out."""

    passes: list[LogPass] = field(default_factory=list)
    into_tuples: int = 0
    """refusals to fuse into a tuple, such as the tuple of results; every value would be refused there"""
    unread: Counter[str] = field(default_factory=Counter)
    """first words of rows about fusion whose form is unknown → number of rows"""

    @property
    def unread_text(self) -> str:
        """Number of rows of unknown form, with an example; "" if there are none."""
        return f"{self.unread.total():,}, such as `{self.unread.most_common(1)[0][0]}`" if self.unread else ""


_ROW = re.compile(r".{,200}?(\w+)\.cc:\d+\] *(.*)")
_PIPELINE = re.compile(r"Running HLO pass pipeline on module (\S+): (.*)")
_BEGIN = re.compile(r"HLO pass (.+)$")
_END = re.compile(r"HLO pass: (.+) time: ")
_MICROS = re.compile(r"\((\d{1,12}) us\)|time: (\d{1,12}) us")
_CONSIDERED = re.compile(r"Considering fusion of: (%.*) with operand ")
_FUSED = re.compile(r"Fusing %\S+ = .* into %(\S+) = ")
_CREATED = re.compile(r"created new fusion: %(\S+) = ")
_REFUSED = re.compile(r"not fusing operand %(\S+) = ")
_BECAUSE = " because "
_OTHER = (
    "Considering for fusion", "Considering fusion", "Evaluating fusion", "Fusing", "Fusion rejected", "Operand",
    "Fusion count", "Found producer", "in/out pair",
)  # fmt: skip
"""starts of rows about fusion that state nothing more"""


def read_log(text: str) -> Log:
    """Return the passes and refusals of XLA's log; rows of unknown form are counted."""
    log = Log()
    open_passes: list[LogPass] = []
    last: dict[str, LogPass] = {}
    """pipeline → its last pass"""
    fused_into: dict[str, str] = {}
    """fusion that the pass created → instruction that it computes"""
    pipeline, target, reader, reader_operation = "", "", "", ""
    seen: set[tuple[str, str, str]] = set()
    for number, line in enumerate(text.splitlines()):
        if (row := _ROW.match(line)) is None:
            continue
        file, words = row[1], row[2]
        if file == "hlo_pass_pipeline":
            if match := _PIPELINE.match(words):
                pipeline = match[2]
                last.pop(pipeline, None)
            elif match := _BEGIN.match(words):
                now = LogPass(pipeline, match[1], number)
                if pipeline in last:
                    last[pipeline].following = now.name
                last[pipeline] = now
                open_passes.append(now)
                log.passes.append(now)
                fused_into, seen = {}, set()
            elif match := _END.match(words):
                # passes inside a pass end before it; a row may be missing
                index = next((i for i in reversed(range(len(open_passes))) if open_passes[i].name == match[1]), None)
                if index is not None:
                    ended = open_passes[index]
                    del open_passes[index:]
                    if micros := _MICROS.search(words):
                        ended.micros = int(micros[1] or micros[2])
                    ended.order = number
                    pipeline = ended.pipeline
            continue
        if file not in _LOGS:
            continue
        if match := _CONSIDERED.match(words):
            instruction = hlo.instruction(match[1])
            reader, reader_operation = (instruction.name, instruction.operation) if instruction else ("", "")
        elif match := _FUSED.match(words):
            target = match[1]
        elif match := _CREATED.match(words):
            fused_into[match[1]] = fused_into.get(target, target)
        elif (match := _REFUSED.match(words)) and _BECAUSE in words and open_passes:
            operand, reason = match[1], words.rpartition(_BECAUSE)[2].strip().rstrip(".")
            refusal = (fused_into.get(operand, operand), fused_into.get(reader, reader), reason)
            if refusal in seen:
                continue
            seen.add(refusal)
            if reader_operation == "tuple":
                log.into_tuples += 1
            else:
                open_passes[-1].refusals.append(refusal)
        elif not words.startswith(_OTHER):
            log.unread[" ".join(words.split()[:3])[:60]] += 1
    log.passes.sort(key=lambda row: row.order)
    return log


class Dump(NamedTuple):
    """Module that XLA wrote after a pass."""

    pipeline: str
    name: str
    following: str
    text: str


_DUMP = re.compile(r"\.\d+\.(.+)\.after_(.+)\.before_(.+)\.txt$")


def read_dumps(files: Mapping[str, str]) -> list[Dump]:
    """Return the modules in files by name, in the order in which XLA wrote them, without those before a pipeline."""
    rows = [(match, name) for name in sorted(files) if is_used(name) and (match := _DUMP.search(name))]
    return [Dump(match[1], match[2], match[3], files[name]) for match, name in rows]


def _steps(dumps: Sequence[Dump], passes: Sequence[LogPass]) -> Iterator[tuple[Dump | None, LogPass | None]]:
    """Yield the dumps with their rows of the log, and the other rows that contain refusals, in order."""
    start = 0
    for dump in dumps:
        rest = range(start, len(passes))
        exact = (index for index in rest if _in_name(passes[index]) == (dump.pipeline, dump.name, dump.following))
        alike = (index for index in rest if _in_name(passes[index])[1] == dump.name)
        found = next(exact, next(alike, None))
        if found is None:
            yield dump, None
            continue
        yield from ((None, row) for row in passes[start:found] if row.refusals)
        yield dump, passes[found]
        start = found + 1
    yield from ((None, row) for row in passes[start:] if row.refusals)


def _in_name(row: LogPass) -> tuple[str, str, str]:
    """Return the pipeline, the pass and the next pass as the names of dumps contain them."""
    pipeline, name, following = (
        re.sub(r"[^\w\-.]", "_", text) for text in (row.pipeline, row.name, row.following or "pipeline-end")
    )
    return pipeline, name, following


_GIVEN_FILE, _FINAL_FILE = ".before_optimizations.txt", ".cpu_after_optimizations.txt"
_MEMORY_FILES = (".cpu_after_optimizations-buffer-assignment.txt", ".cpu_after_optimizations-live-range.txt")


def recording_of_dumps(title: str, dumps: Dumps) -> Recording:
    """Return the recording of a program that XLA compiled.

    Raises:
        StateError: if the program as given, or as compiled, is missing or incomplete.
    """
    files, inputs, result = dumps.files, dumps.inputs, dumps.result
    given, final = _only(files, _GIVEN_FILE), _only(files, _FINAL_FILE)
    log, known = read_log(dumps.log), dict[str, "hlo.Instruction | None"]()
    places = _Places(hlo.parse(given, known))

    def graph_of(text: str) -> hlo.Graph:
        return hlo.graph_of(hlo.parse(text, known), inputs, places)

    try:
        given_graph, final_graph = graph_of(given), graph_of(final)
    except hlo.TornModuleError as error:
        raise StateError(
            f"the module that XLA wrote is incomplete: {error}",
            rule="the modules before and after all passes must be complete",
            fix="compile the program again",
        ) from error
    _place_like_readers(given_graph)
    states = [_State("given", given_graph, purpose="The module that jax gave to XLA.")]
    torn, outer = 0, _outer_pipelines(log.passes)
    for dump, row in _steps(read_dumps(files), log.passes):
        state = _State(row.name if row else dump.name if dump else "", states[-1].graph, row)
        if dump is not None:
            try:
                state.graph = graph_of(dump.text)
            except hlo.TornModuleError:
                torn += 1
            pipeline = row.pipeline if row else dump.pipeline
            state.purpose, state.pipeline = f"Pass of the pipeline {pipeline}.", _short(outer.get(pipeline, pipeline))
        states.append(state)
    states.append(_State("compiled", final_graph, purpose="The module as compiled."))
    snapshots, unplaced = _snapshots(states)
    recording = recording_of(title, snapshots, _compiled(files, final_graph, result))
    recording.source_texts = source_texts(places.lines)
    recording.options = {
        "compiler": "XLA",
        "jax": result["version"] + ("" if result["version"] in TESTED else ", which is not tested"),
        "passes": len(log.passes),
        "passes that changed something": len(snapshots) - 1,
    }
    left_out = {
        "refusals into tuples": log.into_tuples,
        "refusals about unknown values": unplaced,
        "unknown rows of the log": log.unread_text,
        "incomplete modules": torn,
        "unknown rows of modules": sum(instruction is None for instruction in known.values()),
    }
    recording.options.update({name: value for name, value in left_out.items() if value})
    return recording


def _place_like_readers(graph: hlo.Graph) -> None:
    """Give operations without a line, such as the broadcast of a number, the line and boxes of their first reader."""
    places: dict[str, Value] = {}
    for name, value in reversed(graph.values.items()):
        if value.source is None and value.kind == "operation" and (reader := places.get(name)) is not None:
            value = graph.values[name] = replace(value, scope=reader.scope, source=reader.source)
        if value.source is not None:
            places.update(dict.fromkeys(value.operands, value))


def _only(files: Mapping[str, str], end: str) -> str:
    """Return the file whose name has this end."""
    found = [text for name, text in files.items() if name.endswith(end)]
    if len(found) != 1:
        raise StateError(
            f"XLA wrote {len(found)} files *{end}",
            rule="XLA must write the module before and after all passes",
            fix=f"use a version of jax that was tested: {', '.join(TESTED)}",
        )
    return found[0]


@dataclass(slots=True)
class _State:
    """Graph after a pass."""

    name: str
    graph: hlo.Graph
    row: LogPass | None = None
    purpose: str = ""
    pipeline: str = ""


def _outer_pipelines(passes: Sequence[LogPass]) -> dict[str, str]:
    """Return pipeline → outermost pipeline around it, for pipelines that are passes of other ones."""
    around = {row.name: row.pipeline for row in passes}
    outer = {}
    for pipeline in dict.fromkeys(row.pipeline for row in passes):
        path = {pipeline: None}
        while (following := around.get(next(reversed(path)))) is not None and following not in path:
            path[following] = None
        outer[pipeline] = next(reversed(path))
    return outer


def _short(pipeline: str) -> str:
    """Return ``after layout`` for the pipeline ``HLO_passes_after_layout_assignment``."""
    return re.sub(r"^HLO passes | pipeline$| assignment$", "", pipeline.replace("_", " "))


def _snapshots(states: Sequence[_State]) -> tuple[list[Snapshot], int]:
    """Return the snapshots of passes that changed or refused something, and the number of refusals left out."""
    # A value that is a result twice may become two values, such as a copy: then the tuple of results is a value.
    as_tuple = any(len(set(state.graph.results)) < len(state.graph.results) for state in states)
    snapshots: list[Snapshot] = []
    before, unplaced = states[0].graph, 0
    for state in states:
        graph, statements = state.graph, []
        for operand, reader, reason in state.row.refusals if state.row else ():
            subjects = before.named.get(operand, ""), before.named.get(reader, "")
            if not all(subjects):
                unplaced += 1
                continue
            statements.append(refusal(state.name, *subjects, reason))
        if snapshots and not statements and _same(before, graph):
            continue
        values, results = graph.values, graph.results
        if as_tuple:
            values, results = {**values, "results": Value("tuple", results, (), "tuple")}, ("results",)
        micros = float(state.row.micros) if state.row else 0.0
        snapshots.append(
            Snapshot(state.name, values, results, tuple(statements), graph.fusions, state.purpose, micros,
                     "kernels" if statements else "", pipeline=state.pipeline)
        )  # fmt: skip
        before = graph
    return snapshots, unplaced


def _same(before: hlo.Graph, after: hlo.Graph) -> bool:
    """Return whether two graphs consist of the same values and kernels."""
    return (
        before.values.keys() == after.values.keys()
        and before.fusions == after.fusions
        and all(
            value.operands == before.values[name].operands and value.signature == before.values[name].signature
            for name, value in after.values.items()
        )
    )


class _Places:
    """Boxes and lines of instructions, from the calls that led to them.

    A box is a call of a function of the user's program. Calls that led to all instructions of the program as given,
    such as those of IPython, are no boxes. If several lines of a function call another one, the names of the boxes
    contain the line.
    """

    def __init__(self, given: hlo.Module) -> None:
        stacks = {own for rows in given.computations.values() for row in rows if (own := _own(given.stack(row)))}
        self._shared: tuple[hlo.Frame, ...] = ()
        """calls that led to all instructions"""
        if stacks:
            first, last = min(stacks), max(stacks)
            pairs = enumerate(zip(first, last, strict=False))
            self._shared = first[: next((index for index, pair in pairs if pair[0] != pair[1]), len(first) - 1)]
        callers: dict[tuple[str, str, str], set[int]] = defaultdict(set)
        for stack in stacks:
            for caller, frame in pairwise(self._inner(stack)):
                callers[caller.file, caller.function, frame.function].add(caller.line)
        self._numbered = {key for key, lines in callers.items() if len(lines) > 1}
        self._known: dict[tuple[hlo.Frame, ...], tuple[tuple[str, ...], Source | None]] = {}
        self.lines: dict[str, set[int]] = defaultdict(set)
        """file → lines of instructions"""

    def __call__(self, stack: tuple[hlo.Frame, ...]) -> tuple[tuple[str, ...], Source | None]:
        if stack not in self._known:
            self._known[stack] = self._place(_own(stack))
        return self._known[stack]

    def _inner(self, stack: tuple[hlo.Frame, ...]) -> tuple[hlo.Frame, ...]:
        """Return the calls after the shared ones; XLA repeats the calls that led to a call that it inlines."""
        inner = stack[len(self._shared) :]
        return inner[max((i for i, frame in enumerate(inner) if frame == inner[0]), default=0) :]

    def _place(self, own: tuple[hlo.Frame, ...]) -> tuple[tuple[str, ...], Source | None]:
        if not own:
            return (), None
        boxes = []
        for caller, frame in pairwise(self._inner(own)):
            name = frame.function.rpartition(".")[2].strip("<>")
            if name not in _NO_BOX:
                numbered = name == "lambda" or (caller.file, caller.function, frame.function) in self._numbered
                boxes.append(f"{name}:{caller.line}" if numbered else name)
        file, line = own[-1].file, own[-1].line
        self.lines[file].add(line)
        return tuple(boxes), Source(cell_name(file), line, linecache.getline(file, line).strip())


_NO_BOX = ("genexpr", "listcomp", "dictcomp", "setcomp", "module")
"""code that is part of the surrounding function"""
_CALLS = "explorer/compilers/"
"""folder of the files of Explorer that call the program"""


def _own(stack: tuple[hlo.Frame, ...]) -> tuple[hlo.Frame, ...]:
    """Return the calls in the user's program: those inside Explorer's call, without calls in installed packages."""
    start = max((i + 1 for i, frame in enumerate(stack) if _CALLS in frame.file.replace("\\", "/")), default=0)
    return tuple(frame for frame in stack[start:] if not _is_library(frame.file)) or stack[start:]


def _is_library(file: str) -> bool:
    """Return whether a file belongs to an installed package, and not to the user's program."""
    return "site-packages" in file or "dist-packages" in file


def _compiled(files: Mapping[str, str], graph: hlo.Graph, result: Mapping[str, Any]) -> Compiled:
    """Return the kernels of a compiled module, in the order of the module, and its memory."""
    texts = (next((files[name] for name in sorted(files) if name.endswith(end)), "") for end in _MEMORY_FILES)
    memory = read_memory(*texts)
    codes = _codes([files[name] for name in sorted(files) if name.endswith(_CODE_FILE)], graph)
    kernels = []
    for name, values in graph.kernels.items():
        nanoseconds = result["events"].get(name)
        code = codes.get(name, "")
        kernels.append(
            CompiledKernel(
                values,
                name=name,
                micros=None if nanoseconds is None else nanoseconds / 1000,
                buffer=memory.buffer_of.get(name),
                live=memory.live.get(name),
                device="CPU",
                language="LLVM IR" if code else "",
                code=code,
                lines=_lines(code, values, graph),
            )
        )
    return Compiled(tuple(kernels), f"XLA, jax {result['version']}", memory.sizes, memory.peak)


_CODE_FILE = "ir-no-opt.ll"
"""end of the names of files with LLVM IR before LLVM optimises it, which corresponds to the operations"""
_FUNCTION = re.compile(r'define [^@]*@"?([\w.\-]+)"?\(')
_KERNEL_CODE, _ALL_CODE = 3_000, 150_000
"""maximum number of characters of a kernel's code, and of all code"""


def _codes(texts: Sequence[str], graph: hlo.Graph) -> dict[str, str]:
    """Return kernel → LLVM IR of its function, without the function that unpacks its arguments.

    XLA compiles equal kernels once; the code of the others names the compiled one.
    """
    functions: dict[str, str] = {}
    for text in texts:
        name, lines = "", list[str]()
        for line in text.splitlines():
            if not name and line.startswith("define ") and (match := _FUNCTION.match(line)):
                name, lines = match[1], []
            if name:
                lines.append(line)
            if line == "}":
                functions[name] = "\n".join(lines)
                name = ""
    codes, left = {}, _ALL_CODE
    compiled: dict[Hashable, str] = {}
    for kernel, values in graph.kernels.items():
        names = [f"{kernel}_wrapped", f"{kernel}_impl", kernel]
        code = next((functions[name] for name in names if name in functions), "")
        cut = code.rfind("\n", 0, _KERNEL_CODE) if len(code) > _KERNEL_CODE else len(code)
        if left >= cut > 0:
            rest = code.count("\n", cut)
            codes[kernel] = code[:cut] + (f"\n; … {rest:,} more lines" if rest else "")
            compiled.setdefault(_form(values, graph), kernel)
            left -= cut
    for kernel, values in graph.kernels.items():
        if kernel not in codes and (same := compiled.get(_form(values, graph))):
            codes[kernel] = f"; XLA compiled equal kernels once, as {same}"
    return codes


def _form(values: Sequence[str], graph: hlo.Graph) -> Hashable:
    """Return a key for a kernel, which kernels of the same operations on other operands share."""
    numbers: dict[str, int] = {}
    rows = []
    for name in values:
        value = graph.values[name]
        operands = tuple(numbers.setdefault(operand, len(numbers)) for operand in value.operands)
        constants = tuple(graph.values[operand].label for operand in value.operands)
        rows.append((value.signature, operands, constants, numbers.setdefault(name, len(numbers))))
    return tuple(rows)


_WRITTEN = {
    "add": "fadd ", "subtract": "fsub ", "multiply": "fmul ", "divide": "fdiv ", "negate": "fneg ",
    "maximum": "@llvm.maximum.", "minimum": "@llvm.minimum.", "exponential": "@llvm.exp.", "tanh": "tanh",
    "log": "@llvm.log.", "sqrt": "@llvm.sqrt.", "power": "@llvm.pow.", "select": "= select ",
}  # fmt: skip
"""operation → text in the line of LLVM IR that computes it"""


def _lines(code: str, values: Sequence[str], graph: hlo.Graph) -> dict[str, tuple[int, ...]]:
    """Return value → numbers of the lines of a kernel's code that compute it, for operations that occur once."""
    rows = code.split("\n")
    counts = Counter(graph.values[name].operation for name in values)
    found = {}
    for name in values:
        operation = graph.values[name].operation
        if counts[operation] == 1 and operation in _WRITTEN:
            lines = [number for number, row in enumerate(rows, 1) if _WRITTEN[operation] in row]
            if len(lines) == 1:
                found[name] = tuple(lines)
    return found

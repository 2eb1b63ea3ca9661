"""XLA's adapter on the stored dumps and log of an MLP (assets/xla_dumps.py), and on torn and hostile ones."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import explorer as ex
from explorer.compilers import Snapshot, Value, recording_of
from explorer.compilers.adapters.xla import hlo
from explorer.compilers.adapters.xla.memory import read_memory
from explorer.compilers.adapters.xla.story import Dumps, read_log, recording_of_dumps
from explorer.record import Recording
from explorer.record.compare.comparison import compare
from explorer.view.model.stage_texts import live_values_text
from tests.support.stored_compilers import xla_dumps, xla_recording


def label(recording: Recording, nodes: tuple[int, ...]) -> list[str]:
    return [recording.operations[recording.nodes.operation[node]] for node in nodes]


@pytest.mark.spec("X-5", headline=True)
def test_passes_of_xla_are_stages_with_their_refusals() -> None:
    """Show XLA's passes, fusions, refusals in its words, Python lines, LLVM IR, memory and times of a jax program."""
    recording = xla_recording()
    changed = [stage.name for stage in recording.stages if stage.last > stage.first]
    assert changed == ["algsimp", "fusion"]
    reasons = {recording.reason(decision) for decision in recording.declined}
    assert "`tanh` is not fused into `multiply`: expensive producer would be duplicated" in reasons
    assert "`tanh` is not fused into `dot`: Don't fuse instructions from custom fusions/calls" in reasons
    kernels = [label(recording, group.members) for group in recording.groups]
    assert ["broadcast", "add", "tanh"] in kernels
    assert ["broadcast", "reduce", "divide"] in kernels
    why = ex.explore(recording).why("tanh", "multiply")
    assert "expensive producer would be duplicated" in why


def test_stages_have_the_outermost_pipeline() -> None:
    """XLA runs the pipeline of simplifications inside the pipeline that ends with the assignment of layouts."""
    pipelines = {stage.name: stage.pipeline for stage in xla_recording().stages}
    assert pipelines["algsimp"] == pipelines["call-inliner"] == "through layout"
    assert pipelines["fusion"] == "after layout"
    log = read_log(xla_dumps().log)
    assert next(row.pipeline for row in log.passes if row.name == "algsimp") == "simplification"


def test_each_refusal_of_the_log_is_recorded_or_counted() -> None:
    log = xla_dumps().log
    reader, seen = "", set()
    for line in log.splitlines():
        if match := re.search(r"Considering fusion of: %(\S+) = ", line):
            reader = match[1]
        elif match := re.search(r"not fusing operand %(\S+) = .* because (.*)", line):
            seen.add((match[1], reader, match[2]))
    recording = xla_recording()
    # the log names a new fusion where it named the instruction before; two rows about tanh are one refusal
    assert len(recording.declined) + recording.options["refusals into tuples"] == len(seen)
    assert "refusals about unknown values" not in recording.options
    assert set(recording.authors.values()) == {"the compiler's log", "Explorer's reading"}


def test_kernels_have_nodes_code_memory_and_times() -> None:
    recording = xla_recording()
    assert recording.schedule is not None
    assert recording.run is not None
    names = [recording.placements[index].name for index in range(len(recording.schedule.kernels))]
    assert names[:3] == ["ynn_fusion.1", "add_tanh_fusion", "ynn_fusion"]
    assert all(origin.nodes and origin.sources for origin in recording.provenance.kernels)
    assert len(recording.run.steps) == len(names) == 8
    code = recording.codes[names.index("add_tanh_fusion")]
    assert code.language == "LLVM IR"
    assert "fadd float" in code.text
    assert "KernelCallFrame" not in code.text  # the function that unpacks arguments
    code = recording.codes[names.index("subtract_exponential_fusion")]
    lines = code.text.split("\n")
    computed = [(recording.nodes.label[node], lines[line - 1].split(" = ")[1].split()[0]) for line, node in code.lines]
    assert computed == [("add", "fadd"), ("subtract", "fsub"), ("exponential", "call")]
    # ynn_fusion.1, tanh and 2 · h share memory of 32 × 48 floats
    buffers = [kernel.buffer for kernel in recording.schedule.kernels]
    assert buffers[0] == buffers[1] == buffers[names.index("broadcast_multiply_fusion")]
    assert recording.schedule.buffers[buffers[0]] == 32 * 48 * 4
    assert recording.schedule.peak == 6144 + 1280 + 16 + 128


@pytest.mark.parametrize("version", ["0.7.2", "0.10.2"])
def test_the_memory_peak_names_its_kernel_and_values(version: str) -> None:
    """The kernel with the most live bytes is XLA's, and the sum of its values is XLA's sum without the parameters."""
    recording = xla_recording(version)
    schedule = recording.schedule
    assert schedule is not None
    text = next(text for text in xla_dumps(version).files.values() if "Live ranges at" in text)
    peak = re.search(r"Live ranges at (\d+) \(peak\)", text)
    assert peak is not None
    live = [kernel.live or 0 for kernel in schedule.kernels]
    most = live.index(max(live))
    assert f"    {peak[1]}:{recording.placements[most].name}\n" in text
    values = re.findall(r"    (?!leaves_|constant)[\w.]+\{\}: (\d+) bytes", text)
    assert sum(map(int, values)) == live[most] == 6144 + 1280 + 128
    assert live_values_text(recording) == "live in kernel 5: multiply 6 KB, dot (no. 2) 1.25 KB, reduce -inf 128 B"
    assert [recording.placements[index].name for index, kernel in enumerate(schedule.kernels) if kernel.in_place][
        :2
    ] == [
        "add_tanh_fusion",
        "broadcast_multiply_fusion",
    ]


def test_live_bytes_are_unknown_without_live_ranges() -> None:
    dumps = xla_dumps()
    files = {name: text for name, text in dumps.files.items() if not name.endswith("live-range.txt")}
    schedule = recording_of_dumps("mlp", dumps._replace(files=files)).schedule
    assert schedule is not None
    assert {kernel.live for kernel in schedule.kernels} == {None}
    assert schedule.peak == 6144 + 1280 + 16 + 128


def test_values_that_share_memory_count_once() -> None:
    """An update in place, and the results of a loop, are in the memory of their operands."""
    assignment = """allocation 0: size 64, preallocated-temp:
 value: <1 a @0> (size=32,offset=0): f32[8]{0}
 value: <2 loop{1} @0> (size=32,offset=0): f32[8]{0}
 value: <3 b @0> (size=16,offset=32): f32[4]{0}
allocation 1: size 4, constant:
 value: <4 c @0> (size=4,offset=0): f32[]
"""
    ranges = """  InstructionSequence:
    0:c
    1:a
    2:b
    3:loop
    4:d
  BufferLiveRange:
    c{}:0-5
    a{}:1-3
    loop{1}:3-5
    b{}:2-2
    d{}:4-5
"""
    memory = read_memory(assignment, ranges)
    assert memory.live == {"c": 0, "a": 32, "b": 48, "loop": 32, "d": 32}
    torn = ranges.replace("a{}:1-3", "a{}:3-1").replace("b{}:2-2", "b{}:2")
    assert read_memory(assignment, torn).live == {"c": 0, "a": 0, "b": 0, "loop": 32, "d": 32}


def test_values_have_lines_and_names_of_the_program() -> None:
    recording = xla_recording()
    assert [recording.nodes.label[node] for node in recording.bodies[0].inputs] == ["x", "w1", "b1", "w2", "b2"]
    sources = {(source.where, source.line) for source in recording.sources}
    assert {where for where, _ in sources} == {"jax_programs.py"}
    nodes = recording.nodes
    given = [nodes.label[node] for node, kind in enumerate(nodes.kind) if kind == "constant" and nodes.born[node] < 0]
    assert sorted(given) == ["-inf", "0", "2"]  # jax wrote −inf twice


@pytest.mark.spec("X-10")
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.9, 0.99])
def test_a_torn_log_gives_a_shorter_recording(share: float) -> None:
    dumps = xla_dumps()
    torn = recording_of_dumps("torn", dumps._replace(log=dumps.log[: int(share * len(dumps.log))]))
    assert len(torn.declined) <= len(xla_recording().declined)
    assert [stage.name for stage in torn.stages] == [stage.name for stage in xla_recording().stages]
    assert torn.options["passes"] <= xla_recording().options["passes"]


def test_an_incomplete_module_is_counted_and_left_out() -> None:
    dumps = xla_dumps()
    name = next(name for name in dumps.files if ".after_fusion.before" in name)
    text = dumps.files[name]
    torn = recording_of_dumps("torn", dumps._replace(files={**dumps.files, name: text[: len(text) // 2]}))
    assert torn.options["incomplete modules"] == 1
    assert len(torn.schedule.kernels) == 8  # type: ignore[union-attr]
    lines = text.splitlines()
    del lines[next(index for index, line in enumerate(lines) if " broadcast(" in line)]
    torn = recording_of_dumps("torn", dumps._replace(files={**dumps.files, name: "\n".join(lines)}))
    assert torn.options["incomplete modules"] == 1


@pytest.mark.parametrize("end", [".before_optimizations.txt", ".cpu_after_optimizations.txt"])
def test_a_program_that_is_missing_or_incomplete_raises_an_error(end: str) -> None:
    dumps = xla_dumps()
    name = next(name for name in dumps.files if name.endswith(end))
    rest = {other: text for other, text in dumps.files.items() if other != name}
    with pytest.raises(ex.StateError, match=r"(?s)XLA wrote 0 files.*rule: .*fix: "):
        recording_of_dumps("missing", dumps._replace(files=rest))
    text = dumps.files[name]
    with pytest.raises(ex.StateError, match=r"(?s)incomplete.*rule: .*fix: "):
        recording_of_dumps("torn", dumps._replace(files={**rest, name: text[: len(text) // 2]}))


def test_rows_of_an_unknown_form_are_counted() -> None:
    dumps = xla_dumps()
    row = next(line for line in dumps.log.splitlines() if "instruction_fusion.cc" in line)
    unknown = row.partition("] ")[0] + "] Postponing the fusion of %a"
    log = dumps.log.replace(row, f"{unknown}\n{row}")
    recording = recording_of_dumps("unknown", dumps._replace(log=log))
    assert recording.options["unknown rows of the log"] == "1, such as `Postponing the fusion`"
    version = {**dumps.result, "version": "9.9"}
    assert recording_of_dumps("new", dumps._replace(result=version)).options["jax"] == "9.9, which is not tested"


CALLS = "\n".join(
    f"%c{n} (p: f32[]) -> f32[] {{\n"
    f"  %p{n} = f32[] parameter(0)\n"
    f"  %a{n} = f32[] call(%p{n}), to_apply=%c{n + 1}\n"
    f"  ROOT %b{n} = f32[] call(%a{n}), to_apply=%c{n + 1}\n}}"
    for n in range(60)
)
LEAF = "%c60 (p: f32[]) -> f32[] {\n  %p60 = f32[] parameter(0)\n  ROOT %n = f32[] negate(%p60)\n}"
MAIN = "ENTRY %main (x: f32[]) -> f32[] {\n  %x = f32[] parameter(0)\n  ROOT %y = f32[] call(%x), to_apply=%c0\n}"


def test_a_hostile_module_is_refused_in_time() -> None:
    """Calls that double at each level, and calls of themselves, end at a limit; no line takes quadratic time."""
    place = lambda stack: ((), None)  # noqa: E731
    for text in (f"{CALLS}\n{LEAF}\n{MAIN}", f"{CALLS.replace('%c60', '%c0')}\n{MAIN}"):
        with pytest.raises(hlo.TornModuleError):
            hlo.graph_of(hlo.parse(text, {}), [], place)
    assert hlo.graph_of(
        hlo.parse("ENTRY %m (x: f32[]) -> f32[] {\n  ROOT %x = f32[] parameter(0)\n}", {}), ["x"], place
    )
    for part in ('"\\"', "(", "[{", "/*", '"', " -> {", "%a = ", "x=1 "):
        line = f"  %a = f32[] add({part * 100_000}"
        head = f"%a ({part * 100_000} {{"
        assert hlo.parse(f"%c (p: f32[]) -> f32[] {{\n{line}\n{head}\n}}\n{head}", {}).unread <= 2


@pytest.mark.parametrize("part", ["not fusing operand %", " because ", "Considering fusion of: %", "((", "HLO pass "])
def test_a_hostile_log_is_read(part: str) -> None:
    start = "I1129 22:41:19.730772   11647 "
    log = read_log(f"{start}instruction_fusion.cc:1] {part * 50_000}\n{start}hlo_pass_pipeline.cc:1] {part * 50_000}")
    assert not any(row.refusals for row in log.passes)


def test_text_of_a_log_is_escaped(tmp_path: Path) -> None:
    dumps = xla_dumps()
    hostile = dumps._replace(log=dumps.log.replace("expensive producer", "<script>alert(1)</script>\x1b[31m"))
    recording = recording_of_dumps("<b>", hostile)
    view = ex.explore(recording)
    for name in ("page.html", "text.txt"):
        view.save(tmp_path / name)
        text = (tmp_path / name).read_text()
        assert "\x1b" not in text
        assert "alert(1)" in text
    assert "<script>alert(1)" not in (tmp_path / "page.html").read_text()


TWICE = """
%f.1 (p.1: f32[8]) -> f32[8] {
  %p.1 = f32[8]{0} parameter(0)
  %c.1 = f32[8]{0} cosine(%p.1)
  ROOT %n.1 = f32[8]{0} negate(%c.1)
}
%f.2 (p.2: f32[8]) -> f32[8] {
  %p.2 = f32[8]{0} parameter(0)
  %c.2 = f32[8]{0} cosine(%p.2)
  ROOT %n.2 = f32[8]{0} negate(%c.2)
}
ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  %first = f32[8]{0} fusion(%x), kind=kLoop, calls=%f.1
  ROOT %second = f32[8]{0} fusion(%first), kind=kLoop, calls=%f.2
}
"""


def test_equal_kernels_name_the_compiled_one() -> None:
    """XLA compiles equal kernels once; long code is cut."""
    filler = "\n".join("  %1 = load float, ptr %0" for _ in range(500))
    code = f"define ptr @second(ptr %0) #0 {{\n{filler}\n  %2 = fneg float %1\n}}"
    files = {"m.before_optimizations.txt": TWICE, "m.cpu_after_optimizations.txt": TWICE, "m.ir-no-opt.ll": code}
    recording = recording_of_dumps("twice", Dumps(files, "", ["x"], {"version": "0.10.2", "events": {}}))
    assert recording.codes[0].text == "; XLA compiled equal kernels once, as second"
    assert recording.codes[1].text.endswith("more lines")
    assert len(recording.codes[1].text) < 4_000
    assert recording.run is None
    assert recording.schedule is not None
    assert recording.schedule.peak is None


def _of_version(version: str, log: str) -> Recording:
    return recording_of_dumps(
        "mlp · XLA", xla_dumps()._replace(log=log, result={**xla_dumps().result, "version": version})
    )


@pytest.mark.spec("X-7", headline=True)
def test_a_diff_pairs_decisions_by_rule_and_nodes(tmp_path: Path) -> None:
    """Assert and compare what another compiler decides: `assert_fused`, and `explorer diff` of two recordings."""
    log = xla_dumps().log
    changed = re.sub(r"(%tanh\S* = .* because ).*", r"\1the moon is full", log)
    assert changed != log
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    for path, text, version in ((old, log, "0.7.2"), (new, changed, "0.10.2")):
        ex.explore(_of_version(version, text)).save(path)
    comparison = compare(_of_version("0.7.2", log), _of_version("0.10.2", changed))
    assert len(comparison.changed) == len(comparison.decisions_before) == len(comparison.decisions_after) == 2
    ended = subprocess.run(
        [sys.executable, "-m", "explorer", "diff", str(old), str(new)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "decisions about the same nodes that changed: 2" in ended.stdout
    assert (
        "was ✗ `tanh` is not fused into `multiply`: expensive producer would be duplicated "
        "[expensive_producer_would_be_duplicated], now ✗ `tanh` is not fused into `multiply`: the moon is full "
    ) in ended.stdout
    assert "decisions only" not in ended.stdout
    assert compare(xla_recording(), xla_recording()).changed == {}


@pytest.mark.spec("X-7")
def test_fusions_of_xla_can_be_asserted() -> None:
    recording = xla_recording()
    ex.testing.assert_fused(recording, "subtract", "exponential")
    with pytest.raises(AssertionError, match=r"(?s)`tanh` and `multiply` must be .*expensive producer would be dup"):
        ex.testing.assert_fused(recording, "tanh", "multiply")


def test_names_of_values_are_not_compared() -> None:
    """Versions of a compiler number their values differently."""
    given = {"x": Value("x", kind="leaf"), "a.1": Value("exp", ("x",)), "b.2": Value("log", ("a.1",))}
    renamed = {"x": Value("x", kind="leaf"), "a.7": Value("exp", ("x",)), "b.9": Value("log", ("a.7",))}
    lowered = [{**values, last: Value("log1p", values[last].operands)} for values, last in
               ((given, "b.2"), (renamed, "b.9"))]  # fmt: skip
    one = recording_of("one", [Snapshot("given", given, ("b.2",)), Snapshot("lower", lowered[0], ("b.2",))])
    two = recording_of("two", [Snapshot("given", renamed, ("b.9",)), Snapshot("lower", lowered[1], ("b.9",))])
    comparison = compare(one, two)
    assert comparison.equal
    assert len(comparison.counterparts) == len(one.nodes)


FRAMES = """
FileNames
1 "/home/user/train.py"
2 "/usr/lib/site-packages/flax/linen.py"

FunctionNames
1 "<module>"
2 "f"
3 "f.<locals>.norm"
4 "apply"
5 "f.<locals>.<lambda>"

FileLocations
1 {file_name_id=1 function_name_id=1 line=30}
2 {file_name_id=1 function_name_id=2 line=7}
3 {file_name_id=1 function_name_id=2 line=9}
4 {file_name_id=1 function_name_id=3 line=3}
5 {file_name_id=2 function_name_id=4 line=400}
6 {file_name_id=1 function_name_id=5 line=11}

StackFrames
1 {file_location_id=1 parent_frame_id=1}
2 {file_location_id=2 parent_frame_id=2}
3 {file_location_id=3 parent_frame_id=2}
4 {file_location_id=4 parent_frame_id=3}
5 {file_location_id=4 parent_frame_id=4}
6 {file_location_id=5 parent_frame_id=6}
7 {file_location_id=6 parent_frame_id=4}

ENTRY %main (x: f32[8]) -> f32[8] {
  %x = f32[8]{0} parameter(0)
  %a = f32[8]{0} sine(%x), metadata={op_name="a" stack_frame_id=2}
  %b = f32[8]{0} cosine(%a), metadata={op_name="b" stack_frame_id=4}
  %c = f32[8]{0} tanh(%b), metadata={op_name="c" stack_frame_id=6}
  %d = f32[8]{0} negate(%c), metadata={op_name="d" stack_frame_id=7}
  ROOT %e = f32[8]{0} sqrt(%d)
}
"""


def test_boxes_are_the_calls_of_the_program() -> None:
    """Boxes have the lines of calls where a function is called twice; calls of packages and of all values are none."""
    files = {"m.before_optimizations.txt": FRAMES, "m.cpu_after_optimizations.txt": FRAMES}
    recording = recording_of_dumps("boxes", Dumps(files, "", ["x"], {"version": "0.10.2", "events": {}}))
    nodes = recording.nodes
    boxes = {nodes.label[node]: recording.scopes[nodes.scope[node]].name for node in range(len(nodes))}
    assert boxes == {"x": "", "sine": "", "cosine": "norm:7", "tanh": "norm:9", "negate": "lambda:9", "sqrt": ""}
    lines = {nodes.label[node]: nodes.source[node] for node in range(len(nodes))}
    sources = {name: recording.sources[row].full_location for name, row in lines.items() if row >= 0}
    assert sources == {
        "sine": "train.py line 7",
        "cosine": "train.py line 3",
        "tanh": "train.py line 3",
        "negate": "train.py line 11",
    }


LOOP = """
%body (b: (s32[], f32[8])) -> (s32[], f32[8]) {
  %b = (s32[], f32[8]{0}) parameter(0)
  %i = s32[] get-tuple-element(%b), index=0
  %one = s32[] constant(1)
  %next = s32[] add(%i, %one)
  %v = f32[8]{0} get-tuple-element(%b), index=1
  %t = f32[8]{0} tanh(%v)
  %e = f32[8]{0} exponential(%t)
  ROOT %both = (s32[], f32[8]{0}) tuple(%next, %e)
}
%done (c: (s32[], f32[8])) -> pred[] {
  %c = (s32[], f32[8]{0}) parameter(0)
  %n = s32[] get-tuple-element(%c), index=0
  %five = s32[] constant(5)
  ROOT %less = pred[] compare(%n, %five), direction=LT
}
%sine (s: f32[8]) -> f32[8] {
  %s = f32[8]{0} parameter(0)
  ROOT %sin = f32[8]{0} sine(%s)
}
%cosine (k: f32[8]) -> f32[8] {
  %k = f32[8]{0} parameter(0)
  ROOT %cos = f32[8]{0} cosine(%k)
}
ENTRY %main (x: f32[8], p: pred[]) -> (f32[8], f32[8], f32[8]) {
  %p = pred[] parameter(1)
  %x = f32[8]{0} parameter(0)
  %zero = s32[] constant(0)
  %start = (s32[], f32[8]{0}) tuple(%zero, %x)
  %loop = (s32[], f32[8]{0}) while(%start), condition=%done, body=%body, backend_config={"known":{"n":"5"}}
  %out = f32[8]{0} get-tuple-element(%loop), index=1
  %either = f32[8]{0} conditional(%p, %out, %x), true_computation=%sine, false_computation=%cosine
  ROOT %all = (f32[8]{0}, f32[8]{0}, f32[8]{0}) tuple(%out, %either, %out)
}
"""
FUSION = "I1129 22:41:19.730816   11647 instruction_fusion.cc:1]"
LOOP_LOG = f"""
I1129 22:41:19.719715   11647 hlo_pass_pipeline.cc:181]   HLO pass fusion
{FUSION} Considering fusion of: %e = f32[8]{{0}} exponential(%t) with operand t
{FUSION} not fusing operand %t = f32[8]{{0}} tanh(%v) because it is late
{FUSION} Considering fusion of: %t = f32[8]{{0}} tanh(%v) with operand v
{FUSION} not fusing operand %v = f32[8]{{0}} get-tuple-element(%b), index=1 because it is late
"""


def test_loops_and_branches_are_written_out() -> None:
    """The body of a loop and the branches are in place of their caller; a result that occurs twice is kept."""
    files = {"m.before_optimizations.txt": LOOP, "m.cpu_after_optimizations.txt": LOOP}
    result = {"version": "0.10.2", "events": {"t": 5000.0, "sin": 1000.0}}
    recording = recording_of_dumps("loop", Dumps(files, LOOP_LOG, ["x", "p"], result))
    nodes = recording.nodes
    rows = {recording.operations[nodes.operation[node]]: node for node in range(len(nodes))}
    assert [nodes.label[node] for node in recording.bodies[0].inputs] == ["x", "p"]
    assert [nodes.label[node] for node in nodes.operands[rows["tanh"]]] == ["x"]
    read = {nodes.label[node] for node in nodes.operands[rows["while"]]}
    assert read == {"0", "x", "compare", "add", "exponential"}
    assert {nodes.label[node] for node in nodes.operands[rows["conditional"]]} == {
        "p",
        "result 1",
        "x",
        "sine",
        "cosine",
    }
    assert [nodes.label[node] for node in nodes.operands[rows["sine"]]] == ["result 1"]
    assert [nodes.label[node] for node in nodes.operands[rows["cosine"]]] == ["x"]
    assert recording.roots == (rows["tuple"],)
    assert len(nodes.operands[rows["tuple"]]) == 3
    assert [recording.reason(decision) for decision in recording.declined] == [
        "`tanh` is not fused into `exponential`: it is late",
        "`x` is not fused into `tanh`: it is late",
    ]
    assert recording.schedule is not None
    assert recording.run is not None
    kernels = [label(recording, kernel.nodes) for kernel in recording.schedule.kernels]
    assert sorted(kernels) == [["add"], ["compare"], ["cosine"], ["exponential"], ["sine"], ["tanh"]]
    assert recording.run.micros == 6.0

"""Texts of stages: counts with units, and the result of each stage in one line.

Everything is counted from rows of a recording, which may come from a file; the page shows the line with its stage. The
*peak* is the memory that a run allocates: the arena, requested results, and working memory. Memory that is *live* while
a kernel runs is part of it. The parts of the peak reach their maxima at different times, so a run may never use all of
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from explorer.record import Recording, Run, Stage
from explorer.record.node_decisions import node_names
from explorer.record.reasons import (
    bytes_text,
    count_text,
    counted_text,
    mentioned,
    micros_text,
    render,
    short_counted_text,
)
from explorer.record.rows import total

_LIVE = 5
"""maximum number of listed live values"""
PARTS = {"peak_arena": "arena", "peak_results": "requested results", "peak_working": "working memory"}
"""counts that add up to the peak → names"""
_COUNTS = {
    **PARTS,
    "bytes": "written",
    "peak_lower_bound": "most live",
    "peak_without_reuse": "without reuse",
    "unmatched_us": "time of unmatched",
    "in_kernels_us": "in kernels",
    "between_kernels_us": "between kernels",
    "around_kernels_us": "before and after kernels",
}
"""names of counts that differ from the recording's names"""
_GROUPS = {"kernel": ("kernel fused", "kernels fused"), "batch": ("batch formed", "batches formed"),
           "function": ("call opened", "calls opened")}  # fmt: skip


def stage_counts(stage: Stage) -> list[tuple[str, str]]:
    """Return the counts of a stage with their units: ``[("nodes", "12"), ("written", "6 KB")]``."""
    return [
        (_COUNTS.get(name) or name.replace("_", " "), count_value(name, value)) for name, value in stage.counts.items()
    ]


def count_value(name: str, value: float) -> str:
    """Format a count according to its name: bytes, a time in µs, flops, or else a number with commas."""
    if name.endswith("_us"):
        return micros_text(value)
    if name == "flops":
        return count_text(value)
    is_size = name == "bytes" or name.startswith("peak") or name.endswith("_bytes")
    return bytes_text(value) if is_size else f"{value:,}"


def stage_cost(stage: Stage) -> str:
    """Return the cost of the graph after a stage: ``3.64 G flops · 12 MB written``, or ""."""
    flops, size = stage.counts.get("flops", 0), stage.counts.get("bytes", 0)
    parts = [short_counted_text(flops, "flop") if flops else "", f"{bytes_text(size)} written" if size else ""]
    return " · ".join(filter(None, parts))


def stage_size(stage: Stage) -> str:
    """Return the size of the graph or the schedule after a stage: ``1,234`` nodes, ``12 kernels``, ``12 steps``."""
    counted = {"record": "nodes", "rewrite": "nodes", "order": "kernels", "run": "steps"}.get(stage.kind, "")
    if counted not in stage.counts:
        return ""
    count = stage.counts[counted]
    return f"{count:,}" if counted == "nodes" else counted_text(count, counted.removesuffix("s"))


def peak_text(recording: Recording) -> str:
    """Return the peak as a sum: ``peak 96 KB = arena 48 KB + requested results 32 KB + working memory 16 KB``.

    Return "" if the peak is unknown.
    """
    schedule = recording.schedule
    if schedule is None or schedule.peak is None:
        return ""
    counts = memory_counts(recording)
    parts = " + ".join([f"{name} {bytes_text(counts[part])}" for part, name in PARTS.items() if counts.get(part)])
    return f"peak {bytes_text(schedule.peak)}{f' = {parts}' if parts else ''}"


def most_live_text(recording: Recording) -> str:
    """Return the maximum of live bytes and its kernel: ``most live 80 KB, in kernel 4``; "" if it is 0 or unknown."""
    assert recording.schedule is not None
    lives = [kernel.live or 0 for kernel in recording.schedule.kernels]
    maximum = max(lives, default=0)
    return f"most live {bytes_text(maximum)}, in kernel {lives.index(maximum) + 1:,}" if maximum else ""


def live_values_text(recording: Recording) -> str:
    """Return what is live in the kernel with the most live memory: ``live in kernel 4: conv2d 3 MB, relu 1 MB``.

    The largest values are first. Return "" if no plan has assigned memory.
    """
    assert recording.schedule is not None
    kernels = recording.schedule.kernels
    lives = [kernel.live or 0 for kernel in kernels]
    if not any(lives) or all(kernel.buffer is None for kernel in kernels):
        return ""
    peak, name, once = lives.index(max(lives)), node_names(recording), {*recording.once}
    freed = {node: index for index, kernel in enumerate(kernels) for node in kernel.frees}
    values = [
        (kernel.bytes, name(kernel.nodes[-1]))
        for index, kernel in enumerate(kernels[: peak + 1])
        # Values computed once for all runs do not belong to the memory of a single run.
        if kernel.buffer is not None
        and not (kernel.buffer < 0 and (not kernel.bytes or index in once))
        and freed.get(kernel.nodes[-1], peak) >= peak
    ]
    if kernels[peak].workspace:
        values.append((kernels[peak].workspace or 0, "working memory"))
    values.sort(key=lambda row: -row[0])
    named = [f"{what} {bytes_text(size)}" for size, what in values[:_LIVE]]
    named += [f"{len(values) - _LIVE:,} more"] * (len(values) > _LIVE)
    return f"live in kernel {peak + 1:,}: {', '.join(named)}"


def memory_counts(recording: Recording) -> dict[str, int]:
    """Return the counts of the stage that assigns memory to results; empty if there is no such stage."""
    return next((stage.counts for stage in recording.stages if stage.kind == "memory"), {})


def stage_result(recording: Recording, number: int) -> str:
    """Return a stage's result: ``22 kernels fused, 8 declined; 12.3 MB never written``; "" for the recorded stage."""
    stage = recording.stages[number]
    if stage.kind == "record":
        return ""
    done = {"order": _ordered, "memory": _placed, "run": _ran}.get(stage.kind, _changed)(recording, number)
    declined = sum(row.verdict == "declined" for row in recording.decisions[stage.first : stage.last])
    parts = ", ".join([*done, *[f"{declined:,} declined"] * (declined > 0)])
    return "; ".join(filter(None, [parts or "changed nothing", *_saved(recording, number)])) + "."


def _changed(recording: Recording, number: int) -> list[str]:
    """List the changes of a pass: groups formed, nodes replaced, nodes removed."""
    stage, nodes = recording.stages[number], recording.nodes
    if with_code := stage.counts.get("kernels_with_code"):
        return [counted_text(with_code, "kernel has C code", "kernels have C code")]
    groups: dict[str, int] = {}
    grown: set[int] = set()
    # Backwards, since the last of several nested groups is the stage's final one.
    for group in reversed([row for row in recording.groups if _holds(stage, row.decision)]):
        if grown.isdisjoint(group.members):  # a kernel that grew is counted in its final state
            groups[group.kind] = groups.get(group.kind, 0) + 1
        grown.update(group.members)
    parts = [counted_text(count, *_GROUPS[name]) for name, count in groups.items()]
    if parts:
        return parts
    replaced = {old for decision, old, _ in recording.substitutions if _holds(stage, decision)}
    first, last = stage.first, stage.last
    removed = sum(node not in replaced for node, gone in enumerate(nodes.gone) if first <= gone < last)
    if replaced:
        parts.append(f"{counted_text(len(replaced), 'node')} replaced")
    if removed:
        parts.append(f"{counted_text(removed, 'node')} removed")
    return parts or list(_single_change(recording, stage))


def _single_change(recording: Recording, stage: Stage) -> Iterator[str]:
    """Yield the effect of a pass that neither groups nor replaces nodes: its only decision, or a count."""
    applied = [row for row in recording.decisions[stage.first : stage.last] if row.verdict == "applied"]
    if len(applied) == 1 and not mentioned(applied[0].reason, applied[0].facts):
        change, _, _ = render(applied[0].reason, applied[0].facts, str).partition(", because ")
        yield change.rstrip(".")
    elif applied:
        yield counted_text(len(applied), "change")


def _holds(stage: Stage, decision: int) -> bool:
    return stage.first <= decision < stage.last


def _saved(recording: Recording, number: int) -> Iterator[str]:
    """Yield the flops and bytes that a rewriting pass saves, or adds."""
    stage = recording.stages[number]
    if stage.kind != "rewrite" or number == 0 or stage.first == stage.last:
        return
    before, after = recording.stages[number - 1].counts, stage.counts
    flops = before.get("flops", 0) - after.get("flops", 0)
    size = before.get("bytes", 0) - after.get("bytes", 0)
    fuses = any(group.kind == "kernel" and _holds(stage, group.decision) for group in recording.groups)
    if flops:
        yield f"{short_counted_text(abs(flops), 'flop')} {'fewer' if flops > 0 else 'more'}"
    if size > 0:
        yield f"{bytes_text(size)} {'never' if fuses else 'less'} written"
    elif size:
        yield f"{bytes_text(-size)} more written"


def _ordered(recording: Recording, number: int) -> list[str]:
    schedule = recording.schedule
    if schedule is None:
        return []
    kernels = counted_text(len(schedule.kernels), "kernel")
    levels = [kernel.level for kernel in schedule.kernels]
    widest = max(Counter(levels).values(), default=0)
    if len(levels) > 1 and None not in levels:
        kernels += f", up to {widest} at a time" if widest > 1 else ", each of which needs the one before"
    estimate, once = recording.estimate(), recording.estimate(once=True)
    if estimate is None:
        return [kernels]
    each = f" for each run, and {micros_text(once)} once, before the first run" if once else ""
    return [kernels, f"{micros_text(estimate)} estimated{each}"]


def _placed(recording: Recording, number: int) -> list[str]:
    schedule = recording.schedule
    if schedule is None:
        return _changed(recording, number)
    peak, without_reuse = schedule.peak, schedule.peak_without_reuse
    saves = peak is not None and without_reuse is not None and peak < without_reuse
    return [
        counted_text(len(schedule.buffers), "buffer"),
        *filter(None, [peak_text(recording), most_live_text(recording), without_reuse_text(recording) * saves]),
    ]


def without_reuse_text(recording: Recording) -> str:
    """Return the peak without reuse of memory: ``without reuse 120 KB``; "" if it is unknown."""
    schedule = recording.schedule
    size = None if schedule is None else schedule.peak_without_reuse
    return "" if size is None else f"without reuse {bytes_text(size)}"


def _ran(recording: Recording, number: int) -> list[str]:
    run, schedule = recording.run, recording.schedule
    if run is None or schedule is None or not (run.steps or run.micros):
        return ["nothing ran"]
    if not run.steps:
        return [f"the run took {micros_text(run.micros)} in a {_condition(run)}"]
    skipped = {*recording.once} if run.warm else frozenset()
    estimate = total(schedule.kernels[step.kernel].estimate for step in run.steps if step.kernel not in skipped)
    kernels, inside = counted_text(len(run.steps), "kernel"), recording.stages[number].counts.get("in_kernels_us")
    took = "" if inside is None else f"{micros_text(inside)} of the "
    sentence = f"{kernels} took {took}{micros_text(run.micros)} {'of' if took else 'in'} a {_condition(run)}"
    if estimate:
        ratio = f"{run.micros / estimate:.3g} times the {micros_text(estimate)} estimated for {machine_text(recording)}"
        sentence = f"{sentence}, {ratio}"
    once = sum(step.micros for step in run.steps if step.kernel in recording.once_in_run)
    if once:
        sentence = f"{sentence}; {micros_text(once)} of it will not be needed in later runs"
    when = "between its kernels" if run.watched else "in a run before it"
    values = [f"statistics of values were recorded {when}"] * bool(run.values)
    return ["; ".join([sentence, *values])]


def _condition(run: Run) -> str:
    return "warm run" if run.warm else "first run"


def first_nan(recording: Recording) -> int:
    """Return the first node whose value contains a NaN, or −1; leaves come first, followed by nodes in run order."""
    run, schedule = recording.run, recording.schedule
    if run is None or schedule is None:
        return -1
    leaves = (node for node in sorted(run.values) if recording.nodes.kind[node] in ("leaf", "input"))
    computed = (node for step in run.steps for node in schedule.kernels[step.kernel].nodes)
    with_nan = (node for nodes in (leaves, computed) for node in nodes if node in run.values and run.values[node].nan)
    return next(with_nan, -1)


MIN_RATIO = 1.25
"""ratio of two measured times below which no difference is reported, since runs of one program vary by as much"""


def machine_text(recording: Recording) -> str:
    """Return the machine to which estimated times refer, according to the plan's option ``costs``."""
    return "this machine" if recording.options.get("costs") == "measured" else "the reference machine"

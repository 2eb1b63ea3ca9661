"""Assertions about a plan's fusion, merging, batching and peak memory.

Arguments are expressions or names in the program, so tests remain valid when kernel numbers change.
"""

from __future__ import annotations

from explorer.core.argument_checks import check_type, named
from explorer.core.errors import OperandError
from explorer.core.memory_budget import size_of
from explorer.record.reasons import bytes_text, counted_text
from explorer.testing.subjects import (
    AnyPlan,
    Subject,
    Subjects,
    declined_lines,
    operations,
    recording_of,
    schedule_of,
    subjects,
)
from explorer.view.export.decision_lines import decision_line
from explorer.view.export.text import kernel_line
from explorer.view.model.program_location import node_location
from explorer.view.model.stage_texts import peak_text

_KERNELS = 4
"""maximum number of kernels that a failure lists"""


def assert_fused(plan: AnyPlan, *what: Subject) -> None:
    """Assert that a single kernel computes all of these operations.

    Each argument is an expression or a name: of operations (``"tanh"``, ``"block / tanh"``), a layer, a scope or an
    operator of a file. A name refers to all operations with that name. Raises OperandError for a single operation.

    >>> x = ex.tensor([1.0, 2.0])
    >>> plan = ex.EvalPlan()
    >>> handle = plan.register(ex.tanh(x + 1) * 2)
    >>> ex.testing.assert_fused(plan.prepare(), "add", "tanh", "multiply")
    """
    __tracebackhide__ = True
    subject = operations(plan, what)
    if len(subject.all_nodes) == 1:
        raise OperandError(
            f"only {subject}, which is one operation",
            rule="there must be at least two operations, because a single one is always in one kernel",
            fix='name the other operations too: assert_fused(plan, "add", "tanh")',
        )
    kernels, accounts = schedule_of(subject.recording), subject.recording.provenance.nodes
    # nodes that need no kernel, such as a reshaped weight, are ignored
    computed = [
        {node: set(accounts[node].kernels) for node in nodes if accounts[node].kernels} for nodes in subject.nodes
    ]
    kernels_of = {node: numbers for part in computed for node, numbers in part.items()}
    common = set.intersection(*kernels_of.values()) if all(computed) else set()
    calls = [node for node in kernels_of if subject.recording.nodes.kind[node] == "call"]
    if common and all(len(kernels_of[node]) == 1 for node in calls):
        return
    lines = [
        kernel_line(subject.recording, number + 1, kernels[number])
        for number in sorted(set().union(*kernels_of.values()))
    ]
    missing = [
        f"  `{name}` is not computed by any kernel"
        for name, part in zip(subject.names, computed, strict=True)
        if not part
    ]
    _fail(
        subject,
        "must be computed by one kernel, and are not",
        "kernels",
        _truncated(lines) + missing + _ambiguous_names(subject),
    )


def assert_merged(plan: AnyPlan, *what: Subject) -> None:
    """Assert that these expressions are computed once, as one node.

    Names that each refer to several operations, such as two scopes, are compared operation by operation. A single name
    refers to all operations with that name, which must be one node.

    >>> x = ex.tensor([1.0, 2.0])
    >>> first, second = ex.exp(x), ex.exp(x)
    >>> plan = ex.EvalPlan()
    >>> handles = plan.register(first), plan.register(second)
    >>> ex.testing.assert_merged(plan.prepare(), first, second)
    """
    __tracebackhide__ = True
    subject = subjects(plan, what)
    recording = subject.recording
    final = recording.resolver(recording.end)
    rows = [subject.nodes[0]] if len(subject.nodes) == 1 else _rows_of(subject)
    not_merged = [
        f"  {' and '.join(node_location(recording, node) for node in nodes)} are different nodes in the final graph"
        for nodes in rows
        if len({final.get(node, node) for node in nodes}) > 1
    ]
    if len(subject.all_nodes) < 2:
        raise AssertionError(
            f"`{subject.names[0]}` is recorded only once, so there is no second operation to merge with"
        )
    if not_merged:
        several = f"all `{subject.names[0]}`" if len(subject.names) == 1 else ""
        _fail(subject, "must be computed once, as one node, and are not", "merging", _truncated(not_merged), several)


def assert_batched(plan: AnyPlan, *what: Subject) -> None:
    """Assert that the given operations or calls are rows of one batch.

    A single name refers to all operations or calls with that name.

    >>> w = ex.tensor(np.ones((4, 4), np.float32))
    >>> plan = ex.EvalPlan()
    >>> for number in range(64):
    ...     handle = plan.register(ex.tensor(np.full(4, number, np.float32)) @ w)
    >>> ex.testing.assert_batched(plan.prepare(), "matmul")
    """
    __tracebackhide__ = True
    subject = operations(plan, what)
    recording = subject.recording
    provenance = recording.provenance
    batches = [
        (group.label, set(provenance.recorded(group.members))) for group in recording.groups if group.kind == "batch"
    ]
    if len(subject.all_nodes) > 1 and any(subject.all_nodes <= rows for _, rows in batches):
        return
    shares = [
        f"  {label}: {len(subject.all_nodes & rows):,} of these {len(subject.all_nodes):,}"
        for label, rows in batches
        if not subject.all_nodes.isdisjoint(rows)
    ]
    _fail(
        subject,
        "must be rows of one batch, and are not",
        "batches",
        _truncated(shares) or ["  none of them is in a batch"],
    )


@named
def assert_peak(plan: AnyPlan, *, at_most: int | str) -> None:
    """Assert that a run allocates at most ``at_most`` of memory: a number of bytes, or a string such as ``"1MB"``.

    The planned peak memory includes the arena, requested results and working memory, but not the program's own arrays,
    such as weights.

    >>> plan = ex.EvalPlan()
    >>> handle = plan.register(ex.tanh(ex.tensor(np.ones(256, np.float32))))
    >>> ex.testing.assert_peak(plan.prepare(), at_most="1KB")
    """
    __tracebackhide__ = True
    recording, limit = recording_of(plan), _size(at_most)
    kernels = schedule_of(recording)
    assert recording.schedule is not None
    peak = recording.schedule.peak
    if peak is None:
        raise OperandError(
            f"a recording of {recording.title or 'a program'} without a peak",
            rule="the compiler or runtime must report the memory that a run allocates",
            fix="assert the peak of Explorer's own plan: ex.EvalPlan()",
        )
    if peak <= limit:
        return
    live = {number: kernel.live or 0 for number, kernel in enumerate(kernels)}
    largest = sorted(live, key=lambda number: -live[number])[:_KERNELS]
    lines = [f"{peak_text(recording)}: {bytes_text(peak - limit)} more than {bytes_text(limit)}"]
    for number in largest:
        line = kernel_line(recording, number + 1, kernels[number])
        lines.append(f"{bytes_text(live[number])} live during kernel{line[1:]}")
    memory = [decision for decision in recording.decisions if recording.stages[decision.stage].kind == "memory"]
    ordered = sorted(memory, key=lambda decision: -decision.facts.get("estimated_cost_us", 0.0))
    lines += [str(decision_line(recording, decision)) for decision in ordered[:_KERNELS]]
    raise AssertionError("\n".join(lines))


def _size(at_most: int | str) -> int:
    rule, fix = "a number of bytes, or a string such as '24KB'", 'at_most="24KB"'
    check_type(at_most, "at_most", (int, str), rule, fix)
    if isinstance(at_most, int):
        return at_most
    try:
        return size_of(at_most)
    except ValueError as error:
        raise OperandError(f"at_most={at_most!r}", rule=f"at_most must be {rule}", fix=fix) from error


def _rows_of(subject: Subjects) -> list[tuple[int, ...]]:
    """Return a tuple of all arguments' first operations, a tuple of their second operations, and so on."""
    counts = [len(nodes) for nodes in subject.nodes]
    if len(set(counts)) > 1:
        names = [
            f"{name!r} with {counted_text(count, 'operation')}"
            for name, count in zip(subject.names, counts, strict=True)
        ]
        raise OperandError(
            ", ".join(names),
            rule="names that are compared must refer to the same number of operations",
            fix="pass the expressions, or longer names such as 'block / tanh'",
        )
    return list(zip(*subject.nodes, strict=True))


def _ambiguous_names(subject: Subjects) -> list[str]:
    """Return a line for each name of several operations, since the user may have meant only one."""
    recording = subject.recording
    lines = []
    for name, nodes in zip(subject.names, subject.nodes, strict=True):
        shares = [node_location(recording, node) for node in nodes]
        if len(nodes) > 1 and {recording.nodes.label[node] for node in nodes} == {name.split(" / ")[-1]}:
            shown = ", ".join(shares[:_KERNELS]) + f" … and {len(shares) - _KERNELS:,} more" * (len(shares) > _KERNELS)
            lines.append(f"`{name}` refers to {counted_text(len(nodes), 'operation')}: {shown}")
    return [*lines, "to select one of them, pass the expression itself, or its own name in the graph"] if lines else []


def _fail(subject: Subjects, claim: str, decides: str, state: list[str], named: str = "") -> None:
    """Raise an AssertionError; ``named``, if given, replaces ambiguous names of the subject."""
    __tracebackhide__ = True
    raise AssertionError(
        "\n".join([f"{named or subject} {claim}", *declined_lines(subject, decides), "instead:", *state])
    )


def _truncated(lines: list[str]) -> list[str]:
    rest = len(lines) - _KERNELS
    return [*lines[:_KERNELS], f"  … and {rest:,} more"] if rest > 0 else lines

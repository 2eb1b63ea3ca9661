"""Cost reports as text: slowest kernels, declined decisions with their estimated cost, and batches with their gain."""

from __future__ import annotations

from explorer.record import Decision, Recording
from explorer.record.batches import Batch, batches, together
from explorer.record.escape import visible
from explorer.record.reasons import counted_text, micros_text
from explorer.view.export.decision_lines import decision_line
from explorer.view.model.decision_facts import NOT_RUN
from explorer.view.model.stage_texts import machine_text

_SLOWEST, _NAMED = 5, 4
"""maximum numbers of listed kernels and of named nodes of each"""
_LISTED = 20
"""maximum number of listed declined decisions"""


def times(recording: Recording) -> str:
    """Return the kernels with the longest estimated times, and their share of a run; "" for fewer than two kernels.

    Kernels that run only once, before the first run, are summed up. Times measured in a run are left out, because they
    differ between runs.
    """
    kernels = recording.schedule.kernels if recording.schedule else ()
    skipped = {*recording.once}
    known = [
        (kernel.estimate, number)
        for number, kernel in enumerate(kernels)
        if kernel.estimate is not None and number not in skipped
    ]
    whole = sum(time for time, _ in known)
    if len(known) < 2 or not whole:
        return ""
    known.sort(key=lambda row: (-row[0], row[1]))
    lines = [f"where the time is: {micros_text(whole)} estimated for {machine_text(recording)}, the slowest first"]
    for time, number in known[:_SLOWEST]:
        names = [recording.named_label(node) for node in kernels[number].nodes]
        named = " → ".join([*names[:_NAMED], *["…"] * (len(names) > _NAMED)])
        lines.append(f"  {micros_text(time):>8}  {100 * time / whole:>3.0f} %  kernel {number + 1}: {named}")
    rest = len(known) - _SLOWEST
    lines += [f"  … and {rest:,} more"] * (rest > 0)
    if once := recording.estimate(once=True):
        lines.append(
            f"  {micros_text(once):>8}         once, before the first run: {counted_text(len(skipped), 'kernel')}"
        )
    return "\n".join(visible(line) for line in lines) + "\n"


def costs(recording: Recording) -> str:
    """Return the declined decisions with the estimated time that each costs; "" if nothing was declined.

    Each has the same name as in the list of decisions, which gives the reasons. The times estimate how much longer the
    schedule takes than if the rule had been applied; they cannot be added up.
    """
    declined = recording.declined
    if not declined:
        return ""
    head = f"what it costs: {len(declined):,} declined, the costliest first"
    lines = [f"{head}; times are estimated for {machine_text(recording)}"]
    lines += [_line(recording, decision) for decision in declined[:_LISTED]]
    rest = declined[_LISTED:]
    if rest:
        largest = _cost(rest[0])
        lines.append(f"  … and {len(rest):,} more" + (f" of at most {largest} each" if largest else ""))
    return "\n".join(visible(line) for line in lines) + "\n"


def _line(recording: Recording, decision: Decision) -> str:
    return f"  {_cost(decision):>8}  {decision_line(recording, decision).head}"


def _cost(decision: Decision) -> str:
    """Return the estimated cost of declining, "" if there is none."""
    cost = decision.facts.get("estimated_cost_us", 0.0)
    return micros_text(cost) if cost else ""


def gains(recording: Recording) -> str:
    """Return each batch's measured time and the estimates behind the decision; "" without a run or batches.

    Batches computed by one kernel share a line.
    """
    run, all_batches = recording.run, batches(recording)
    if run is None or not all_batches:
        return ""
    micros = {step.kernel: step.micros for step in run.steps}
    lines = [f"what batching took: {NOT_RUN}"]
    for joined in together(all_batches)[:_LISTED]:
        time = micros_text(sum(micros.get(kernel, 0.0) for kernel in {k for batch in joined for k in batch.kernels}))
        lines.append(f"  {time:>8}  {_named(joined)}: {_estimates(recording, joined)}")
    rest = len(together(all_batches)) - _LISTED
    return "\n".join(visible(line) for line in [*lines, *[f"  … and {rest:,} more"] * (rest > 0)]) + "\n"


def _named(joined: list[Batch]) -> str:
    names = [batch.label for batch in joined]
    return f"{', '.join(names)} ×{len(joined[0].members):,}"


def _estimates(recording: Recording, joined: list[Batch]) -> str:
    facts = [recording.decisions[batch.decision].facts for batch in joined]
    joint, separate = (sum(each.get(name, 0.0) for each in facts) for name in ("together_us", "separate_us"))
    return f"estimated {micros_text(joint)}, one by one {micros_text(separate)}"

"""Exercises of notebook 11: order and executors."""

from __future__ import annotations

import re
from collections.abc import Iterator

from explorer.core.errors import RunError
from explorer.course.exercise_base import Exercise, Finding
from explorer.course.recording_facts import kernels, recording_of, replanned
from explorer.record.reasons import bytes_text
from explorer.run.evalplan import EvalPlan
from explorer.view.model.stage_texts import memory_counts


class PriceOfThreads(Exercise):
    """Write a program whose plan for `executor="dag"` needs at least twice as much memory as the plan for `"simple"`,
    because values that are computed at the same time cannot share memory.
    """

    number = "11.1"
    title = "The price of threads"
    level = 2
    answer = 'the plan for "dag"'
    accepts = (EvalPlan,)
    hints = (
        "It needs branches that do not read each other, each with intermediate results.",
        "One chain of kernels needs the same memory on any number of threads. If each branch ends in one number,"
        " `simple`"
        " needs the memory of only one branch at a time.",
    )
    source = """
import numpy as np
import explorer as ex

x = ex.tensor(np.ones((128, 128), np.float32))
branches = [ex.softmax(x @ ex.tensor(np.full((128, 128), n, np.float32)) @ x).sum() for n in range(3)]
plan = ex.EvalPlan(executor="dag")
plan.register(ex.add_n(*branches))
plan.prepare()
answer = plan
"""
    mistakes = (('executor="dag"', ""), ("for n in range(3)]", "for n in range(1)]"))

    def findings(self, answer: EvalPlan) -> Iterator[Finding]:
        """Compare the peaks of both plans."""
        yield Finding(answer.executor == "dag", f"The plan is for the executor `{answer.executor}`.")
        recording = recording_of(answer)
        mine, simple = memory_counts(recording)["peak"], memory_counts(replanned(answer))["peak"]
        chains = len({kernel.chain for kernel in kernels(recording)})
        yield Finding(
            mine >= 2 * simple,
            f"With {chains} chains the peak is {bytes_text(mine)}; for `simple` it is {bytes_text(simple)}.",
        )


class FourAtOnce(Exercise):
    """Write a program with at least four kernels on one level, so that all four could run at the same time, and plan
    it.
    """

    number = "11.2"
    title = "Side by side"
    level = 1
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        "Kernels of one level are at the same distance from the beginning, and none of them reads another.",
        "Apply `ex.softmax` to four tensors, and join the results with `ex.concatenate`.",
    )
    source = """
import numpy as np
import explorer as ex

tensors = [ex.tensor(np.full((64, 64), n, np.float32)) for n in range(4)]
plan = ex.EvalPlan(executor="dag")
plan.register(ex.concatenate([ex.softmax(x) for x in tensors], axis=1))
plan.prepare()
answer = plan
"""
    mistakes = (
        ("for n in range(4)]", "for n in range(3)]"),
        (
            "ex.concatenate([ex.softmax(x) for x in tensors], axis=1)",
            "tensors[0] @ tensors[1] @ tensors[2] @ tensors[3]",
        ),
    )

    def findings(self, answer: EvalPlan) -> Iterator[Finding]:
        """Check the number of kernels on each level."""
        recording = recording_of(answer)
        levels: dict[int, list[str]] = {}
        for kernel in kernels(recording):
            levels.setdefault(kernel.level or 0, []).append(recording.label(kernel.nodes[-1]))
        summary = "; ".join(f"level {level}: {', '.join(names)}" for level, names in sorted(levels.items()))
        yield Finding(max(map(len, levels.values()), default=0) >= 4, f"{summary or 'The plan has no kernels'}.")


class OneChain(Exercise):
    """Write a program with at least six kernels that form one execution chain, so that a second thread would have
    nothing to do. What must be true of each of its results?
    """

    number = "11.3"
    title = "Nothing to share"
    level = 1
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        "A chain ends where a result has two readers, or a kernel reads two results.",
        "Write consecutive matrix products; their other operands must be tensors.",
    )
    source = """
import numpy as np
import explorer as ex

h = W = ex.tensor(np.full((64, 64), 0.01, np.float32))
for _ in range(6):
    h = h @ W
plan = ex.EvalPlan(executor="dag")
plan.register(h)
plan.prepare()
answer = plan
"""
    mistakes = (("h = h @ W\n", "h = h @ W + ex.softmax(h)\n"), ("range(6)", "range(5)"))

    def findings(self, answer: EvalPlan) -> Iterator[Finding]:
        """Count kernels and chains."""
        recording = recording_of(answer)
        rows = kernels(recording)
        chains: dict[int, int] = {}
        for kernel in rows:
            chain = kernel.chain or 0
            chains[chain] = chains.get(chain, 0) + 1
        yield Finding(len(rows) >= 6, f"Kernels: {len(rows)}.")
        lengths = ", ".join(str(length) for length in chains.values())
        yield Finding(
            len(chains) == 1,
            f"Chains: {len(chains)}, with {lengths} kernels. A result with two readers ends its chain, because two"
            " kernels then wait for it, and either may run first.",
        )


class NamedFailure(Exercise):
    """Write an elementwise operation whose kernel raises an error, and use it so that it is fused with two other
    operations. Evaluate, catch the `ex.RunError` and hand it in: it names all three, and its cause is your error.
    """

    number = "11.4"
    title = "Which of the three failed?"
    level = 3
    answer = "the error"
    accepts = (RunError,)
    hints = (
        "The class `Root` of this notebook is such an operation; catch its error with `except ex.RunError as error:`.",
        "Put one operation before it and one after it, on tensors of one shape: `2 * ex.fragile(x + 1)`.",
        "Python deletes the name `error` after the block, so assign it: `answer = error`.",
    )
    source = """
import numpy as np
import explorer as ex


class Fragile(ex.Elementwise):
    \"\"\"An operation that cannot be computed.\"\"\"

    nondifferentiable = "an example"
    examples = (ex.Example(ex.real(2, 3)),)

    def kernel(self, out, x):
        raise ValueError("not today")


x = ex.tensor(np.ones((64, 64)))
try:
    ex.evaluate(ex.sin(ex.fragile(ex.exp(x))))
except ex.RunError as error:
    answer = error
"""
    mistakes = (
        ("ex.sin(ex.fragile(ex.exp(x)))", "ex.fragile(x)"),
        ("ex.sin(ex.fragile(ex.exp(x)))", "ex.softmax(ex.fragile(x @ x))"),
    )

    def findings(self, answer: RunError) -> Iterator[Finding]:
        """Check the operations of the kernel in the error message, and the cause."""
        text = " ".join(str(answer).split())
        within = re.search(r"\(in the kernel ([^)]*)\)", text)
        parts = within[1].split(" · ") if within else []
        yield Finding(len(parts) >= 3, f"The kernel: {' · '.join(parts) or 'a single operation'}.")
        cause = answer.__cause__
        yield Finding(cause is not None, f"The cause: {type(cause).__name__}: {cause}.")

"""Exercises of notebook 09: fusion and stability."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.core.ir.tensor import tensor
from explorer.course.exercise_base import Exercise, Finding
from explorer.course.recording_facts import (
    agree,
    decisions,
    kernel_names,
    kernels,
    labels,
    laws_of,
    operations,
    planned,
    record,
    recording_of,
    sentences,
)
from explorer.ops.base import Elementwise
from explorer.plan import Rule
from explorer.record.reasons import micros_text
from explorer.run import evaluate
from explorer.run.evalplan import EvalPlan


class MiddleOfAChain(Exercise):
    """Register `x + 1` and `(x + 1) * 2` in one plan, so that the middle of the chain is also a result. What is
    declined, and what does it cost?
    """

    number = "09.1"
    title = "A result in the middle of a chain"
    level = 1
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        "Call `plan.register` twice, then `plan.prepare()`.",
        "`print(plan.explain())` ends with the cost of each declined decision.",
    )
    source = """
import numpy as np
import explorer as ex

x = ex.tensor(np.ones((1000, 1000), np.float32), name="x")
plan = ex.EvalPlan()
plan.register(x + 1)
plan.register((x + 1) * 2)
plan.prepare()
print(plan.explain())
answer = plan
"""
    mistakes = (("plan.register(x + 1)\n", ""), ("plan.register((x + 1) * 2)\n", ""))

    def findings(self, answer: EvalPlan) -> Iterator[Finding]:
        """Check the decision about the value in the middle, and report its cost."""
        recording = recording_of(answer)
        declined = decisions(recording, "asked_for", "declined")
        if not declined:
            yield Finding(
                False,
                f"No fusion is declined because of a result in the middle; the kernels are {kernel_names(recording)}.",
            )
            return
        cost = sum(decision.facts.get("estimated_cost_us", 0.0) for decision in declined)
        asked = sorted(recording.nodes.label[node] for node in set(recording.roots))
        yield Finding(asked == ["add", "multiply"], f"The results of the plan are {', '.join(asked)}.")
        yield Finding("add" in labels(recording, declined), sentences(recording, declined))
        yield Finding(
            len(kernels(recording)) > 1,
            f"The kernels are {kernel_names(recording)}. Declining costs {micros_text(cost)}.",
        )


class Movements(Exercise):
    """Does `(x @ W).T` need a loop over arrays? Plan an expression with a matrix product and at least three operations
    after it that are views of the product, so that only the product is written to memory.
    """

    number = "09.2"
    title = "Is a transposition computed?"
    level = 2
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        "A view reads the memory of a value in another order: transposed, sliced, or with a new axis.",
        "If a kernel in `plan.recording.schedule.kernels` writes nothing, `plan.recording.nodes.bytes` of its last"
        " node is 0.",
    )
    source = """
import numpy as np
import explorer as ex

x, W = (ex.tensor(np.ones(shape, np.float32)) for shape in ((64, 32), (32, 16)))
plan = ex.EvalPlan()
plan.register(ex.expand_dims((x @ W).T, 0)[:, 2:8])
plan.prepare()
answer = plan
"""
    mistakes = (("[:, 2:8]", ""), ("[:, 2:8]", "[:, 2:8] + 1"))

    def findings(self, answer: EvalPlan) -> Iterator[Finding]:
        """Check which kernels write their results to memory."""
        recording = recording_of(answer)
        sizes = [(recording.label(k.nodes[-1]), recording.nodes.bytes[k.nodes[-1]]) for k in kernels(recording)]
        written = [label for label, size in sizes if size]
        views = [label for label, size in sizes if not size]
        yield Finding(written == ["matmul"], f"Written to memory: {', '.join(written) or 'nothing'}.")
        yield Finding(len(views) >= 3, f"Views, which write 0 bytes: {', '.join(views) or 'none'}.")


class EvenFunction(Exercise):
    """Write an operation that is even and declare `is_even = True`. If it is applied to `-z`, the plan leaves the
    negation out. A plan also relies on a wrong declaration, so make sure that yours is right.
    """

    number = "09.3"
    title = "A declared property"
    level = 2
    answer = "the class"
    accepts = (type,)
    hints = (
        "A function is even if f(−x) = f(x) for every x: x², cos x, e^(−x²).",
        "Like `Unit`, it needs `kernel`, `gradient`, `examples` and a docstring; add `is_even = True`.",
    )
    source = """
import numpy as np
import explorer as ex


class Bell(ex.Elementwise):
    \"\"\"e^(−x²).\"\"\"

    is_even = True
    examples = (ex.Example(ex.real(2, 3)),)

    def kernel(self, out, x):
        return np.exp(-x * x, out=out)

    def gradient(self, g, y, x):
        return (-2 * g * x * y,)


answer = Bell
"""
    mistakes = (("    is_even = True\n", ""), ("np.exp(-x * x, out=out)", "np.exp(-x, out=out)"))

    def findings(self, answer: type) -> Iterator[Finding]:
        """Check that the negation is left out, and compare the declaration with values."""
        if not issubclass(answer, Elementwise):
            yield Finding(False, f"`{answer.__name__}` is not a subclass of `ex.Elementwise`.")
            return
        z = tensor(np.array([-3.0, -0.5, 0.25, 2.0]), name="z")
        recording = planned(answer()(-z))
        left_out = "negative" not in operations(recording)
        reason = sentences(recording, [d for d in recording.decisions if d.rule == "EvenOfNegative"])
        yield Finding(left_out, reason or f"The negation is computed: the kernels are {kernel_names(recording)}.")
        yield from laws_of(answer)
        yield agree("f(−z), compared with f(z)", evaluate(answer()(-z), without=["simplify"]), evaluate(answer()(z)))


class OneMinusSigmoid(Exercise):
    """Write a rule that replaces 1 − σ(x) with σ(−x), which keeps its digits when σ(x) rounds to 1. Once its cell has
    run, every plan uses the rule; `.remove()` removes it.
    """

    number = "09.4"
    title = "A rule of your own"
    level = 3
    answer = "the rule's class"
    accepts = (type,)
    hints = (
        'With `roots = (ex.operation("subtract"),)` the rule is tried at each subtraction; `graph.operands(node)`'
        " returns"
        " both sides.",
        'The operation of a constant is `full`: test `left.operation.name == "full"`, and read the number from'
        ' `left.operation.attributes["value"]`.',
        "Return None if the pattern does not match, else `ex.Applied(ex.sigmoid(-x), reason, facts, code)`.",
    )
    source = """
import numpy as np
import explorer as ex


class OneMinusSigmoid(ex.Rule):
    \"\"\"1 − σ(x) is σ(−x), which keeps its digits where σ(x) rounds to 1.\"\"\"

    numerics = "exact"
    roots = (ex.operation("subtract"),)

    def match(self, node, graph):
        left, right = graph.operands(node)
        if left.operation.name != "full" or left.operation.attributes["value"] != 1:
            return None
        if right.operation.name != "sigmoid":
            return None
        (x,) = graph.operands(right)
        reason = "1 − {sigmoid} is the sigmoid of the negative"
        return ex.Applied(ex.sigmoid(-x), reason, {"sigmoid": right}, "one_minus_sigmoid")


answer = OneMinusSigmoid
"""
    mistakes = (
        ("ex.sigmoid(-x)", "ex.sigmoid(x)"),
        ('attributes["value"] != 1', 'attributes["value"] != 2'),
        ('        if right.operation.name != "sigmoid":\n            return None\n', ""),
    )

    def findings(self, answer: type) -> Iterator[Finding]:
        """Check the rule's decision and values, and that similar expressions are left unchanged."""
        if not issubclass(answer, Rule):
            yield Finding(False, f"`{answer.__name__}` is not a subclass of `ex.Rule`.")
            return
        numbers = np.array([-2.0, 0.5, 40.0])
        z = tensor(numbers, name="z")
        recording = planned(1 - record("sigmoid", z))
        applied = [d for d in recording.decisions if d.rule == answer.__name__ and d.verdict == "applied"]
        yield Finding(
            bool(applied),
            sentences(recording, applied) or f"The rule was not applied: the kernels are {kernel_names(recording)}.",
        )
        if not applied:
            return
        value = np.asarray(evaluate(1 - record("sigmoid", z)))
        yield agree("Values", value, 1 / (1 + np.exp(numbers)))
        yield Finding(0 < float(value[-1]) < 1e-16, f"At 40 the result is {value[-1]:.2g}; as written it would be 0.")
        sigmoid, tanh = record("sigmoid", z), record("tanh", z)
        for text, other in (("2 − σ(z)", 2 - sigmoid), ("σ(z) − 1", sigmoid - 1), ("1 − tanh(z)", 1 - tanh)):
            touched = any(d.rule == answer.__name__ and d.verdict == "applied" for d in planned(other).decisions)
            yield Finding(not touched, f"{text} is {'changed, too' if touched else 'left unchanged'}.")


class Overflowing(Exercise):
    """Write the textbook formula log(Σ exp(z)) for `z` = 1000, 999 and −1000 with `ex.log`, `ex.exp` and a sum. As
    written it is infinite; which rule makes it 1000.31…?
    """

    number = "09.5"
    title = "A formula that overflows"
    level = 1
    answer = "the expression"
    accepts = (Expr,)
    hints = (
        'Evaluate it twice: `ex.evaluate(y)` and `ex.evaluate(y, without=["simplify"])`.',
        "Do not use `ex.logsumexp`: it is already the stable formula, so no rule applies.",
    )
    source = """
import numpy as np
import explorer as ex

z = ex.tensor(np.array([1000.0, 999.0, -1000.0]))
answer = ex.log(ex.exp(z).sum())
"""
    mistakes = (
        ("ex.log(ex.exp(z).sum())", "ex.logsumexp(z)"),
        ("ex.exp(z).sum()", "(1 + ex.exp(z)).sum()"),
        ("ex.log(ex.exp(z).sum())", "ex.exp(z).sum()"),
    )

    def findings(self, answer: Expr) -> Iterator[Finding]:
        """Check the values as written and as planned, and the applied rule."""
        with np.errstate(all="ignore"):
            written = np.asarray(evaluate(answer, without=["simplify"]))
            value = np.asarray(evaluate(answer))
        yield Finding(bool(np.isinf(written).all()), f"As written it is {written}.")
        right = value.shape == () and bool(np.isclose(value, 1000 + np.log1p(np.exp(-1.0))))
        yield Finding(right, f"Planned it is {value}; expected 1000.3132616875182.")
        recording = planned(answer)
        applied = [d for d in recording.decisions if d.rule == "LogSumExponentials" and d.verdict == "applied"]
        yield Finding(bool(applied), sentences(recording, applied) or "No rule recognises the formula.")

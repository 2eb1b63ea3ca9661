"""Exercises of notebook 14: data types, the default plan, policies of operations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from explorer.core.ir.expr import Expr
from explorer.course.exercise_base import Exercise, Finding
from explorer.course.recording_facts import agree, decisions, kernel_names, operations, planned, recording_of, sentences
from explorer.run import evaluate
from explorer.run.evalplan import EvalPlan


class TwoPolicies(Exercise):
    """Register the sum of a tensor twice in one plan, under two policies of accumulation. Does the plan compute it
    once, or twice?
    """

    number = "14.1"
    title = "Equal, but for the policy"
    level = 1
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        "`ex.sum(x)` and `ex.sum(x, policies=[…])` in one plan.",
        '`ex.PAccumulateIn("float64")` is such a policy; for float32 it is another one than the default.',
    )
    source = """
import numpy as np
import explorer as ex

x = ex.tensor(np.ones(8, np.float32))
plan = ex.EvalPlan()
plan.register(ex.sum(x))
plan.register(ex.sum(x, policies=[ex.PAccumulateIn("float64")]))
plan.prepare()
answer = plan
"""
    mistakes = ((', policies=[ex.PAccumulateIn("float64")]', ""), ("plan.register(ex.sum(x))\n", ""))

    def findings(self, answer: EvalPlan) -> Iterator[Finding]:
        """Count the sums that are computed."""
        recording = recording_of(answer)
        merged = decisions(recording, "merged", "applied")
        yield Finding(len(recording.roots) >= 2, f"{len(recording.roots)} values are asked for.")
        added = {recording.nodes.operands[root] for root in recording.roots}
        yield Finding(len(added) == 1, f"They read {len(added)} different tensors; one is to be added up twice.")
        count = sum(name.startswith("sum") for name in operations(recording))
        reason = sentences(recording, merged) or "Nothing is merged: another policy is another operation."
        yield Finding(count >= 2, f"The sum is computed {count} times: {kernel_names(recording)}. {reason}")


class HiddenType(Exercise):
    """Write an expression in which a rule knows what it could do with a value, but for a hidden type: the plan declines
    with that reason. `ex.ZeroTensor` has rules, `ex.make_dynamic` hides a type.
    """

    number = "14.2"
    title = "What a hidden type costs"
    level = 2
    answer = "the expression"
    accepts = (Expr,)
    hints = (
        "A zero times a matrix is a zero, as long as one can see that it is a zero.",
        '`ex.make_dynamic(ex.ZeroTensor((3, 3)), "matrix") @ x`',
    )
    source = """
import numpy as np
import explorer as ex

x = ex.tensor(np.ones((3, 2)))
answer = ex.make_dynamic(ex.ZeroTensor((3, 3)), "matrix") @ x
"""
    mistakes = (
        ('ex.make_dynamic(ex.ZeroTensor((3, 3)), "matrix")', "ex.ZeroTensor((3, 3))"),
        ('ex.make_dynamic(ex.ZeroTensor((3, 3)), "matrix") @', "ex.tensor(np.zeros((3, 3))) @"),
    )

    def findings(self, answer: Expr) -> Iterator[Finding]:
        """Ask for the declined decision."""
        recording = planned(answer)
        declined = decisions(recording, "hidden_type", "declined")
        yield Finding(
            bool(declined),
            sentences(recording, declined) or f"No rule is kept back by a hidden type: {kernel_names(recording)}.",
        )


class ScaledColumns(Exercise):
    """`ScaledRows` knows a diagonal times a matrix. A matrix times a diagonal scales columns: give the rule that
    second structure, and hand in such a product, of a matrix and a `Diagonal` with 1, 10 and 100.
    """

    number = "14.3"
    title = "A second structure for a rule"
    level = 3
    answer = "the expression"
    accepts = (Expr,)
    hints = (
        "Now `b.operation` is a `Diagonal.Operation`, and `a` is the matrix.",
        "Columns are scaled by a row of factors: no `reshape(-1, 1)` is needed.",
        "Let `match` look at both structures, and define the class again.",
    )
    source = """
import numpy as np
import explorer as ex


class Diagonal(ex.Data):
    \"\"\"A square matrix that stores its diagonal.\"\"\"

    def __init__(self, diagonal):
        self.diagonal = ex.tensor(np.asarray(diagonal, float))

    @property
    def type(self):
        return ex.TensorType((self.diagonal.size, self.diagonal.size), self.diagonal.dtype)

    def evaluate(self):
        return np.diag(self.diagonal.array)


class ScaledColumns(ex.Rule):
    \"\"\"A matrix times a diagonal scales the matrix's columns.\"\"\"

    numerics = "exact"
    roots = (ex.operation("matmul"),)
    concrete = True

    def match(self, node, graph):
        a, b = graph.operands(node)
        if not isinstance(b.operation, Diagonal.Operation) or a.ndim != 2:
            return None
        return ex.Applied(a * b.operation.data.diagonal, "{b} is a diagonal: it scales columns", {"b": b}, "scaled")


x = ex.tensor(np.ones((2, 3)), name="x")
answer = x @ Diagonal([1.0, 10.0, 100.0])
"""
    mistakes = (
        ("a * b.operation.data.diagonal,", "a * (b.operation.data.diagonal + 1),"),
        (
            "    concrete = True\n\n    def match(self, node, graph):\n",
            "    concrete = True\n\n    def match(self, node, graph):\n        return None\n",
        ),
    )

    def findings(self, answer: Expr) -> Iterator[Finding]:
        """Look at the operands, ask whether a product is left, and compare with the rules left out."""
        factors = np.diag([1.0, 10.0, 100.0])
        right = answer.operands[-1] if answer.operation.name == "matmul" else None
        is_diagonal = right is not None and right.shape == (3, 3) and np.array_equal(evaluate(right), factors)
        yield Finding(
            is_diagonal and right is not None and right.operation.name != "tensor",
            f"The expression is `{answer.operation.name}`; a product with a `Diagonal` of 1, 10 and 100 is asked for.",
        )
        recording = planned(answer)
        own = [
            d
            for d in recording.decisions
            if d.verdict == "applied" and {recording.nodes.label[n] for n in d.subjects} == {"matmul"}
        ]
        product = "matmul" in operations(recording)
        yield Finding(
            bool(own) and not product,
            sentences(recording, own) or f"The product is computed: {kernel_names(recording)}.",
        )
        expected = np.asarray(evaluate(answer, without=["simplify"]))
        yield agree("Beside the product itself", evaluate(answer), expected)


class Drifting(Exercise):
    """The running sum of a million times 0.1 in float32, `ex.cumsum(x)`, ends about 1 % too high: each addition is
    rounded. Write it so that it ends within 1 of 100,000 and its elements are float32 all the same.
    """

    number = "14.4"
    title = "A running sum that drifts"
    level = 1
    answer = "the expression"
    accepts = (Expr,)
    hints = (
        "A sum has a policy for this, `ex.PAccumulateIn`; a running sum has none. What else adds in double precision?",
        "`x.astype(…)` is an operation as any other: one before the sum, and one behind it.",
    )
    source = """
import numpy as np
import explorer as ex

x = ex.tensor(np.full(1_000_000, 0.1, np.float32))
answer = ex.cumsum(x.astype("float64")).astype("float32")
"""
    mistakes = (
        ('x.astype("float64")', "x"),
        ('.astype("float32")', ""),
    )

    def findings(self, answer: Expr) -> Iterator[Finding]:
        """Look at the last element and at the type."""
        yield Finding(answer.shape == (1_000_000,), f"The shape is {answer.shape}.")
        yield Finding(answer.dtype == np.float32, f"The elements are {answer.dtype}.")
        if not answer.size:
            return
        computed = operations(planned(answer))
        yield Finding("cumsum" in computed, f"The plan computes {', '.join(computed) or 'nothing'}.")
        last = float(np.ravel(evaluate(answer))[-1])
        yield Finding(abs(last - 100_000) < 1, f"The last one is {last:,.2f}.")

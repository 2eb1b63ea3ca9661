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
    """Register the sum of a tensor twice in one plan, with two accumulation policies. Does the plan compute it once or
    twice?
    """

    number = "14.1"
    title = "Equal except for the policy"
    level = 1
    answer = "the plan"
    accepts = (EvalPlan,)
    hints = (
        "Register `ex.sum(x)` and `ex.sum(x, policies=[…])` in one plan.",
        '`ex.PAccumulateIn("float64")` is such a policy; for float32 it differs from the default.',
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
        """Check that the plan computes two sums of one tensor."""
        recording = recording_of(answer)
        merged = decisions(recording, "merged", "applied")
        yield Finding(len(recording.roots) >= 2, f"The plan has {len(recording.roots)} results.")
        added = {recording.nodes.operands[root] for root in recording.roots}
        yield Finding(
            len(added) == 1,
            f"They read {len(added)} different tensor{'' if len(added) == 1 else 's'}; both must read the same one.",
        )
        count = sum(name.startswith("sum") for name in operations(recording))
        reason = sentences(recording, merged) or "Nothing is merged, because operations with different policies differ."
        yield Finding(
            count >= 2, f"The sum is computed {count} times; the kernels are {kernel_names(recording)}. {reason}"
        )


class HiddenType(Exercise):
    """Write an expression with a hidden type because of which the plan declines a rule. Rules exist for
    `ex.ZeroTensor`; `ex.make_dynamic` hides a type.
    """

    number = "14.2"
    title = "What a hidden type costs"
    level = 2
    answer = "the expression"
    accepts = (Expr,)
    hints = (
        "A rule replaces a zero times a matrix with a zero, but only if it sees that the operand is a zero.",
        'Use `ex.make_dynamic(ex.ZeroTensor((3, 3)), "matrix") @ x`.',
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
        """Check for the declined decision."""
        recording = planned(answer)
        declined = decisions(recording, "hidden_type", "declined")
        yield Finding(
            bool(declined),
            sentences(recording, declined)
            or f"No rule is declined because of a hidden type; the kernels are {kernel_names(recording)}.",
        )


class ScaledColumns(Exercise):
    """`ScaledRows` recognises a diagonal times a matrix. A matrix times a diagonal scales columns: write a rule for
    this pattern, and hand in such a product of a matrix and a `Diagonal` with 1, 10 and 100.
    """

    number = "14.3"
    title = "A second pattern"
    level = 3
    answer = "the expression"
    accepts = (Expr,)
    hints = (
        "Now `b.operation` is a `Diagonal.Operation`, and `a` is the matrix.",
        "A row of factors scales columns, so you need no `reshape(-1, 1)`.",
        "Let `match` test for both patterns and define the class again, or write a second class.",
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
        """Check the operands, that no product is computed, and the value."""
        factors = np.diag([1.0, 10.0, 100.0])
        right = answer.operands[-1] if answer.operation.name == "matmul" else None
        is_diagonal = right is not None and right.shape == (3, 3) and np.array_equal(evaluate(right), factors)
        yield Finding(
            is_diagonal and right is not None and right.operation.name != "tensor",
            f"The expression is `{answer.operation.name}`; it must be a product with a `Diagonal` of 1, 10 and 100.",
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
            sentences(recording, own) or f"The product is computed: the kernels are {kernel_names(recording)}.",
        )
        expected = np.asarray(evaluate(answer, without=["simplify"]))
        yield agree("The value, compared with the product", evaluate(answer), expected)


class Drifting(Exercise):
    """The running sum `ex.cumsum(x)` of a million float32 elements of 0.1 ends about 1 % too high, because each
    addition is rounded. Write it so that the last element differs from 100,000 by less than 1 and all remain float32.
    """

    number = "14.4"
    title = "A running sum that drifts"
    level = 1
    answer = "the expression"
    accepts = (Expr,)
    hints = (
        "A sum has a policy for this, `ex.PAccumulateIn`, but a running sum does not. How else can it add in double"
        " precision?",
        "`x.astype(…)` is an operation like any other: use one before the sum and one after it.",
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
        """Check the shape, the dtype, the operation and the last element."""
        yield Finding(answer.shape == (1_000_000,), f"The shape is {answer.shape}.")
        yield Finding(answer.dtype == np.float32, f"The dtype is {answer.dtype}.")
        if not answer.size:
            return
        computed = operations(planned(answer))
        yield Finding("cumsum" in computed, f"The plan computes {', '.join(computed) or 'nothing'}.")
        last = float(np.ravel(evaluate(answer))[-1])
        yield Finding(abs(last - 100_000) < 1, f"The last element is {last:,.2f}.")

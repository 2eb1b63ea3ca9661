"""Reasons of the pass that batches."""

from __future__ import annotations

from explorer.plan.graph.reasons import Reason

_BATCH = "Batching is np.stack: f(x0), f(x1), … become the rows of one f(np.stack([x0, x1, …]))."
_UNBATCHED = 'ex.EvalPlan(without=["batch"]) computes them one by one.'


class BatchReasons:
    """The reasons of Batch."""

    batched_calls = Reason(
        "batched",
        "{count:call} of the function `{name}`, each {shapes_before}, are computed as one, {shapes_after}, on operands "
        "stacked along a new first axis (np.stack), because that takes an estimated {together_us} instead of "
        "{separate_us}.",
        meaning=_BATCH,
        change=_UNBATCHED,
    )
    batched_operations = Reason(
        "batched",
        "{count} `{name}` operations, each {shapes_before}, are computed as one, {shapes_after}, on operands stacked "
        "along a new first axis (np.stack), because that takes an estimated {together_us} instead of {separate_us}.",
        meaning=_BATCH,
        change=_UNBATCHED,
    )
    device_calls = Reason(
        "device",
        "{count:call} of the function `{name}` are computed one by one, not as one call on stacked operands, because "
        "that needs the operation `{operation}`, for which the device `{device}` has no code.",
        meaning=_BATCH,
        change="Register a function for it: @ex.kernel(operation, on=device).",
    )
    element_calls = Reason(
        "element_type",
        "{count:call} of the function `{name}` are computed one by one, not as one call on stacked operands, because "
        "the elements have a dtype that is not NumPy's own, and such elements are not stacked.",
        meaning=_BATCH,
        change="Convert the operands to a dtype of NumPy's: x.astype(...).",
    )
    not_batchable_calls = Reason(
        "not_batchable",
        "{count:call} of the function `{name}` are computed one by one, not as one call on stacked operands, because "
        "`{name}` contains `{inner}`, which cannot be computed on stacked operands: {why}.",
        meaning=_BATCH,
        change="Take that operation out of the function, or give it a batch() method where it is your own.",
    )
    dear_calls = Reason(
        "stacking_costs_more",
        "{count:call} of the function `{name}` are computed one by one, not as one call on stacked operands "
        "(np.stack), because one by one they take an estimated {separate_us}, and stacked they would take "
        "{together_us}.",
        meaning=_BATCH,
        change="Stack the operands yourself, where they are there as one array anyway.",
    )
    not_batchable_operations = Reason(
        "not_batchable",
        "{count} `{name}` operations are computed one by one, not as one on stacked operands, because `{name}` cannot "
        "be computed for stacked operands of these shapes.",
        meaning=_BATCH,
        change="An operation of your own can define batch().",
    )
    dear_operations = Reason(
        "stacking_costs_more",
        "{count} `{name}` operations are computed one by one, not as one on stacked operands (np.stack), because one "
        "by one they take an estimated {separate_us}, and stacked they would take {together_us}.",
        meaning=_BATCH,
        change="Stack the operands yourself, where they are there as one array anyway.",
    )
    same_operands = Reason(
        "same_operands",
        "{count:call} of the function `{name}` are not computed as one on stacked operands, because their operands are "
        "the same values, so there is nothing to stack.",
        meaning=_BATCH,
        change='Nothing: equal calls are merged into one, unless without=["dedup"] forbids it.',
    )
    depth = Reason(
        "depth",
        "{count:call} of the function `{name}` are computed one by one, not as one call on stacked operands, because "
        "they stand at {depths} different depths of the program: a deeper one may need the result of another, so they "
        "cannot start together.",
        meaning=_BATCH + " The depth of a call is the number of calls that must be finished before it.",
        change="Calls that do not depend on other calls stand at one depth, and are batched.",
    )
    other_body = Reason(
        "other_body",
        "This call of the function `{name}` is computed by itself, not together with the others on stacked operands, "
        "because only calls that do the same to operands of one shape and dtype can be stacked: `{name}` was recorded "
        "(traced) {bodies:time}, once for each combination of shapes, dtypes and options.",
        meaning=_BATCH + " A function is traced once for each combination of operand types and options; another "
        "function of the same name is traced besides.",
        change="Give all calls operands of the same shape and dtype.",
    )

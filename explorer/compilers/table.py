"""Table of what several compilers do with one model."""

from __future__ import annotations

from explorer.core.argument_checks import check_type
from explorer.core.errors import OperandError
from explorer.names.operations import same_operation
from explorer.record import Recording
from explorer.view.compare.compilers_table import CompilersTable


def table(*recordings: Recording) -> CompilersTable:
    """Return a table of several compilers' recordings of one model, which prints as text and displays as HTML.

    It contains the number of kernels, the memory and the times in each recording, as far as they are known, and the
    numbers of the kernels that compute each operation of the first recording. Operations are matched by their names in
    `explorer.names.operations`, by source line, by file operator and by structure.

    Raises:
        OperandError: without recordings, or for anything else.

    >>> from explorer.compilers import table
    >>> plan = ex.EvalPlan()
    >>> handle = plan.register(ex.tanh(ex.tensor([1.0])) * 2)
    >>> table(plan.prepare().recording).rows()[0]
    ['kernels', '1']
    """
    if not recordings:
        raise OperandError(
            "no recordings were given",
            rule="a table compares one or more recordings of a model",
            fix='table(plan.recording, explorer.compilers.record("inductor", module, x))',
        )
    for recording in recordings:
        check_type(recording, "recording", Recording, "a recording", "view.recording, plan.recording")
    return CompilersTable(recordings, same_operation)

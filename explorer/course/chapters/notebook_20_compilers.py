"""Exercise of notebook 20: one model in several compilers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.course.exercise_base import Exercise, Finding
from explorer.names.operations import same_operation
from explorer.record import Recording


class TanhWithTheProduct(Exercise):
    """The hidden values of the MLP are a product, a bias and `tanh`. Hand in the recordings, of the four in
    `../assets/one_model/recordings`, in which `tanh` runs in the kernel of the product before it.
    """

    number = "20.1"
    title = "Which compilers compute tanh with the product"
    level = 2
    answer = "a list of recordings"
    accepts = (list, tuple)
    hints = (
        "The second part of the table has the kernels of each operation. Which rows have one number in common?",
        "A recording's `compiler` is its column in the table; Explorer's own planner is the column `explorer`.",
        "`mlp[name]` is a recording. Two of them belong into the list.",
    )
    source = """
import explorer as ex

folder = "../assets/one_model/recordings"
answer = [ex.explore(f"{folder}/mlp_{name}.json").recording for name in ("explorer", "onnxruntime")]
"""
    mistakes = (
        ('("explorer", "onnxruntime")', '("explorer", "inductor")'),
        ('("explorer", "onnxruntime")', '("onnxruntime",)'),
    )

    def findings(self, answer: Sequence[object]) -> Iterator[Finding]:
        """Check each recording's kernel of tanh, and that no recording is missing."""
        recordings = [each for each in answer if isinstance(each, Recording)]
        if len(recordings) < len(answer) or not recordings:
            yield Finding(False, f"{len(recordings)} of the {len(answer)} elements are recordings.")
            return
        names = [recording.compiler or "explorer" for recording in recordings]
        for name, recording in zip(names, recordings, strict=True):
            yield _kernel_of_tanh(name, recording)
        yield Finding(len({*names}) == 2, f"The list contains the recordings of {', '.join(sorted({*names}))}.")


def _kernel_of_tanh(name: str, recording: Recording) -> Finding:
    """Return which operations of the program the first kernel with tanh computes."""
    nodes = recording.nodes
    for origin in recording.provenance.kernels:
        operations = [same_operation(recording.operations[nodes.operation[node]]) for node in origin.nodes]
        if "tanh" in operations:
            return Finding("matmul" in operations, f"{name}: the kernel of tanh computes {' · '.join(operations)}.")
    return Finding(False, f"{name}: no kernel computes tanh.")

"""Selection of OpenBLAS's kernels for NumPy: opt-in, tested before use, and noted in every recording.

OpenBLAS selects kernels for the processor when NumPy loads it, and not always the fastest ones. With
``EXPLORER_BLAS=auto`` in the environment, or the name of a core such as ``SkylakeX``, ``import explorer`` selects a
core before NumPy is loaded. The cores are benchmarked once, in separate processes; the result is kept for this
processor and this NumPy. ``explorer blas`` shows it.
"""

import os

from explorer.blas.benchmark_runs import VARIABLE
from explorer.blas.core_selection import Choice, choose

CHOSEN: Choice | None = choose(os.environ.get(VARIABLE, ""))
"""core selected when explorer was imported; None if none was requested"""

__all__ = ["CHOSEN", "VARIABLE", "Choice", "choose"]

"""Which of OpenBLAS's kernels NumPy multiplies with: opt-in, tried before it is trusted, told in every recording.

OpenBLAS picks kernels for the processor when NumPy loads it, and not always the fastest. ``EXPLORER_BLAS=auto`` in the
environment, or the name of a core such as ``SkylakeX``, makes ``import explorer`` choose before NumPy is loaded. The
first time, the cores are tried in processes of their own; the answer is kept for this processor and this NumPy.
``explorer blas`` shows it.
"""

import os

from explorer.blas.benchmark_runs import VARIABLE
from explorer.blas.core_selection import Choice, choose

CHOSEN: Choice | None = choose(os.environ.get(VARIABLE, ""))
"""what was chosen when explorer was imported; None where nobody asked"""

__all__ = ["CHOSEN", "VARIABLE", "Choice", "choose"]

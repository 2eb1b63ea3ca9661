"""Thread counts of BLAS libraries."""

from __future__ import annotations

from threadpoolctl import threadpool_info


def blas_threads() -> list[int]:
    """Return the number of threads of each loaded BLAS library."""
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

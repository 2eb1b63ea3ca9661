"""The threads that BLAS libraries are set to."""

from __future__ import annotations

from threadpoolctl import threadpool_info


def blas_threads() -> list[int]:
    """The number of threads of each BLAS library that is loaded."""
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

"""Benchmark of NumPy's matrix products, run as a separate program: it may crash without harm, and prints JSON."""

from __future__ import annotations

import json
import sys
import time

import numpy as np
from threadpoolctl import threadpool_info

_SHAPES = ((1, 1, 1), (3, 5, 7), (17, 64, 33), (64, 147, 257), (129, 300, 1), (1, 257, 130), (96, 577, 98))
_SIZE, _TIMES = 1024, 9


def wrong() -> str:
    """Return a description of wrong products, for both dtypes and all orders, by the rounding bound; empty if none."""
    random = np.random.default_rng(0)
    for dtype in ("float32", "float64"):
        for rows, inner, columns in _SHAPES:
            a, b = random.normal(size=(rows, inner)).astype(dtype), random.normal(size=(inner, columns)).astype(dtype)
            exact = np.einsum("ij,jk->ik", a.astype("longdouble"), b.astype("longdouble"))
            bound = np.einsum("ij,jk->ik", np.abs(a), np.abs(b)) * (inner + 2) * np.finfo(dtype).eps
            for left in (a, np.asfortranarray(a)):
                for right in (b, np.asfortranarray(b)):
                    if not (np.abs(left @ right - exact) <= bound).all():
                        return f"{dtype} {rows}×{inner} by {inner}×{columns} is wrong"
    return ""


def gflops() -> float:
    """Return the speed of the fastest of a few large products, in 10⁹ float32 operations per second."""
    a = np.random.default_rng(0).normal(size=(_SIZE, _SIZE)).astype(np.float32)
    out, spent = np.empty_like(a), []
    for _ in range(_TIMES):
        began = time.perf_counter()
        np.matmul(a, a, out=out)
        spent.append(time.perf_counter() - began)
    return float(2 * _SIZE**3 / min(spent) / 1e9)


if __name__ == "__main__":
    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    found = libraries[0] if libraries else {}
    told = {
        "library": f"{found.get('internal_api', 'unknown')} {found.get('version') or ''}".strip(),
        "core": found.get("architecture", ""),
        "wrong": wrong(),
        "gflops": round(gflops(), 1),
    }
    json.dump(told, sys.stdout)

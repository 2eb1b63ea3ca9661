"""The C compiler that tests of compiled kernels need."""

from __future__ import annotations

import os

import pytest

from explorer.run.native import library


@pytest.fixture
def compiler() -> None:
    """Skip, or fail in CI, if there is no C compiler."""
    if library.compiler() is None:
        if os.environ.get("CI"):
            pytest.fail("no C compiler in PATH: apt-get install gcc libc6-dev")
        pytest.skip("no C compiler in PATH")

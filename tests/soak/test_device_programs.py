"""Random programs on devices whose arrays are not NumPy's: under every set of options the values are cpu's."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer as ex
from tests.soak.test_programs import OPTIONAL, SUBSETS, many, values
from tests.support.accelerator import accelerator
from tests.support.interpreter import reference
from tests.support.programs import programs

DEVICES = [
    pytest.param(accelerator.name, marks=pytest.mark.soak),
    pytest.param("cuda", marks=pytest.mark.gpu),
]


@pytest.mark.spec("C-1", "P-1", "P-2")
@pytest.mark.parametrize("device", DEVICES)
@given(data=st.data(), seed=st.integers(0, 2**16))
@many
def test_every_set_of_options_gives_on_a_device_what_numpy_gives(device: str, data: st.DataObject, seed: int) -> None:
    """Where results are finite, and a computation of nearly the same numbers gives nearly the same."""
    roots: list[ex.Expr] = data.draw(programs(size=40, device=device))
    assert {root.device for root in roots} == {ex.device(device)}
    expected = reference(roots)
    rough = reference(roots, noise=np.random.default_rng(seed))
    for without in {(), OPTIONAL, *random.Random(seed).sample(SUBSETS, 2)}:
        for value, right, near in zip(values(roots, without=without), expected, rough, strict=True):
            assert isinstance(value, np.ndarray)
            assert (value.shape, value.dtype) == (right.shape, right.dtype)
            if np.isfinite(right).all() and np.allclose(right, near, rtol=1e-9, atol=1e-9):
                np.testing.assert_allclose(value, right, rtol=1e-7, atol=1e-7, err_msg=str(without))

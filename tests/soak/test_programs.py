"""Random programs on devices with every set of options, and NumPy functions of expressions, against NumPy."""

from __future__ import annotations

import os
import random
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import explorer as ex
from tests.support.accelerator import accelerator
from tests.support.interpreter import reference
from tests.support.programs import OPTIONAL, prepared, programs

PROGRAMS = int(os.environ.get("EXPLORER_SOAK_PROGRAMS", "600"))
SUBSETS = list(chain.from_iterable(combinations(OPTIONAL, size) for size in range(len(OPTIONAL) + 1)))
many = settings(
    max_examples=PROGRAMS,
    deadline=None,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)


def values(roots: list[ex.Expr], **options: Any) -> list[Any]:
    plan = prepared(*roots, record="off", **options)
    handles = [plan.register(root) for root in roots]
    with np.errstate(all="ignore"):
        plan.eval()
    return [handle.data() for handle in handles]


@pytest.mark.spec("C-1", "P-1", "P-2")
@pytest.mark.parametrize(
    "device",
    [pytest.param(accelerator.name, marks=pytest.mark.soak), pytest.param("cuda", marks=pytest.mark.gpu)],
)
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


DTYPES = ("float32", "float64", "float16", "int64", "int32", "uint8", "bool", "complex64")
SHAPES: tuple[tuple[int, ...], ...] = ((), (3,), (1, 3), (2, 3), (0, 3))
SPECIAL = (0.0, -0.0, 1.0, -1.0, 2.5, 127.0, np.inf, -np.inf, np.nan)
CALLS = int(os.environ.get("EXPLORER_SOAK_CALLS", "6000"))


def operand(chance: np.random.Generator) -> np.ndarray[Any, Any]:
    dtype = np.dtype(str(chance.choice(DTYPES)))
    shape = SHAPES[chance.integers(len(SHAPES))]
    drawn = chance.choice(SPECIAL if dtype.kind in "fc" else (0, 1, 2, 3, 100), shape)
    return np.asarray(drawn).astype(dtype)


def ufuncs() -> list[np.ufunc]:
    """Return NumPy's ufuncs."""
    results = {name: value for name in sorted(dir(np)) if isinstance(value := getattr(np, name), np.ufunc)}
    return list({value.__name__: value for value in results.values() if value.signature is None}.values())


@pytest.mark.soak
def test_numpys_functions_of_expressions_give_numpys_values() -> None:
    """An accepted call has NumPy's shape, dtype and values; others raise an error of explorer's family."""
    chance = np.random.default_rng(0)
    functions, accepted = ufuncs(), 0
    for _ in range(CALLS):
        function = functions[chance.integers(len(functions))]
        operands = [operand(chance) for _ in range(function.nin)]
        with np.errstate(all="ignore"):
            try:
                wanted: Any = function(*operands)
            except TypeError:
                wanted = None
            except ValueError:
                wanted = None
            try:
                recorded: Any = function(*map(ex.tensor, operands))
            except ex.ExplorerError:
                continue
            text = f"{function.__name__}({', '.join(f'{one.dtype}{one.shape}' for one in operands)})"
            assert wanted is not None, f"{text}: NumPy refuses it"
            many_of = recorded if isinstance(recorded, tuple) else (recorded,)
            wanted = wanted if isinstance(wanted, tuple) else (wanted,)
            for value, right in zip(values(list(many_of)), wanted, strict=True):
                assert (value.shape, value.dtype) == (np.shape(right), right.dtype), text
                eps = float(np.finfo(right.dtype).eps) if right.dtype.kind in "fc" else 0.0
                np.testing.assert_allclose(value, right, rtol=8 * eps, atol=0, err_msg=f"{text} of {operands}")
        accepted += 1
    assert accepted > CALLS // 4

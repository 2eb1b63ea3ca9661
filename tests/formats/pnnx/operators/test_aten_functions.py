"""Functions with torch's internal names in pnnx files: positional operands, NaN, and hostile numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import explorer as ex
from tests.formats.pnnx.nets import computed
from tests.support.refusals import refused

QUOTIENT = """7767517
3 2
pnnx.Input in 0 1 0 #0=(3)i64
pnnx.Expression half 1 1 0 1 expr=div(@0,2) #0=(3)i64 #1=(3){noted}
pnnx.Output out 1 0 1 #1=(3){noted}
"""
NAN = np.float32([[1, np.nan, 3, 2, np.nan], [5, 4, 1, 3, 2]])


def test_a_median_of_a_row_with_nan_is_its_first_nan() -> None:
    """This includes torch's index; for the k-th smallest element NaN comes after all numbers."""
    middle, place = computed("aten::median", NAN, 1, False, outputs=2)
    np.testing.assert_array_equal(middle, np.float32([np.nan, 3]))
    np.testing.assert_array_equal(place, [1, 3])
    assert np.isnan(computed("aten::median", NAN)[0])
    assert computed("aten::median", NAN[1])[0] == 3
    np.testing.assert_array_equal(computed("aten::kthvalue", NAN, 2, 1, True, outputs=2)[0], [[2], [2]])


def test_nan_is_close_to_nan_if_the_file_requests_it() -> None:
    (close,) = computed("aten::isclose", NAN, NAN, 1e-5, 1e-8, True)
    assert close.all()
    np.testing.assert_array_equal(computed("aten::isclose", NAN, NAN, 1e-5, 1e-8, False)[0], ~np.isnan(NAN))


def test_a_rounded_quotient_raises_an_error_if_the_file_shows_it(tmp_path: Path) -> None:
    """pnnx omits the rounding_mode of torch.div but records an integer dtype."""
    path = tmp_path / "m.pnnx.param"
    for noted, refused_text in (("f32", ""), ("i64", "the file must state how a quotient is rounded")):
        path.write_text(QUOTIENT.format(noted=noted))
        net = ex.open(path)
        if not refused_text:
            np.testing.assert_array_equal(net.run(np.arange(3)), np.float32([0, 0.5, 1]))
            continue
        with pytest.raises(ex.ExplorerError, match=refused_text):
            net.run(np.arange(3))


def test_counts_need_memory_for_numbers_plus_bins() -> None:
    """A hundred thousand numbers below two million would otherwise need a table of their product."""
    numbers = np.random.default_rng(0).integers(0, 2_000_000, 100_000)
    np.testing.assert_array_equal(computed("aten::bincount", numbers, None, 7)[0], np.bincount(numbers))
    np.testing.assert_array_equal(computed("aten::bincount", numbers[:0], None, 7)[0], np.zeros(7))
    small = np.uint8([3, 255, 3])
    np.testing.assert_array_equal(computed("aten::bincount", small)[0], np.bincount(small))


@pytest.mark.parametrize(
    ("type", "operands", "texts"),
    [
        ("aten::bincount", [np.array([10**12])], ["bins claims a constant of 7.28 TB"]),
        ("aten::bincount", [np.array([1]), None, 10**13], ["bins claims a constant of 72.8 TB"]),
        ("aten::bincount", [np.array([1]), None, -1], ["minlength=-1", "minlength must be 0 or more"]),
        ("aten::bincount", [np.array([-3, 1])], ["the number -3", "the integers must be 0 or more"]),
        ("aten::std_mean", [NAN, (1,), 0.5, False], ["correction=0.5", "must be an integer"]),
        ("aten::std_mean", [NAN, (1,), "one", False], ["unbiased='one'", "must be a number"]),
        ("aten::cdist", [NAN, NAN, "two", None], ["p='two'", "p must be a number"]),
        ("aten::logit", [NAN, "eps"], ["eps='eps'", "eps must be a number"]),
        (
            "aten::isclose",
            [NAN, NAN, 1e-5, 1e-8, True, 1],
            ["operand 5 (x5): not supported by explorer's aten::isclose"],
        ),
    ],
)
def test_numbers_rejected_by_torch_raise_an_error(type: str, operands: list[Any], texts: list[str]) -> None:
    with refused(ex.ExplorerError, *texts):
        computed(type, *operands, outputs=2 if type == "aten::std_mean" else 1)

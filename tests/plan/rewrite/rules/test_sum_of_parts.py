"""Sums of slice scatters: adjacent parts of one value are concatenated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import explorer as ex
from explorer.ops.manipulation.concat import Concatenate
from explorer.ops.manipulation.slicing import SliceScatter
from explorer.plan import plan
from tests.support.decisions import codes

pytestmark = pytest.mark.spec("P-1")
x = ex.tensor(np.random.default_rng(3).normal(size=(6, 4)))


def scattered(*parts: tuple[Any, ...]) -> ex.Expr:
    return ex.add_n(*[SliceScatter(spans, (6, 4))(ex.exp(x[index])) for index, spans in parts])


rows = lambda start, stop: ((start, stop, 1), (0, 4, 1))  # noqa: E731
columns = lambda start, stop: ((0, 6, 1), (start, stop, 1))  # noqa: E731


def test_parts_in_any_order_are_concatenated_along_their_axis() -> None:
    """Nothing is added, and no zeros are written."""
    for total in (
        scattered((slice(4, 6), rows(4, 6)), (slice(0, 1), rows(0, 1)), (slice(1, 4), rows(1, 4))),
        scattered(((slice(None), slice(0, 3)), columns(0, 3)), ((slice(None), slice(3, 4)), columns(3, 4))),
    ):
        planned = plan([total])
        assert "sum_of_parts" in codes(planned, "simplify")
        assert not [node for node in planned.graph.live if isinstance(node.operation, SliceScatter)]
        np.testing.assert_array_equal(ex.evaluate(total), ex.evaluate(total, without="simplify"))
        np.testing.assert_allclose(ex.evaluate(total), np.exp(x.array))


@pytest.mark.parametrize(
    "total",
    [
        scattered((slice(0, 3), rows(0, 3)), (slice(2, 6), rows(2, 6))),  # one row twice
        scattered((slice(0, 3), rows(0, 3)), (slice(4, 6), rows(4, 6))),  # one row missing
        scattered((slice(0, 3), rows(0, 3)), (slice(3, 5), rows(3, 5))),  # the end missing
    ],
)
def test_parts_with_overlaps_or_gaps_are_added(total: ex.Expr) -> None:
    planned = plan([total])
    assert "gaps" in codes(planned, "simplify", applied=False)
    assert not [node for node in planned.graph.live if isinstance(node.operation, Concatenate)]
    np.testing.assert_array_equal(ex.evaluate(total), ex.evaluate(total, without="simplify"))


@pytest.mark.parametrize(
    "total",
    [
        scattered((slice(0, 3), rows(0, 3)), ((slice(None), slice(3, 4)), columns(3, 4))),  # along two axes
        ex.add_n(SliceScatter(((0, 5, 2), (0, 4, 1)), (6, 4))(ex.exp(x[:3])), SliceScatter(rows(1, 4), (6, 4))(x[3:])),
        ex.add_n(SliceScatter(rows(0, 3), (6, 4))(ex.exp(x[:3])), x),
    ],
)
def test_other_sums_have_no_decision(total: ex.Expr) -> None:
    planned = plan([total])
    assert not {"sum_of_parts", "gaps"} & {decision.code for decision in planned.graph.decisions}
    np.testing.assert_array_equal(ex.evaluate(total), ex.evaluate(total, without="simplify"))

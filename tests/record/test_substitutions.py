"""Replacements in the order of their decisions: sorting them does not change any node's replacement at any position."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.record.rows import in_order


def standing(rows, position, node):
    """Return the replacement of a node after ``position`` decisions."""
    replaced = {old: new for decision, old, new in rows if decision < position}
    while node in replaced:
        node = replaced[node]
    return node


@st.composite
def entered(draw):
    """Draw rows as a planner adds them: each node is replaced once, by one with a larger number."""
    nodes = draw(st.permutations(range(8)))
    return [(draw(st.integers(0, 4)), old, draw(st.integers(old + 1, 9))) for old in nodes]


@pytest.mark.spec("V-1")
@given(entered())
def test_every_node_has_the_same_replacement_at_every_position(rows):
    ordered = in_order(rows)
    assert [row[0] for row in ordered] == sorted(row[0] for row in rows)
    for position in range(6):
        for node in range(10):
            assert standing(ordered, position, node) == standing(rows, position, node)


@pytest.mark.spec("V-1")
@given(entered())
def test_rows_out_of_order_name_no_node_that_is_replaced_before(rows):
    replaced = set()
    ordered = in_order(rows)
    if ordered == rows:
        return
    for _, old, new in ordered:
        assert new not in replaced
        replaced.add(old)


@pytest.mark.spec("V-1")
def test_rows_in_order_are_unchanged():
    rows = [(0, 1, 2), (0, 3, 4), (2, 5, 6)]
    assert in_order(rows) == rows


@pytest.mark.spec("V-1")
def test_a_cycle_is_left_to_validation_and_a_long_chain_is_walked_once():
    assert in_order([(1, 1, 2), (0, 2, 1)]) == [(0, 2, 1), (1, 1, 1)]
    count = 100_000
    rows = [(1, 2 * count, count), *((0, number, number - 1) for number in range(1, count + 1))]
    assert in_order(rows)[-1] == (1, 2 * count, 0)

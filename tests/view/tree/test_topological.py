"""Levels, ranks and contractions of small random graphs, compared with their definitions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.view.tree.topological import contractible, levels, ranks

ITEMS = 9
Edges = list[tuple[int, int]]
ends = st.tuples(st.integers(0, ITEMS - 1), st.integers(0, ITEMS - 1))
graphs = st.lists(ends.filter(lambda edge: edge[0] != edge[1]), max_size=24)
acyclic_graphs = graphs.map(lambda edges: [(min(edge), max(edge)) for edge in edges])
partitions = st.lists(st.integers(0, 3), min_size=ITEMS, max_size=ITEMS).map(
    lambda numbers: [[item for item in range(ITEMS) if numbers[item] == number] for number in range(3)]
)


def contracted(edges: Edges, groups: list[list[int]]) -> Edges:
    item_of = {member: ITEMS + number for number, group in enumerate(groups) for member in group}
    new = [(item_of.get(tail, tail), item_of.get(head, head)) for tail, head in edges]
    return [edge for edge in new if edge[0] != edge[1]]


@pytest.mark.spec("V-7")
@given(acyclic_graphs, partitions)
def test_contracted_groups_do_not_read_themselves(edges: Edges, groups: list[list[int]]) -> None:
    """All contractible groups can be contracted together, and a group that would be on a cycle is not contractible."""
    are_one = contractible(ITEMS, edges, groups)
    kept = [group for group, is_one in zip(groups, are_one, strict=True) if is_one]
    assert min(levels(ITEMS + len(kept), contracted(edges, kept))) >= 0
    for group in kept:
        assert min(levels(ITEMS + 1, contracted(edges, [group]))) >= 0


@pytest.mark.spec("V-7")
@given(acyclic_graphs)
def test_single_items_and_whole_graphs_are_contractible(edges: Edges) -> None:
    assert contractible(ITEMS, edges, [[item] for item in range(ITEMS)]) == [True] * ITEMS
    assert contractible(ITEMS, edges, [range(ITEMS)]) == [True]


@pytest.mark.spec("V-7")
@given(graphs)
def test_ranks_are_levels_without_cycles_and_never_negative(edges: Edges) -> None:
    level, rank = levels(ITEMS, edges), ranks(ITEMS, edges)
    assert min(rank) >= 0
    assert all(own == drawn for own, drawn in zip(level, rank, strict=True) if own >= 0)
    assert all(rank[tail] < rank[head] for tail, head in edges if tail < head)

"""Routes of edges: vertical lines between items, with bends only between rows."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given

from explorer.view.layout.edge_routes import EdgeRoutes
from explorer.view.layout.graphviz_engine import dot
from explorer.view.layout.layout_engine import LayoutGraph, Placed, trunk
from tests.view.random_graphs import graphs

WIDE = (100, 40)


def routes(sizes, edges, centres, engine_routes):
    graph = LayoutGraph(tuple(sizes), frozenset(), tuple(edges))
    return EdgeRoutes(graph, trunk(len(sizes), graph.edges), centres, engine_routes).routes()


def curve(points: list[int], parts: int = 24) -> list[tuple[float, float]]:
    """Return points of a route."""
    found = []
    for first in range(0, len(points) - 2, 6):
        xs, ys = points[first : first + 8 : 2], points[first + 1 : first + 8 : 2]
        for part in range(parts + 1):
            t = part / parts
            weights = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
            found.append(tuple(sum(w * v for w, v in zip(weights, values, strict=True)) for values in (xs, ys)))
    return found


def bends(points: list[int]) -> int:
    return sum(points[first] != points[first + 6] for first in range(0, len(points) - 2, 6))


@pytest.mark.spec("V-24")
def test_an_edge_between_two_items_above_each_other_is_straight():
    (route,) = routes((WIDE, WIDE), [(0, 1)], [(50, 20), (120, 102)], [[50, 40, 50, 61, 120, 61, 120, 82]])
    assert set(route[::2]) == {85}
    assert route[1] == 40
    assert route[-1] == 82


def test_an_edge_ends_at_the_nearest_points_of_two_items_that_are_apart():
    (route,) = routes((WIDE, WIDE), [(0, 1)], [(50, 20), (250, 102)], [[50, 40, 50, 61, 250, 61, 250, 82]])
    assert (route[0], route[-2]) == (90, 210)


@pytest.mark.spec("V-24")
def test_an_edge_past_an_item_bends_only_next_to_its_ends():
    centres = [(50, 20), (50, 102), (50, 184), (50, 266)]
    edges = [(0, 1), (1, 2), (2, 3), (0, 3)]
    straight = [[50, y + 20, 50, y + 30, 50, y + 50, 50, y + 62] for _, y in centres[:3]]
    around = [50, 40, 50, 61, 130, 61, 130, 102, 130, 130, 150, 150, 150, 184, 150, 220, 50, 220, 50, 246]
    *chain, route = routes((WIDE,) * 4, edges, centres, [*straight, around])
    assert [set(line[::2]) for line in chain] == [{50}] * 3
    assert bends(route) == 2
    assert max(route[::2]) == 108
    lane = [y for x, y in zip(route[::2], route[1::2], strict=True) if x == 108]
    assert lane[0] <= 82
    assert lane[-1] >= 204


def test_edges_enter_an_item_side_by_side_in_the_order_of_their_origins():
    centres = [(50, 20), (170, 20), (290, 20), (170, 102)]
    engine = [[x, 40, x, 60, 170, 60, 170, 82] for x, _ in centres[:3]]
    found = routes((WIDE,) * 4, [(0, 3), (1, 3), (2, 3)], centres, engine)
    ends = [route[-2] for route in found]
    assert ends == sorted(ends)
    assert min(right - left for left, right in itertools.pairwise(ends)) >= 18
    assert set(found[1][::2]) == {170}


def test_an_edge_that_leads_up_keeps_its_route():
    route = [50, 122, 90, 200, 90, 0, 50, 0]
    assert routes((WIDE, WIDE), [(1, 0)], [(50, 20), (50, 102)], [route]) == [route]


@pytest.mark.spec("V-24")
@given(graphs())
def test_no_edge_passes_over_an_item(graph: LayoutGraph) -> None:
    placed: Placed = dot().place(graph)
    for (tail, head), route in zip(graph.edges, placed.routes, strict=True):
        for item, ((x, y), (wide, high)) in enumerate(zip(placed.centres, graph.sizes, strict=True)):
            inside = [(px, py) for px, py in curve(route) if abs(px - x) < wide / 2 - 1 and abs(py - y) < high / 2 - 1]
            assert not inside, (tail, head, item)


@given(graphs())
def test_edges_end_at_the_sides_of_their_items(graph: LayoutGraph) -> None:
    placed = dot().place(graph)
    for (tail, head), route in zip(graph.edges, placed.routes, strict=True):
        for item, (x, y), side in ((tail, route[:2], 1), (head, route[-2:], -1)):
            if item >= 0:
                (middle, centre), (wide, high) = placed.centres[item], graph.sizes[item]
                assert abs(x - middle) <= wide / 2 - 10
                assert y == centre + side * (high // 2)
        assert route[0] == route[2]
        assert route[-4] == route[-2]

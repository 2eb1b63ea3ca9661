"""Listings: whole cells, and in files the functions around recorded lines; old recordings list only their lines."""

import json
import linecache
from dataclasses import replace
from pathlib import Path

import pytest

import explorer as ex
from explorer.core.ir import assigned_names
from explorer.record import Recording, Source, SourceText, from_json, to_json
from explorer.record.listings import listings, without_source
from explorer.run.recording import variable_tables

pytestmark = pytest.mark.spec("V-2")
MODELS = Path(__file__).parents[2] / "assets" / "models"

MODULE = '''\
import explorer as ex


def scale(x):
    """Twice."""
    return [
        ex.multiply(x, 2.0)
        for _ in range(1)
    ][0]


def unused(x):
    return x


UNRELATED = 1
OTHER = 2
ALSO = 3
x = ex.tensor([1.0, 2.0], name="x")
total = scale(x).sum()
'''


def recorded(filename: str, text: str = MODULE, on_disk: str = "") -> Recording:
    names: dict[str, ex.Expr] = {}
    lines = (on_disk or text).splitlines(keepends=True)
    linecache.cache[filename] = (1, None, lines, filename)
    exec(compile(text, filename, "exec"), names)
    plan = ex.EvalPlan()
    plan.register(names["total"])
    return plan.prepare().recording


def test_functions_around_recorded_lines_of_a_file_are_kept() -> None:
    recording = recorded("/home/somebody/secret/module.py")
    (listing,) = listings(recording)
    assert (listing.where, listing.unit) == ("module.py", "line")
    kept = [line.number for line in listing.lines]
    assert kept == [*range(4, 10), *range(17, 21)]
    assert {line.number for line in listing.lines if line.sources} == {7, 19, 20}
    assert listing.lines[1].text == '    """Twice."""'
    assert "somebody" not in json.dumps(to_json(recording))


@pytest.mark.parametrize("text", [MODULE + "(" * 300, MODULE.replace("def unused", "def ")])
def test_lines_around_are_kept_for_a_file_that_cannot_be_parsed(text: str) -> None:
    recording = recorded("/tmp/changed.py", MODULE, text)
    assert [line.number for line in listings(recording)[0].lines] == [*range(5, 10), *range(17, 21 + (text[-1] == "("))]


def test_a_very_long_file_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assigned_names, "_MAX_PARSED", 10)
    recording = recorded("/tmp/generated.py", MODULE + "# another text\n")
    assert [line.number for line in listings(recording)[0].lines] == [*range(5, 10), *range(17, 22)]


def test_the_whole_cell_is_kept() -> None:
    (listing,) = listings(recorded("<cell>"))
    assert [line.text for line in listing.lines] == MODULE.splitlines()
    assert [line.number for line in listing.lines] == list(range(1, 21))


def test_sources_beyond_the_limit_are_listed_by_recorded_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variable_tables, "BUDGET", 20)
    recording = recorded("/tmp/module.py")
    assert recording.source_texts == []
    (listing,) = listings(recording)
    assert [line.number for line in listing.lines] == [7, 19, 20]
    assert all(line.sources for line in listing.lines)


def test_a_recording_keeps_its_sources_and_one_without_them_is_read() -> None:
    recording = recorded("/tmp/module.py")
    plain = json.loads(json.dumps(to_json(recording)))
    assert from_json(plain).source_texts == recording.source_texts != []
    del plain["source_texts"]
    assert [line.number for line in listings(from_json(plain))[0].lines] == [7, 19, 20]


@pytest.mark.parametrize("numbers", [(0, 1), (2, 1), (1, 1), (1,)])
def test_sources_in_a_file_are_checked(numbers: tuple[int, ...]) -> None:
    recording = replace(recorded("/tmp/module.py"), source_texts=[SourceText("x", numbers, ("a", "b"))])
    with pytest.raises(ValueError, match="increasing numbers of lines from 1"):
        from_json(json.loads(json.dumps(to_json(recording))))


def test_files_with_one_name_are_distinguished_by_their_lines() -> None:
    texts = [SourceText("m.py", (1, 2), ("a = 1", "b = 2")), SourceText("m.py", (1, 2), ("c = 3", "  d = 4"))]
    sources = [Source("m.py", 1, "a = 1"), Source("m.py", 2, "d = 4"), Source("m.py", 2, "gone")]
    first, second, third = listings(Recording(source_texts=texts, sources=sources))
    assert [line.sources for line in first.lines] == [(0,), ()]
    assert [line.sources for line in second.lines] == [(), (1,)]
    assert [(line.number, line.text) for line in third.lines] == [(2, "gone")]


def test_lines_of_a_model_file_are_listed() -> None:
    (listing,) = listings(ex.open(MODELS / "resnet18.pnnx.param").preview_plan().recording)
    assert listing.unit == "line"
    assert listing.lines[0].text.startswith("nn.Conv2d ")
    assert [line.number for line in listing.lines] == sorted({line.number for line in listing.lines})


def test_an_onnx_file_has_nodes_instead_of_lines() -> None:
    (listing,) = listings(ex.open(MODELS / "encoder.onnx").preview_plan().recording)
    assert listing.unit == "node"


def test_a_recording_without_source_has_no_source_code() -> None:
    recording = without_source(recorded("/tmp/module.py"))
    assert listings(recording) == []
    assert "Twice" not in json.dumps(to_json(recording))
    assert "ex.multiply(" not in json.dumps(to_json(recording))
    assert [source.line for source in recording.sources] == [19, 7, 20]


def test_equal_code_in_two_files_has_separate_locations() -> None:
    first, second = recorded("/tmp/one.py"), recorded("/tmp/other.py")
    assert {source.where for source in first.sources} == {"one.py"}
    assert {source.where for source in second.sources} == {"other.py"}


def test_cells_are_listed_in_execution_order_before_files() -> None:
    sources = [Source(where, 1, "y = x") for where in ("b.py", "In[10]", "a.py", "In[9]")]
    assert [listing.where for listing in listings(Recording(sources=sources))] == ["In[9]", "In[10]", "b.py", "a.py"]

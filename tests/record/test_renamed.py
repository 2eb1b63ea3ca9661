"""Old names of options and attributes work, and warn at the caller's line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import explorer as ex
from explorer import layers, train
from explorer.net import NetDefinition
from explorer.record.renamed import renamed_attributes, renamed_options


@renamed_options(way="direction")
def traced(node: int, direction: str = "inputs") -> tuple[int, str]:
    return node, direction


class Row:
    total = 3
    __getattr__ = renamed_attributes(count="total")


def test_an_old_option_is_passed_under_its_current_name() -> None:
    with pytest.warns(DeprecationWarning, match=re.escape("traced(way=…) is deprecated")) as found:
        result = traced(1, way="outputs")  # type: ignore[call-arg]
    assert result == (1, "outputs")
    assert found[0].filename == __file__
    assert "use direction=…" in str(found[0].message)


def test_both_names_of_an_option_are_an_error() -> None:
    with pytest.warns(DeprecationWarning, match="way"), pytest.raises(TypeError, match="both 'way' and 'direction'"):
        traced(1, way="outputs", direction="inputs")  # type: ignore[call-arg]


def test_an_old_attribute_is_found_but_not_listed() -> None:
    with pytest.warns(DeprecationWarning, match="use Row.total") as found:
        assert Row().count == 3
    assert found[0].filename == __file__
    assert "count" not in dir(Row())
    with pytest.raises(AttributeError, match="no attribute 'size'"):
        _ = Row().size


def test_a_format_is_registered_by_the_old_options(tmp_path: Path) -> None:
    def read(path: Path, weights: Path | None) -> NetDefinition:
        return NetDefinition.of(path.stem, [], ["x"], ["x"])

    with pytest.warns(DeprecationWarning, match="extensions=|weights_extension="):
        ex.register_format("old", endings=".old", read=read, weights_ending=".bin")  # type: ignore[call-arg]
    (tmp_path / "a.old").touch()
    assert ex.open(tmp_path / "a.old").name == "a"


def test_a_field_is_set_and_read_by_its_old_name() -> None:
    with pytest.warns(DeprecationWarning, match=re.escape("ConstantWarmup(share=…) is deprecated")):
        rate = train.ConstantWarmup(train.Fixed(0.1), steps=3, share=0.5)  # type: ignore[call-arg]
    assert rate == train.ConstantWarmup(train.Fixed(0.1), steps=3, factor=0.5)
    with pytest.warns(DeprecationWarning, match="use ConstantWarmup.factor"):
        assert rate.share == 0.5  # type: ignore[attr-defined]


def test_the_body_of_a_loop_is_given_by_its_old_name() -> None:
    with pytest.warns(DeprecationWarning, match="use body=…"):
        result = ex.while_loop(lambda state: state < 5, turn=lambda state: state + 1, initial=ex.tensor(0))
    assert ex.evaluate(result) == 5


def test_attributes_of_expressions_and_views_have_their_old_names() -> None:
    x = ex.tensor([1.0])
    with pytest.warns(DeprecationWarning, match="use Expr.location"):
        assert x.place == x.location
    view = ex.explore(ex.exp(x))
    with pytest.warns(DeprecationWarning, match="use ExpressionView.select_line"):
        assert view.from_line("ex.exp") == view.select_line("ex.exp")
    with pytest.warns(DeprecationWarning, match="use direction="):
        view.trace(x, way="outputs")


def test_a_limit_and_a_sources_parameter_have_their_old_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ex.budget, "file_size", ex.budget.file_size)
    with pytest.warns(DeprecationWarning, match="use budget.file_size"):
        ex.budget.text = 100  # type: ignore[attr-defined]
    assert ex.budget.file_size == 100
    with pytest.warns(DeprecationWarning, match="use Budget.file_size"):
        assert ex.budget.text == 100  # type: ignore[attr-defined]
    source = layers.ParamSource("w", (1,))
    with pytest.warns(DeprecationWarning, match="use ParamSource.parameter"):
        assert source.held is None  # type: ignore[attr-defined]

"""Declared weights without a file."""

from __future__ import annotations

from pathlib import Path

import pytest

import explorer as ex
from explorer.formats.common.declared_weights import AbsentWeights
from explorer.net.definition.definition import WeightReference

DECLARED = [WeightReference("conv.weight", (2, 2), "float32"), WeightReference("fc.bias", (3,), "float32")]


def test_missing_weights_raise_an_error_when_they_are_read(tmp_path: Path) -> None:
    weights = AbsentWeights(tmp_path / "m.bin", DECLARED, rule="the weights must be there", fix="put them there")
    assert list(weights) == ["conv.weight", "fc.bias"]
    assert len(weights) == 2
    assert "fc.bias" in weights
    for ask in (weights.__getitem__, weights.verify):
        with pytest.raises(ex.FileError, match=r"conv\.weight, fc\.bias") as error:
            ask("fc.bias")
        assert (error.value.rule, error.value.fix) == ("the weights must be there", "put them there")
        with pytest.raises(ex.UnknownNameError):
            ask("other")

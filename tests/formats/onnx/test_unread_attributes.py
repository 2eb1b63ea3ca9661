"""Attributes of ONNX nodes that no builder reads are refused by their names; those without influence are allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import explorer as ex
import explorer.formats.onnx.operators
from explorer.formats.onnx.operators.base.table import TABLE
from tests.support.refusals import refused

x = np.arange(12, dtype=np.float32).reshape(3, 4)


def net_of(path: Path, type: str, domain: str = "", **attributes: Any) -> ex.Net:
    """A net of one node with one input and one output."""
    node = helper.make_node(type, ["x"], ["y"], domain=domain, **attributes)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "y")]
    graph = helper.make_graph([node], "one", values[:1], values[1:])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), path / "one.onnx")
    return ex.open(path / "one.onnx")


def test_every_type_of_the_house_must_read_all_that_a_file_says() -> None:
    assert [type for type in TABLE.types() if TABLE.is_own(type) and type not in TABLE._ignored] == []


@pytest.mark.spec("I-9")
@pytest.mark.parametrize(("type", "domain"), [("LeakyRelu", ""), ("Relu", ""), ("QuickGelu", "com.microsoft")])
def test_an_attribute_that_no_builder_knows_is_refused(type: str, domain: str, tmp_path: Path) -> None:
    with refused(ex.FileError, "alhpa=3.0", type, "file_operator"):
        net_of(tmp_path, type, domain, alhpa=3.0).run(x)


def test_an_attribute_without_influence_is_allowed(tmp_path: Path) -> None:
    np.testing.assert_array_equal(net_of(tmp_path, "Dropout", seed=3).run(x), x)
    np.testing.assert_array_equal(net_of(tmp_path, "Cast", to=TensorProto.FLOAT, saturate=1).run(x), x)

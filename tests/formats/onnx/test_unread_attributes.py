"""Attributes of ONNX nodes that no builder reads raise an error with their names, unless they have no effect."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.defs
import pytest
from onnx import TensorProto, helper

import explorer as ex
import explorer.formats.onnx.operators
from explorer.formats.onnx.operators.base.table import TABLE
from tests.formats.onnx.standard import cases, outcome
from tests.support.refusals import refused

x = np.arange(12, dtype=np.float32).reshape(3, 4)


def net_of(path: Path, type: str, domain: str = "", **attributes: Any) -> ex.Net:
    """Return a net of one node with one input and one output."""
    node = helper.make_node(type, ["x"], ["y"], domain=domain, **attributes)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "y")]
    graph = helper.make_graph([node], "one", values[:1], values[1:])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets), path / "one.onnx")
    return ex.open(path / "one.onnx")


def test_every_built_in_type_must_read_all_attributes() -> None:
    assert [type for type in TABLE.types() if TABLE.is_own(type) and type not in TABLE._ignored] == []


@pytest.mark.spec("I-9")
@pytest.mark.parametrize(("type", "domain"), [("LeakyRelu", ""), ("Relu", ""), ("QuickGelu", "com.microsoft")])
def test_an_unknown_attribute_raises_an_error(type: str, domain: str, tmp_path: Path) -> None:
    with refused(ex.FileError, "alhpa=3.0", type, "file_operator"):
        net_of(tmp_path, type, domain, alhpa=3.0).run(x)


def test_an_attribute_without_effect_is_accepted(tmp_path: Path) -> None:
    np.testing.assert_array_equal(net_of(tmp_path, "Dropout", seed=3).run(x), x)
    np.testing.assert_array_equal(net_of(tmp_path, "Cast", to=TensorProto.FLOAT, saturate=1).run(x), x)


def test_an_attribute_of_another_mode_is_accepted(tmp_path: Path) -> None:
    """Torch writes all attributes of Resize in every mode."""
    scales = onnx.numpy_helper.from_array(np.float32([2, 2]), "scales")
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "y")]
    for mode in ("linear", "nearest"):
        written = {"mode": mode, "nearest_mode": "floor", "keep_aspect_ratio_policy": "stretch", "antialias": 0}
        node = helper.make_node("Resize", ["x", "", "scales"], ["y"], cubic_coeff_a=-0.75, **written)
        graph = helper.make_graph([node], "resize", values[:1], values[1:], [scales])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "resize.onnx")
        assert ex.open(tmp_path / "resize.onnx").run(x).shape == (6, 8)


@pytest.mark.soak
def test_an_explicit_default_is_accepted(tmp_path: Path) -> None:
    """Exporters write default values, tested here for every type in each of its modes."""
    times: Counter[object] = Counter()
    refusals = []
    for case in cases():
        modes = frozenset(
            (node.op_type, *[each.s for each in node.attribute if each.type == onnx.AttributeProto.STRING])
            for node in case.model.graph.node
        )
        times[modes] += 1
        written = with_defaults(case.model)
        if times[modes] <= 4 and written != case.model:
            kind, reason = outcome(case._replace(model=written), tmp_path / "m.onnx")
            refusals += [(case.name, reason)] if kind == "refused" and "every part in a file" in reason else []
    assert len(times) > 200
    assert refusals == []


def with_defaults(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy of a model with explicit defaults for all attributes."""
    written = onnx.ModelProto.FromString(model.SerializeToString())
    versions = {opset.domain: opset.version for opset in model.opset_import}
    for node in written.graph.node:
        if not onnx.defs.has(node.op_type, node.domain):
            continue
        schema = onnx.defs.get_schema(node.op_type, versions[node.domain], node.domain)
        for name in schema.attributes.keys() - {each.name for each in node.attribute}:
            default = schema.attributes[name].default_value
            if default.type != onnx.AttributeProto.UNDEFINED:
                node.attribute.add().CopyFrom(default)
                node.attribute[-1].name = name
    return written

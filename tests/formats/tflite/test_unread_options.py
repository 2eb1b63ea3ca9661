"""Options of TensorFlow Lite operators that no builder reads raise an error, unless they have their default."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
import tflite

import explorer as ex
from assets.tflite_models import CASES, Case
from explorer.formats.tflite.operator_options import Schema
from explorer.formats.tflite.operators import TABLE
from explorer.formats.tflite.operators.table import is_default
from tests.support.refusals import refused

pytestmark = pytest.mark.spec("I-9")


def opened(case: Case, folder: Path) -> ex.Net:
    path = folder / "m.tflite"
    path.write_bytes(case.file())
    return ex.open(path)


def test_every_built_in_type_must_read_all_options() -> None:
    assert [type for type in TABLE.types() if TABLE.is_own(type) and type not in TABLE._ignored] == []


@pytest.mark.parametrize(
    ("options", "values", "words"),
    [
        ("SoftmaxOptions", {"Beta": 2.0}, "beta=2.0"),
        ("ReshapeOptions", {"NewShape": [3, 2]}, "new_shape=(3, 2)"),
        ("LSTMOptions", {"KernelType": tflite.LSTMKernelType.BASIC}, "kernel_type='BASIC'"),
    ],
)
def test_an_unknown_option_raises_an_error(options: str, values: Any, words: str, tmp_path: Path) -> None:
    net = opened(Case("NEG", [(2, 3)], options, values), tmp_path)
    with refused(ex.FileError, words, "NEG", "file_operator"):
        net.run(np.zeros((2, 3), np.float32))
    (finding,) = net.check()
    assert words in finding


def test_an_option_with_its_default_is_accepted(tmp_path: Path) -> None:
    net = opened(Case("NEG", [(2, 3)], "Pool2DOptions", {"Padding": tflite.Padding.SAME}), tmp_path)
    assert net.definition.operators[0].arguments["padding"] == "SAME"
    np.testing.assert_array_equal(net.run(np.ones((2, 3), np.float32)), -np.ones((2, 3)))


@pytest.mark.parametrize(
    ("name", "changed"),
    [("PACK", "values_count"), ("UNPACK", "num"), ("SPLIT_V", "num_splits"), ("CAST", "out_data_type")],
)
def test_an_option_that_repeats_a_property_of_the_graph_is_accepted(name: str, changed: str, tmp_path: Path) -> None:
    net = opened(CASES[name], tmp_path)
    (operator,) = net.definition.operators
    assert not is_default(operator.arguments[changed])
    assert net.check() == []


def test_defaults_equal_those_of_the_schema(tmp_path: Path) -> None:
    """In an empty table every option has its default; builders read or declare those that are not 0."""
    schema = Schema(tmp_path / "m.tflite")
    builder = flatbuffers.Builder(0)
    builder.StartObject(0)
    builder.Finish(builder.EndObject())
    data = bytes(builder.Output())
    others = set()
    for name in schema._options[0].values():
        if name == "NONE":
            continue
        table = getattr(tflite, name)()
        table.Init(data, int.from_bytes(data[:4], "little"))
        for option, (method, is_list) in schema._reader(name).items():
            value = getattr(table, method)()
            plain = () if is_list else schema._plain(option, value, str)
            if not is_default(plain):
                others.add((name, option, plain))
    read = {"dilation_h_factor", "dilation_w_factor", "pot_scale_int16"}
    # types that explorer does not support
    strange = {"dilation_d_factor", "time_major", "combiner", "kernel_type", "idx_out_type"}
    assert {option for _, option, _ in others} == read | strange
    assert {name for name, option, _ in others if option in read} <= {
        "AddOptions", "SubOptions", "Conv2DOptions", "DepthwiseConv2DOptions", "Conv3DOptions",
    }  # fmt: skip

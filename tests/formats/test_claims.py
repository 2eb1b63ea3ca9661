"""Sizes that files only claim are counted before allocation: opening allocates none of them, running raises an
error."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from tests.formats.limited import MEMORY, SECONDS, Outcome, outcomes
from tests.formats.onnx.models import FLOAT, model, node

SMALL = 400
"""megabytes of a process that allocates nothing that a file claims"""
FAR = 10**12


def pnnx(*lines: str, shape: str = "(4)f32") -> str:
    """Return a file's text with an input ``x``, the operators, the last of which returns ``y``, and the output
    ``y``."""
    operators = [f"pnnx.Input in 0 1 x #x={shape}", *lines, "pnnx.Output out 1 0 y"]
    operands = 1 + sum(int(line.split()[3]) for line in lines)
    return "\n".join(["7767517", f"{len(operators)} {operands}", *operators]) + "\n"


def expression(text: str) -> str:
    return pnnx(f"pnnx.Expression e 1 1 x y expr={text}")


def lists(count: int, width: int) -> str:
    """Return nested lists, each with the previous one repeated, of width ** count values in total."""
    lines = ["prim::ListConstruct l0 1 1 x v0"]
    lines += [f"prim::ListConstruct l{n} {width} 1 {f'v{n - 1} ' * width}v{n}" for n in range(1, count)]
    return pnnx(*lines, f"prim::ListConstruct end 1 1 v{count - 1} y")


def onnx(
    type: str,
    constants: dict[str, Any],
    shape: tuple[int, ...] = (4,),
    inputs: tuple[str, ...] | None = None,
    **kept: Any,
) -> ModelProto:
    """Return a model of one operator over constants; ``x`` among its inputs is the model's."""
    names = inputs if inputs is not None else tuple(constants)
    fixed = {name: np.asarray(value) for name, value in constants.items()}
    return model([node(type, list(names), ["y"], "op", **kept)], {"x": (FLOAT, list(shape))}, ["y"], fixed)


def laughs(levels: int, width: int, body: bool = True) -> ModelProto:
    """Return functions each of which calls the previous one ``width`` times."""
    opsets = [helper.make_opsetid("own", 1), helper.make_opsetid("", 20)]
    first = [node("Neg", ["a"], ["b"])] if body else []
    functions = [helper.make_function("own", "F0", ["a"], ["b"], first, opsets)]
    for level in range(1, levels):
        names = ["a", *[f"m{i}" for i in range(width - 1)], "b"]
        calls = [node(f"F{level - 1}", [a], [b], domain="own") for a, b in itertools.pairwise(names)]
        functions.append(helper.make_function("own", f"F{level}", ["a"], ["b"], calls, opsets))
    whole = [node(f"F{levels - 1}", ["x"], ["y"], domain="own")]
    return model(whole, {"x": (FLOAT, [3])}, ["y"], functions=functions)


def weight(dims: list[int]) -> ModelProto:
    proto = model([node("Add", ["x", "w"], ["y"])], {"x": (FLOAT, [4])}, ["y"])
    proto.graph.initializer.append(TensorProto(name="w", data_type=FLOAT, dims=dims, raw_data=b""))
    return proto


def large_attribute(calls: int) -> ModelProto:
    """Return a function that contains a megabyte and is called repeatedly."""
    opsets = [helper.make_opsetid("own", 1), helper.make_opsetid("", 20)]
    held = numpy_helper.from_array(np.zeros(1 << 18, np.float32))
    inner = [node("Constant", [], ["c"], value=held), node("Add", ["a", "c"], ["b"])]
    function = helper.make_function("own", "F", ["a"], ["b"], inner, opsets)
    nodes = [node("F", ["x"], [f"y{i}"], domain="own") for i in range(calls)]
    return model(nodes, {"x": (FLOAT, [3])}, ["y0"], functions=[function])


CONV = "nn.Conv2d c 1 1 x y bias=False dilation=(1,1) groups=1 in_channels=1 kernel_size=(1,1) out_channels=1"
TRANSPOSED = f"{CONV.replace('Conv2d', 'ConvTranspose2d')} padding=(0,0) output_padding=(0,0) @weight=(1,1,1,1)f32"
IMAGE = "(1,1,8,8)f32"

CASES: dict[str, tuple[str | ModelProto, str]] = {
    # file, and the expected message
    "tower": (expression("add(@0,pow(9,pow(9,pow(9,9))))"), "pow of 9, 387420489"),
    "negative tower": (expression("add(@0,pow(-9,pow(9,9)))"), "pow of -9, 387420489"),
    "shift": (expression("add(@0,lshift(1,1000000000000))"), "lshift of 1, 1000000000000"),
    "product": (expression("add(@0,mul(4294967296,4294967296))"), "is 18446744073709551616"),
    "whole": (expression("add(@0,int(1e300))"), "a number of 997 bits"),
    "digits": (expression("add(@0,1" + "0" * 500 + ")"), "an integer of 501 digits"),
    "deep list": (expression("[" * 10_000 + "@0" + "]" * 10_000), "lists nested 17 deep"),
    "many lists": (lists(12, 8), "values in all"),
    "arange": (pnnx("torch.arange z 0 1 y start=0 end=1000000000000 step=1 dtype=torch.float"), "torch.arange claims"),
    "arange nan": (pnnx("torch.arange z 0 1 y start=0 end=nan step=1"), "finite numbers"),
    "arange far": (pnnx("torch.arange z 0 1 y start=-1e308 end=1e308 step=1e-300"), "torch.arange claims"),
    "linspace": (pnnx("torch.linspace z 0 1 y start=0 end=1 steps=1000000000000"), "torch.linspace claims"),
    "zeros": (pnnx("torch.zeros z 0 1 c size=(1000000,1000000,1000)", "torch.add a 2 1 x c y", shape="(1)f32"), ""),
    "full axes": (pnnx(f"torch.ones z 0 1 y size=({','.join('1' * 65)})"), "at most 64 axes"),
    "empty axes": (pnnx(f"torch.ones z 0 1 y size=({2**62},{2**62},0)"), "2⁶³ − 1 bytes"),
    "repeat": (pnnx("Tensor.repeat r 1 1 x z sizes=(1000000000000)", "F.relu e 1 1 z y"), ""),
    "interleave": (pnnx("torch.repeat_interleave r 1 1 x z repeats=1000000000000", "F.relu e 1 1 z y"), ""),
    "expand": (pnnx("Tensor.expand r 1 1 x z sizes=(1000000000000,4)", "F.relu e 1 1 z y"), ""),
    "pad": (pnnx("F.pad r 1 1 x y mode=constant pad=(1000000000000,0)"), ""),
    "unbind": (pnnx("torch.unbind u 1 1 x y dim=0", shape=f"({FAR})f32"), "unbind claims"),
    "chunk": (pnnx("torch.chunk u 1 1 x y dim=0 chunks=999999999999", shape=f"({FAR})f32"), "split claims"),
    "split": (pnnx("torch.split u 1 1 x y dim=0 split_size=1", shape=f"({FAR})f32"), "split claims"),
    "tensor_split": (pnnx(f"torch.tensor_split u 1 1 x y dim=0 sections={FAR}"), "tensor_split claims"),
    "adaptive": (pnnx(f"nn.AdaptiveMaxPool2d p 1 1 x y output_size=({FAR},{FAR})", shape=IMAGE), "claims"),
    "neighbours": (
        pnnx(f"nn.LocalResponseNorm n 1 1 x y alpha=1.0 beta=1.0 k=1.0 size={FAR}", shape=IMAGE),
        "local_response_norm claims"),
    "windows": (
        pnnx("nn.AdaptiveMaxPool2d p 1 1 x y output_size=(1000000,1)", shape=IMAGE), "adaptive_max_pool claims"),
    "adaptive mean": (pnnx(f"nn.AdaptiveAvgPool2d p 1 1 x y output_size=({FAR},9)", shape=IMAGE), ""),
    "one hot": (pnnx(f"F.one_hot h 1 1 x y num_classes={FAR}", shape="(4)i64"), ""),
    "scatter": (
        pnnx("torch.select_scatter s 2 1 x x y dim=0 index=0", shape=f"({FAR})f32"), "must have the shape"),
    "triangle": (pnnx("torch.tril t 1 1 x y diagonal=0", shape=f"({10**8},{10**8})f32"), "tril of"),
    "upsample": (pnnx("nn.Upsample u 1 1 x y scale_factor=2147483647 mode=nearest", shape=IMAGE), ""),
    "convolution": (pnnx(f"{CONV} padding=({FAR},{FAR}) stride=(1,1) @weight=(1,1,1,1)f32", shape=IMAGE), ""),
    "convolution of many": (
        pnnx(f"{CONV} padding=(0,0) stride=(1,1) @weight=(1,1,1,1)f32", shape="(1000000000,1,100000,1)f32"), ""),
    "transposed": (pnnx(f"{TRANSPOSED} stride=(100000,100000)", shape=IMAGE), "a transposed convolution claims"),
    "volume": (
        pnnx(f"nn.Conv3d c 1 1 x y bias=False dilation=1 groups=1 in_channels=1 kernel_size=({10**9},1,1) "
             f"out_channels=1 padding=({10**9},0,0) stride=1 @weight=(1,1,{10**9},1,1)f32", shape="(1,1,8,8,8)f32"),
        "a convolution of volumes claims"),
    "sequence": (
        pnnx("nn.LSTM l 1 1 x y batch_first=False bias=False bidirectional=False hidden_size=1 input_size=1 "
             "num_layers=1 proj_size=0 @weight_ih_l0=(4,1)f32 @weight_hh_l0=(4,1)f32", shape=f"({FAR},1,1)f32"),
        "the file is missing"),
    "attention": (
        pnnx("F.scaled_dot_product_attention a 3 1 x x x y is_causal=True", shape=f"(1,{10**8},1)f32"),
        "a causal mask claims"),
    "dots": (pnnx(f"nn.ReLU {'a.' * 10_000}b 1 1 x y"), ""),
    "input": (pnnx("nn.ReLU r 1 1 x y", shape=f"({2**62},{2**62},0)f32"), ""),
    "axes": (pnnx("nn.ReLU r 1 1 x y", shape=f"({','.join('1' * 70)})f32"), ""),
    "Range": (onnx("Range", {"a": 0, "b": FAR, "c": 1}), "Range claims"),
    "Range complex": (onnx("Range", {"a": 0j, "b": 1j, "c": 1j}), "finite numbers"),
    "OneHot": (onnx("OneHot", {"x": np.zeros(3, np.int64), "d": FAR, "v": np.ones(2, np.float32)}), "OneHot claims"),
    "OneHot no number": (
        onnx("OneHot", {"i": np.zeros(3, np.int64), "d": np.nan, "v": np.ones(2, np.float32)}), "an integer"),
    "ConstantOfShape": (onnx("ConstantOfShape", {"s": [FAR, 1000]}), ""),
    "ConstantOfShape beyond": (onnx("ConstantOfShape", {"s": [FAR, FAR]}), "2⁶³ − 1 bytes"),
    "EyeLike": (onnx("EyeLike", {}, (10**6, 10**6), ("x",)), "EyeLike claims"),
    "Hardmax": (onnx("Hardmax", {}, (1, FAR), ("x",)), "Hardmax claims"),
    "Tile": (onnx("Tile", {"r": [FAR]}, inputs=("x", "r")), ""),
    "Expand": (onnx("Expand", {"s": [FAR, 4]}, inputs=("x", "s")), ""),
    "Pad": (onnx("Pad", {"p": [FAR, 0]}, inputs=("x", "p")), ""),
    "Trilu": (onnx("Trilu", {}, (10**8, 10**8), ("x",)), "triu of"),
    "pool of little": (
        onnx("MaxPool", {"i": np.ones((1, 1, 4), np.float32)}, kernel_shape=[10**9], pads=[10**9, 10**9]), ""),
    "laughs": (laughs(4, 10), ""),
    "many laughs": (laughs(30, 30), "operators or more"),
    "a hundred thousand laughs": (laughs(6, 10), "operators or more"),
    "empty laughs": (laughs(30, 30, body=False), "operators or more"),
    "deep calls": (laughs(2000, 1), "nests calls"),
    "large calls": (large_attribute(5000), ""),
    "weight beyond": (weight([2**62, 2**62, 0]), "2⁶³ − 1 bytes"),
    "weight axes": (weight([1] * 64 + [0]), "at most 64 axes"),
}  # fmt: skip


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """Return the outcomes of all files, each in a separate process."""
    folder = tmp_path_factory.mktemp("claims")
    paths = {}
    for number, (name, (content, _)) in enumerate(CASES.items()):
        if isinstance(content, str):
            paths[name] = folder / f"{number}.pnnx.param"
            paths[name].write_text(content)
        else:
            paths[name] = folder / f"{number}.onnx"
            paths[name].write_bytes(content.SerializeToString())
    text = outcomes(paths.values())
    return {name: text[path] for name, path in paths.items()}


@pytest.mark.spec("I-9")
@pytest.mark.parametrize("name", CASES)
def test_claimed_sizes_are_not_allocated(found: dict[str, Outcome], name: str) -> None:
    """Inspecting a file allocates nothing that it only claims, and running it raises an error if it is too much."""
    outcome, said = found[name], CASES[name][1]
    assert outcome.status == 0, f"ended by signal {-outcome.status} after {outcome.seconds:.0f} s"
    assert outcome.megabytes < SMALL
    steps = dict(outcome.steps)
    message = steps.pop("findings", "")
    assert all(text == "fine" or text.startswith("refused: ") for text in steps.values()), steps
    assert "a defect in explorer's builder" not in message
    assert said in message + steps["open"] + steps.get("run", "")
    assert steps.get("run", "refused") != "fine" or name in RUN


RUN = {"laughs", "dots"}
"""files with large claims that can be run"""


def test_the_limits_of_the_processes_are_below_the_claims() -> None:
    """A process that allocated a claimed size would be killed."""
    assert MEMORY < FAR
    assert SECONDS < 60

"""Nets from files: built, run, cut, planned and inspected, with every operand by name."""

from __future__ import annotations

import logging
import re
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest

import explorer as ex
from explorer.net import Net, NetState
from explorer.net.building.unsupported import Opaque
from explorer.net.session import CACHE_SIZE

ASSETS = Path(__file__).parents[2] / "assets"
LEVELS = ["digits.pnnx.param", "digits_opt1.pnnx.param"]
reference = np.load(ASSETS / "digits.npz")
images = reference["images"]


def digits(level: str = LEVELS[0]) -> Net:
    return ex.open(ASSETS / level)


def write(folder: Path, *lines: str, operands: int = 0, name: str = "net.param") -> Path:
    """Write a file of these operators with correct counts."""
    names = {word for line in lines for word in line.split()[4 : 4 + sum(map(int, line.split()[2:4]))]}
    path = folder / name
    path.write_text("\n".join(["7767517", f"{len(lines)} {len(names)}", *lines]) + "\n")
    return path


INPUT = "pnnx.Input in 0 1 x #x=(?,3)f32"
OUTPUT = "pnnx.Output out 1 0 y"


@pytest.mark.spec("I-1", "I-3")
@pytest.mark.parametrize("batch", [1, 5, 12])
@pytest.mark.parametrize("level", LEVELS)
def test_the_digits_model_equals_torch(level: str, batch: int) -> None:
    """A file runs for any batch size, at both levels of pnnx, and gives torch's outputs."""
    result = digits(level).run(images[:batch])
    assert result.shape == (batch, 10)
    np.testing.assert_allclose(result, reference["probability"][:batch], atol=1e-5, rtol=0)


@pytest.mark.spec("I-3")
def test_every_operand_is_found_by_its_name() -> None:
    """It has the value that torch computed."""
    net = digits()
    names = [name for name in net.operands if name != "0"]
    result = net.cut(outputs=names).run(images[:3])
    assert list(result) == names
    for name in names:
        expected = reference[f"activation/{name}"]
        np.testing.assert_allclose(result[name], expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("level", LEVELS)
def test_gradients_through_a_file_equal_torch(level: str) -> None:
    net = digits(level)
    probability = net.build(images)
    truth = np.eye(10, dtype=np.float32)[reference["labels"]]
    loss = -(ex.log(probability) * truth).sum() / len(images)
    weights = [net["fc1"].weight, net["fc2"].weight]
    value, *gradients = ex.evaluate([loss, *ex.grad(loss, weights)])
    assert value == pytest.approx(float(reference["loss"]), abs=1e-6)
    for gradient, name in zip(gradients, ("fc1", "fc2"), strict=True):
        np.testing.assert_allclose(gradient, reference[f"gradient/{name}.weight"], atol=1e-5)


@pytest.mark.spec("I-2", headline=True)
def test_a_net_knows_its_operators_and_operands() -> None:
    """Read a net's operators with inputs, outputs, arguments and weights, and its operands with their readers."""
    net = digits()
    conv = net.operators["conv2"]
    assert (conv.type, conv.inputs, conv.outputs) == ("nn.Conv2d", ("2",), ("3",))
    assert conv.arguments["kernel_size"] == (3, 3)
    assert {name: weight.shape for name, weight in conv.weights.items()} == {"bias": (12,), "weight": (12, 8, 3, 3)}
    assert net["torch.flatten_0"].input_names == {"input": "10"}
    pooled = net.operands["5"]
    assert (pooled.producer, pooled.consumers) == ("pool", ("convbn2d_1", "pnnx_expr_0"))
    assert (pooled.shape, pooled.dtype) == ((None, 12, 4, 4), "float32")
    assert list(net.inputs) == ["0"]
    assert list(net.outputs) == ["15"]
    assert "conv2" in net
    assert "conv9" not in net
    with pytest.raises(ex.UnknownNameError, match="conv2"):
        net["conv22"]


@pytest.mark.spec("I-2")
def test_states_change_with_init_and_build(caplog: pytest.LogCaptureFixture) -> None:
    """NeedInit → NeedBuild → Complete: build calls init if needed, and building again logs and returns the existing
    build."""
    net = digits()
    assert net.state is NetState.NEED_INIT
    net.init()
    assert net.state is NetState.NEED_BUILD
    first = net.build((2, 1, 8, 8))
    assert net.state is NetState.COMPLETE
    with caplog.at_level(logging.INFO, "explorer.net"):
        assert net.build((2, 1, 8, 8)) is first
    assert "built already" in caplog.text
    fresh = digits()
    fresh.build((1, 1, 8, 8))
    assert fresh.state is NetState.COMPLETE


@pytest.mark.spec("I-2")
def test_the_most_recent_builds_are_kept() -> None:
    """A net keeps a few builds for different shapes; the oldest one is removed, and built again when needed."""
    net = digits()
    built = [net.build((batch, 1, 8, 8)) for batch in range(1, CACHE_SIZE + 3)]
    for batch in range(3, CACHE_SIZE + 3):
        assert net.build((batch, 1, 8, 8)) is built[batch - 1]
    assert net.build((1, 1, 8, 8)) is not built[0]
    assert net.build((1, 1, 8, 8)).shape == built[0].shape


def test_building_without_inputs_needs_all_shapes_in_the_file(tmp_path: Path) -> None:
    with pytest.raises(ex.OperandError, match=r"\(\?, 1, 8, 8\).*\n.*\n.*net\.build"):
        digits().build()
    path = write(tmp_path, "pnnx.Input in 0 1 x #x=(2,3)f32", "nn.ReLU relu 1 1 x y", OUTPUT)
    assert ex.open(path).build().shape == (2, 3)


def test_inputs_are_given_in_order_or_by_name(tmp_path: Path) -> None:
    """Test positional, keyword and dict inputs; one output is an array, several are a dict."""
    path = write(
        tmp_path,
        "pnnx.Input a 0 1 x #x=(3)f32",
        "pnnx.Input b 0 1 0 #0=(3)f32",
        "pnnx.Expression e 2 1 0 x y expr=sub(@0,@1)",
        "pnnx.Expression f 1 1 x z expr=neg(@0)",
        "pnnx.Output o 2 0 y z",
    )
    net = ex.open(path)
    x, other = np.array([1, 2, 3], np.float32), np.array([9, 9, 9], np.float32)
    for result in (
        net.run(x, other),
        net.run({"0": other, "x": x}),
        net.run(x, **{"0": other}),
        net.run([1, 2, 3], other),
    ):
        assert list(result) == ["y", "z"]
        np.testing.assert_array_equal(result["y"], [8, 7, 6])
        np.testing.assert_array_equal(result["z"], [-1, -2, -3])
    for wrong in ((), (x,), (x, other, x)):
        with pytest.raises(ex.OperandError, match="'x' \\(3,\\), '0' \\(3,\\)"):
            net.run(*wrong)
    with pytest.raises(ex.OperandError, match="passed twice"):
        net.run(x, x=x)
    with pytest.raises(ex.UnknownNameError, match="known: 0, x"):
        net.run(x, w=x)


@pytest.mark.spec("I-9")
@pytest.mark.parametrize(
    ("given", "said"),
    [
        (np.zeros((1, 1, 8, 9), np.float32), r"input '0'.*float32 \(1, 1, 8, 9\)\n.*float32 \(\?, 1, 8, 8\)"),
        (np.zeros((1, 8, 8), np.float32), r"input '0'.*\(1, 8, 8\)\n.*must be as the file says.*\n.*x\[None\]$"),
        (np.zeros((2, 8, 8, 1), np.float32), r"move the channels: x.transpose\(0, 3, 1, 2\)$"),
        (np.zeros((8, 8, 1), np.float32), r"move the channels: x.transpose\(2, 0, 1\)\[None\]$"),
        (np.zeros((2, 8, 7, 1), np.float32), r"fix: reshape or resize the input to that shape$"),
        (np.zeros((1, 1, 8, 8)), r"input '0'.*float64 \(1, 1, 8, 8\)\n.*float32.*\n.*astype\('float32'\)"),
        ("text", r"input '0' is not a rectangular array"),
        ([[1], [2, 3]], r"input '0' is not a rectangular array"),
    ],
)
def test_wrong_inputs_raise_an_error_before_anything_is_computed(given: object, said: str) -> None:
    """The error has the input's name, the expected and the given value, and precedes the reading of weights."""
    net = digits()
    net.weights.tensor = None  # type: ignore[method-assign, assignment]  # whoever builds now fails
    with pytest.raises(ex.OperandError, match=said):
        net.run(given)


def test_lengths_of_one_name_are_equal(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "pnnx.Input a 0 1 a #a=(%n,3)f32",
        "pnnx.Input b 0 1 b #b=(%n,3)f32",
        "pnnx.Expression e 2 1 a b y expr=add(@0,@1)",
        OUTPUT,
    )
    net = ex.open(path)
    one, two = np.ones((1, 3), np.float32), np.ones((2, 3), np.float32)
    assert net.run(two, two).shape == (2, 3)
    with pytest.raises(ex.OperandError, match="input 'a' has n = 1"):
        net.run(one, two)


def test_results_are_not_shared(tmp_path: Path) -> None:
    """A second run does not change the first one's results, and an input that is an output is copied."""
    net = digits()
    first = net.run(images[:2])
    kept = first.copy()
    net.run(images[2:4])
    np.testing.assert_array_equal(first, kept)
    path = write(tmp_path, INPUT, "nn.Dropout d 1 1 x y", OUTPUT)
    x = np.ones((1, 3), np.float32)
    result = ex.open(path).run(x)
    x[:] = 5
    np.testing.assert_array_equal(result, [[1, 1, 1]])


def test_threads_may_run_one_net() -> None:
    net = digits()
    expected = [net.run(images[i : i + 1]) for i in range(12)]
    wrong: list[int] = []

    def work(index: int) -> None:
        runs = (net.run(images[index : index + 1]) for _ in range(20))
        wrong.extend(index for result in runs if not np.array_equal(result, expected[index]))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.spec("I-14", headline=True)
def test_a_net_is_cut_between_any_operands() -> None:
    """Cut a net between any named operands: net.cut(inputs, outputs)."""
    net = digits()
    tail = net.cut(["11"], ["14"])
    assert list(tail.operators) == ["fc1", "relu3", "fc2"]
    result = tail.run(reference["activation/11"])
    np.testing.assert_allclose(result, reference["activation/14"], atol=1e-5)
    with pytest.raises(ex.OperandError, match="must include '0', which convbn2d_0 reads"):
        net.cut(["11"], ["14", "3"])
    with pytest.raises(ex.UnknownNameError, match="14"):
        net.cut(["11"], ["144"])
    with pytest.raises(ex.OperandError, match="without outputs"):
        net.cut(["11"], [])
    assert tail["fc1"].weight is net["fc1"].weight


@pytest.mark.spec("I-14")
def test_a_cut_net_has_needed_or_named_inputs() -> None:
    """Unnamed inputs that no output needs are removed; named ones stay."""
    net = ex.Net("n")
    for name in "ab":
        net.input(name, (1,))
    net.output(net.Relu("a", "c"), net.Add(["a", "b"], "d"))
    assert list(net.cut(outputs=["c"]).inputs) == ["a"]
    assert list(net.cut(["b", "a"], ["c"]).inputs) == ["b", "a"]
    assert list(net.cut(outputs=["d", "c"]).inputs) == ["a", "b"]


@pytest.mark.spec("I-15", headline=True)
def test_weights_are_read_replaced_and_released() -> None:
    """Read, replace and release weights by name, such as net["conv2"].weight; shape and dtype are checked."""
    net = digits()
    weight = net["conv2"].weight
    assert (weight.name, weight.shape, weight.array.flags.writeable) == ("conv2.weight", (12, 8, 3, 3), False)
    before = net.run(images[:1])
    net["fc2"].weight = np.zeros((10, 24), np.float32)
    assert net.state is NetState.NEED_BUILD
    bias = np.exp(net["fc2"].bias.array)
    np.testing.assert_allclose(net.run(images[:1])[0], bias / bias.sum(), rtol=1e-5)
    for wrong in (np.zeros((24, 10), np.float32), np.zeros((10, 24))):
        with pytest.raises(ex.OperandError, match=r"operator 'fc2'\n.*float32 \(10, 24\)"):
            net["fc2"].weight = wrong
    del net["fc2"].weight
    np.testing.assert_array_equal(net.run(images[:1]), before)
    del net["conv2"].weight
    assert weight.storage._array is None
    np.testing.assert_array_equal(weight.array, digits()["conv2"].weight.array)
    with pytest.raises(AttributeError, match="known: weight"):
        net["conv2"].wheight  # noqa: B018
    with pytest.raises(ex.UnknownNameError, match="known: bias, weight"):
        net["conv2"].kernel = np.zeros(3)


def test_nodes_refer_to_their_line_in_the_file() -> None:
    net = digits()
    y = net.operand("9", (1, 1, 8, 8))
    assert y.location is not None
    assert (y.location.where, y.location.line) == ("digits.pnnx.param", 12)
    assert "pnnx_expr_0" in y.location.text
    assert y.scope is not None
    assert (y.scope.name, y.scope.kind, y.scope.type, str(y.scope)) == (
        "pnnx_expr_0",
        "file",
        "add(@0,@1)",
        "residual/pnnx_expr_0",
    )


@pytest.mark.spec("I-4", "I-10")
def test_a_plan_of_a_net_reuses_buffers_and_is_measured() -> None:
    """With buffers reused within live ranges, a run equals separate runs for each operand."""
    net = digits()
    plan = net.plan(images[:3], record="values")
    schedule = plan.recording.schedule
    assert schedule is not None
    results = [kernel.bytes for kernel in schedule.kernels if kernel.buffer >= 0]
    assert sum(schedule.buffers) < sum(results)
    assert max(results) <= schedule.peak <= schedule.peak_without_reuse
    plan.eval()
    assert plan.recording.run is not None
    assert len(plan.recording.run.steps) == len(schedule.kernels)
    separate = {name: net.cut(outputs=[name]).run(images[:3]) for name in net.operands if name != "0"}
    together = net.cut(outputs=list(separate)).run(images[:3])
    for name, value in separate.items():
        np.testing.assert_allclose(together[name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.spec("I-5", headline=True)
def test_all_unknown_types_are_reported_together_and_drawn(tmp_path: Path) -> None:
    """List all unknown operators before a run, with lines and suggestions, and draw the graph anyway."""
    path = write(
        tmp_path,
        INPUT,
        "nn.Relu r 1 1 x a #a=(?,3)f32",
        "nn.Relu s 1 1 a b #b=(?,3)f32",
        "my.Thing t 1 2 b c d #c=(?,3)f32 #d=(?,1)f32",
        "nn.Sigmoid u 1 1 c e",
        "odd::one v 1 1 d f",
        "nn.Tanh w 1 1 f g",
        "pnnx.Expression e 2 1 e g y expr=mul(@0,@1)",
        "my.Sink k 1 0 b",
        OUTPUT,
    )
    net = ex.open(path)
    for ask in (net.init, lambda: net.run(np.zeros((1, 3), np.float32)), lambda: net.build((1, 3))):
        with pytest.raises(ex.FileError) as caught:
            ask()
        said = str(caught.value)
        assert "4 unknown operator types" in said
        assert "nn.Relu: 'r' (line 4), 's' (line 5); near known types: nn.ReLU, " in said
        assert "my.Thing: 't' (line 6)" in said
        assert "odd::one: 'v' (line 8)" in said
    assert [unknown.type for unknown in net.unknown()] == ["nn.Relu", "my.Thing", "odd::one", "my.Sink"]
    recording = net.preview_plan().recording
    drawn = [recording.nodes.label[node] for node in range(len(recording.nodes))]
    assert drawn.count("nn.Relu (cannot run)") == 2
    for label in ("my.Thing (cannot run)", "odd::one (cannot run)", "my.Sink (cannot run)", "sigmoid"):
        assert label in drawn, label
    assert net.check()[0].startswith("unknown operator type nn.Relu")
    assert len(net.check()) == 4
    sigmoid = net.nodes("u")[0]
    assert sigmoid.shape == (1, 3)


def test_an_opaque_operation_cannot_run_and_has_no_gradient() -> None:
    x = ex.tensor(np.ones(3))
    y = Opaque("my.Thing", (x.tensor_type,), "unknown", "", "", "thing", "pnnx")(x)
    with pytest.raises(ex.ExplorerError, match=r"operator 'thing' of type my\.Thing \(pnnx\) is drawn, .*: unknown"):
        ex.evaluate(y + 1)
    with pytest.raises(ex.OperandError, match="file_operator"):
        ex.grad(y.sum(), x)


@pytest.mark.spec("I-5", "V-5")
def test_the_declared_result_of_an_unsupported_operator_counts_toward_the_peak(tmp_path: Path) -> None:
    """The operator is treated as one that allocates its result."""
    rows = ["nn.Tanh t 1 1 x a #a=(?,3)f32", "{} f 1 1 a b #b=(?,3)f32", "nn.Sigmoid s 1 1 b y #y=(?,3)f32", OUTPUT]
    known, unknown = [
        ex.open(write(tmp_path, INPUT, *[row.format(kind) for row in rows])).preview_plan().recording.schedule
        for kind in ("nn.LogSigmoid", "my.Thing")
    ]
    assert unknown.kernels[1].bytes == 12
    # two slots of at least 64 bytes in the arena, and the result of 12 bytes
    assert (unknown.peak, unknown.peak_without_reuse) == (140, 140)
    assert known.peak <= unknown.peak


@pytest.mark.spec("I-5")
def test_running_a_drawn_operator_raises_an_error_with_the_fix(tmp_path: Path) -> None:
    """The error has the operator's name, type and format, the reason, and the appropriate fix."""
    lines = [
        "7767517",
        "5 3",
        "pnnx.Attribute w 0 1 w @data=(2,3)f32 #w=(2,3)f32",
        "my.Thing thing 1 1 w t #w=(2,3)f32 #t=(2,3)f32",
        "torch.flatten flat 1 1 w f start_dim=7 end_dim=9 #w=(2,3)f32 #f=(6)f32",
        "pnnx.Output o 1 0 t",
        "pnnx.Output p 1 0 f",
    ]
    (tmp_path / "m.param").write_text("\n".join(lines) + "\n")
    with zipfile.ZipFile(tmp_path / "m.bin", "w") as archive:
        archive.writestr("w.data", bytes(24))
    net = ex.open(tmp_path / "m.param")
    for name, said, fix in (
        ("t", r"operator 'thing' of type my\.Thing \(pnnx\).*unknown", r'@ex\.file_operator\("my\.Thing"\)'),
        ("f", r"operator 'flat' of type torch\.flatten \(pnnx\).*axis", r"net\.check\(\)|axis|axes"),
    ):
        (node,) = net.nodes(name)[-1:]
        with pytest.raises(ex.ExplorerError, match=said) as error:
            ex.evaluate(node)
        assert re.search(fix, error.value.fix + error.value.rule)
    with pytest.raises(ex.FileError, match=r'fix: register each: @ex\.file_operator\("my\.Thing"\); net\.explore'):
        net.run()


def test_a_file_without_its_weights_can_be_inspected_but_not_run(tmp_path: Path) -> None:
    path = tmp_path / "alone.pnnx.param"
    path.write_bytes((ASSETS / LEVELS[0]).read_bytes())
    net = ex.open(path)
    assert len(net.preview_plan().recording.nodes) == 42
    with pytest.raises(ex.FileError, match=r"alone\.pnnx\.bin.*missing.*\n.*\n.*put the \.bin"):
        net.run(images[:1])
    assert "missing" in net.check()[0]


def test_missing_weights_are_the_first_problem(tmp_path: Path) -> None:
    """They concern all operators, so they precede problems of single ones."""
    path = write(tmp_path, INPUT, "my.First f 1 1 x a @w=(3)f32", "my.Second s 1 1 a y", OUTPUT)
    findings = ex.open(path).check()
    assert [part in line for part, line in zip(("missing", "my.First", "my.Second"), findings, strict=True)] == [
        True
    ] * 3


@pytest.mark.spec("I-3")
def test_nodes_are_found_by_names_of_operators_operands_and_weights() -> None:
    net = digits()
    assert net.nodes("fc1.weight") == [net["fc1"].weight]
    assert net.nodes("conv2")[-1] is net.nodes("3")[-1]
    with pytest.raises(ex.UnknownNameError, match=r"weight 'fc1\.weihgt'(.|\n)*fc1\.weight"):
        net.nodes("fc1.weihgt")
    with pytest.raises(ex.UnknownNameError, match="this is a type; its operators are fc1, fc2"):
        net.nodes("nn.Linear")


@pytest.mark.spec("I-15")
def test_a_net_runs_without_its_weights_file_if_all_weights_are_given(tmp_path: Path) -> None:
    """Until then it lists the missing ones."""
    param = tmp_path / "digits.pnnx.param"
    param.write_text((ASSETS / "digits.pnnx.param").read_text())
    whole, net = digits(), ex.open(param)
    *first, (last, attribute) = [
        (name, each) for name, operator in whole.operators.items() for each in operator.weights
    ]
    for name, each in first:
        net[name].weights[each] = whole[name].weights[each]
    with pytest.raises(ex.FileError, match=r"12 weights: convbn2d_0\.bias, .* …"):
        net.run(images)
    net[last].weights[attribute] = whole[last].weights[attribute]
    np.testing.assert_array_equal(net.run(images), whole.run(images))


def test_contradictions_of_the_types_in_the_file_are_reported(tmp_path: Path) -> None:
    path = write(tmp_path, INPUT, "nn.ReLU r 1 1 x a #a=(?,4)f32", "torch.mean m 1 1 a y dim=(7) #y=(?)f32", OUTPUT)
    findings = ex.open(path).check()
    assert findings[0] == "operand 'a' of operator 'r' (line 4): shape (1, 3) where the file declares (?, 4)"
    assert findings[1].startswith(f"{path}, line 5: operator 'm' (torch.mean)")
    assert len(findings) == 2


def test_inspecting_reads_no_weight_and_reports_unknown_lengths() -> None:
    net = digits()
    plan = net.preview_plan()
    assert plan.recording.title == "digits (unknown length = 1)"
    assert all(node.storage._array is None for name in net.operators for node in net[name].weights.values())
    view = net.explore()
    assert view.recording.title == "digits (unknown length = 1)"
    with_values = net.explore(images[:2])
    assert with_values.recording.run is not None
    assert with_values.recording.run.values
    assert ex.explore(net).recording.title == "digits (unknown length = 1)"


def test_the_repr_of_a_net(tmp_path: Path) -> None:
    """It has operators, inputs, outputs and state; a table of weights has no graph."""
    net = ex.Net("half")
    net.input("x", (2,))
    assert repr(net) == "<net 'half': 0 operators, x (2,) → nothing; not checked yet>"
    net.output(net.Relu("x", "y"))
    assert repr(net.init()) == "<net 'half': 1 operator, x (2,) → y any shape; checked>"
    np.savez(tmp_path / "w.npz", a=np.ones(2), b=np.ones(3))
    assert repr(ex.open(tmp_path / "w.npz")) == "<net 'w': 2 weights, no graph>"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("blobs", "net.operands"),
        ("layers", "net.operators"),
        ("initializers", "net.weights"),
        ("forward", "net.run(x)"),
        ("why", "net.preview_plan().why("),
    ],
)
def test_the_error_for_another_librarys_attribute_names_ours(name: str, said: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(f"{name!r}: use {said}")):
        getattr(Net("n"), name)


def test_a_net_that_is_called_names_the_method_for_it() -> None:
    net = ex.Net("positive")
    net.output(net.Relu(net.input("x", (1, 2)), "y"))
    with pytest.raises(ex.OperandError, match="a call of the net 'positive'") as caught:
        net(np.zeros((1, 2)))
    assert caught.value.rule == "a net must be run with arrays, or built with expressions"
    assert caught.value.fix == "net.run(x)"
    with pytest.raises(ex.OperandError, match=r"fix: net\.build\(x=…\)"):
        net(x=ex.tensor(np.zeros((1, 2))))

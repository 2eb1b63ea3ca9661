"""The reader of ``.param`` files: what it reads, and its errors."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.core.errors import ExplorerError, FileError
from explorer.formats.pnnx.expression_parser import parse as parse_expression
from explorer.formats.pnnx.param_reader import parse
from explorer.net.definition.definition import NetDefinition, WeightReference
from explorer.record.reasons import counted_text

DIGITS = (Path(__file__).parents[3] / "assets" / "digits.pnnx.param").read_text(encoding="utf-8")
DIGITS_RAW = (Path(__file__).parents[3] / "assets" / "digits_opt1.pnnx.param").read_text(encoding="utf-8")

SMALL = """7767517
5 4
pnnx.Input               in0                      0 1 x.1 #x.1=(?,3,%width)f32
nn.Linear                fc                       1 1 x.1 2 bias=True eps=1.000000e-05 mode=zeros pad=[1,2] @bias=(4)f32 @weight=(4,3)bf16 $input=x.1 #x.1=(?,3,%width)f32 #2=(?,4)f32
pnnx.Expression          e                        0 1 43 expr=-1
torch.flatten            f                        2 1 2 43 4 $input=2 #2=(?,4)f32
pnnx.Output              out0                     1 0 4
"""  # noqa: E501


def read(text: str) -> NetDefinition:
    return parse(text.encode("utf-8"), path="m.param", name="m")


def changed(old: str, new: str) -> str:
    assert old in SMALL
    return SMALL.replace(old, new, 1)


def test_every_part_of_a_line_is_read() -> None:
    net = read(SMALL)
    assert (net.name, net.source, net.inputs, net.outputs) == ("m", "m.param", ("x.1",), ("4",))
    assert [operator.name for operator in net.operators] == ["fc", "e", "f"]
    fc = net.operator("fc")
    assert (fc.type, fc.inputs, fc.outputs, fc.line) == ("nn.Linear", ("x.1",), ("2",), 4)
    assert fc.text == SMALL.split("\n")[3].partition(" @")[0], "types stand on the graph"
    assert fc.arguments == {"bias": True, "eps": 1e-5, "mode": "zeros", "pad": (1, 2)}
    assert fc.input_names == {"input": "x.1"}
    assert fc.weights == {
        "bias": WeightReference("fc.bias", (4,), "float32"),
        "weight": WeightReference("fc.weight", (4, 3), "bfloat16"),
    }
    assert net.operator("e").arguments == {"expr": "-1"}
    assert net.operator("f").input_names == {"input": "2"}
    x, flat = net.blob("x.1"), net.blob("4")
    assert (x.shape, x.dtype, x.producer, x.consumers) == ((None, 3, "width"), "float32", None, ("fc",))
    assert (flat.shape, flat.dtype, flat.producer) == (None, None, "f")


@pytest.mark.parametrize("text", [DIGITS, DIGITS_RAW])
def test_a_real_export_is_read_completely(text: str) -> None:
    net = read(text)
    counts = text.split("\n")[1]
    assert counts == f"{len(net.operators) + 2} {len(net.blobs)}"
    assert all(blob.shape is None or blob.dtype == "float32" for blob in net.blobs.values())
    assert net.blob(net.inputs[0]).shape == (None, 1, 8, 8)
    assert net.blob(net.outputs[0]).shape == (None, 10)
    assert net.topological_order == net.operators
    expressions = [operator for operator in net.operators if operator.type == "pnnx.Expression"]
    assert expressions
    for operator in expressions:
        text = operator.arguments["expr"]
        assert isinstance(text, str)
        assert parse_expression(text, len(operator.inputs)).form == "nested"


def test_line_endings_of_other_systems_change_nothing() -> None:
    assert parse(SMALL.replace("\n", "\r\n").encode(), path="m.param", name="m") == read(SMALL)
    assert read(SMALL + "\n  \n") == read(SMALL)


def test_an_operand_may_be_used_twice_by_one_operator() -> None:
    net = read(
        "7767517\n3 2\npnnx.Input i 0 1 x #x=(2)f32\n"
        "torch.matmul m 2 1 x x y $input=x $other=x #x=(2)f32 #x=(2)f32\npnnx.Output o 1 0 y\n"
    )
    assert net.operator("m").inputs == ("x", "x")
    assert net.operator("m").input_names == {"input": "x", "other": "x"}
    assert net.blob("x").consumers == ("m",)


def test_operators_in_any_order_are_sorted() -> None:
    lines = SMALL.split("\n")
    lines[3:6] = reversed(lines[3:6])
    net = read("\n".join(lines))
    assert [operator.name for operator in net.operators] == ["f", "e", "fc"]
    assert [operator.name for operator in net.topological_order] == ["e", "fc", "f"]


def test_the_number_of_operators_must_be_exact() -> None:
    """Line 2 contains it, and a wrong number raises an error."""
    for count in range(12):
        if count == 5:
            assert len(read(SMALL).operators) + 2 == count
            continue
        with pytest.raises(FileError, match="more operators than" if count < 5 else f"after 5 of {count} operators"):
            read(changed("5 4", f"{count} 4"))


@pytest.mark.parametrize(("n_in", "n_out"), [(0, 0), (1, 0), (0, 1), (2, 1), (1, 2), (3, 3)])
def test_the_names_of_all_operands_follow_their_counts(n_in: int, n_out: int) -> None:
    """A line that ends before all inputs and outputs are named raises an error."""
    names = [f"x{place}" for place in range(n_in)] + [f"y{place}" for place in range(n_out)]
    inputs = "".join(f"pnnx.Input i{place} 0 1 x{place}\n" for place in range(n_in))
    counts = f"{counted_text(n_in, 'input')} and {counted_text(n_out, 'output')}"
    for given_count in range(n_in + n_out + 1):
        line = f"op o {n_in} {n_out} {' '.join(names[:given_count])}"
        text = f"7767517\n{n_in + 1} {n_in + n_out}\n{inputs}{line}\n"
        if given_count == n_in + n_out:
            operator = read(text).operator("o")
            assert [*operator.inputs, *operator.outputs] == names
            continue
        with pytest.raises(FileError, match=f"counts {counts}, but {given_count} names? follow"):
            read(text)


def test_operands_of_removed_operators_may_be_counted() -> None:
    """pnnx counts operands whose operators it has replaced with constants."""
    assert read(changed("5 4", "5 7")).blobs.keys() == read(changed("5 4", "5 4")).blobs.keys()


MALFORMED = {
    "empty": ("", 1, "an empty file"),
    "magic": (changed("7767517", "7767518"), 1, "7767517"),
    "binary": ("PK\x03\x04", 1, "7767517"),
    "no counts": ("7767517\n", 2, "nothing"),
    "one count": (changed("5 4", "5"), 2, "'5'"),
    "negative count": (changed("5 4", "-5 4"), 2, "'-5 4'"),
    "huge count": (changed("5 4", f"{'9' * 30} 4"), 2, "counts"),
    "operand count": (changed("5 4", "5 3"), 2, "3 operands are counted, but 4 are produced"),
    "more operators": (changed("5 4", "4 4"), 7, "more operators than the 4"),
    "fewer operators": (changed("5 4", "9 4"), 7, "ends after 5 of 9"),
    "too few words": (changed("1 1 x.1 2", ""), 4, "'bias=True' as its number of inputs"),
    "short line": (changed("1 0 4", ""), 7, "2 words"),
    "n_in": (changed("fc                       1 1", "fc one 1"), 4, "'one' as its number of inputs"),
    "n_out": (changed("fc                       1 1", "fc 1 -1"), 4, "'-1' as its number of outputs"),
    "n_in too large": (changed("out0                     1 0", "out0 9 0"), 7, "counts 9 inputs"),
    "n_in enormous": (
        changed("out0                     1 0", "out0 99999999999999 0"),
        7,
        "counts 99,999,999,999,999 inputs and 0 outputs",
    ),
    "operator name": (changed(" e     ", " fc     "), 5, "'fc' is used twice, first on line 4"),
    "input name": (changed("in0 ", "fc "), 4, "'fc' is used twice, first on line 3"),
    "operand name": (changed("0 1 43", "0 1 2"), 5, "already produced by operator 'fc' (line 4)"),
    "missing producer": (changed("2 1 2 43 4 $input=2", "2 1 2 q 4"), 6, "'q', which nothing produces"),
    "output of nobody": (changed("1 0 4", "1 0 9"), None, "nothing produces the net's output '9'"),
    "dtype": (changed("@bias=(4)f32", "@bias=(4)f31"), 4, "'f31'"),
    "weight dtype null": (changed("@bias=(4)f32", "@bias=(4)null"), 4, "'bias'"),
    "weight shape": (changed("@bias=(4)f32", "@bias=(?)f32"), 4, "known shape"),
    "shape": (changed("#2=(?,4)f32", "#2=(?,4"), 4, "'(?,4'"),
    "shape of another": (changed("#2=(?,4)f32", "#9=(?,4)f32"), 4, "refers to operand '9'"),
    "named input": (changed("$input=x.1", "$input=2"), 4, "refers to operand '2'"),
    "two types": (changed("#2=(?,4)f32\npnnx.Out", "#2=(?,5)f32\npnnx.Out"), 6, "another on line 4"),
    "two arguments": (changed("mode=zeros", "bias=False"), 4, "'bias' twice"),
    "two weights": (changed("@bias=", "@weight="), 4, "'@weight' twice"),
    "blank in a string": (changed("mode=zeros", "mode=zeros and"), 4, "'and'"),
    "no key": (changed("mode=zeros", "=zeros"), 4, "'=zeros'"),
    "no weight name": (changed("@bias=", "@="), 4, "'@=(4)f32'"),
    "list": (changed("pad=[1,2]", "pad=[1,2"), 4, "'[1,2' is not closed"),
    "input with weights": (changed("#x.1=(?,3,%width)f32\n", "@w=(1)f32\n"), 3, "pnnx.Input"),
    "output with outputs": (changed("1 0 4", "1 1 4 5"), 7, "pnnx.Output"),
    "empty line": (changed("pnnx.Expression", "\npnnx.Expression"), 5, "0 words"),
    "cut in a shape": (SMALL[: SMALL.index("%width")], 3, "'(?,3,'"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_errors_of_malformed_files_contain_file_line_and_rule(case: str) -> None:
    text, line, words = MALFORMED[case]
    with pytest.raises(FileError) as error:
        read(text)
    message = str(error.value)
    assert (error.value.path, error.value.line) == ("m.param", line)
    assert words in message
    assert error.value.rule
    assert error.value.fix
    assert message.isascii() or message.replace("…", "").isascii()
    assert len(message) < 700


def test_the_error_of_invalid_utf8_contains_the_line() -> None:
    with pytest.raises(FileError, match="byte 0xff is not UTF-8 text") as error:
        parse(SMALL.encode() + b"\xff", path="m.param", name="m")
    assert error.value.line == 8


def test_hostile_names_are_quoted() -> None:
    with pytest.raises(FileError) as error:
        read(changed("$input=x.1", "$input=\x1b[31m<script>"))
    assert "\x1b" not in str(error.value)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for prefix in (b"", b"7767517\n1 1\n"):
        with contextlib.suppress(ExplorerError):
            parse(prefix + data, path="m.param", name="m")


def mutated(text: str, chance: random.Random) -> str:
    """Return the text with some cuts, copies, swaps and unusual characters."""
    for _ in range(chance.randint(1, 6)):
        start = chance.randrange(len(text) + 1)
        stop = min(len(text), start + chance.choice([0, 1, 1, 2, 5, 40, 400]))
        other = chance.randrange(len(text) + 1)
        strange = chance.choice([*"@#$=()[],?%- \n\0é", "9" * 50])
        text = chance.choice(
            [
                text[:start] + text[stop:],
                text[:start] + strange + text[stop:],
                text[:other] + text[start:stop] + text[other:],
                text[:stop],
            ]
        )
    return text


@settings(max_examples=400)
@given(st.sampled_from([DIGITS, DIGITS_RAW, SMALL]), st.randoms(use_true_random=False))
def test_a_damaged_real_file_is_read_or_refused_by_line(text: str, chance: random.Random) -> None:
    damaged = mutated(text, chance)
    try:
        net = read(damaged)
    except FileError as error:
        assert error.line is None or 1 <= error.line <= damaged.count("\n") + 2  # noqa: PT017
    else:
        assert len(net.blobs) == int(damaged.split("\n")[1].split()[1])


@pytest.mark.soak
def test_a_hundred_thousand_damaged_files_are_read_or_raise_an_error() -> None:
    chance = random.Random(3)
    for _ in range(100_000):
        with contextlib.suppress(ExplorerError):
            read(mutated(chance.choice([DIGITS, DIGITS_RAW, SMALL]), chance))


def test_an_operator_with_many_operands_is_read() -> None:
    net = read(wide(40_000))
    assert len(net.operator("o").inputs) == 40_000


def wide(count: int) -> str:
    """Return a file whose last operator reads ``count`` operands with recorded types."""
    names = [f"b{index}" for index in range(count)]
    notes = " ".join(f"#{name}=(1)f32" for name in names)
    inputs = "\n".join(f"pnnx.Input i{name} 0 1 {name}" for name in names)
    return f"7767517\n{count + 1} {count}\n{inputs}\nop o {count} 0 {' '.join(names)} {notes}\n"

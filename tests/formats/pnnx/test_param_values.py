"""Values, shapes and dtypes in the notation of ``.param`` files."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.formats.pnnx.param_values import GrammarError, read_type, read_value, write_type, write_value

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.complex_numbers(allow_nan=False),
    st.text(),
    st.text(alphabet='ab"%,()[]1.-+eEj \\', max_size=8),
    st.sampled_from(["None", "True", "inf", "-inf", "nan", "1", "1.5", "1+2j", "()", "(1,2)", "%x", '"', '"a"']),
)
lists = st.lists(scalars, min_size=1, max_size=5).map(tuple)
values = scalars | lists | st.lists(scalars | lists, min_size=1, max_size=4).map(tuple)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("None", None),
        ("()", None),
        ("[]", None),
        ("True", True),
        ("False", False),
        ("-3", -3),
        ("1.000000e-5", 1e-5),
        ("1.000000e+00", 1.0),
        ("-.5", -0.5),
        ("4.", 4.0),
        ("1e3", 1000.0),
        ("inf", math.inf),
        ("-inf", -math.inf),
        ("2.000000e+00+3.000000e+00j", 2 + 3j),
        ("2.000000e+00+-3.000000e+00j", 2 - 3j),
        ("2.0-3.0j", 2 - 3j),
        ("(1,2)", (1, 2)),
        ("[1,2]", (1, 2)),
        ("(1)", (1,)),
        ("(0.5,1)", (0.5, 1)),
        ("(None,7)", (None, 7)),
        ("[None,[0,-1,2]]", (None, (0, -1, 2))),
        ("((1,2),[3.5],x)", ((1, 2), (3.5,), "x")),
        ("([],1)", (None, 1)),
        ("(constant,reflect)", ("constant", "reflect")),
        ("(1.0+2.0j)", (1 + 2j,)),
        ("zeros", "zeros"),
        ("ijk,kl->ijl", "ijk,kl->ijl"),
        ("torch.float", "torch.float"),
        ("1x1", "1x1"),
        ("-x", "-x"),
        ("(%batch,64)", "(%batch,64)"),
        ("", ""),
        (r'"a\u0020b"', "a b"),
        ('"open', '"open'),
    ],
)
def test_values_are_read(text: str, value: object) -> None:
    result = read_value(text)
    assert (type(result), repr(result)) == (type(value), repr(value))


@pytest.mark.parametrize(
    "text", ["(1,2", "[1,2)", "(", "((1,2),(3,4)", "[1,[2)]", "(((1)))", "[1,[2,[3]]]", "9" * 5000]
)
def test_errors_of_malformed_values_contain_the_rule(text: str) -> None:
    with pytest.raises(GrammarError) as error:
        read_value(text)
    assert error.value.rule
    assert len(str(error.value)) < 500


@pytest.mark.parametrize("number", [-(2**63), 2**64 - 1])
def test_integers_have_64_bits_with_or_without_sign(number: int) -> None:
    """The limits are read and written; the next integers beyond them raise an error in both directions."""
    assert read_value(str(number)) == number
    assert write_value(number) == str(number)
    beyond = number - 1 if number < 0 else number + 1
    with pytest.raises(GrammarError, match="an integer"):
        read_value(str(beyond))
    with pytest.raises(GrammarError, match="an integer"):
        write_value(beyond)


@given(values)
def test_what_is_written_comes_back_and_holds_no_blank(value: object) -> None:
    text = write_value(value)
    assert repr(read_value(text)) == repr(value)
    assert text.isprintable()
    assert " " not in text


@given(st.floats())
def test_floats_keep_every_bit(value: float) -> None:
    result = read_value(write_value(value))
    assert isinstance(result, float)
    assert math.copysign(1, result) == math.copysign(1, value) or math.isnan(value)
    assert result == value or (math.isnan(result) and math.isnan(value))


@pytest.mark.parametrize(
    ("value", "text"), [(1e-5, "1.000000e-5"), (4.0, "4.0"), (0.1, "0.1"), (2e6, "2.000000e+6"), (1 / 3, repr(1 / 3))]
)
def test_floats_are_written_as_pnnx_writes_them(value: float, text: str) -> None:
    assert write_value(value) == text


def test_values_that_the_grammar_cannot_express_raise_an_error() -> None:
    with pytest.raises(GrammarError, match="type dict"):
        write_value({"a": 1})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "shape", "dtype"),
    [
        ("(1,3,224,224)f32", (1, 3, 224, 224), "float32"),
        ("(?,%seq,64)bf16", (None, "seq", 64), "bfloat16"),
        ("()i64", (), "int64"),
        ("(0)bool", (0,), "bool"),
        ("(2)c32", (2,), "complex32"),
        ("(2)null", (2,), None),
    ],
)
def test_types_are_read_and_written(text: str, shape: tuple[object, ...], dtype: str | None) -> None:
    assert read_type(text) == (shape, dtype)
    assert write_type(*read_type(text)) == text


def test_former_names_of_complex_types_are_read() -> None:
    assert read_type("(2)cp64") == read_type("(2)c64")


@pytest.mark.parametrize(
    "text", ["", "f32", "(1,2)", "(1,2)f33", "(1,2f32", "(-1)f32", "(1,)f32", "(%)f32", "(1.5)f32", f"({'9' * 30})f32"]
)
def test_errors_of_malformed_types_contain_the_rule(text: str) -> None:
    with pytest.raises(GrammarError) as error:
        read_type(text)
    assert error.value.rule


def test_types_that_cannot_be_written_raise_an_error() -> None:
    with pytest.raises(GrammarError, match="uint16"):
        write_type((1,), "uint16")
    with pytest.raises(GrammarError, match="symbol"):
        write_type(("a,b",), "float32")

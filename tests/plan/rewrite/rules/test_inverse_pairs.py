import itertools

import numpy as np
import pytest

import explorer as ex
from tests.plan.rewrite.rules.asking import applied, close, decision, declined, simplified, values

x = values((2, 3), low=-2.0)
positive = ex.TrivialTensor(2.5, (2, 3), dtype="float64")
nonnegative = ex.relu(x)
complex_ = ex.tensor(np.array([1 + 4j, -2 - 5j]))
integers = ex.tensor(np.array([[3, -4, 5]]))


@pytest.mark.spec("P-1", "M-E5", headline=True)
@pytest.mark.parametrize(
    ("root", "codes"),
    [
        (ex.log(ex.exp(x)), ["log_exp"]),
        (ex.exp(ex.log(positive)), ["exp_log"]),
        (ex.sqrt(ex.square(x)), ["sqrt_square_absolute"]),
        (ex.sqrt(ex.square(positive)), ["sqrt_square"]),
        (ex.square(ex.sqrt(positive)), ["square_sqrt"]),
        (ex.negative(-x), ["involution"]),
        (ex.reciprocal(ex.reciprocal(x)), ["involution"]),
        (ex.transpose(ex.transpose(x)), ["transpose_pair"]),
        (ex.transpose(ex.transpose(values((2, 3, 4)), (2, 0, 1)), (2, 0, 1)), ["transposes"]),
        (x.reshape((6,)).reshape((2, 3)), ["reshape_pair"]),
        (x.reshape((6,)).reshape((3, 2)), ["reshapes"]),
        (ex.cast(ex.cast(values((3,), "float32"), "float64"), "float32"), ["cast_pair"]),
        (ex.cast(ex.cast(ex.tensor(np.arange(3, dtype=np.int32)), "float64"), "int32"), ["cast_pair"]),
        (ex.negative(ex.negative(ex.negative(-x))), ["involution", "involution"]),
    ],
    ids=lambda value: repr(value) if isinstance(value, list) else "",
)
def test_inverse_pairs_are_replaced_by_their_operand(root: ex.Expr, codes: list[str]) -> None:
    """Replace pairs of inverse operations by their operand; each is a decision of its rule."""
    graph = simplified(root)
    assert applied(graph) == codes
    assert close(root)
    facts = next(
        each for each in graph.decisions if each.code == codes[0] and any(node is root for node in each.subjects)
    ).facts
    assert facts.get("outer", root) is root
    assert facts.get("inner", root.operands[0]) is root.operands[0]


@pytest.mark.spec("P-1", "M-E5")
@pytest.mark.parametrize(
    ("root", "expected", "facts"),
    [
        (ex.exp(ex.log(x)), ("ExpOfLog", "domain"), {"known": "real"}),
        (ex.square(ex.sqrt(x)), ("SquareOfSqrt", "domain"), {"known": "real"}),
        (ex.log(ex.exp(complex_)), ("LogOfExp", "complex"), {}),
        (ex.log(ex.exp(integers)), ("LogOfExp", "dtype"), {"given": "int64", "wanted": "float64"}),
        (ex.exp(ex.log(integers)), ("ExpOfLog", "dtype"), {"given": "int64"}),
        (ex.sqrt(ex.square(integers)), ("SqrtOfSquare", "dtype"), {"given": "int64"}),
        (ex.sqrt(ex.square(complex_)), ("SqrtOfSquare", "complex"), {}),
        (ex.cast(ex.cast(x, "float32"), "float64"), ("WideningRoundTrip", "lossy"), {"wanted": "float32"}),
    ],
    ids=lambda value: repr(value) if isinstance(value, tuple) else "",
)
def test_a_pair_that_may_not_undo_is_refused_with_its_reason(
    root: ex.Expr, expected: tuple[str, str], facts: dict
) -> None:  # type: ignore[type-arg]
    graph = simplified(root)
    assert expected in declined(graph)
    assert applied(graph) == []
    given = decision(graph, expected[1]).facts
    assert {name: given[name] for name in facts} == facts
    assert close(root)


@pytest.mark.spec("P-1")
def test_int64_does_not_survive_float64() -> None:
    big = ex.tensor(np.array([2**53 + 1, 2**62 + 1]))
    root = ex.cast(ex.cast(big, "float64"), "int64")
    assert declined(simplified(root)) == [("WideningRoundTrip", "lossy")]
    assert np.array_equal(ex.evaluate(root), big.array.astype("float64").astype("int64"))


@pytest.mark.spec("P-1")
@pytest.mark.parametrize(
    "root",
    [
        ex.log(x),
        ex.exp(ex.exp(x)),
        ex.transpose(x),
        -ex.reciprocal(x),
        ex.cast(x, "float32"),
        x.reshape((3, 2)),
        ex.sqrt(x),
    ],
    ids=repr,
)
def test_other_pairs_have_no_decision(root: ex.Expr) -> None:
    assert simplified(root).decisions == []


@pytest.mark.spec("P-1")
def test_squares_of_signed_integers_are_not_known_to_be_positive() -> None:
    root = ex.relu(ex.square(ex.tensor(np.array([50_000], np.int32))))
    assert applied(simplified(root)) == []
    assert close(root)


@pytest.mark.spec("P-1", "M-E5")
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64"])
def test_reciprocals_of_other_than_real_numbers_are_kept(dtype: str) -> None:
    root = ex.reciprocal(ex.reciprocal(ex.tensor(np.array([1, 1, 2], dtype))))
    assert declined(simplified(root)) == [("Involution", "dtype")]
    assert close(root)


inner = values((2, 3), low=-0.9, high=0.9)


@pytest.mark.spec("P-1", "M-E5")
@pytest.mark.parametrize(
    "root",
    [
        ex.log1p(ex.expm1(x)),
        ex.arcsinh(ex.sinh(x)),
        ex.sinh(ex.arcsinh(x)),
        ex.arctanh(ex.tanh(x)),
        ex.expm1(ex.log1p(nonnegative)),
    ],
    ids=repr,
)
def test_a_function_of_its_inverse_is_the_operand(root: ex.Expr) -> None:
    """The inverse must be finite for every operand: arctanh(tanh(x)) is x even at 10⁴."""
    assert applied(simplified(root)) == ["inverse"]
    assert close(root)


@pytest.mark.spec("P-1", "M-E7")
def test_overflow_between_a_function_and_its_inverse_does_not_matter() -> None:
    """At ±10⁴ sinh is ∞ and tanh is 1, but the pair returns the number."""
    large = ex.tensor(np.array([1e4, -1e4, 0.5, np.inf, -np.inf]))
    for root in (ex.arcsinh(ex.sinh(large)), ex.arctanh(ex.tanh(large))):
        np.testing.assert_array_equal(ex.evaluate(root), large.array)
        assert not np.array_equal(ex.evaluate(root, without=["simplify"]), large.array)
    np.testing.assert_array_equal(ex.evaluate(ex.log1p(ex.expm1(large)))[:1], 1e4)


@pytest.mark.spec("P-1", "P-15")
def test_an_inverse_with_a_limited_domain_is_declined() -> None:
    """expm1(log1p(x)) stays unless x is known to exceed −1, and always for integers and complex numbers."""
    root = ex.expm1(ex.log1p(inner))
    assert declined(simplified(root)) == [("UndoneByInverse", "domain")]
    assert close(root)
    assert declined(simplified(ex.log1p(ex.expm1(integers)))) == [("UndoneByInverse", "dtype")]
    assert declined(simplified(ex.arctanh(ex.tanh(complex_)))) == [("UndoneByInverse", "complex")]


@pytest.mark.spec("P-1")
@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 2, 2)])
def test_two_transpositions_become_one(shape: tuple[int, ...]) -> None:
    """They are composed in order, since permutations do not commute."""
    values = np.arange(float(np.prod(shape))).reshape(shape)
    for first, second in itertools.product(itertools.permutations(range(3)), repeat=2):
        x = ex.tensor(values)
        result = ex.evaluate(ex.transpose(ex.transpose(x, first), second) * 1.5)
        np.testing.assert_array_equal(result, values.transpose(first).transpose(second) * 1.5)

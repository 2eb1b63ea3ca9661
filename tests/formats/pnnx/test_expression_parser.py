"""The language of pnnx.Expression: trees are printed and parsed again, even with pnnx's misplaced brackets."""

from __future__ import annotations

import contextlib
import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.formats.pnnx.expression_parser import ExpressionError, parse
from explorer.formats.pnnx.expression_tree import (
    ARITY,
    Call,
    ListOf,
    Literal,
    Node,
    Operand,
    members,
    postorder,
    preorder,
    write,
)

UNARY = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp expm1 floor log log10 log1p neg reciprocal round rsqrt "
    "sign sin sinh sqrt square tan tanh trunc int torch.bool torch.float torch.long"
)
BINARY = (
    "add sub mul div floor_divide fmod remainder pow atan2 max maximum min minimum logaddexp and or xor lshift rshift"
)
unary, binary = UNARY.split(" "), BINARY.split(" ")

numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.complex_numbers(allow_nan=False)
literals = (
    numbers | st.none() | st.booleans() | st.text(max_size=5) | st.sampled_from(["trunc", "@1", "floor", "inf"])
).map(Literal)
leaves = st.integers(0, 9).map(Operand) | literals


def calls(node: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.one_of(
        st.builds(lambda f, a: Call(f, (a,)), st.sampled_from(unary), node),
        st.builds(lambda f, a, b: Call(f, (a, b)), st.sampled_from(binary), node, node),
        st.builds(lambda a, n: Call("size", (a, Literal(n))), node, st.integers(-4, 4)),
    )


plain_trees = st.recursive(leaves, calls, max_leaves=12)
trees = st.recursive(
    leaves,
    lambda node: st.one_of(
        calls(node),
        node.map(lambda a: Call("size", (a,))),
        st.lists(node, max_size=4).map(lambda items: ListOf(tuple(items))),
    ),
    max_leaves=12,
)
outer_trees = plain_trees | st.lists(plain_trees, min_size=1, max_size=4).map(lambda items: ListOf(tuple(items)))


@given(trees)
def test_what_is_written_parses_to_the_same_tree(tree: Node) -> None:
    parsed = parse(write(tree))
    assert parsed.form == "nested"
    assert parsed.tree == tree


def rewritten_by_pnnx(text: str, unknown: set[str]) -> str:
    """Return the expression as pnnx rewrites it if it mistakes names of unknown functions for literals."""
    stack: list[str] = []
    for token in reversed(re.findall(r"\[|[^\s(),\[\]]+", text)):
        if token == "[":
            stack = [f"[{','.join(reversed(stack))}]"]
        elif token in ARITY and token not in unknown:
            stack.append(f"{token}({','.join(stack.pop() for _ in range(ARITY[token][1]))})")
        else:
            stack.append(token)
    return ",".join(reversed(stack))


@given(outer_trees, st.sets(st.sampled_from(unary + binary), min_size=1, max_size=6))
def test_brackets_that_pnnx_misplaces_are_read_as_prefix_notation(tree: Node, unknown: set[str]) -> None:
    text = write(tree)
    rewritten = rewritten_by_pnnx(text, unknown)
    parsed = parse(rewritten)
    assert parsed.tree == tree
    assert parsed.form == ("nested" if rewritten == text else "prefix")


@given(plain_trees, st.randoms(use_true_random=False))
def test_brackets_at_random_change_nothing(tree: Node, chance: random.Random) -> None:
    noisy = "".join(
        token + chance.choice(["(", ",", "),", "(("] if token in ARITY else [")", ",", "),", ")),,"])
        for token in re.findall(r"[^\s(),]+", write(tree))
    )
    assert parse(noisy).tree == tree


def test_expressions_of_real_exports() -> None:
    parsed = parse("add(add(@1,log10(@0)),log1p),@0)")
    assert parsed.form == "prefix"
    assert write(parsed.tree) == "add(add(@1,log10(@0)),log1p(@0))"


def test_a_scaled_addition_with_two_commas_is_read() -> None:
    parsed = parse("add(@0,,mul(@1,2))")
    assert (parsed.form, write(parsed.tree)) == ("prefix", "add(@0,mul(@1,2))")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-1", -1),
        ("4.0", 4.0),
        ("1.000000e+00", 1.0),
        ("2.000000e+00+3.000000e+00j", 2 + 3j),
        ("None", None),
        ("True", True),
        ("trunc_mode", "trunc_mode"),
        ("cuda:0", "cuda:0"),
    ],
)
def test_literals_keep_their_type(text: str, value: object) -> None:
    tree = parse(text).tree
    assert isinstance(tree, Literal)
    assert (type(tree.value), tree.value) == (type(value), value)


def test_trees_that_differ_in_a_type_differ() -> None:
    different = [Literal(1), Literal(1.0), Literal(True), Literal("1"), Literal(0.0), Literal(-0.0), Operand(1)]
    assert len({*different, *[ListOf((node,)) for node in different]}) == 14


@pytest.mark.parametrize("function", unary)
def test_every_unary_function_has_one_argument(function: str) -> None:
    assert parse(f"{function}(@0)").tree == Call(function, (Operand(0),))
    with pytest.raises(ExpressionError, match="2 arguments"):
        parse(f"{function}(@0,@1)")


@pytest.mark.parametrize("function", binary)
def test_every_binary_function_has_two_arguments(function: str) -> None:
    assert parse(f"{function}(@0,2)").tree == Call(function, (Operand(0), Literal(2)))
    for wrong in ("@0", "@0,@1,@2"):
        with pytest.raises(ExpressionError, match="arguments"):
            parse(f"{function}({wrong})")


def test_size_and_lists() -> None:
    tree = parse("[int(size(@0,0)),size(@1),-1,[]]").tree
    assert isinstance(tree, ListOf)
    assert [type(item) for item in tree.items] == [Call, Call, Literal, ListOf]
    assert tree.items[1] == Call("size", (Operand(1),))


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("", 1, "nothing"),
        ("ad(@0,@1)", 1, "add"),
        ("add(foo(@0),@1)", 5, "foo"),
        ("add(@0", 7, "'add' of column 1 is not closed"),
        ("add(@0,@x)", 8, "'@x'"),
        ("add(@0,@1),@2", 11, "','"),
        ("neg(@0)@1", 8, "after a complete value"),
        ("[@0,@1", 7, "'[' of column 1"),
        ("]", 1, "brackets"),
        ("add()", 5, "')'"),
        ("abs(@0]", 7, "']'"),
        (f"add(1,{'9' * 5000})", 7, "5000 digits"),
    ],
)
def test_errors_contain_the_column_and_the_rule(text: str, column: int, words: str) -> None:
    with pytest.raises(ExpressionError) as error:
        parse(text)
    assert error.value.column == column
    assert error.value.rule
    assert words in str(error.value)
    assert len(str(error.value)) < 600


def test_an_operand_beyond_the_inputs_raises_an_error() -> None:
    assert parse("add(@0,@1)", operands=2).form == "nested"
    with pytest.raises(ExpressionError, match="@2 of 2 inputs") as error:
        parse("add(@0,@2)", operands=2)
    assert error.value.column == 8


@given(st.text(alphabet="@01(),[]ad neglogsize.j-", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ExpressionError):
        tree = parse(text).tree
        again = parse(write(tree))
        assert (again.tree, again.form) == (tree, "nested")


@pytest.mark.parametrize("depth", [20_000, pytest.param(100_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("form", ["nested", "prefix"])
def test_a_deeply_nested_expression_is_read(form: str, depth: int) -> None:
    text = "neg(" * depth + "@0" + ")" * (depth - (form == "prefix"))
    parsed = parse(text)
    assert parsed.form == form
    assert sum(1 for _ in preorder(parsed.tree)) == depth + 1
    first = next(postorder(parsed.tree))
    assert first == Operand(0)
    assert write(parsed.tree) == "neg(" * depth + "@0" + ")" * depth
    assert parsed.tree == parse(text).tree


@given(trees)
def test_traversals_visit_every_node_once_in_their_order(tree: Node) -> None:
    before, after = list(preorder(tree)), list(postorder(tree))
    assert len(before) == len(after)
    assert before[0] is after[-1] is tree
    assert {id(node) for node in before} == {id(node) for node in after}
    place = {id(node): index for index, node in enumerate(after)}
    if len(place) == len(after):
        assert all(place[id(member)] < place[id(node)] for node in before for member in members(node))


@pytest.mark.spec("I-7")
@pytest.mark.parametrize(
    ("text", "operands"),
    [
        ("mul(@2, add(@0, @1));", 3),
        ("add(add(mul(@0, @1), mul(@2, add(add(add(@0, @2), @3), @4))), @5);", 6),
        ("  add(@0 ,@1) ; ", 2),
    ],
)
def test_blanks_and_one_final_semicolon_are_allowed(text: str, operands: int) -> None:
    """InferFramework writes expressions with blanks and a semicolon at the end."""
    bare = re.sub(r"[\s;]", "", text)
    assert parse(text, operands) == parse(bare, operands)
    with pytest.raises(ExpressionError):
        parse(bare + ";;", operands)

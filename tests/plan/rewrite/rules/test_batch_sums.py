import numpy as np
import pytest

import explorer as ex
from explorer.ops.manipulation.slicing import Index0
from tests.plan.rewrite.rules.asking import applied, close, decision, declined, simplified, values

whole = values((4, 2, 3), low=-2.0)
members = [whole[index] for index in range(4)]


@pytest.mark.spec("P-1", "P-4")
def test_every_form_of_a_sum_of_all_members_is_one_reduction() -> None:
    rows = _rows()
    for root in (
        ex.add_n(*rows),
        rows[0] + rows[1] + rows[2] + rows[3],
        ex.add_n(*members),
        sum(members[1:], members[0]),
    ):
        graph = simplified(root)
        assert "sum_of_members" in applied(graph)
        assert decision(graph, "sum_of_members").facts["members"] == 4
        assert close(root)


def _rows() -> list[ex.Expr]:
    return [Index0(index)(whole) for index in range(4)]


@pytest.mark.spec("P-1", "P-4")
def test_other_terms_are_added_to_the_reduction() -> None:
    rows, other = _rows(), values((2, 3))
    root = ((rows[0] + other) + rows[1] + rows[2]) + rows[3]
    assert "sum_of_members" in applied(simplified(root, numerics="fast"))
    assert declined(simplified(root)) == [("SumOfMembers", "changes_rounding")]
    assert close(root)
    twice = ex.add_n(*rows, rows[2])
    assert close(twice)


def test_broadcast_terms_are_not_treated_as_members() -> None:
    last = Index0(3)(values((4, 3)))
    for root in (values((2, 3)) + last, last + last[0]):
        assert "sum_of_members" not in applied(simplified(root))
        assert close(root)


@pytest.mark.spec("P-1", "P-4")
def test_a_sum_of_members_of_several_values_is_one_reduction_for_each() -> None:
    """Incomplete sets of members stay terms."""
    other, third = values((3, 2, 3)), values((5, 2, 3))
    ends = [Index0(index)(other) for index in range(3)]
    some = [Index0(index)(third) for index in range(2)]
    root = ex.add_n(ends[0], *_rows(), *some, *ends[1:], ends[1])
    graph = simplified(root)
    facts = decision(graph, "sum_of_members").facts
    assert (facts["wholes"], facts["members"]) == (2, 7)
    assert [node.operation.name for node in graph.live].count("index0") == 3
    assert close(root)


@pytest.mark.spec("P-1", "P-4")
def test_a_long_chain_of_additions_with_members_of_two_values() -> None:
    """It has two terms a row for two hundred rows, so twice as many additions as one value has rows."""
    first, second = values((200, 3)), values((200, 3))
    root = Index0(0)(first) + Index0(0)(second)
    for index in range(1, 200):
        root = root + Index0(index)(second) + Index0(index)(first)
    graph = simplified(root, numerics="fast")
    assert "index0" not in [node.operation.name for node in graph.live]
    assert close(root)


@pytest.mark.spec("P-1", "P-4")
def test_a_sum_of_some_members_is_declined_with_their_number() -> None:
    rows = _rows()
    root = ex.add_n(rows[0], rows[3])
    graph = simplified(root)
    assert declined(graph) == [("SumOfMembers", "not_all_members")]
    facts = decision(graph, "not_all_members").facts
    assert (facts["found"], facts["members"]) == (2, 4)
    shared = rows[0] + rows[1]
    assert applied(simplified(ex.add_n(ex.tanh(whole)[0], *members[1:]))) == []
    both = (shared + rows[2] + rows[3]) + shared
    assert close(both)


@pytest.mark.spec("P-1", "P-4")
def test_a_sum_of_products_is_one_product() -> None:
    a, b = values((5, 2, 3)), values((5, 3, 4))
    root = (a @ b).sum(axis=0)
    graph = simplified(root)
    assert "sum_of_products" in applied(graph)
    assert decision(graph, "sum_of_products").facts == {"members": 5, "saved_bytes": 5 * 2 * 4 * 8}
    assert close(root)


@pytest.mark.spec("P-1", "P-4")
def test_a_sum_of_products_stays_if_its_type_would_change_or_work_would_double() -> None:
    a, b = values((5, 2, 3)), values((5, 3, 4))
    small = ex.tensor(np.ones((5, 2, 3), np.int32)) @ ex.tensor(np.ones((5, 3, 4), np.int32))
    assert declined(simplified(small.sum(axis=0))) == [("SumOfProducts", "dtype")]
    assert close(small.sum(axis=0))
    product = a @ b
    assert ("SumOfProducts", "other_consumers") in declined(simplified(product.sum(axis=0), product))
    shared = (a @ values((3, 4))).sum(axis=0)
    assert declined(simplified(shared)) == [("SumOfProducts", "rank")]
    assert simplified(product.sum(axis=1)).decisions == []


@pytest.mark.parametrize(
    ("left", "right"),
    [((4, 5), (5, 6)), ((3, 4, 5), (5,)), ((2, 3, 4, 5), (2, 3, 5, 6))],
    ids=["rows of one product", "products with a vector", "stacks of products"],
)
def test_a_sum_of_terms_other_than_matrix_products_has_no_decision(left, right):
    """The reason "they all share one matrix" would be false."""
    a, b = (ex.tensor(np.ones(shape, np.float32)) for shape in (left, right))
    assert ("SumOfProducts", "rank") not in declined(simplified((a @ b).sum(axis=0)))


@pytest.mark.spec("P-1")
def test_a_stack_is_the_value_only_if_it_contains_all_members() -> None:
    rows = _rows()
    assert applied(simplified(ex.stack(rows))) == ["stack_of_members"]
    for order in ([1, 0, 2, 3], [0, 1, 2], [0, 1, 2, 3, 3]):
        root = ex.stack([rows[index] for index in order])
        assert applied(simplified(root)) == []
        assert close(root)


@pytest.mark.spec("P-1", "P-4")
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32"])
def test_members_whose_sum_over_an_axis_has_another_dtype_are_added_one_by_one(dtype: str) -> None:
    narrow = ex.tensor(np.array([[1, 100], [1, 100], [0, 100]], dtype))
    root = narrow[0] + narrow[1] + narrow[2]
    assert declined(simplified(root)) == [("SumOfMembers", "dtype")]
    assert close(root)
    assert ex.evaluate(root).dtype == dtype

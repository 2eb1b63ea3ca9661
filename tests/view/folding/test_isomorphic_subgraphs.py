"""Equal operations that stand side by side, and the equal pieces that they make up."""

import pytest

from explorer.view.folding.isomorphic_subgraphs import FEWEST, alike

MANY = 2 * FEWEST


def lanes(count, *names):
    """Chains side by side: item ``count * step + lane`` is a step of a lane; edges, and what each item does."""
    edges = [
        (count * step + lane, count * (step + 1) + lane) for step in range(len(names) - 1) for lane in range(count)
    ]
    return len(names) * count, edges, [name for name in names for _ in range(count)]


def found(count, edges, does, leaves=()):
    return alike(count, edges, set(range(count)) - set(leaves), does.__getitem__)


@pytest.mark.spec("P-4", "V-7")
def test_chains_side_by_side_are_pieces():
    """Samples that go through equal operations are equal pieces of graph, however they were recorded."""
    count, edges, does = lanes(MANY, "matmul", "add", "tanh")
    assert found(count, edges, does) == [[[lane, MANY + lane, 2 * MANY + lane] for lane in range(MANY)]]


def test_what_is_too_few_is_none():
    assert found(*lanes(FEWEST - 1, "matmul", "add")) == []


def test_what_does_something_else_stays_alone():
    count, edges, does = lanes(MANY, "matmul", "add")
    does[MANY + 3] = "subtract"
    products, sums = found(count, edges, does)
    assert products == [[lane] for lane in range(MANY)]
    assert sums == [[MANY + lane] for lane in range(MANY) if lane != 3]


def test_what_joins_all_of_them_does_not_join_them():
    """A sum over all samples is read by none of them: they are pieces still."""
    count, edges, does = lanes(MANY, "square", "sum")
    edges += [(MANY + lane, count) for lane in range(MANY)]
    assert found(count + 1, edges, [*does, "add"]) == [[[lane, MANY + lane] for lane in range(MANY)]]


def test_other_weights_are_other_work():
    """Products with two weights are two sets, although all of them are alike in shape."""
    left, right = 2 * MANY, 2 * MANY + 1
    edges = [(left if item < MANY else right, item) for item in range(2 * MANY)]
    sets = found(2 * MANY + 2, edges, ["matmul"] * 2 * MANY + ["leaf"] * 2, leaves=(left, right))
    assert sets == [[[item] for item in range(MANY)], [[item] for item in range(MANY, 2 * MANY)]]


def test_levels_of_trees_are_sets_of_their_own():
    """Of trees of different sizes, what reads leaves only stands before what reads that."""
    first, second = list(range(MANY)), list(range(MANY, MANY + FEWEST))
    edges = [(2 * place, MANY + place) for place in range(FEWEST)]
    assert found(MANY + FEWEST, edges, ["compose"] * (MANY + FEWEST)) == [
        [[item] for item in first],
        [[item] for item in second],
    ]


def test_a_piece_does_not_read_itself_through_what_is_outside():
    """A mean over all samples that each of them reads divides the pieces."""
    count, edges, does = lanes(MANY, "square", "subtract")
    edges += [(lane, count) for lane in range(MANY)] + [(count, MANY + lane) for lane in range(MANY)]
    assert found(count + 1, edges, [*does, "mean"]) == [
        [[lane] for lane in range(MANY)],
        [[MANY + lane] for lane in range(MANY)],
    ]


def test_pairs_that_cross_are_no_pieces():
    """Each of one set is read by one of another in two ways that do not agree: there is no piece for each."""
    count, edges, does = lanes(MANY, "exp", "log", "add")
    edges += [(lane, 2 * MANY + (lane + 1) % MANY) for lane in range(MANY)]
    assert sorted(len(pieces[0]) for pieces in found(count, edges, does)) == [1, 1, 1]


def test_a_circle_is_on_no_level():
    assert found(MANY, [(item, (item + 1) % MANY) for item in range(MANY)], ["add"] * MANY) == []

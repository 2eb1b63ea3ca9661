"""Equal parallel operations, and the equal subgraphs that they form."""

import pytest

from explorer.view.folding.isomorphic_subgraphs import FEW, LARGE, MIN_COUNT, equal_subgraphs

MANY = 2 * MIN_COUNT


def lanes(count, *names):
    """Return the edges and operations of parallel chains; item ``count * step + lane`` is one step of a lane."""
    edges = [
        (count * step + lane, count * (step + 1) + lane) for step in range(len(names) - 1) for lane in range(count)
    ]
    return len(names) * count, edges, [name for name in names for _ in range(count)]


def found(count, edges, does, leaves=()):
    return equal_subgraphs(count, edges, set(range(count)) - set(leaves), does.__getitem__)


@pytest.mark.spec("P-4", "V-7")
def test_parallel_chains_are_subgraphs():
    """Samples with equal operations form equal subgraphs, in whichever order they were recorded."""
    count, edges, does = lanes(MANY, "matmul", "add", "tanh")
    assert found(count, edges, does) == [[[lane, MANY + lane, 2 * MANY + lane] for lane in range(MANY)]]


def test_too_few_chains_are_not_grouped():
    assert found(*lanes(MIN_COUNT - 1, "matmul", "add")) == []


@pytest.mark.spec("V-24")
def test_a_few_large_subgraphs_are_grouped():
    """Four heads of attention are equal subgraphs, but four equal operations are a coincidence."""
    names = [f"operation {number}" for number in range(LARGE)]
    (pieces,) = found(*lanes(FEW, *names))
    assert [len(piece) for piece in pieces] == [LARGE] * FEW
    assert found(*lanes(FEW, *names[1:])) == []
    assert found(*lanes(FEW - 1, *names)) == []


def test_a_different_chain_is_not_grouped():
    count, edges, does = lanes(MANY, "matmul", "add")
    does[MANY + 3] = "subtract"
    products, sums = found(count, edges, does)
    assert products == [[lane] for lane in range(MANY)]
    assert sums == [[MANY + lane] for lane in range(MANY) if lane != 3]


def test_a_common_reader_does_not_merge_subgraphs():
    """A sum over all samples, which none of them reads, does not merge their subgraphs."""
    count, edges, does = lanes(MANY, "square", "sum")
    edges += [(MANY + lane, count) for lane in range(MANY)]
    assert found(count + 1, edges, [*does, "add"]) == [[[lane, MANY + lane] for lane in range(MANY)]]


def test_different_weights_give_different_sets():
    """Products with two weights are two sets, although their shapes are equal."""
    left, right = 2 * MANY, 2 * MANY + 1
    edges = [(left if item < MANY else right, item) for item in range(2 * MANY)]
    sets = found(2 * MANY + 2, edges, ["matmul"] * 2 * MANY + ["leaf"] * 2, leaves=(left, right))
    assert sets == [[[item] for item in range(MANY)], [[item] for item in range(MANY, 2 * MANY)]]


def test_each_level_of_trees_is_a_set():
    """In trees of different sizes, operations that read only leaves are a set before the operations that read them."""
    first, second = list(range(MANY)), list(range(MANY, MANY + MIN_COUNT))
    edges = [(2 * place, MANY + place) for place in range(MIN_COUNT)]
    assert found(MANY + MIN_COUNT, edges, ["compose"] * (MANY + MIN_COUNT)) == [
        [[item] for item in first],
        [[item] for item in second],
    ]


def test_a_subgraph_does_not_read_itself_through_outside_items():
    """A mean over all samples that each of them reads divides the subgraphs."""
    count, edges, does = lanes(MANY, "square", "subtract")
    edges += [(lane, count) for lane in range(MANY)] + [(count, MANY + lane) for lane in range(MANY)]
    assert found(count + 1, edges, [*does, "mean"]) == [
        [[lane] for lane in range(MANY)],
        [[MANY + lane] for lane in range(MANY)],
    ]


def test_crossing_pairs_are_not_subgraphs():
    """If two one-to-one connections between two sets contradict each other, only single items are equal."""
    count, edges, does = lanes(MANY, "exp", "log", "add")
    edges += [(lane, 2 * MANY + (lane + 1) % MANY) for lane in range(MANY)]
    assert sorted(len(pieces[0]) for pieces in found(count, edges, does)) == [1, 1, 1]


def test_a_cycle_is_on_no_level():
    assert found(MANY, [(item, (item + 1) % MANY) for item in range(MANY)], ["add"] * MANY) == []

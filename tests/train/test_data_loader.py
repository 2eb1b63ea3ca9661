"""Datasets and loaders: batches, order, and each sample freed exactly once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import explorer as ex

T = ex.train


class Counted:
    """Dataset that counts calls of get and free, and fails at one sample."""

    def __init__(self, count: int, broken: int = -1) -> None:
        self.count, self.broken = count, broken
        self.got: Counter[int] = Counter()
        self.freed: Counter[int] = Counter()

    def __len__(self) -> int:
        return self.count

    def get(self, index: int, /) -> Any:
        if index == self.broken:
            raise OSError("the disk is gone")
        self.got[index] += 1
        return np.full(2, index), index

    def free(self, sample: Any, /) -> None:
        self.freed[sample[1]] += 1


@pytest.mark.spec("T-9", headline=True)
def test_batches_cover_the_dataset() -> None:
    """Load a dataset that defines len, get and free in batches that cover it, and free each sample once."""
    data = Counted(7)
    loader = T.DataLoader(data, 3)
    batches = [*loader]
    assert len(loader) == 3
    assert [len(images) for images, _ in batches] == [3, 3, 1]
    assert np.concatenate([labels for _, labels in batches]).tolist() == [*range(7)]
    assert batches[1][0].tolist() == [[3, 3], [4, 4], [5, 5]]
    assert data.got == data.freed == Counter(range(7))
    assert len([*T.DataLoader(data, 3, drop_last=True)]) == 2
    assert [*T.DataLoader(Counted(0), 3)] == []


@pytest.mark.spec("T-9")
def test_options_must_be_booleans() -> None:
    with pytest.raises(ex.OperandError, match="shuffle must be True or False"):
        T.DataLoader(Counted(7), shuffle="no")  # type: ignore[arg-type]
    assert repr(T.DataLoader(Counted(7), 3, seed=2)) == (
        "<loader of 7 samples: batch_size=3, shuffle=False, seed=2, drop_last=False>"
    )


@pytest.mark.spec("T-9")
def test_the_order_depends_on_seed_and_epoch() -> None:
    def orders(seed: int) -> list[list[int]]:
        loader = T.DataLoader(Counted(50), 50, shuffle=True, seed=seed)
        return [labels.tolist() for _ in range(3) for _, labels in loader]

    first = orders(1)
    assert first == orders(1)
    assert first != orders(2)
    assert first[0] != first[1]
    assert all(sorted(order) == [*range(50)] for order in first)


@pytest.mark.spec("T-9")
def test_each_sample_is_freed_exactly_once() -> None:
    data = Counted(10)
    for _ in T.DataLoader(data, 4):
        pass
    assert data.got == data.freed == Counter(range(10))


@pytest.mark.spec("T-9")
def test_samples_are_freed_after_a_failing_step_or_sample() -> None:
    data = Counted(10)
    with pytest.raises(ZeroDivisionError):
        [1 // 0 for _ in T.DataLoader(data, 4)]
    assert data.got == data.freed == Counter(range(4))
    data = Counted(10, broken=6)
    with pytest.raises(OSError, match="the disk is gone"):
        [*T.DataLoader(data, 4)]
    assert data.got == data.freed == Counter(range(6))


@pytest.mark.spec("T-9")
def test_an_invalid_dataset_raises_an_error() -> None:
    with pytest.raises(ex.DeclarationError, match="__len__, get"):
        T.DataLoader([1, 2])
    with pytest.raises(ex.OperandError, match="at least 1"):
        T.DataLoader(Counted(3), 0)
    with pytest.raises(ex.OperandError, match="the same length"):
        T.ArrayDataset(np.ones(3), np.ones(4))
    with pytest.raises(ex.OperandError, match="the same length"):
        T.ArrayDataset(np.ones(()))

    class Ragged(Counted):
        def get(self, index: int, /) -> Any:
            return np.ones(index), index

    ragged = Ragged(3)
    with pytest.raises(ex.StateError, match="sample 1 has the shapes"):
        [*T.DataLoader(ragged, 3)]
    assert sum(ragged.freed.values()) == 3


def test_rows_of_arrays_equal_single_samples() -> None:
    images, labels = np.arange(12).reshape(6, 2), np.arange(6)
    data = T.ArrayDataset(images, labels)
    whole = T.DataLoader(data, 4, shuffle=True, seed=3)
    order = whole.order(0)
    (first, _), _ = whole
    assert (first == images[order[:4]]).all()
    assert [part.tolist() for part in data.get(2)] == [[4, 5], 2]


@pytest.mark.spec("T-9")
def test_numpy_numbers_are_accepted_as_integers_and_booleans_are_not() -> None:
    loader = T.DataLoader(Counted(7), np.int64(3), seed=np.uint8(2))
    assert (loader.batch_size, loader.seed) == (3, 2)
    assert type(loader.state()["batch_size"]) is int
    for wrong in (True, np.True_, 2.0, None):
        with pytest.raises(ex.OperandError, match="batch_size must be an integer"):
            T.DataLoader(Counted(7), wrong)  # type: ignore[arg-type]


@pytest.mark.spec("T-9")
def test_samples_of_different_lengths_and_invalid_positions_are_reported() -> None:
    with pytest.raises(ex.OperandError, match="must be a regular array"):
        T.ArrayDataset([[1], [1, 2]])
    with pytest.raises(ex.OperandError, match="state must be a mapping"):
        T.DataLoader(Counted(7)).load_state(None)  # type: ignore[arg-type]

"""Datasets and their loader: samples of the user's, in batches. They know nothing of modules."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Protocol, runtime_checkable

import numpy as np

from explorer.core.argument_checks import check_type
from explorer.core.errors import DeclarationError, OperandError, StateError
from explorer.core.types.tensor_type import Array

Sample = Sequence[Any]


@runtime_checkable
class Dataset(Protocol):
    """Samples of the user's: their number, a sample by number, and the release of a sample."""

    def __len__(self) -> int:
        """Return the number of samples."""

    def get(self, index: int, /) -> Sample:
        """Return a sample: a tuple of arrays or numbers, ``(image, label)``, say."""

    def free(self, sample: Any, /) -> None:
        """Release a sample; called exactly once for each that was got."""


class ArrayDataset:
    """Dataset of arrays whose first axes count the samples: ``ArrayDataset(images, labels)``."""

    def __init__(self, *arrays: Any) -> None:
        self.arrays = tuple([np.asarray(array) for array in arrays])
        lengths = {array.shape[:1] for array in self.arrays}
        if not self.arrays or len(lengths) != 1 or () in lengths:
            shapes = ", ".join([str(array.shape) for array in self.arrays]) or "none"
            raise OperandError(
                f"ArrayDataset of arrays with the shapes {shapes}",
                rule="all arrays must have one length, that of their first axis",
                fix="ArrayDataset(images, labels)",
            )

    def __len__(self) -> int:
        return len(self.arrays[0])

    def get(self, index: int, /) -> Sample:
        """Return a row of each array."""
        return tuple([array[index] for array in self.arrays])

    def free(self, sample: Any, /) -> None:
        """Do nothing: the arrays keep their rows."""

    def batch(self, indices: Array) -> tuple[Array, ...]:
        """Return rows of each array at once."""
        return tuple([array[indices] for array in self.arrays])


class DataLoader:
    """Batches of a dataset: iterating gives tuples of arrays, one stacked array for each part of a sample.

    Each pass over it is an epoch. With ``shuffle`` the order of an epoch follows from ``seed`` and its number alone.
    ``drop_last`` leaves out a last batch that is not full. A sample is freed once its batch is stacked, also where
    getting another one fails.

    >>> loader = ex.train.DataLoader(ex.train.ArrayDataset(np.arange(5)), batch_size=2)
    >>> [batch[0].tolist() for batch in loader]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self, dataset: Dataset, batch_size: int = 32, shuffle: bool = False, seed: int = 0, drop_last: bool = False
    ) -> None:
        if not isinstance(dataset, Dataset):
            raise DeclarationError(
                f"DataLoader({type(dataset).__name__}, …)",
                rule="a dataset must have __len__, get(index) and free(sample)",
                fix="DataLoader(ex.train.ArrayDataset(images, labels))",
            )
        check_type(batch_size, "batch_size", int, "a whole number", "batch_size=32")
        check_type(seed, "seed", int, "a whole number", "seed=0")
        if batch_size < 1 or seed < 0:
            raise OperandError(
                f"DataLoader(…, batch_size={batch_size}, seed={seed})",
                rule="batch_size must be 1 or more, seed 0 or more",
                fix="batch_size=32, seed=0",
            )
        self.dataset, self.batch_size, self.shuffle, self.seed = dataset, batch_size, shuffle, seed
        self.drop_last = drop_last
        self.epoch = 0
        """number of epochs begun"""

    def __len__(self) -> int:
        samples = len(self.dataset)
        return samples // self.batch_size if self.drop_last else math.ceil(samples / self.batch_size)

    def order(self, epoch: int) -> Array:
        """Return the samples' numbers in the order of an epoch, 0 for the first."""
        count = len(self.dataset)
        return np.random.default_rng([self.seed, epoch]).permutation(count) if self.shuffle else np.arange(count)

    def __iter__(self) -> Iterator[tuple[Array, ...]]:
        order, self.epoch = self.order(self.epoch), self.epoch + 1
        # Not a generator: the epoch is counted when it begins, and a new pass never resumes an old one.
        return _Epoch(self, order)

    def load(self, indices: Array) -> tuple[Array, ...]:
        """Return a batch of samples by number; all are freed, also where one of them cannot be read."""
        gather: Callable[[Array], tuple[Array, ...]] | None = getattr(self.dataset, "batch", None)
        if gather is not None:
            return gather(indices)
        samples: list[Sample] = []
        with ExitStack() as release:
            for index in indices:
                samples.append(self.dataset.get(int(index)))
                release.callback(self.dataset.free, samples[-1])
            return _stacked(samples)


class _Epoch:
    """Iterator over the batches of one epoch."""

    def __init__(self, loader: DataLoader, order: Array) -> None:
        self._loader, self._order, self._next = loader, order, 0

    def __iter__(self) -> Iterator[tuple[Array, ...]]:
        return self

    def __next__(self) -> tuple[Array, ...]:
        if self._next >= len(self._loader):
            raise StopIteration
        size = self._loader.batch_size
        at, self._next = self._next * size, self._next + 1
        return self._loader.load(self._order[at : at + size])


def _stacked(samples: Sequence[Sample]) -> tuple[Array, ...]:
    """Stack the parts of samples; raises StateError for samples that are not alike."""
    first = samples[0]
    if not isinstance(first, (tuple, list)):
        raise DeclarationError(
            f"a dataset whose get() returned a {type(first).__name__}",
            rule="get() must return a tuple of arrays or numbers",
            fix="return (image, label), or (image,)",
        )
    for number, sample in enumerate(samples):
        shapes, wanted = [np.shape(part) for part in sample], [np.shape(part) for part in first]
        if shapes != wanted:
            raise StateError(
                f"a batch whose sample {number} has the shapes {shapes}, while the first has {wanted}",
                rule="all samples of a batch must have the same shapes",
                fix="pad them in get(), or use batch_size=1",
            )
    return tuple([np.stack([np.asarray(sample[part]) for sample in samples]) for part in range(len(first))])

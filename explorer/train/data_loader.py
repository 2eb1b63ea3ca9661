"""Datasets of samples, and data loaders, which return them in batches. They do not depend on modules.

The order of an epoch depends only on the seed and the index of the epoch. Resumed training therefore continues with the
same batches, and a checkpoint (formats/checkpoint.py) needs no list of samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Protocol, runtime_checkable

import numpy as np

from explorer.core.argument_checks import check_integer, check_type, named_methods
from explorer.core.errors import DeclarationError, OperandError, StateError
from explorer.core.types.tensor_type import Array
from explorer.record.dimension_names import shape_text
from explorer.record.reasons import counted_text

Sample = Sequence[Any]


@runtime_checkable
class Dataset(Protocol):
    """Protocol of datasets: their length, a method that returns a sample, and a method that releases it."""

    def __len__(self) -> int:
        """Return the number of samples."""

    def get(self, index: int, /) -> Sample:
        """Return the sample with this index as a tuple of arrays or numbers, such as ``(image, label)``."""

    def free(self, sample: Any, /) -> None:
        """Release a sample; called exactly once for each sample that ``get`` returned."""


@runtime_checkable
class Resumable(Protocol):
    """Loader whose position is plain data, from which an equal loader can continue."""

    def state(self) -> dict[str, Any]:
        """Return the position as numbers and strings."""

    def check_state(self, state: Mapping[str, Any], /) -> None:
        """Raise OperandError if ``state`` is not a position of this loader."""

    def load_state(self, state: Mapping[str, Any], /) -> None:
        """Set the position from which the next pass continues."""


class ArrayDataset:
    """Dataset whose samples are the rows of arrays: ``ArrayDataset(images, labels)``."""

    def __init__(self, *arrays: Any) -> None:
        self.arrays = tuple([_array(array) for array in arrays])
        lengths = {array.shape[:1] for array in self.arrays}
        if not self.arrays or len(lengths) != 1 or () in lengths:
            shapes = ", ".join([str(array.shape) for array in self.arrays]) or "none"
            raise OperandError(
                f"ArrayDataset of arrays with the shapes {shapes}",
                rule="all arrays must have the same length along their first axis",
                fix="ArrayDataset(images, labels)",
            )

    def __repr__(self) -> str:
        return f"ArrayDataset({', '.join([f'{shape_text(array.shape)} {array.dtype}' for array in self.arrays])})"

    def __len__(self) -> int:
        return len(self.arrays[0])

    def get(self, index: int, /) -> Sample:
        """Return the row ``index`` of each array."""
        return tuple([array[index] for array in self.arrays])

    def free(self, sample: Any, /) -> None:
        """Do nothing, since the arrays keep their rows."""

    def batch(self, indices: Array) -> tuple[Array, ...]:
        """Return the rows ``indices`` of each array."""
        return tuple([array[indices] for array in self.arrays])


@named_methods
class DataLoader:
    """Batches of a dataset; iteration returns tuples with one stacked array for each part of a sample.

    Each pass over the loader is an epoch. With ``shuffle``, its order depends only on ``seed`` and the epoch's index.
    ``drop_last`` omits an incomplete last batch. A sample is released once its batch is stacked, even if another sample
    of the batch cannot be read. ``state`` returns the position, and after ``load_state`` the next pass continues there.

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
        batch_size = check_integer(batch_size, "batch_size", "batch_size=32")
        seed = check_integer(seed, "seed", "seed=0")
        check_type(shuffle, "shuffle", bool, "True or False", "shuffle=True")
        check_type(drop_last, "drop_last", bool, "True or False", "drop_last=True")
        if batch_size < 1 or seed < 0:
            raise OperandError(
                f"DataLoader(…, batch_size={batch_size}, seed={seed})",
                rule="batch_size must be at least 1, and seed at least 0",
                fix="batch_size=32, seed=0",
            )
        self.dataset, self.batch_size, self.shuffle, self.seed = dataset, batch_size, shuffle, seed
        self.drop_last = drop_last
        self.epoch = 0
        """number of epochs that have started"""
        self._pass: Pass | None = None
        """the pass that started last"""
        self._first = 0
        """number of batches that the next pass skips, because they were returned before ``load_state``"""

    def __len__(self) -> int:
        samples = len(self.dataset)
        return samples // self.batch_size if self.drop_last else math.ceil(samples / self.batch_size)

    def order(self, epoch: int) -> Array:
        """Return the sample indices in the order of ``epoch``, counted from 0."""
        count = len(self.dataset)
        # Seeded by seed and epoch, so the order of epoch 7 does not depend on where training started.
        return np.random.default_rng([self.seed, epoch]).permutation(count) if self.shuffle else np.arange(count)

    def __iter__(self) -> Iterator[tuple[Array, ...]]:
        # Not a generator, because the epoch is counted when the pass starts, and a new pass never continues an old one.
        self._pass = Pass(self, self.order(self.epoch), self._first)
        self._first, self.epoch = 0, self.epoch + 1
        return self._pass

    def state(self) -> dict[str, Any]:
        """Return the position (epoch and batch), and all settings that determine the order of samples.

        >>> loader = ex.train.DataLoader(ex.train.ArrayDataset(np.arange(5)), batch_size=2)
        >>> batches = iter(loader)
        >>> next(batches)
        (array([0, 1]),)
        >>> loader.state()["epoch"], loader.state()["batch"]
        (0, 1)
        """
        delivered = self._first if self._pass is None else self._pass.delivered
        is_complete = self._pass is not None and delivered == len(self)
        epoch = self.epoch if is_complete or self._pass is None else self.epoch - 1
        return {"epoch": epoch, "batch": 0 if is_complete else delivered, **self._settings()}

    def check_state(self, state: Mapping[str, Any]) -> None:
        """Raise OperandError unless ``state`` is a position from ``state()``; if the position is inside an epoch, the
        order of samples must also be the same."""
        check_type(state, "state", Mapping, "a mapping, as state() returns it", "loader.load_state(other.state())")
        epoch, batch = state.get("epoch"), state.get("batch")
        for name, expected in self._settings().items():
            if batch and state.get(name) != expected:
                raise OperandError(
                    f"a position after {counted_text(batch, 'batch', 'batches')} "
                    f"of an epoch whose {name} is {state.get(name)!r}",
                    rule=f"the loader must have the same {name}, but its {name} is {expected!r}",
                    fix="restore into a loader with the same settings, or restore a position at the end of an epoch",
                )
        if type(epoch) is not int or type(batch) is not int or epoch < 0 or not 0 <= batch < max(1, len(self)):
            raise OperandError(
                f"a loader's position of epoch {epoch!r}, batch {batch!r}",
                rule=f"both must be integers of 0 or more, and an epoch has {counted_text(len(self), 'batch')}",
                fix="loader.load_state(other.state())",
            )

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Let the next pass continue at a position from ``state()``; raise OperandError if it is invalid."""
        self.check_state(state)
        self.epoch, self._first, self._pass = state["epoch"], state["batch"], None

    def _settings(self) -> dict[str, Any]:
        """Return all settings on which the batches of an epoch depend."""
        return {
            "samples": len(self.dataset),
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "seed": self.seed,
            "drop_last": self.drop_last,
        }

    def __repr__(self) -> str:
        settings = ", ".join([f"{name}={value}" for name, value in self._settings().items() if name != "samples"])
        return f"<loader of {counted_text(len(self.dataset), 'sample')}: {settings}>"

    def load(self, indices: Array) -> tuple[Array, ...]:
        """Return the samples ``indices`` as a batch; release all samples, even if one cannot be read."""
        gather: Callable[[Array], tuple[Array, ...]] | None = getattr(self.dataset, "batch", None)
        if gather is not None:
            return gather(indices)
        samples: list[Sample] = []
        with ExitStack() as release:
            for index in indices:
                samples.append(self.dataset.get(int(index)))
                # Registered immediately, so the stack releases the sample even if the next ``get`` fails.
                release.callback(self.dataset.free, samples[-1])
            return _stacked(samples)


class Pass:
    """Iterator over the batches of an epoch, starting with batch ``first``.

    ``delivered`` counts the batches that were returned or skipped.
    """

    def __init__(self, loader: DataLoader, order: Array, first: int) -> None:
        self._loader, self._order = loader, order
        self.first = self.delivered = first

    def __iter__(self) -> Iterator[tuple[Array, ...]]:
        return self

    def __next__(self) -> tuple[Array, ...]:
        if self.delivered >= len(self._loader):
            raise StopIteration
        start = self.delivered * self._loader.batch_size
        batch = self._loader.load(self._order[start : start + self._loader.batch_size])
        # Counted only now, because a batch with unreadable samples is not delivered.
        self.delivered += 1
        return batch


def _array(rows: Any) -> Array:
    """Return an array of ``rows``; raise OperandError for rows of different lengths."""
    try:
        return np.asarray(rows)
    except ValueError as error:
        raise OperandError(
            f"ArrayDataset of a {type(rows).__name__}: {error}",
            rule="each part must be a regular array, whose first axis counts the samples",
            fix="pad the rows to one length, or write a dataset with get()",
        ) from None


def _stacked(samples: Sequence[Sample]) -> tuple[Array, ...]:
    """Return one stacked array for each part of the samples; raise StateError for samples of different shapes."""
    first = samples[0]
    if not isinstance(first, (tuple, list)):
        raise DeclarationError(
            f"a dataset whose get() returned a {type(first).__name__}",
            rule="get() must return a tuple of arrays or numbers",
            fix="return (image, label), or (image,)",
        )
    for index, sample in enumerate(samples):
        shapes, expected = [np.shape(part) for part in sample], [np.shape(part) for part in first]
        if shapes != expected:
            raise StateError(
                f"a batch whose sample {index} has the shapes {shapes}, while the first has {expected}",
                rule="all samples of a batch must have the same shapes",
                fix="pad them in get(), or use batch_size=1",
            )
    return tuple([np.stack([np.asarray(sample[part]) for sample in samples]) for part in range(len(first))])

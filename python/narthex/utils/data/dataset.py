"""Datasets: what a loader takes its samples from."""

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from itertools import accumulate
from warnings import warn

from ... import _C


class Dataset:
    """A map from keys to samples: a subclass defines __getitem__, and __len__ for the usual samplers."""

    def __getitem__(self, index):
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __class_getitem__(cls, item):
        return cls

    def __add__(self, other: "Dataset") -> "ConcatDataset":
        return ConcatDataset([self, other])


class IterableDataset(Dataset, ABC):
    """A stream of samples: a subclass defines __iter__."""

    @abstractmethod
    def __iter__(self):
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other):
        return ChainDataset([self, other])


class ChainDataset(IterableDataset):
    """Several streams one after the other."""

    def __init__(self, datasets) -> None:
        self.datasets = datasets

    def __iter__(self):
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield from dataset

    def __len__(self) -> int:
        return sum(map(len, self.datasets))


def _taken(dataset, indices: list) -> list:
    """The samples at `indices`, from the dataset's own __getitems__ where it has one."""
    if not callable(getattr(dataset, "__getitems__", None)):
        return [dataset[index] for index in indices]
    samples = dataset.__getitems__(indices)
    if len(samples) != len(indices):
        raise ValueError(
            f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(samples)}"
        )  # fmt: skip
    return samples


class StackDataset(Dataset):
    """Samples are tuples, or dicts when the datasets are given by name, with one sample of each dataset."""

    def __init__(self, *args, **kwargs) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like input/output, but both "
                "types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = args if args else kwargs
        lengths = {len(dataset) for dataset in (args or kwargs.values())}
        if len(lengths) > 1:
            raise ValueError("Size mismatch between datasets")
        self._length = lengths.pop()

    def __getitem__(self, index):
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __getitems__(self, indices: list) -> list:
        if isinstance(self.datasets, dict):
            columns = [_taken(dataset, indices) for dataset in self.datasets.values()]
            return [dict(zip(self.datasets, sample)) for sample in zip(*columns)]
        return list(zip(*(_taken(dataset, indices) for dataset in self.datasets)))

    def __len__(self) -> int:
        return self._length


class TensorDataset(Dataset):
    """Samples are tuples (t[i] for each tensor t); all tensors have the same first size."""

    def __init__(self, *tensors) -> None:
        if any(tensors[0].size(0) != tensor.size(0) for tensor in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index):
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class ConcatDataset(Dataset):
    """Several datasets one after the other."""

    @staticmethod
    def cumsum(sequence) -> list:
        """Where each dataset of `sequence` ends."""
        return list(accumulate(map(len, sequence)))

    def __init__(self, datasets) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    @property
    def cummulative_sizes(self) -> list:
        """The older name of `cumulative_sizes`."""
        warn("`cummulative_sizes` attribute is renamed to `cumulative_sizes`", FutureWarning, stacklevel=2)
        return self.cumulative_sizes

    def __getitem__(self, idx):
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        at = bisect_right(self.cumulative_sizes, idx)
        return self.datasets[at][idx - (self.cumulative_sizes[at - 1] if at else 0)]


class Subset(Dataset):
    """The samples of `dataset` at `indices`."""

    def __init__(self, dataset, indices) -> None:
        self.dataset, self.indices = dataset, indices
        kind = type(self)
        if kind.__getitem__ is not Subset.__getitem__ and kind.__getitems__ is Subset.__getitems__:
            raise NotImplementedError(
                f"{kind.__name__} overrides __getitem__ but not __getitems__. When subclassing Subset and overriding "
                "__getitem__, you must also override __getitems__, which the DataLoader calls for a batch"
            )

    def __getitem__(self, idx):
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list) -> list:
        mine = [self.indices[index] for index in indices]
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.dataset.__getitems__(mine)
        return [self.dataset[index] for index in mine]

    def __len__(self) -> int:
        return len(self.indices)


def _sizes(n: int, lengths) -> list:
    """Fractions that add up to 1 become counts: rounded down, the rest dealt out one by one."""
    if not (math.isclose(sum(lengths), 1) and sum(lengths) <= 1):
        return list(lengths)
    for index, part in enumerate(lengths):
        if part < 0 or part > 1:
            raise ValueError(f"Fraction at index {index} is not between 0 and 1")
    sizes = [math.floor(n * part) for part in lengths]
    for index in range(n - sum(sizes)):
        sizes[index % len(sizes)] += 1
    for index, size in enumerate(sizes):
        if size == 0:
            warn(f"Length of split at index {index} is 0. This might result in an empty dataset.", stacklevel=3)
    return sizes


def random_split(dataset, lengths, generator=_C.default_generator) -> list:
    """Deals the samples out at random into Subsets of `lengths` (counts, or fractions that add up to 1)."""
    n = len(dataset)
    sizes = _sizes(n, lengths)
    if sum(sizes) != n:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = _C.draw_order(n, generator)
    return [Subset(dataset, order[end - size : end]) for end, size in zip(accumulate(sizes), sizes)]

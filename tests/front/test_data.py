"""utils.data: the same batches in the same order as PyTorch from the same seed."""

from collections import namedtuple

import narthex as nt
import numpy as np
import pytest
import torch
from both import needs, same

Point = namedtuple("Point", "x y")


def equal(mine, theirs):
    """Batches of the same structure; tensors equal."""
    if isinstance(theirs, torch.Tensor):
        same(mine, theirs)
    elif isinstance(theirs, dict):
        assert list(mine) == list(theirs)
        equal(list(mine.values()), list(theirs.values()))
    elif isinstance(theirs, (list, tuple)):
        assert type(mine) is type(theirs) and len(mine) == len(theirs)
        for one, other in zip(mine, theirs):
            equal(one, other)
    else:
        assert mine == theirs


def squares(data):
    """The same map-style dataset on either side."""

    class Squares(data.Dataset):
        def __init__(self, n):
            self.n = n

        def __len__(self):
            return self.n

        def __getitem__(self, i):
            if not 0 <= i < self.n:
                raise IndexError
            return i * i

    return Squares


def test_samplers_without_draws():
    for module in (nt, torch):
        data = module.utils.data
        assert list(data.SequentialSampler(range(3))) == [0, 1, 2]
        batches = data.BatchSampler(data.SequentialSampler(range(7)), 3, False)
        assert list(batches) == [[0, 1, 2], [3, 4, 5], [6]] and len(batches) == 3
        batches = data.BatchSampler(range(7), 3, True)
        assert list(batches) == [[0, 1, 2], [3, 4, 5]] and len(batches) == 2
        with pytest.raises(ValueError, match="batch_size should be a positive integer value"):
            data.BatchSampler(range(3), 0, False)


def test_datasets():
    for module in (nt, torch):
        data = module.utils.data
        both = squares(data)(3) + squares(data)(2)
        assert [both[i] for i in range(5)] == [0, 1, 4, 0, 1] and len(both) == 5 and both[-1] == 1
        part = data.Subset(both, [4, 2])
        assert [part[0], part[1]] == [1, 4] and part.__getitems__([1, 0]) == [4, 1] and len(part) == 2
        with pytest.raises(AssertionError, match="Size mismatch between tensors"):
            data.TensorDataset(module.tensor([1.0]), module.tensor([1.0, 2.0]))
        with pytest.raises(NotImplementedError):
            data.Dataset()[0]


@needs(nt.utils.data, "RandomSampler", "SubsetRandomSampler")
@pytest.mark.parametrize("options", [{}, {"replacement": True, "num_samples": 70}, {"num_samples": 23}], ids=str)
def test_random_samplers(options):
    orders = []
    for module in (nt, torch):
        data, seen = module.utils.data, []
        module.manual_seed(5)
        sampler = data.RandomSampler(range(10), **options)
        seen += [list(sampler), list(sampler), list(data.SubsetRandomSampler([7, 8, 9]))]
        own = module.Generator().manual_seed(1)
        seen.append(list(data.RandomSampler(range(10), generator=own, **options)))
        orders.append(seen + [module.randn(2).tolist()])
    assert orders[0] == orders[1]


@needs(nt.utils.data, "random_split")
@pytest.mark.parametrize("lengths", [[3, 7], [0.5, 0.25, 0.25], [1.0]])
def test_random_split(lengths):
    found = []
    for module in (nt, torch):
        module.manual_seed(2)
        split = module.utils.data.random_split(range(10), lengths)
        own = module.utils.data.random_split(range(10), lengths, module.Generator().manual_seed(42))
        found.append([part.indices for part in split + own])
        with pytest.raises(ValueError, match="Sum of input lengths"):
            module.utils.data.random_split(range(10), [3, 3])
    assert found[0] == found[1]


@needs(nt.utils.data, "default_collate")
def test_collate():
    def samples(module):
        yield [1, 2]
        yield [1.5, 2.5]
        yield [True, False]
        yield ["a", "b"]
        yield [module.tensor([1.0, 2.0]), module.tensor([3.0, 4.0])]
        yield [(1, module.tensor(2.0)), (3, module.tensor(4.0))]
        yield [{"a": 1, "b": [1, 2.0]}, {"a": 2, "b": [3, 4.0]}]
        yield [Point(1, 2.0), Point(3, 4.0)]
        yield [np.array([1.0, 2.0]), np.array([3.0, 4.0])]
        yield [np.float32(1.0), np.float32(2.0)]

    for mine, theirs in zip(samples(nt), samples(torch)):
        equal(nt.utils.data.default_collate(mine), torch.utils.data.default_collate(theirs))
    for module in (nt, torch):
        with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
            module.utils.data.default_collate([[1], [1, 2]])
        with pytest.raises(TypeError, match="default_collate: batch must contain"):
            module.utils.data.default_collate([object()])


@needs(nt.utils.data, "DataLoader")
@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 3},
        {"batch_size": 4, "shuffle": True},
        {"batch_size": 4, "shuffle": True, "drop_last": True},
        {"batch_size": None},
        {"batch_size": 2, "collate_fn": sum},
    ],
    ids=str,
)
def test_loader(options):
    seen = []
    for module in (nt, torch):
        module.manual_seed(9)
        data = module.utils.data
        loader = data.DataLoader(squares(data)(10), **options)
        seen.append([list(loader), list(loader), len(loader), module.randn(2)])
    equal(*seen)


@needs(nt.utils.data, "DataLoader")
def test_loader_of_tensors():
    seen = []
    for module in (nt, torch):
        module.manual_seed(1)
        x = module.tensor([[float(i), float(-i)] for i in range(7)])
        data = module.utils.data
        own = module.Generator().manual_seed(3)
        seen.append(list(data.DataLoader(data.TensorDataset(x, x * 2), batch_size=3, shuffle=True, generator=own)))
    equal(*seen)


@needs(nt.utils.data, "DataLoader")
def test_loader_of_a_stream():
    class Count(nt.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(5))

    assert [b.tolist() for b in nt.utils.data.DataLoader(Count(), batch_size=2)] == [[0, 1], [2, 3], [4]]
    assert list(nt.utils.data.DataLoader(Count(), batch_size=None)) == list(range(5))
    with pytest.raises(ValueError, match="IterableDataset"):
        nt.utils.data.DataLoader(Count(), shuffle=True)


@needs(nt.utils.data, "DataLoader")
@pytest.mark.parametrize(
    "options, error",
    [
        ({"num_workers": -1}, ValueError),
        ({"timeout": -1}, ValueError),
        ({"prefetch_factor": 2}, ValueError),
        ({"persistent_workers": True}, ValueError),
        ({"shuffle": True, "sampler": [0]}, ValueError),
        ({"batch_sampler": [[0]], "batch_size": 2}, ValueError),
        ({"batch_size": None, "drop_last": True}, ValueError),
        ({"batch_size": 0}, ValueError),
    ],
    ids=str,
)
def test_loader_errors(options, error):
    for module in (nt, torch):
        with pytest.raises(error):
            module.utils.data.DataLoader(range(3), **options)


def test_parts_of_a_dataset_for_several_processes():
    for options in ({}, {"shuffle": False}, {"drop_last": True, "seed": 3}, {"num_replicas": 4, "shuffle": False}):
        options = {"num_replicas": 3, **options}
        for n in (10, 9, 2):
            orders = []
            for module in (nt, torch):
                orders.append([])
                for rank in range(options["num_replicas"]):
                    sampler = module.utils.data.DistributedSampler(range(n), rank=rank, **options)
                    orders[-1] += [list(sampler), len(sampler)]
                    sampler.set_epoch(2)
                    orders[-1].append(list(sampler))
            assert orders[0] == orders[1], (options, n)
    for module in (nt, torch):
        with pytest.raises(ValueError, match="Invalid rank 3"):
            module.utils.data.DistributedSampler(range(4), 3, 3)
        with pytest.raises((RuntimeError, ValueError)):
            module.utils.data.DistributedSampler(range(4))


def test_streams_and_datasets_together():
    for module in (nt, torch):
        data = module.utils.data

        class Count(data.IterableDataset):
            def __init__(self, n):
                self.n = n

            def __iter__(self):
                return iter(range(self.n))

            def __len__(self):
                return self.n

        both = Count(2) + Count(3)
        assert list(both) == [0, 1, 0, 1, 2] and len(both) == 5 and isinstance(both, data.ChainDataset)
        stacked = data.StackDataset([1, 2, 3], "abc")
        assert stacked[1] == (2, "b") and len(stacked) == 3
        named = data.StackDataset(x=[1, 2], y=[3, 4])
        assert named[0] == {"x": 1, "y": 3}
        with pytest.raises(ValueError, match="Size mismatch"):
            data.StackDataset([1], [1, 2])
        with pytest.raises(ValueError):
            data.StackDataset()


def test_variable_and_multiprocessing():
    for module in (nt, torch):
        x = module.ones(2)
        made = module.autograd.Variable(x, requires_grad=True)
        assert made.requires_grad and not x.requires_grad and made.data_ptr() == x.data_ptr()
        assert isinstance(x, module.autograd.Variable) and not isinstance(3, module.autograd.Variable)
        import multiprocessing

        assert module.multiprocessing.cpu_count() == multiprocessing.cpu_count()
        assert module.multiprocessing.get_sharing_strategy() in module.multiprocessing.get_all_sharing_strategies()
    assert nt.multiprocessing.Process is not None


@pytest.mark.parametrize("replacement", [True, False])
def test_weighted_random_sampler(replacement):
    seen = []
    for module in (nt, torch):
        module.manual_seed(5)
        sampler = module.utils.data.WeightedRandomSampler([0.1, 0.0, 3.0, 1.0], 3, replacement)
        own = module.utils.data.WeightedRandomSampler(
            [1.0, 2.0], 2, replacement, generator=module.Generator().manual_seed(3)
        )
        loader = module.utils.data.DataLoader(list(range(4)), batch_size=2, sampler=sampler)
        seen.append((list(sampler), list(sampler), list(own), len(own), [batch.tolist() for batch in loader]))
        with pytest.raises(ValueError, match="positive integer"):
            module.utils.data.WeightedRandomSampler([1.0], 0)
    assert seen[0] == seen[1]

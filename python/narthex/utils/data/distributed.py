"""The part of a dataset that one of several processes is to read."""

from itertools import cycle, islice

from ... import _C
from .sampler import Sampler


class DistributedSampler(Sampler):
    """Every `num_replicas`-th key from `rank` on, of all keys in an order that follows from `seed` and the epoch.

    All ranks yield equally many: the first keys are repeated for that, or with `drop_last` the last ones left out.
    """

    def __init__(
        self,
        dataset,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            raise ValueError(
                "Default process group has not been initialized, please make sure to call init_process_group."
            )
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank, self.epoch = dataset, num_replicas, rank, 0
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        whole, rest = divmod(len(dataset), num_replicas)
        self.num_samples = whole + (rest > 0 and not drop_last)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self):
        keys = list(range(len(self.dataset)))
        if self.shuffle:
            keys = _C.draw_order(len(keys), _C.Generator().manual_seed(self.seed + self.epoch))
        return islice(cycle(keys), self.rank, self.total_size, self.num_replicas)

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """The next pass is shuffled for this epoch."""
        self.epoch = epoch

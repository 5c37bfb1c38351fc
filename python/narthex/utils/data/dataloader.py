"""DataLoader: batches of a dataset in the order of a sampler, loaded by this process."""

from itertools import islice

from ... import _C
from .collate import default_collate, default_convert
from .dataset import IterableDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler


def get_worker_info() -> None:
    """None: there are no worker processes."""


class _Endless(Sampler):
    def __iter__(self):
        while True:
            yield None


def _refuse(**later) -> None:
    for name, value in later.items():
        if value:
            raise NotImplementedError(f"DataLoader: {name}={value!r} is not there yet; leave it out")


class DataLoader:
    """Iterates over batches; each pass starts anew. num_workers must be 0 and pin_memory False so far."""

    def __init__(
        self,
        dataset,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler=None,
        batch_sampler=None,
        num_workers: int = 0,
        collate_fn=None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn=None,
        multiprocessing_context=None,
        generator=None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError("prefetch_factor option could only be specified in multiprocessing: leave it out")
        if num_workers == 0 and persistent_workers:
            raise ValueError("persistent_workers option needs num_workers > 0")
        _refuse(num_workers=num_workers, pin_memory=pin_memory, multiprocessing_context=multiprocessing_context)
        self.dataset, self.num_workers, self.pin_memory, self.timeout = dataset, 0, False, timeout
        self.prefetch_factor, self.worker_init_fn, self.generator = None, worker_init_fn, generator
        self.pin_memory_device, self.persistent_workers, self.in_order = pin_memory_device, False, in_order
        self._is_stream = isinstance(dataset, IterableDataset)
        self._check_samplers(shuffle, sampler, batch_sampler)
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            sampler = self._usual_sampler(shuffle)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler
        usual = default_convert if batch_sampler is None else default_collate
        self.collate_fn = usual if collate_fn is None else collate_fn

    def __class_getitem__(cls, item):
        return cls

    def _check_samplers(self, shuffle, sampler, batch_sampler) -> None:
        if self._is_stream:
            for name, value in (("shuffle", shuffle), ("sampler", sampler), ("batch_sampler", batch_sampler)):
                if value not in (None, False):
                    raise ValueError(
                        f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
                    )
        elif sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")

    def _usual_sampler(self, shuffle):
        if self._is_stream:
            return _Endless()
        return RandomSampler(self.dataset, generator=self.generator) if shuffle else SequentialSampler(self.dataset)

    def __iter__(self):
        # The seed that PyTorch would give its workers: drawn, so that later draws are the same as there.
        _C.draw_seed(self.generator)
        return self._stream() if self._is_stream else self._mapped()

    def _mapped(self):
        if self.batch_sampler is None:
            for key in self.sampler:
                yield self.collate_fn(self.dataset[key])
            return
        fetch = getattr(self.dataset, "__getitems__", None)
        for keys in self.batch_sampler:
            samples = fetch(keys) if fetch else [self.dataset[key] for key in keys]
            yield self.collate_fn(samples)

    def _stream(self):
        samples = iter(self.dataset)
        if self.batch_size is None:
            yield from map(self.collate_fn, samples)
            return
        while batch := list(islice(samples, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.collate_fn(batch)

    def __len__(self) -> int:
        if self._is_stream:
            if self.batch_size is None:
                return len(self.dataset)
            whole, rest = divmod(len(self.dataset), self.batch_size)
            return whole + (rest > 0 and not self.drop_last)
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)

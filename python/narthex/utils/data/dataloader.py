"""DataLoader: batches of a dataset in the order of a sampler, loaded by this process or by workers (worker.py)."""

from collections.abc import Callable
from typing import Any

from ... import _C
from ..._absent import absent
from ...autograd._ranges import record_function
from ._utils.collate import default_collate, default_convert
from .dataset import IterableDataset
from .fetch import Ended, make_fetch
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

_worker_init_fn_t = Callable[[int], None]  # what programs write in annotations
_collate_fn_t = Callable[[list], Any]


class _BaseDataLoaderIter:
    """What goes through a DataLoader in other processes."""


def __getattr__(name: str):
    if name == "_MultiProcessingDataLoaderIter":
        from .worker import Workers

        return Workers
    raise absent("torch.utils.data.dataloader", name)


class _Endless(Sampler):
    def __iter__(self):
        while True:
            yield None


def _check_numbers(num_workers, timeout, prefetch_factor, persistent_workers) -> None:
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing."
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if num_workers == 0 and persistent_workers:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _context(context, num_workers):
    """The multiprocessing context that a name or a context stands for; None: the usual one."""
    if context is None:
        return None
    if num_workers == 0:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
            f"num_workers={num_workers}"
        )
    import multiprocessing

    if isinstance(context, str):
        known = multiprocessing.get_all_start_methods()
        if context not in known:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {known!r}, but got "
                f"multiprocessing_context={context!r}"
            )
        return multiprocessing.get_context(context)
    if not isinstance(context, multiprocessing.context.BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start method, "
            f"but got multiprocessing_context={context}"
        )
    return context


def _warn_of_pinning() -> None:
    from warnings import warn

    warn(
        "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used.",
        stacklevel=3,
    )


class DataLoader:
    """Iterates over batches; each pass starts anew.

    num_workers > 0: as many processes make the batches, `prefetch_factor` (2) ahead each; `persistent_workers` keeps
    them from pass to pass. pin_memory: no device needs it, a warning says so.
    """

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
        _check_numbers(num_workers, timeout, prefetch_factor, persistent_workers)
        if num_workers > 0 and prefetch_factor is None:
            prefetch_factor = 2
        self.dataset, self.num_workers, self.pin_memory, self.timeout = dataset, num_workers, pin_memory, timeout
        self.prefetch_factor, self.worker_init_fn, self.generator = prefetch_factor, worker_init_fn, generator
        self.pin_memory_device, self.persistent_workers = pin_memory_device, persistent_workers
        self.multiprocessing_context, self.in_order = _context(multiprocessing_context, num_workers), in_order
        self._workers = None
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
        self._ready = True
        self.check_worker_number_rationality()

    def check_worker_number_rationality(self) -> None:
        """Warns of more workers than there are processors for this process."""
        from ..._utils import cpu_count

        if self.num_workers and self.num_workers > cpu_count():
            from warnings import warn

            warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our suggested max number "
                f"of worker in current system is {cpu_count()}, which is smaller than what this DataLoader is going to "
                "create. Please be aware that excessive worker creation might get DataLoader running slow or even "
                "freeze, lower the worker number to avoid potential slowness/freeze if necessary.",
                stacklevel=2,
            )

    def __setattr__(self, name: str, value) -> None:
        fixed = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")
        if name in fixed and self.__dict__.get("_ready"):
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        object.__setattr__(self, name, value)

    def __class_getitem__(cls, item):
        return cls

    def _check_samplers(self, shuffle, sampler, batch_sampler) -> None:
        if self._is_stream:
            for name, value in (("shuffle", shuffle), ("sampler", sampler), ("batch_sampler", batch_sampler)):
                if value is not None and value is not False:
                    raise ValueError(
                        f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
                    )
        elif sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")

    def _usual_sampler(self, shuffle):
        if self._is_stream:
            return _Endless()
        return RandomSampler(self.dataset, generator=self.generator) if shuffle else SequentialSampler(self.dataset)

    def _fetch_options(self) -> tuple:
        return self._is_stream, self.batch_sampler is not None, self.collate_fn, self.drop_last

    def _keys(self):
        """What a pass asks for, a batch each."""
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    @property
    def _iterator(self):
        """The processes that stay between passes, None."""
        return self._workers

    @_iterator.setter
    def _iterator(self, value) -> None:
        self._workers = value

    def __iter__(self):
        if self.pin_memory:
            _warn_of_pinning()
        if self.num_workers == 0:
            # The seed that PyTorch would give its workers: drawn, so that later draws are the same as there.
            _C.draw_seed(self.generator)
            return self._alone()
        from .worker import Workers

        if not self.persistent_workers:
            return Workers(self)
        if self._workers is None or not self._workers.workers:
            self._workers = Workers(self)
        else:
            self._workers.begin_again()
        return self._workers

    def _alone(self):
        fetch = make_fetch(self.dataset, *self._fetch_options())
        try:
            for keys in self._keys():
                with record_function("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
                    batch = fetch(keys)
                yield batch
        except Ended:
            pass

    def __len__(self) -> int:
        if self._is_stream:
            if self.batch_size is None:
                return len(self.dataset)
            whole, rest = divmod(len(self.dataset), self.batch_size)
            return whole + (rest > 0 and not self.drop_last)
        return len(self.sampler if self.batch_sampler is None else self.batch_sampler)

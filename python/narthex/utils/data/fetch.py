"""From what a sampler yields to a batch, in whichever process, and what a worker knows of itself."""


class WorkerInfo:
    """What get_worker_info() gives inside a worker: id, num_workers, seed and the worker's copy of the dataset."""

    def __init__(self, id: int, num_workers: int, seed: int, dataset) -> None:
        self.id, self.num_workers, self.seed, self.dataset = id, num_workers, seed, dataset

    def __repr__(self) -> str:
        return f"WorkerInfo({', '.join(f'{name}={value}' for name, value in vars(self).items())})"


info: WorkerInfo | None = None


def get_worker_info():
    """The WorkerInfo of this process; None in a process that is no worker."""
    return info


class Ended(Exception):
    """A stream has no more samples."""


def make_fetch(dataset, is_stream: bool, batched: bool, collate, drop_last: bool):
    """A function from what the sampler yields to a batch. Raises Ended where a stream has no more."""
    if not is_stream:
        many = getattr(dataset, "__getitems__", None) if batched else None
        if not batched:
            return lambda key: collate(dataset[key])
        return lambda keys: collate(many(keys) if many else [dataset[key] for key in keys])
    samples = iter(dataset)

    def fetch(keys):
        taken = [sample for _, sample in zip(keys if batched else (None,), samples)]
        if not taken or (batched and drop_last and len(taken) < len(keys)):
            raise Ended
        return collate(taken if batched else taken[0])

    return fetch

"""What a worker knows of itself, under PyTorch's name."""

from ..fetch import WorkerInfo, get_worker_info

__all__ = ["WorkerInfo", "get_worker_info"]


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Four numbers that numpy.random.seed() takes, other ones for each worker."""
    from numpy.random import SeedSequence

    return SeedSequence([worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]).generate_state(4).tolist()

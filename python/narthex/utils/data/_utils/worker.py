"""What a worker knows of itself, under PyTorch's name."""

from ..fetch import WorkerInfo, get_worker_info

__all__ = ["WorkerInfo", "get_worker_info"]

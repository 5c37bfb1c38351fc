"""Where PyTorch keeps what a loader is made of; programs take `collate` and `worker` from here."""

from . import collate, worker

"""Where PyTorch keeps what a loader is made of; programs take `collate`, `pin_memory` and `worker` from here."""

from . import collate, pin_memory, worker

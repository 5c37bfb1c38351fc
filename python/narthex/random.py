"""torch.random: seeds and the state of the CPU's generator."""

from contextlib import contextmanager

from . import _C, manual_seed, seed
from ._absent import getter
from ._C import default_generator, initial_seed

__all__ = [
    "default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state",
    "thread_safe_generator",
]  # fmt: skip


def get_rng_state():
    """Where the CPU's generator stands: PyTorch's 5056 bytes as a tensor."""
    return _C.default_generator.get_state()


def set_rng_state(new_state) -> None:
    """Puts the CPU's generator where get_rng_state was called."""
    _C.default_generator.set_state(new_state)


@contextmanager
def fork_rng(devices=None, enabled: bool = True, _caller="fork_rng", _devices_kw="devices", device_type=None):
    """What is drawn inside leaves the CPU's generator as it was."""
    if devices:
        raise NotImplementedError("fork_rng: devices are not there yet; only the CPU's generator is kept")
    if not enabled:
        yield
        return
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)


def thread_safe_generator():
    """The generator of a loader's worker that is a thread; None, since all workers are processes."""
    return None


__getattr__ = getter("torch.random")

"""torch.cuda, answered as a PyTorch without CUDA does: nothing is there, seeds are accepted, the rest raises."""

from .._absent import absent

default_generators: tuple = ()  # one for each device
_initialized = False  # what programs read that keep the state of every generator
_MISSING = "Torch not compiled with CUDA enabled: Narthex has no CUDA device"


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False."""
    return False


def device_count() -> int:
    """0"""
    return 0


def init() -> None:
    """Raises: there is nothing to start."""
    raise AssertionError(_MISSING)


def current_device() -> int:
    """Raises: there is none."""
    raise AssertionError(_MISSING)


def get_device_name(device=None) -> str:
    """Raises: there is none."""
    raise AssertionError(_MISSING)


def get_device_properties(device=None):
    """Raises: there is none."""
    raise AssertionError(_MISSING)


def get_device_capability(device=None):
    """Raises: there is none."""
    raise AssertionError(_MISSING)


def synchronize(device=None) -> None:
    """Raises: there is none."""
    raise AssertionError(_MISSING)


def set_device(device) -> None:
    """Raises, unless `device` is a negative index, which asks for nothing."""
    if not (isinstance(device, int) and device < 0):
        raise AssertionError(_MISSING)


def manual_seed(seed: int) -> None:
    """Nothing: there is no generator to seed."""
    int(seed)


def manual_seed_all(seed: int) -> None:
    """Nothing: there is no generator to seed."""
    int(seed)


def seed() -> None:
    """Nothing: there is no generator to seed."""


def seed_all() -> None:
    """Nothing: there is no generator to seed."""


def initial_seed() -> int:
    """Raises: there is none."""
    raise AssertionError(_MISSING)


def empty_cache() -> None:
    """Nothing: no memory is held."""


def memory_allocated(device=None) -> int:
    """0"""
    return 0


def max_memory_allocated(device=None) -> int:
    """0"""
    return 0


def memory_reserved(device=None) -> int:
    """0"""
    return 0


def max_memory_reserved(device=None) -> int:
    """0"""
    return 0


def is_current_stream_capturing() -> bool:
    """False: there is no stream."""
    return False


def get_rng_state_all() -> list:
    """No states: there is no generator."""
    return []


def set_rng_state_all(new_states) -> None:
    """Nothing for no states; raises for any."""
    if len(new_states):
        raise AssertionError(_MISSING)


def _missing(name: str, what: str) -> type:
    """A class that programs may name, in annotations and for isinstance; making one raises."""

    def raises(self, *args, **kwargs):
        raise AssertionError(_MISSING)

    return type(name, (), {"__doc__": f"{what} Making one raises.", "__init__": raises, "__module__": "torch.cuda"})


CUDAGraph = _missing("CUDAGraph", "A recorded stream of work.")
Stream = _missing("Stream", "A queue of work.")
ExternalStream = _missing("ExternalStream", "A queue of work that somebody else made.")
Event = _missing("Event", "A mark in a queue of work.")
StreamContext = _missing("StreamContext", "Work goes to a stream.")
graph = _missing("graph", "Work is recorded.")
device = _missing("device", "A device is the current one.")


def stream(stream):
    """Raises, unless `stream` is None: then the context does nothing."""
    from contextlib import nullcontext

    if stream is not None:
        raise AssertionError(_MISSING)
    return nullcontext()


def current_stream(device=None):
    """Raises: there is none."""
    raise AssertionError(_MISSING)


def default_stream(device=None):
    """Raises: there is none."""
    raise AssertionError(_MISSING)


def mem_get_info(device=None):
    """Raises: there is none."""
    raise AssertionError(_MISSING)


def get_rng_state(device="cuda"):
    """Raises: there is none."""
    raise AssertionError(_MISSING)


def set_rng_state(new_state, device="cuda") -> None:
    """Raises: there is none."""
    raise AssertionError(_MISSING)


def ipc_collect() -> None:
    """Nothing: no memory is shared."""


def reset_peak_memory_stats(device=None) -> None:
    """Nothing: no memory is held."""


def reset_max_memory_allocated(device=None) -> None:
    """Nothing: no memory is held."""


def memory_stats(device=None) -> dict:
    """{}"""
    return {}


def __getattr__(name: str):
    if name in ("amp", "comm", "memory", "nvtx", "random"):
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    if name in ("AcceleratorError", "OutOfMemoryError"):  # which programs catch
        from .. import _settings

        return getattr(_settings, name)
    if name.endswith("Tensor"):
        from .. import _legacy

        if name in _legacy.NAMES:  # for isinstance()
            return _legacy.cuda_class(name)
    raise absent("torch.cuda", name)

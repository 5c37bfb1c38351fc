"""torch.npu: the devices of type npu."""

from ... import _C, _memory


def is_available() -> bool:
    """Whether there is at least one npu."""
    return device_count() > 0


def device_count() -> int:
    """How many npus there are."""
    return _C.device_count("npu")


def current_device() -> int:
    """The index of this thread's current npu."""
    return _C.current_device("npu").index


def _index(device) -> int:
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    device = _C.device(device)
    if device.type != "npu":
        raise ValueError(f"Expected a npu device, but got: {device}")
    return current_device() if device.index is None else device.index


def set_device(device) -> None:
    """Makes `device` (an index, "npu:1" or a device) this thread's current npu."""
    _C.set_device(_C.device("npu", _index(device)))


def synchronize(device=None) -> None:
    """Waits for all work given to the device; raises what failed since the last wait."""
    _C.synchronize(_C.device("npu", _index(device)))


def manual_seed(seed: int) -> None:
    """Seeds the generators, those of the npus among them."""
    _C.manual_seed(seed)


manual_seed_all = manual_seed


def get_rng_state(device="npu"):
    """Where the device's generator stands: 16 bytes as a tensor."""
    return _C.device_generator(_C.device("npu", _index(device))).get_state()


def set_rng_state(new_state, device="npu") -> None:
    """Puts the device's generator where get_rng_state was called."""
    _C.device_generator(_C.device("npu", _index(device))).set_state(new_state)


def get_device_name(device=None) -> str:
    """What the device calls itself."""
    return f"Narthex reference accelerator npu:{_index(device)}"


def _of_memory(name: str):
    return _memory.of_device(name, lambda device: _C.device("npu", _index(device)))


memory_stats = _of_memory("memory_stats")
memory_stats_as_nested_dict = _of_memory("memory_stats_as_nested_dict")
memory_allocated = _of_memory("memory_allocated")
max_memory_allocated = _of_memory("max_memory_allocated")
memory_reserved = memory_cached = _of_memory("memory_reserved")
max_memory_reserved = max_memory_cached = _of_memory("max_memory_reserved")
reset_peak_memory_stats = reset_max_memory_allocated = _of_memory("reset_peak_memory_stats")
reset_max_memory_cached = reset_peak_memory_stats
reset_accumulated_memory_stats = _of_memory("reset_accumulated_memory_stats")
mem_get_info = _of_memory("mem_get_info")


def empty_cache() -> None:
    """Unused memory goes back to the npus."""
    for index in range(device_count()):
        _memory.empty_cache(_C.device("npu", index))


def set_per_process_memory_fraction(fraction, device=None) -> None:
    """Tensors may take this part of the device's memory: beyond it, allocating raises MemoryError."""
    _memory.set_per_process_memory_fraction(fraction, _C.device("npu", _index(device)))


def memory_summary(device=None, abbreviated: bool = False) -> str:
    """The allocator's counters as a table."""
    return _memory.memory_summary(_C.device("npu", _index(device)), abbreviated)


def __getattr__(name: str):
    raise AttributeError(f"module 'torch.npu' has no attribute '{name}': Narthex does not have it")

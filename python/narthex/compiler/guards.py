"""Filters for torch.compile(options={"guard_filter_fn": ...}): each gets the guards of what was compiled and gives a
bool for each; those with False are not asked. Guards that keep memory safe are asked in any case."""

_OF_MODULES = ("_modules", "_parameters", "_buffers")


def _is_of_tensor(entry) -> bool:
    return entry.guard_type == "TENSOR"


def _is_of_module(entry) -> bool:
    return any(f"{name}'" in entry.name or f".{name}" in entry.name for name in _OF_MODULES)


def keep_tensor_guards_unsafe(guard_entries, keep_parameters: bool = False) -> list:
    """Tensors alone, without those that a module holds unless keep_parameters."""
    return [_is_of_tensor(entry) and (keep_parameters or not _is_of_module(entry)) for entry in guard_entries]


def keep_portable_guards_unsafe(guard_entries) -> list:
    """What holds in another process too: no identities."""
    return [entry.guard_type not in ("ID", "BACKEND") for entry in guard_entries]


def skip_all_guards_unsafe(guard_entries) -> list:
    """None."""
    return [False for _ in guard_entries]


def skip_guard_on_all_nn_modules_unsafe(guard_entries) -> list:
    """All but what modules hold."""
    return [not _is_of_module(entry) for entry in guard_entries]


skip_guard_on_inbuilt_nn_modules_unsafe = skip_guard_on_all_nn_modules_unsafe


def skip_guard_on_globals_unsafe(guard_entries) -> list:
    """All but those of globals."""
    return [not entry.is_global for entry in guard_entries]

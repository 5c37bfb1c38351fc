"""Settings and questions of torch that few programs have."""

import warnings

from . import _C
from .amp import autocast_mode
from .amp.grad_scaler import GradScaler as GradScaler

DisableTorchFunction, DisableTorchFunctionSubclass = _C.DisableTorchFunction, _C.DisableTorchFunctionSubclass
has_openmp = has_mkl = False  # threads and products are Narthex's own, or an OpenBLAS's
has_spectral = True
_kept = {"warn_always": False}


def __getattr__(name: str):
    if name == "has_lapack":
        from .linalg import cholesky

        try:
            return cholesky(_C.ones((1, 1))).item() == 1
        except RuntimeError:
            return False
    raise AttributeError(name)


def set_warn_always(b: bool, /) -> None:
    """Kept only: a warning that is given once per process stays so."""
    if not isinstance(b, bool):
        raise TypeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    _kept["warn_always"] = b


def is_warn_always_enabled() -> bool:
    """What set_warn_always was given."""
    return _kept["warn_always"]


def set_flush_denormal(mode: bool) -> bool:
    """False: numbers near 0 are computed as they are, and that cannot be changed."""
    return False


def init_num_threads() -> None:
    """Changes nothing: the team of threads is made when it is used."""


def is_distributed(input) -> bool:
    """False."""
    return False


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Switches anomaly mode."""
    from .autograd.anomaly_mode import _set

    _set(bool(enabled), bool(check_nan))


def set_default_tensor_type(t, /) -> None:
    """Sets the default dtype to that of a class such as torch.DoubleTensor, or of its name; deprecated, as in
    PyTorch."""
    import narthex

    if isinstance(t, str):
        module, _, name = t.rpartition(".")
        found = getattr(narthex, name, None) if module == "torch" else None
        if found is None:
            raise ValueError(f"invalid type: '{t}'")
        t = found
    dtype = getattr(t, "dtype", None)
    if not isinstance(dtype, _C.dtype):
        raise TypeError("invalid type object")
    if not dtype.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    narthex.set_default_dtype(dtype)


def _autocast(device: str, name: str):
    """PyTorch's questions about autocast of one type of device, older than those that take the type."""

    def warn(own: str, now: str) -> None:
        warnings.warn(
            f"torch.{own} is deprecated. Please use torch.{now} instead.", DeprecationWarning, stacklevel=3
        )

    def get_dtype():
        warn(f"get_autocast_{name}_dtype()", f"get_autocast_dtype('{device}')")
        return autocast_mode.get_autocast_dtype(device)

    def set_dtype(dtype) -> None:
        if not isinstance(dtype, _C.dtype):
            raise TypeError(f"dtype must be a torch.dtype (got {type(dtype).__name__})")
        warn(f"set_autocast_{name}_dtype(dtype)", f"set_autocast_dtype('{device}', dtype)")
        autocast_mode.set_autocast_dtype(device, dtype)

    def is_enabled() -> bool:
        warn(f"is_autocast_{name}_enabled()", f"is_autocast_enabled('{device}')")
        return autocast_mode.is_autocast_enabled(device)

    def set_enabled(enabled: bool) -> None:
        if not isinstance(enabled, bool):
            raise TypeError(f"enabled must be a bool (got {type(enabled).__name__})")
        warn(f"set_autocast_{name}_enabled(enabled)", f"set_autocast_enabled('{device}', enabled)")
        autocast_mode.set_autocast_enabled(device, enabled)

    made = {f"get_autocast_{name}_dtype": get_dtype, f"set_autocast_{name}_dtype": set_dtype,
            f"is_autocast_{name}_enabled": is_enabled, f"set_autocast_{name}_enabled": set_enabled}  # fmt: skip
    for own, function in made.items():
        function.__name__ = function.__qualname__ = own
        function.__doc__ = f"torch's {own.replace('_' + name, '')} of '{device}'."
    return made


_of_gpu = _autocast("cuda", "gpu")
globals().update({name: _of_gpu[name] for name in _of_gpu if "dtype" in name})
for _device in ("cpu", "ipu", "xla"):
    globals().update(_autocast(_device, _device))

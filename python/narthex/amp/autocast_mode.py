"""autocast: operators compute in a lower dtype inside a block or function. src/dispatch/autocast.c does the casting."""

import warnings
from functools import wraps

from .. import _C


def _check_type(device_type) -> str:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    return device_type


def is_autocast_available(device_type: str) -> bool:
    """Whether there are devices of that type here."""
    return _check_type(device_type) in _C.device_types()


# What was set for types of devices that are not there: kept for all threads, and nothing casts by it.
_TYPES = (
    "cpu", "cuda", "ipu", "xpu", "mkldnn", "opengl", "opencl", "ideep", "hip", "ve", "fpga", "maia", "xla", "lazy",
    "vulkan", "mps", "meta", "hpu", "mtia", "privateuseone",
)  # fmt: skip
_absent_enabled: dict = {}
_absent_dtype = {"xla": _C.bfloat16, "hpu": _C.bfloat16, "maia": _C.bfloat16}


def _check_absent(device_type: str) -> str:
    if device_type not in _TYPES:
        raise RuntimeError(
            f"Expected one of {', '.join(_TYPES)} device type at start of device string: {device_type}"
        )
    return device_type


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on for that type of device on this thread."""
    if is_autocast_available(device_type):
        return _C.autocast_get(device_type)[0]
    return _absent_enabled.get(_check_absent(device_type), False)


def get_autocast_dtype(device_type: str):
    """The dtype that autocast casts to on that type of device."""
    if is_autocast_available(device_type):
        return _C.autocast_get(device_type)[1]
    return _absent_dtype.get(_check_absent(device_type), _C.float16)


def set_autocast_enabled(device_type, enabled=None) -> None:
    """Switches autocast for that type of device, or without a type for "cuda", on this thread."""
    if enabled is None:
        device_type, enabled = "cuda", device_type
    if is_autocast_available(device_type):
        _C.autocast_set(device_type, enabled, _C.autocast_get(device_type)[1])
    else:
        _absent_enabled[_check_absent(device_type)] = enabled


def set_autocast_dtype(device_type: str, dtype) -> None:
    """Sets the dtype that autocast casts to on that type of device."""
    if is_autocast_available(device_type):
        _C.autocast_set(device_type, _C.autocast_get(device_type)[0], dtype)
    else:
        _absent_dtype[_check_absent(device_type)] = dtype


def is_autocast_cache_enabled() -> bool:
    """Whether the casts of parameters are kept until the outermost autocast ends."""
    return _C.autocast_cache()


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Switches that on or off."""
    _C.autocast_cache(enabled)


def autocast_increment_nesting() -> int:
    """One autocast more is entered; how many there are."""
    return _C.autocast_nesting(1)


def autocast_decrement_nesting() -> int:
    """One autocast is left; how many there are."""
    return _C.autocast_nesting(-1)


class autocast:
    """A context manager and decorator: listed operators cast their arguments to `dtype`, or to float32.

    `dtype` is bfloat16 or float16; without it the device type's own (bfloat16 for "cpu"). Blocks may be nested, also
    with `enabled=False`. A dtype that is not possible warns and switches autocast off, as in PyTorch, so does "cuda".
    """

    def __init__(self, device_type: str, dtype=None, enabled: bool = True, cache_enabled: bool | None = None) -> None:
        self.device = _check_type(device_type)
        if not is_autocast_available(device_type) and device_type != "cuda":
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = _C.autocast_cache() if cache_enabled is None else cache_enabled
        if enabled and device_type == "cuda":
            warnings.warn("CUDA is not available or torch_xla is imported. Disabling autocast.", stacklevel=2)
            enabled = False
        elif enabled and self.fast_dtype not in (_C.bfloat16, _C.float16):
            name = device_type.upper()
            warnings.warn(
                f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{name} Autocast only supports dtypes of torch.bfloat16, torch.float16 currently.",
                stacklevel=2,
            )
            enabled = False
        self._enabled = enabled
        self._before: list = []

    def __enter__(self):
        known = self.device != "cuda"
        self._before.append((_C.autocast_get(self.device) if known else None, _C.autocast_cache()))
        if known:
            _C.autocast_set(self.device, self._enabled, self.fast_dtype)
        _C.autocast_nesting(1)
        _C.autocast_cache(self._cache_enabled)
        return self

    def __exit__(self, *exception) -> bool:
        state, cache = self._before.pop()
        if _C.autocast_nesting(-1) == 0:
            _C.clear_autocast_cache()
        if state is not None:
            _C.autocast_set(self.device, *state)
        _C.autocast_cache(cache)
        return False

    def __call__(self, function):
        @wraps(function)
        def decorate_autocast(*args, **kwargs):
            with self:
                return function(*args, **kwargs)

        return decorate_autocast


def _cast(value, device_type: str, dtype):
    if isinstance(value, _C.TensorBase):
        eligible = value.is_floating_point() and value.device.type == device_type and value.dtype != _C.float64
        return value.to(dtype) if eligible else value
    if isinstance(value, dict):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(item, device_type, dtype) for item in value)
    return value


def _run_cast(function, args, kwargs, device_type: str, dtype):
    """function(*args, **kwargs) with autocast off on arguments cast to `dtype`."""
    with autocast(device_type, enabled=False):
        return function(*_cast(args, device_type, dtype), **_cast(kwargs, device_type, dtype))


def in_float32(function):
    """Decorates a function of Python that autocast runs in float32, as an operator's `autocast float32` row says it.
    Its first argument is a tensor, whose device counts."""

    @wraps(function)
    def call(*args, **kwargs):
        first = args[0] if args else next(iter(kwargs.values()), None)
        if not isinstance(first, _C.TensorBase) or not _C.autocast_get(first.device.type)[0]:
            return function(*args, **kwargs)
        return _run_cast(function, args, kwargs, first.device.type, _C.float32)

    return call


def custom_fwd(fwd=None, *, device_type: str, cast_inputs=None):
    """Decorates the forward of an autograd.Function: it runs with autocast off on inputs cast to `cast_inputs`."""
    if fwd is None:
        return lambda function: custom_fwd(function, device_type=device_type, cast_inputs=cast_inputs)

    @wraps(fwd)
    def decorate_fwd(*args, **kwargs):
        args[0]._dtype, enabled = get_autocast_dtype(device_type), is_autocast_enabled(device_type)
        args[0]._fwd_used_autocast = enabled and cast_inputs is None
        if cast_inputs is None or not enabled:
            return fwd(*args, **kwargs)
        return _run_cast(fwd, args, kwargs, device_type, cast_inputs)

    return decorate_fwd


def custom_bwd(bwd=None, *, device_type: str):
    """Decorates the backward of an autograd.Function: it runs with the autocast state that forward had."""
    if bwd is None:
        return lambda function: custom_bwd(function, device_type=device_type)

    @wraps(bwd)
    def decorate_bwd(*args, **kwargs):
        with autocast(device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return decorate_bwd

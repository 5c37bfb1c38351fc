"""Functions of Python that autocast runs in float32, as the `autocast float32` row of an operator's entry says it."""

from functools import wraps

from .. import _C


def in_float32(function):
    """Decorates a function whose first argument is a tensor: where autocast is on for its device, the function runs
    with autocast off on arguments cast to float32."""

    @wraps(function)
    def call(*args, **kwargs):
        first = args[0] if args else next(iter(kwargs.values()), None)
        if not isinstance(first, _C.TensorBase) or not _C.autocast_get(first.device.type)[0]:
            return function(*args, **kwargs)
        from .autocast_mode import _cast, autocast

        device = first.device.type
        with autocast(device, enabled=False):
            return function(*_cast(args, device, _C.float32), **_cast(kwargs, device, _C.float32))

    return call

"""torch.utils._device: the default device as a mode of `__torch_function__`, for who puts it on a stack himself."""

import functools

from .. import _C
from ..overrides import TorchFunctionMode

CURRENT_DEVICE = None


@functools.lru_cache(1)
def _device_constructors() -> set:
    """The functions of torch that make tensors on a device that they may be told."""
    import narthex as torch

    names = """
        empty empty_permuted empty_strided empty_quantized ones arange bartlett_window blackman_window eye fft.fftfreq
        fft.rfftfreq full hamming_window hann_window kaiser_window linspace logspace nested.nested_tensor normal rand
        randn randint randperm range sparse_coo_tensor sparse_compressed_tensor sparse_csr_tensor sparse_csc_tensor
        sparse_bsr_tensor sparse_bsc_tensor tril_indices triu_indices zeros asarray tensor as_tensor scalar_tensor
    """.split()
    found = set()
    for name in names:
        space, _, own = name.rpartition(".")
        function = getattr(getattr(torch, space) if space else torch, own, None)
        if function is not None:
            found.add(function)
    return found


class DeviceContext(TorchFunctionMode):
    """Inside, tensors are made on `device` unless a call names another one."""

    def __init__(self, device) -> None:
        super().__init__()
        self.device = _C.device(device)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in _device_constructors() and kwargs.get("device") is None:
            kwargs["device"] = self.device
        return func(*args, **kwargs)


def set_device(device):
    """A decorator: a function that is called inside of DeviceContext(device)."""

    def decorate(function):
        @functools.wraps(function)
        def inside(*args, **kwargs):
            with _C.device(device):
                return function(*args, **kwargs)

        return inside

    return decorate

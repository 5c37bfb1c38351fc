"""Lists of tensors that go into one launch: how they are sorted, and which devices have such launches."""

from .._tensor import Tensor
from ..autograd.grad_mode import no_grad

Indices = list[int]
TensorListList = list[list[Tensor | None]]
_foreach_supported_types = [Tensor]


def _get_foreach_kernels_supported_devices() -> list[str]:
    return ["cuda", "xpu", "mtia", "privateuseone"]


def _get_fused_kernels_supported_devices() -> list[str]:
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]


@no_grad()
def _group_tensors_by_device_and_dtype(tensorlistlist: TensorListList, with_indices: bool = False) -> dict:
    """{(device, dtype) of the first list's tensors: (the lists, taken apart alike; the places that they had)}.

    Every list is as long as the first, or empty; the first has no None.
    """
    found: dict = {}
    for place, first in enumerate(tensorlistlist[0]):
        key = (first.device, first.dtype)
        lists, places = found.setdefault(key, ([[] for _ in tensorlistlist], []))
        for taken, given in zip(lists, tensorlistlist):
            if given:
                taken.append(given[place])
        if with_indices:
            places.append(place)
    return found


def _device_has_foreach_support(device) -> bool:
    from ..jit import is_scripting

    return device.type in [*_get_foreach_kernels_supported_devices(), "cpu"] and not is_scripting()


def _has_foreach_support(tensors: list, device) -> bool:
    kinds = [type(tensor) for tensor in tensors if tensor is not None]
    return _device_has_foreach_support(device) and all(kind in _foreach_supported_types for kind in kinds)

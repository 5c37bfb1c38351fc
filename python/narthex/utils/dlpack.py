"""torch.utils.dlpack: tensors over the memory of other libraries, and the other way round."""

from enum import IntEnum

from .. import _C

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]

# The kinds of devices, by the numbers of the DLPack standard.
DLDeviceType = IntEnum(
    "DLDeviceType",
    {
        "kDLCPU": 1, "kDLCUDA": 2, "kDLCUDAHost": 3, "kDLOpenCL": 4, "kDLVulkan": 7, "kDLMetal": 8, "kDLVPI": 9,
        "kDLROCM": 10, "kDLROCMHost": 11, "kDLExtDev": 12, "kDLCUDAManaged": 13, "kDLOneAPI": 14, "kDLWebGPU": 15,
        "kDLHexagon": 16, "kDLMAIA": 17,
    },
    module=__name__,
)  # fmt: skip


def from_dlpack(ext_tensor, *, device=None, copy=None):
    """A tensor over the memory of `ext_tensor`, which offers __dlpack__ or is a capsule.

    `copy`: True: in memory of its own; False: an error rather than a copy. `device`: where it is to be.
    """
    if not hasattr(ext_tensor, "__dlpack__") and (device is not None or copy is not None):
        raise AssertionError("device and copy kwargs not supported when ext_tensor is already a DLPack capsule.")
    shared = _C.from_dlpack(ext_tensor)
    where = shared.device if device is None else _C.device(device)
    if where.type != shared.device.type:
        if copy is False:
            raise ValueError(f"cannot move DLPack tensor from {shared.device} to {where} without copying.")
        return shared.to(where)
    return shared.clone() if copy else shared


def to_dlpack(tensor):
    """A capsule that shares the tensor's memory."""
    return tensor.__dlpack__()

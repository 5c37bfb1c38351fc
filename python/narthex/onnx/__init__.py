"""torch.onnx: exporting is not there; torch.export writes a model file that C programs run. Questions are answered."""

from .._absent import getter
from .._later import names


def is_in_onnx_export() -> bool:
    """False."""
    return False


def is_onnxrt_backend_supported() -> bool:
    """False."""
    return False


globals().update(names("torch.onnx", "torch.export writes a model file", (
    "export", "dynamo_export", "register_custom_op_symbolic", "unregister_custom_op_symbolic",
    "select_model_mode_for_export",
)))  # fmt: skip


class ONNXProgram:
    """An exported model: none is ever made."""

    def __init__(self, *args, **kwargs) -> None:
        raise NotImplementedError("torch.onnx is not there: torch.export writes a model file")


__getattr__ = getter("torch.onnx")

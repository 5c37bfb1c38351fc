"""torch.onnx: exporting is not there; torch.export.save writes a program that PyTorch reads, torch.model_file.save one
that C programs run. Questions are answered."""

from .._absent import absent
from .._later import names

_INSTEAD = "torch.export.save writes a program that PyTorch reads, torch.model_file.save one that C programs run"


def is_in_onnx_export() -> bool:
    """False."""
    return False


def is_onnxrt_backend_supported() -> bool:
    """False."""
    return False


globals().update(names("torch.onnx", _INSTEAD, (
    "export", "dynamo_export", "select_model_mode_for_export",
)))  # fmt: skip


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn, opset_version: int) -> None:
    """Checks the name, and forgets the rule: packages give theirs while they are imported, and no exporter is there."""
    if symbolic_name.count("::") != 1:
        raise ValueError(f"Failed to register operator {symbolic_name}: its name must be of the form domain::name")


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """The same for a rule that is taken back."""
    register_custom_op_symbolic(symbolic_name, None, opset_version)


class ONNXProgram:
    """An exported model: none is ever made."""

    def __init__(self, *args, **kwargs) -> None:
        raise NotImplementedError(f"torch.onnx is not there: {_INSTEAD}")


def __getattr__(name: str):
    if name in ("symbolic_helper", "symbolic_opset9", "symbolic_opset11"):
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    raise absent("torch.onnx", name)

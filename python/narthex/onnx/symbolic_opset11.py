"""torch.onnx.symbolic_opset11: rules of an exporter that is not there."""

from .._absent import getter

__getattr__ = getter("torch.onnx.symbolic_opset11")

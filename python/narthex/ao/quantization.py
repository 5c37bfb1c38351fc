"""torch.ao.quantization: the marks that networks carry. Preparing and converting raise."""

from .._absent import getter
from .._later import names
from ..nn import Module


class QuantStub(Module):
    """Where values would be quantised: hands back what it is given."""

    def __init__(self, qconfig=None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x):
        """x"""
        return x


class DeQuantStub(QuantStub):
    """Where values would be floats again: hands back what it is given."""


class QuantWrapper(Module):
    """A module between both marks."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.add_module("quant", QuantStub(qconfig))
        self.add_module("dequant", DeQuantStub(qconfig))
        self.add_module("module", module)
        self.train(module.training)

    def forward(self, X):  # noqa: N803
        """module(X)"""
        return self.dequant(self.module(self.quant(X)))


globals().update(names("torch.ao.quantization", "models compute in floats", (
    "FakeQuantize", "FakeQuantizeBase", "HistogramObserver", "MinMaxObserver", "ObserverBase", "QConfig",
    "QConfigMapping", "convert", "default_qconfig", "fuse_modules", "fuse_modules_qat", "get_default_qat_qconfig",
    "get_default_qconfig", "prepare", "prepare_qat", "quantize", "quantize_dynamic",
)))  # fmt: skip

__getattr__ = getter("torch.ao.quantization")

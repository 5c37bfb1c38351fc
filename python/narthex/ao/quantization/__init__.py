"""torch.ao.quantization: the marks that networks carry. Preparing and converting raise."""

from ..._absent import getter
from ..._later import names
from ...nn import Module


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


_OBSERVERS = (
    "FixedQParamsObserver", "HistogramObserver", "MinMaxObserver", "MovingAverageMinMaxObserver",
    "MovingAveragePerChannelMinMaxObserver", "NoopObserver", "ObserverBase", "PerChannelMinMaxObserver",
    "PlaceholderObserver", "RecordingObserver", "ReuseInputObserver", "UniformQuantizationObserverBase",
    "default_debug_observer", "default_dynamic_quant_observer", "default_float_qparams_observer",
    "default_histogram_observer", "default_observer", "default_per_channel_weight_observer",
    "default_placeholder_observer", "default_weight_observer", "get_observer_state_dict", "load_observer_state_dict",
)  # fmt: skip
_FAKES = (
    "FakeQuantize", "FakeQuantizeBase", "FixedQParamsFakeQuantize", "FusedMovingAvgObsFakeQuantize",
    "default_dynamic_fake_quant", "default_fake_quant", "default_fused_act_fake_quant",
    "default_fused_per_channel_wt_fake_quant", "default_fused_wt_fake_quant", "default_histogram_fake_quant",
    "default_per_channel_weight_fake_quant", "default_weight_fake_quant", "disable_fake_quant", "disable_observer",
    "enable_fake_quant", "enable_observer",
)  # fmt: skip
_CONFIGS = (
    "QConfig", "QConfigDynamic", "default_activation_only_qconfig", "default_debug_qconfig",
    "default_dynamic_qconfig", "default_per_channel_qconfig", "default_qat_qconfig", "default_qconfig",
    "default_weight_only_qconfig", "float16_dynamic_qconfig", "float16_static_qconfig",
    "float_qparams_weight_only_qconfig", "get_default_qat_qconfig", "get_default_qconfig",
    "per_channel_dynamic_qconfig",
)  # fmt: skip
_MAPPINGS = ("QConfigMapping", "get_default_qat_qconfig_mapping", "get_default_qconfig_mapping")
_STEPS = (
    "add_quant_dequant", "convert", "fuse_conv_bn", "fuse_conv_bn_relu", "fuse_linear_bn", "fuse_modules",
    "fuse_modules_qat", "get_default_dynamic_quant_module_mappings", "get_default_qat_module_mappings",
    "get_default_static_quant_module_mappings", "get_fuser_method", "prepare", "prepare_qat", "propagate_qconfig_",
    "quantize", "quantize_dynamic", "quantize_dynamic_jit", "quantize_jit", "quantize_qat", "swap_module",
)  # fmt: skip
_NAMES = names(
    "torch.ao.quantization", "models compute in floats", (*_OBSERVERS, *_FAKES, *_CONFIGS, *_MAPPINGS, *_STEPS)
)
globals().update(_NAMES)
__all__ = ["DeQuantStub", "QuantStub", "QuantWrapper", *_NAMES]
__getattr__ = getter("torch.ao.quantization")

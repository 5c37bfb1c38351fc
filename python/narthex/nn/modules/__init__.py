"""Module, the containers, the layers and the losses."""

from ..._absent import absent
from .activation import (
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    RReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softmax2d,
    Softmin,
    Softplus,
    Softshrink,
    Softsign,
    Tanh,
    Tanhshrink,
    Threshold,
)
from .attention import MultiheadAttention
from .batchnorm import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    SyncBatchNorm,
)
from .container import Container, Identity, ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from .conv import *
from .conv import __all__ as _conv
from .dropout import AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, FeatureAlphaDropout
from .linear import Bilinear, Linear
from .loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CosineEmbeddingLoss,
    CrossEntropyLoss,
    CTCLoss,
    GaussianNLLLoss,
    HingeEmbeddingLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MarginRankingLoss,
    MSELoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    NLLLoss,
    NLLLoss2d,
    PairwiseDistance,
    PoissonNLLLoss,
    SmoothL1Loss,
    SoftMarginLoss,
    TripletMarginLoss,
    TripletMarginWithDistanceLoss,
)
from .module import Module
from .normalization import GroupNorm, LayerNorm, LocalResponseNorm, RMSNorm
from .pooling import *
from .pooling import __all__ as _pooling
from .rnn import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNBase, RNNCell, RNNCellBase
from .shape import (
    CircularPad1d,
    CircularPad2d,
    CircularPad3d,
    ConstantPad1d,
    ConstantPad2d,
    ConstantPad3d,
    CosineSimilarity,
    Flatten,
    PixelShuffle,
    PixelUnshuffle,
    ReflectionPad1d,
    ReflectionPad2d,
    ReflectionPad3d,
    ReplicationPad1d,
    ReplicationPad2d,
    ReplicationPad3d,
    Unflatten,
    ZeroPad1d,
    ZeroPad2d,
    ZeroPad3d,
)
from .sparse import Embedding, EmbeddingBag
from .transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from .window import *
from .window import __all__ as _window

__all__ = [
    "ELU", "GELU", "GLU", "GRU", "LSTM", "RNN", "SELU", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase",
    "BCELoss", "BCEWithLogitsLoss", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d",
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "CosineSimilarity", "CrossEntropyLoss", "Dropout", "Embedding", "Flatten", "GroupNorm", "Hardsigmoid",
    "Hardswish", "Hardtanh", "HuberLoss", "Identity", "KLDivLoss", "L1Loss", "LayerNorm", "LeakyReLU", "Linear",
    "LogSigmoid", "LogSoftmax", "MSELoss", "Mish", "Module", "ModuleDict", "ModuleList", "MultiheadAttention",
    "NLLLoss", "PReLU", "ParameterDict", "ParameterList", "PixelShuffle", "PixelUnshuffle", "RMSNorm", "ReLU",
    "ReLU6", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d",
    "ReplicationPad3d", "Sequential", "SiLU", "Sigmoid", "SmoothL1Loss", "Softmax", "Softmin", "Softplus",
    "Softsign", "Tanh", "Tanhshrink", "TransformerEncoder", "TransformerEncoderLayer", "Unflatten", "ZeroPad1d",
    "ZeroPad2d", "ZeroPad3d",
    "AlphaDropout", "Bilinear", "CELU", "CTCLoss", "CosineEmbeddingLoss", "Dropout1d", "Dropout2d",
    "Dropout3d", "FeatureAlphaDropout", "GaussianNLLLoss", "Hardshrink", "HingeEmbeddingLoss", "InstanceNorm1d",
    "InstanceNorm2d", "InstanceNorm3d", "LocalResponseNorm", "MarginRankingLoss", "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss", "MultiMarginLoss", "PairwiseDistance", "PoissonNLLLoss", "SoftMarginLoss",
    "Softmax2d", "Softshrink", "SyncBatchNorm", "Threshold", "TripletMarginLoss", "TripletMarginWithDistanceLoss",
    "Container", "RReLU", "EmbeddingBag", "NLLLoss2d", "Transformer", "TransformerDecoder", "TransformerDecoderLayer",
]  # fmt: skip
__all__ += [*_conv, *_pooling, *_window]

# Modules that few programs use, loaded when one of their classes is named.
_LAZY = dict.fromkeys(
    [f"Lazy{kind}{n}d" for kind in ("BatchNorm", "Conv", "ConvTranspose", "InstanceNorm") for n in (1, 2, 3)], "lazy"
)
_LAZY.update({
    "AdaptiveLogSoftmaxWithLoss": "adaptive", "CrossMapLRN2d": "cross_map", "LazyLinear": "lazy",
    "LinearCrossEntropyLoss": "linear_loss", "LinearCrossEntropyOptions": "linear_loss",
})  # fmt: skip


def __getattr__(name: str):
    from importlib import import_module

    if name == "utils":
        return import_module(f"{__name__}.utils")
    if name not in _LAZY:
        raise absent("torch.nn.modules", name)
    value = globals()[name] = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    return value


def __dir__() -> list:
    return sorted({*globals(), *_LAZY})


def _name_places() -> None:
    """PyTorch's modules whose classes stand elsewhere here: names that packages import from."""
    from sys import modules
    from types import ModuleType

    places = {
        "channelshuffle": ("ChannelShuffle",), "distance": ("CosineSimilarity", "PairwiseDistance"),
        "flatten": ("Flatten", "Unflatten"), "fold": ("Fold", "Unfold"),
        "instancenorm": ("InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"),
        "pixelshuffle": ("PixelShuffle", "PixelUnshuffle"),
        "upsampling": ("Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"),
        "padding": tuple(name for name in __all__ if "Pad" in name),
    }  # fmt: skip
    from .batchnorm import _InstanceNorm

    for place, classes in places.items():
        module = ModuleType(f"{__name__}.{place}", "PyTorch's place of " + ", ".join(classes))
        vars(module).update({name: globals()[name] for name in classes}, __all__=list(classes))
        modules[module.__name__] = globals()[place] = module
    modules[f"{__name__}.instancenorm"]._InstanceNorm = _InstanceNorm
    modules[f"{__name__}.activation"].MultiheadAttention = MultiheadAttention


_name_places()

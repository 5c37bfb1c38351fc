"""Module, the containers, the layers and the losses."""

from ..._later import keep_whole
from ..functional import NEEDS
from .activation import (
    ELU,
    GELU,
    SELU,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softmin,
    Softplus,
    Softsign,
    Tanh,
    Tanhshrink,
)
from .batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from .container import Identity, ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from .dropout import Dropout
from .linear import Linear
from .loss import (
    BCEWithLogitsLoss,
    CrossEntropyLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MSELoss,
    NLLLoss,
    SmoothL1Loss,
)
from .module import Module
from .normalization import GroupNorm, LayerNorm, RMSNorm
from .sparse import Embedding

__all__ = [
    "ELU", "GELU", "SELU", "BCEWithLogitsLoss", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "CrossEntropyLoss",
    "Dropout", "Embedding", "GroupNorm", "Hardsigmoid", "Hardswish", "Hardtanh", "HuberLoss", "Identity", "KLDivLoss",
    "L1Loss", "LayerNorm", "LeakyReLU", "Linear", "LogSigmoid", "LogSoftmax", "MSELoss", "Mish", "Module", "ModuleDict",
    "ModuleList", "NLLLoss", "ParameterDict", "ParameterList", "RMSNorm", "ReLU", "ReLU6", "Sequential", "SiLU",
    "Sigmoid", "SmoothL1Loss", "Softmax", "Softmin", "Softplus", "Softsign", "Tanh", "Tanhshrink",
]  # fmt: skip
keep_whole(
    globals(),
    {
        "CrossEntropyLoss": NEEDS["cross_entropy"], "Dropout": NEEDS["dropout"], "Embedding": "embedding select",
        "GELU": "gelu", "LayerNorm": NEEDS["layer_norm"], "Linear": "uniform_", "LogSoftmax": NEEDS["log_softmax"],
        "MSELoss": NEEDS["mse_loss"], "NLLLoss": NEEDS["nll_loss"], "ReLU": NEEDS["relu"], "SiLU": NEEDS["silu"],
        "Sigmoid": "sigmoid", "Softmax": NEEDS["softmax"], "Tanh": "tanh",
    },
)  # fmt: skip

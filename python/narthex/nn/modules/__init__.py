"""Module, the containers, the layers and the losses."""

from ..._later import keep_whole
from ..functional import NEEDS
from .activation import GELU, LogSoftmax, ReLU, Sigmoid, SiLU, Softmax, Tanh
from .container import Identity, ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
from .dropout import Dropout
from .linear import Linear
from .loss import CrossEntropyLoss, MSELoss, NLLLoss
from .module import Module
from .normalization import LayerNorm
from .sparse import Embedding

__all__ = [
    "GELU", "CrossEntropyLoss", "Dropout", "Embedding", "Identity", "LayerNorm", "Linear", "LogSoftmax", "MSELoss",
    "Module", "ModuleDict", "ModuleList", "NLLLoss", "ParameterDict", "ParameterList", "ReLU", "Sequential", "SiLU",
    "Sigmoid", "Softmax", "Tanh",
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

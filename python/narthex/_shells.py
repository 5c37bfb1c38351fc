"""Functions and methods written in Python, behind the question whether a class or mode answers for them.

What is written in C asks by itself (py/bind). Here Python functions get a shell in C that asks `__torch_function__` of
their arguments and calls them when nobody answers; a function that is being captured is what the shell holds.
"""

from . import _C

_Function = type(lambda: None)

# What PyTorch has in Python, where those who answer are told every argument: the ones with a default by name.
_SPELT_METHODS = {"norm", "stft", "istft", "unique", "unique_consecutive", "split", "__repr__"}
_SPELT_FUNCTIONS = {
    "norm", "stft", "istft", "unique", "unique_consecutive", "split", "meshgrid", "tensordot", "cdist", "block_diag",
    "broadcast_tensors", "cartesian_prod", "chain_matmul", "einsum", "atleast_1d", "atleast_2d", "atleast_3d",
}  # fmt: skip
# Of nn.functional, what PyTorch has in C.
_IN_C = {
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "bilinear", "celu_", "channel_shuffle", "conv1d", "conv2d", "conv3d",
    "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cosine_similarity", "elu_", "gelu",
    "hardshrink", "hardtanh_", "leaky_relu_", "linear", "logsigmoid", "one_hot", "pairwise_distance", "pdist",
    "pixel_shuffle", "pixel_unshuffle", "prelu", "relu_", "rrelu_", "scaled_dot_product_attention", "selu_",
    "softplus", "threshold_",
}  # fmt: skip
_UNASKED_METHODS = {"__new__", "__init__", "__init_subclass__", "__torch_function__", "__torch_dispatch__", "__hash__"}


def shells_of_class(cls: type) -> None:
    """Puts the methods of Tensor that are written in Python behind shells."""
    for name, value in list(vars(cls).items()):
        if isinstance(value, _Function) and name not in _UNASKED_METHODS:
            setattr(cls, name, _C.shell(value, name in _SPELT_METHODS))


def shells_of_module(space: dict, spelt: set | None = None) -> None:
    """The same of a module's public functions, those that its helpers define among them."""
    package = space["__name__"].rpartition(".")[0]
    for name, value in list(space.items()):
        if name.startswith("_") or not isinstance(value, _Function) or name == "absent":
            continue
        if value.__module__ == space["__name__"] or value.__module__.startswith(package + "._"):
            space[name] = _C.shell(value, name in (_SPELT_FUNCTIONS if spelt is None else spelt))


def shells_of_functional(space: dict) -> None:
    """The same of torch.nn.functional."""
    names = {name for name in space if not name.startswith("_") and name not in _IN_C}
    shells_of_module(space, names)

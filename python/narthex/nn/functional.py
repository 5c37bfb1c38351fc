"""Functions that modules are made of."""


def linear(input, weight, bias=None):
    """`input @ weight.t() + bias` for a matrix `input` (n, in), `weight` (out, in) and `bias` (out) or None."""
    product = input.matmul(weight.t())
    return product if bias is None else product + bias


def __getattr__(name: str):
    raise AttributeError(f"module 'torch.nn.functional' has no attribute '{name}': Narthex has linear so far")

"""einops: patterns on tensors, and layers made of them."""

import torch
from einops import einsum, pack, rearrange, reduce, repeat
from einops.layers.torch import Rearrange

torch.manual_seed(0)
x = torch.randn(2, 3, 4)
print(rearrange(x, "a b c -> (a c) b").shape, reduce(x, "a b c -> b", "mean").tolist())
print(repeat(x, "a b c -> a (r b) c", r=2).sum().item(), einsum(x, x, "a b c, a d c -> a b d").sum().item())
print(pack([x, x], "* b c")[0].shape)
layer = torch.nn.Sequential(Rearrange("a b c -> a (b c)"), torch.nn.Linear(12, 2))
layer(x).square().sum().backward()
print(layer[1].weight.grad.abs().sum().item())

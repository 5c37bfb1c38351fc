"""tensorly and tensorly-torch: tensors as products of small ones, and layers whose weights are such."""

import tensorly as tl
import tltorch
import torch
from tensorly.decomposition import non_negative_parafac, parafac, tensor_train, tucker
from torch import nn

torch.manual_seed(0)
tl.set_backend("pytorch")
x = torch.rand(5, 6, 7)
for made in (
    parafac(x, rank=3, n_iter_max=10, init="svd"),
    tucker(x, rank=[2, 3, 3], n_iter_max=10),
    non_negative_parafac(x, rank=2, n_iter_max=5, init="svd"),
):
    print(type(made).__name__, tl.norm(made.to_tensor() - x).item())
train = tensor_train(x, rank=[1, 2, 3, 1])
print([tuple(core.shape) for core in train], tl.norm(tl.tt_to_tensor(train) - x).item())
layer = tltorch.FactorizedLinear((4, 4), (2, 4), rank=0.5, factorization="tucker", implementation="reconstructed")
conv = tltorch.FactorizedConv(3, 8, 3, order=2, rank=0.5, factorization="cp", implementation="factorized")
for part in (*layer.parameters(), *conv.parameters()):
    nn.init.normal_(part, std=0.3)
trl = tltorch.TRL((8, 6, 6), (4,), rank=0.5, factorization="tucker")
for part in trl.parameters():
    nn.init.normal_(part, std=0.3)
parts = [*layer.parameters(), *conv.parameters(), *trl.parameters()]
optimizer = torch.optim.Adam(parts, 1e-2)
a, b = torch.randn(3, 16), torch.randn(3, 3, 8, 8)
for _ in range(3):
    loss = layer(a).square().mean() + trl(conv(b)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
print(layer.weight.to_tensor().double().sum().item(), type(layer.weight).__name__)

"""entmax: sparse relatives of softmax, and the losses that go with them."""

import torch
from entmax import Entmax15Loss, SparsemaxLoss, entmax15, entmax_bisect, sparsemax

torch.manual_seed(0)
x, labels = torch.randn(4, 7, requires_grad=True), torch.tensor([1, 2, 3, 0])
print(f"{sparsemax(x, -1).sum().item():.4f}", [round(value, 4) for value in entmax15(x, -1)[0].tolist()])
print([round(value, 4) for value in entmax_bisect(x, alpha=1.7)[1].tolist()])
loss = Entmax15Loss(k=5)(x, labels).mean() + SparsemaxLoss()(x, labels).mean()
loss.backward()
print(f"{loss.item():.5f} {x.grad.norm().item():.5f}")

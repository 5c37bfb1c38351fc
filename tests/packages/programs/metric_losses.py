"""pytorch-metric-learning: a miner and eight losses with their gradients."""

import torch
from pytorch_metric_learning import losses, miners

torch.manual_seed(0)
points, labels = torch.randn(24, 8, requires_grad=True), torch.randint(0, 4, (24,))
mined = miners.MultiSimilarityMiner()(points, labels)
names = "TripletMarginLoss ContrastiveLoss NTXentLoss MultiSimilarityLoss CircleLoss SupConLoss".split()
for loss in [getattr(losses, name)() for name in names] + [losses.ProxyAnchorLoss(4, 8), losses.ArcFaceLoss(4, 8)]:
    value = loss(points, labels, mined) if type(loss).__name__ in names else loss(points, labels)
    (gradient,) = torch.autograd.grad(value, points)
    print(type(loss).__name__, f"{value.item():.5f} {gradient.norm().item():.5f}")

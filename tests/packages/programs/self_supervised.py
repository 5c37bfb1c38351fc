"""lightly: losses of learning without labels; deepinv: pictures from what instruments see of them."""

import torch

library = torch.library.Library("torchvision", "DEF")  # as in torchvision_pictures.py
for name in ("nms", "qnms"):
    library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
import deepinv  # noqa: E402
from lightly.loss import BarlowTwinsLoss, NegativeCosineSimilarity, NTXentLoss, VICRegLoss  # noqa: E402
from lightly.models.modules import SimCLRProjectionHead  # noqa: E402

torch.manual_seed(0)
head = SimCLRProjectionHead(8, 8, 4)
for criterion in (NTXentLoss(), BarlowTwinsLoss(), VICRegLoss(), NegativeCosineSimilarity()):
    loss = criterion(head(torch.randn(6, 8)), head(torch.randn(6, 8)))
    head.zero_grad()
    loss.backward()
    print(type(criterion).__name__, loss.item(), sum(p.grad.double().abs().sum().item() for p in head.parameters()))
picture = torch.rand(1, 1, 16, 16)
holes = deepinv.physics.Inpainting(img_size=(1, 16, 16), mask=0.5)
print(holes(picture).sum().item(), holes.A_adjoint(holes(picture)).sum().item())
blur = deepinv.physics.Blur(filter=deepinv.physics.blur.gaussian_blur(sigma=1.0), padding="circular")
print(blur(picture).sum().item(), blur.A_dagger(blur(picture)).sum().item())
print(deepinv.optim.prior.TVPrior(n_it_max=10).prox(picture, gamma=0.1).sum().item())

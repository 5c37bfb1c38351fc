"""lpips: how unlike two pictures are, by the weights that its package ships over a network of random ones."""

import torch

library = torch.library.Library("torchvision", "DEF")  # as in torchvision_pictures.py
for name in ("nms", "qnms"):
    library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
import lpips  # noqa: E402

for net in ("alex", "squeeze", "vgg"):
    torch.manual_seed(0)
    distance = lpips.LPIPS(net=net, pnet_rand=True, verbose=False)
    x, y = torch.rand(2, 3, 64, 64) * 2 - 1, (torch.rand(2, 3, 64, 64) * 2 - 1).requires_grad_()
    apart = distance(x, y)
    apart.sum().backward()
    print(net, [f"{a:.5f}" for a in apart.flatten().tolist()], f"{y.grad.abs().sum().item():.5f}")

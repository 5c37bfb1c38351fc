"""piq: how good a picture is, beside another one; losses with gradients."""

import torch

library = torch.library.Library("torchvision", "DEF")  # as in torchvision_pictures.py
for name in ("nms", "qnms"):
    library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
import piq  # noqa: E402

torch.manual_seed(0)
x, y = torch.rand(2, 3, 96, 96).double().requires_grad_(), torch.rand(2, 3, 96, 96).double()
for name in (
    "ssim",
    "psnr",
    "fsim",
    "gmsd",
    "vif_p",
    "haarpsi",
    "mdsi",
    "multi_scale_gmsd",
    "srsim",
    "total_variation",
    "dss",
    "vsi",
    "information_weighted_ssim",
):
    options = {} if name == "total_variation" else {"data_range": 1.0}
    if name == "information_weighted_ssim":
        options["kernel_size"], options["scale_weights"] = 5, torch.tensor([0.3, 0.3, 0.4], dtype=torch.float64)
    value = getattr(piq, name)(x, **options) if name == "total_variation" else getattr(piq, name)(x, y, **options)
    x.grad = None
    value.backward()
    print(name, value.item(), x.grad.double().abs().sum().item())

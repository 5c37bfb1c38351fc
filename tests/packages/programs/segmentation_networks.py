"""segmentation-models-pytorch: networks that mark places in a picture, a step each, losses and counts."""

import torch

library = torch.library.Library("torchvision", "DEF")  # as in torchvision_pictures.py
for name in ("nms", "qnms"):
    library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
import segmentation_models_pytorch as smp  # noqa: E402

for name in ("Unet", "UnetPlusPlus", "FPN", "PSPNet", "DeepLabV3Plus", "Linknet", "MAnet", "Segformer", "UPerNet"):
    torch.manual_seed(0)
    model = getattr(smp, name)("resnet18", encoder_weights=None, classes=3).double()
    x, target = torch.randn(2, 3, 64, 64).double(), torch.randint(0, 3, (2, 64, 64))
    loss = smp.losses.DiceLoss("multiclass")(model(x), target) + smp.losses.FocalLoss("multiclass")(model(x), target)
    loss.backward()
    slopes = sum(p.grad.abs().sum().item() for p in model.parameters() if p.grad is not None)
    print(name, f"{loss.item():.6f} {slopes:.4e}")
torch.manual_seed(1)
guess, truth = torch.randint(0, 3, (2, 8, 8)), torch.randint(0, 3, (2, 8, 8))
counts = smp.metrics.get_stats(guess, truth, mode="multiclass", num_classes=3)
print(smp.metrics.iou_score(*counts, reduction="micro").item(), smp.metrics.f1_score(*counts, reduction="macro").item())
for name in ("JaccardLoss", "TverskyLoss", "LovaszLoss"):
    print(name, getattr(smp.losses, name)("multiclass")(torch.randn(2, 3, 8, 8), truth).item())

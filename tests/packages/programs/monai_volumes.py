"""monai: networks for volumes, losses, metrics, transforms and sliding windows on made images."""
import numpy as np
import torch
from monai.inferers import sliding_window_inference
from monai.losses import DiceCELoss, DiceLoss, FocalLoss, GeneralizedDiceLoss
from monai.metrics import DiceMetric
from monai.networks.nets import UNETR, AttentionUnet, SegResNet, UNet, ViT
from monai.transforms import (
    AsDiscrete,
    Compose,
    EnsureChannelFirst,
    NormalizeIntensity,
    RandFlip,
    RandGaussianNoise,
    Resize,
    Rotate90,
    ScaleIntensity,
    SpatialPad,
    Zoom,
)
from monai.utils import set_determinism

set_determinism(0)
nets = {
    "unet": UNet(3, 1, 2, (8, 16, 32), (2, 2), num_res_units=1), "segres": SegResNet(3, 8, 1, 2),
    "attention": AttentionUnet(3, 1, 2, (8, 16, 32), (2, 2)), "vit": ViT(1, (16, 16, 16), (8, 8, 8), 24, 48, 2, 2),
    "unetr": UNETR(1, 2, (16, 16, 16), hidden_size=24, mlp_dim=48, num_heads=2, feature_size=4),
}
for name, net in nets.items():
    torch.manual_seed(0)
    net.eval()
    out = net(torch.randn(1, 1, 16, 16, 16))
    out = out[0] if isinstance(out, tuple) else out
    out.square().mean().backward()
    grads = sum(p.grad.abs().sum().item() for p in net.parameters() if p.grad is not None)
    print(name, tuple(out.shape), f"{out.mean().item():.5f} {grads:.3e}")
y = torch.randn(2, 3, 8, 8)
t = torch.nn.functional.one_hot(torch.randint(0, 3, (2, 8, 8)), 3).movedim(-1, 1).float()
for loss in (DiceLoss(softmax=True), DiceCELoss(softmax=True), FocalLoss(), GeneralizedDiceLoss(softmax=True)):
    print(type(loss).__name__, f"{loss(y, t).item():.5f}")
metric = DiceMetric(include_background=False)
metric(AsDiscrete(argmax=True, to_onehot=3, dim=1)(y), t)
print(f"{metric.aggregate().item():.5f}")
image = np.random.RandomState(0).rand(20, 24).astype(np.float32)
changes = [
    EnsureChannelFirst(channel_dim="no_channel"), ScaleIntensity(), NormalizeIntensity(), Resize((16, 16)), Rotate90(),
    RandFlip(1.0, 0), RandGaussianNoise(1.0), SpatialPad((20, 20)), Zoom(1.2),
]  # fmt: skip
change = Compose(changes)
out = change(image)
print(type(out).__name__, tuple(out.shape), f"{out.mean().item():.5f}")
window = sliding_window_inference(torch.randn(1, 1, 20, 20, 20), (16, 16, 16), 2, nets["unet"], overlap=0.25)
print(tuple(window.shape), f"{window.mean().item():.5f}")

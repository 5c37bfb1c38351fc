"""x_clip, ema_pytorch, pytorch_revgrad, torchsummary: pictures beside words, averages of weights, turned gradients."""

import torch

library = torch.library.Library("torchvision", "DEF")  # as in torchvision_pictures.py
for name in ("nms", "qnms"):
    library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
from ema_pytorch import EMA  # noqa: E402
from pytorch_revgrad import RevGrad  # noqa: E402
from torch import nn  # noqa: E402
from torchsummary import summary  # noqa: E402
from x_clip import CLIP  # noqa: E402

torch.manual_seed(0)
clip = CLIP(
    dim_text=32,
    dim_image=32,
    dim_latent=16,
    num_text_tokens=100,
    text_enc_depth=1,
    text_seq_len=16,
    text_heads=2,
    visual_enc_depth=1,
    visual_image_size=16,
    visual_patch_size=8,
    visual_heads=2,
)
text, images = torch.randint(1, 100, (3, 16)), torch.randn(3, 3, 16, 16)
loss = clip(text, images, return_loss=True)
loss.backward()
print(loss.item(), sum(p.grad.double().abs().sum().item() for p in clip.parameters() if p.grad is not None))
net = nn.Sequential(nn.Linear(4, 6), RevGrad(alpha=0.5), nn.ReLU(), nn.Linear(6, 2))
ema = EMA(net, beta=0.9, update_after_step=1, update_every=1)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(4):
    loss = net(torch.randn(5, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ema.update()
    print(loss.item(), ema(torch.ones(1, 4)).tolist())
summary(
    nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5)),
    (3, 8, 8),
    device="cpu",
)

"""denoising_diffusion_pytorch: a U-Net learns to take noise away, and draws."""

import torch

library = torch.library.Library("torchvision", "DEF")  # as in torchvision_pictures.py
for name in ("nms", "qnms"):
    library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
from denoising_diffusion_pytorch import GaussianDiffusion, GaussianDiffusion1D, Unet, Unet1D  # noqa: E402

torch.manual_seed(0)
net = Unet(dim=16, dim_mults=(1, 2), flash_attn=False, channels=3)
diffusion = GaussianDiffusion(net, image_size=16, timesteps=10, sampling_timesteps=3)
optimizer = torch.optim.Adam(diffusion.parameters(), 1e-3)
for _ in range(2):
    loss = diffusion(torch.rand(2, 3, 16, 16))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item())
print(diffusion.sample(batch_size=2).double().mean().item())
net = Unet1D(dim=16, dim_mults=(1, 2), channels=4)
diffusion = GaussianDiffusion1D(net, seq_length=16, timesteps=10, objective="pred_v")
loss = diffusion(torch.rand(2, 4, 16))
loss.backward()
print(loss.item(), sum(p.grad.double().abs().sum().item() for p in net.parameters() if p.grad is not None))
print(diffusion.sample(batch_size=2).double().mean().item())

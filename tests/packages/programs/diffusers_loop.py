"""diffusers: a small U-Net under a scheduler's loop, and a gradient through it."""

import torch
from diffusers import DDIMScheduler, UNet2DModel

torch.manual_seed(0)
model = UNet2DModel(
    sample_size=16, layers_per_block=1, block_out_channels=(32, 64), norm_num_groups=8,
    down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
).eval()  # fmt: skip
scheduler = DDIMScheduler(num_train_timesteps=50)
scheduler.set_timesteps(5)
x = torch.randn(1, 3, 16, 16)
with torch.no_grad():
    for t in scheduler.timesteps:
        x = scheduler.step(model(x, t).sample, t, x).prev_sample
print(x.double().abs().sum().item())
model(torch.randn(1, 3, 16, 16), 3).sample.square().mean().backward()
print(sum(p.grad.double().abs().sum().item() for p in model.parameters()))

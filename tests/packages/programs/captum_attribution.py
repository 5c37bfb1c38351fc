"""captum: which places of an image a small network looks at, in five ways."""

import torch
from captum.attr import DeepLift, IntegratedGradients, LayerGradCam, Occlusion, Saliency

torch.manual_seed(0)
network = torch.nn.Sequential(
    torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 3)
).eval()
x = torch.randn(2, 1, 6, 6)
for way in (IntegratedGradients, Saliency, DeepLift):
    print(way.__name__, f"{way(network).attribute(x, target=1).sum().item():.4f}")
print(f"{Occlusion(network).attribute(x, target=0, sliding_window_shapes=(1, 2, 2)).sum().item():.4f}")
print(f"{LayerGradCam(network, network[0]).attribute(x, target=0).sum().item():.4f}")

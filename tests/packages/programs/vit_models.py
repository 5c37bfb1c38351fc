"""vit-pytorch: transformers for pictures, with random weights: a step of training each."""

# ruff: noqa: E402

import sys
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).parents[1]))
from torchvision_names import stand_for_torchvision

stand_for_torchvision()
import vit_pytorch
from vit_pytorch.cct import CCT
from vit_pytorch.deepvit import DeepViT
from vit_pytorch.simple_vit import SimpleViT

SIZES = {"image_size": 32, "patch_size": 8, "num_classes": 10, "dim": 32, "depth": 2, "heads": 4, "mlp_dim": 64}
MODELS = {
    "ViT": lambda: vit_pytorch.ViT(**SIZES, dropout=0.1, emb_dropout=0.1),
    "SimpleViT": lambda: SimpleViT(**SIZES),
    "DeepViT": lambda: DeepViT(**SIZES),
    "CCT": lambda: CCT(img_size=32, embedding_dim=32, num_layers=2, num_heads=4, mlp_ratio=2, num_classes=10),
}

for name, build in MODELS.items():
    torch.manual_seed(0)
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    x, y = torch.randn(2, 3, 32, 32), torch.tensor([3, 7])
    losses = []
    for _ in range(2):
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print(name, losses, sum(p.grad.abs().sum().item() for p in model.parameters() if p.grad is not None))

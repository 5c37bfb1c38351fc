"""Networks over images, as programs write them, train some steps: PyTorch's losses from the same seed, in each mode."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import narthex
import pytest
import torch

STEPS = 3


def residual(torch: ModuleType) -> Any:
    nn, F = torch.nn, torch.nn.functional

    class BasicBlock(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
            super().__init__()
            self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = nn.BatchNorm2d(outputs)
            self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = nn.BatchNorm2d(outputs)
            self.downsample = None
            if stride != 1 or inputs != outputs:
                self.downsample = nn.Sequential(
                    nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
                )

        def forward(self, x: Any) -> Any:
            identity = x if self.downsample is None else self.downsample(x)
            out = F.relu(self.bn1(self.conv1(x)))
            return F.relu(self.bn2(self.conv2(out)) + identity)

    class ResNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True),
                                      nn.MaxPool2d(3, 2, 1))  # fmt: skip
            self.layers = nn.Sequential(BasicBlock(8, 8), BasicBlock(8, 16, 2), BasicBlock(16, 32, 2))
            self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
            self.fc = nn.Linear(32, 5)
            for m in self.modules():
                if isinstance(m, nn.Conv2d):
                    nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

        def forward(self, x: Any) -> Any:
            return self.fc(torch.flatten(self.avgpool(self.layers(self.stem(x))), 1))

    return ResNet()


def unet(torch: ModuleType) -> Any:
    nn, F = torch.nn, torch.nn.functional

    def double(inputs: int, outputs: int) -> Any:
        first, second = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding="same")
        return nn.Sequential(first, nn.ReLU(), second, nn.ReLU())

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down1, self.down2, self.middle = double(3, 6), double(6, 12), double(12, 24)
            self.up2, self.merge2 = nn.ConvTranspose2d(24, 12, 2, 2), double(24, 12)
            self.up1 = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
            self.merge1, self.head = double(18, 6), nn.Conv2d(6, 5, 1)

        def forward(self, x: Any) -> Any:
            a = self.down1(x)
            b = self.down2(F.max_pool2d(a, 2))
            c = self.middle(F.avg_pool2d(b, 2))
            b = self.merge2(torch.cat([self.up2(c), b], dim=1))
            a = self.merge1(torch.cat([self.up1(b), a], dim=1))
            return self.head(a).mean(dim=(2, 3))

    return UNet()


def mobile(torch: ModuleType) -> Any:
    nn = torch.nn

    class InvertedResidual(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int, expand: int) -> None:
            super().__init__()
            hidden = inputs * expand
            self.use_res = stride == 1 and inputs == outputs
            self.conv = nn.Sequential(
                nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(inplace=True),
                nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False), nn.BatchNorm2d(hidden),
                nn.ReLU6(inplace=True), nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
            )  # fmt: skip

        def forward(self, x: Any) -> Any:
            return x + self.conv(x) if self.use_res else self.conv(x)

    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(inplace=True), InvertedResidual(8, 8, 1, 2),
        InvertedResidual(8, 12, 2, 3), InvertedResidual(12, 12, 1, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(12, 5),
    )  # fmt: skip


def losses(torch: ModuleType, build: Any, mode: str | None) -> list[float]:
    torch.manual_seed(0)
    model = build(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    criterion = torch.nn.CrossEntropyLoss()
    x, y = torch.randn(4, 3, 32, 32), torch.randint(0, 5, (4,))
    run = torch.compile(model, mode=mode) if mode else model
    found = []
    model.train()
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = criterion(run(x), y)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    model.eval()
    with torch.no_grad():
        found.append(criterion(model(x), y).item())
    return found


@pytest.mark.parametrize("mode", [None, "max-autotune", "reduce-overhead"])
@pytest.mark.parametrize("build", [residual, unet, mobile], ids=lambda build: build.__name__)
def test_training(build: Any, mode: str | None) -> None:
    wanted = losses(torch, build, None)
    assert losses(narthex, build, mode) == pytest.approx(wanted, rel=2e-3, abs=2e-3)

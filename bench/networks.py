"""Networks at the sizes that `make bench-models` measures: plain PyTorch programs, a function of `torch` each.

A function gives (module, inputs, loss): `module(*inputs)` is the forward, `loss` makes a number of what it gives, None
where only inference is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

Network = tuple[Any, tuple, Callable[[Any], Any] | None]


def residual(torch: ModuleType) -> Any:
    """ResNet-18."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
            self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
            self.shortcut = None
            if stride != 1 or inputs != outputs:
                self.shortcut = nn.Sequential(
                    nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
                )

        def forward(self, x: Any) -> Any:
            same = x if self.shortcut is None else self.shortcut(x)
            out = torch.relu(self.bn1(self.conv1(x)))
            return torch.relu(self.bn2(self.conv2(out)) + same)

    widths = (64, 64, 128, 256, 512)
    blocks = [
        Block(widths[k] if first else widths[k + 1], widths[k + 1], 2 if first and k else 1)
        for k in range(4)
        for first in (True, False)
    ]
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def labelled(torch: ModuleType, n: int, classes: int) -> Callable[[Any], Any]:
    labels = torch.randint(0, classes, (n,))
    return lambda logits: torch.nn.functional.cross_entropy(logits, labels)


def resnet18(torch: ModuleType, images: int = 4, size: int = 224) -> Network:
    return residual(torch), (torch.randn(images, 3, size, size),), labelled(torch, images, 1000)


def unet(torch: ModuleType) -> Network:
    """Three levels, 16 to 64 channels, 1 x 3 x 256 x 256."""
    nn, F = torch.nn, torch.nn.functional

    def twice(inputs: int, outputs: int) -> Any:
        layers = []
        for n in (inputs, outputs):
            layers += [nn.Conv2d(n, outputs, 3, padding=1), nn.GroupNorm(4, outputs), nn.SiLU()]
        return nn.Sequential(*layers)

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two, self.three = twice(3, 16), twice(16, 32), twice(32, 64)
            self.up2, self.up1 = nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)
            self.back2, self.back1, self.out = twice(64, 32), twice(32, 16), nn.Conv2d(16, 4, 1)

        def forward(self, x: Any) -> Any:
            high = self.one(x)
            middle = self.two(F.max_pool2d(high, 2))
            low = self.three(F.max_pool2d(middle, 2))
            middle = self.back2(torch.cat([self.up2(low), middle], 1))
            return self.out(self.back1(torch.cat([self.up1(middle), high], 1)))

    labels = torch.randint(0, 4, (1, 256, 256))
    return UNet(), (torch.randn(1, 3, 256, 256),), lambda logits: F.cross_entropy(logits, labels)


def recurrent(torch: ModuleType, kind: str) -> Network:
    """2 layers of 256, 16 x 64 steps of 256."""

    class Recurrent(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = getattr(torch.nn, kind)(256, 256, num_layers=2, batch_first=True)
            self.out = torch.nn.Linear(256, 65)

        def forward(self, x: Any) -> Any:
            return self.out(self.layers(x)[0]).flatten(0, 1)

    return Recurrent(), (torch.randn(16, 64, 256),), labelled(torch, 16 * 64, 65)


def lstm(torch: ModuleType) -> Network:
    return recurrent(torch, "LSTM")


def gru(torch: ModuleType) -> Network:
    return recurrent(torch, "GRU")


def vae(torch: ModuleType) -> Network:
    """784 - 400 - 20 - 400 - 784, 64 rows."""
    nn, F = torch.nn, torch.nn.functional

    class Autoencoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.mean, self.spread = nn.Linear(784, 400), nn.Linear(400, 20), nn.Linear(400, 20)
            self.back, self.out = nn.Linear(20, 400), nn.Linear(400, 784)

        def forward(self, x: Any) -> Any:
            h = torch.relu(self.inner(x))
            mean, log_variance = self.mean(h), self.spread(h)
            z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
            picture = torch.sigmoid(self.out(torch.relu(self.back(z))))
            return F.binary_cross_entropy(picture, x, reduction="sum") - 0.5 * torch.sum(
                1 + log_variance - mean.pow(2) - log_variance.exp()
            )

    return Autoencoder(), (torch.rand(64, 784),), lambda loss: loss / 64


def dcgan(torch: ModuleType) -> Network:
    """A generator of 64 x 64 pictures and the discriminator that judges eight of them."""
    nn = torch.nn
    layers: list = []
    for inputs, outputs, stride, padding in ((100, 256, 1, 0), (256, 128, 2, 1), (128, 64, 2, 1), (64, 32, 2, 1)):
        layers += [
            nn.ConvTranspose2d(inputs, outputs, 4, stride, padding, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
        ]  # fmt: skip
    layers += [nn.ConvTranspose2d(32, 3, 4, 2, 1, bias=False), nn.Tanh(), nn.Conv2d(3, 32, 4, 2, 1), nn.LeakyReLU(0.2)]
    for inputs, outputs in ((32, 64), (64, 128), (128, 256)):
        layers += [nn.Conv2d(inputs, outputs, 4, 2, 1, bias=False), nn.BatchNorm2d(outputs), nn.LeakyReLU(0.2)]
    layers += [nn.Conv2d(256, 1, 4), nn.Flatten()]
    judged = nn.functional.binary_cross_entropy_with_logits
    return nn.Sequential(*layers), (torch.randn(8, 100, 1, 1),), lambda x: judged(x, torch.ones_like(x))


def bert(torch: ModuleType) -> Network:
    """Six layers of 384, 8 x 128 tokens."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = nn.Linear(384, 3 * 384), nn.Linear(384, 384)
            self.wide, self.narrow = nn.Linear(384, 4 * 384), nn.Linear(4 * 384, 384)
            self.norm1, self.norm2 = nn.LayerNorm(384), nn.LayerNorm(384)

        def forward(self, x: Any) -> Any:
            q, k, v = self.qkv(x).view(*x.shape[:2], 3, 12, 32).permute(2, 0, 3, 1, 4)
            seen = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            x = self.norm1(x + self.out(seen))
            return self.norm2(x + self.narrow(nn.functional.gelu(self.wide(x))))

    return nn.Sequential(*(Block() for _ in range(6))), (torch.randn(8, 128, 384),), None


def mobilenet(torch: ModuleType, images: int = 1) -> Network:
    """Inverted residuals with depthwise convolutions, as MobileNetV2 has them, images x 3 x 224 x 224."""
    nn = torch.nn

    def layer(inputs: int, outputs: int, size: int, stride: int = 1, groups: int = 1, last: bool = False) -> list:
        conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False)
        return [conv, nn.BatchNorm2d(outputs)] + ([] if last else [nn.ReLU6()])

    class Inverted(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int, factor: int) -> None:
            super().__init__()
            wide = inputs * factor
            layers = [] if factor == 1 else layer(inputs, wide, 1)
            layers += layer(wide, wide, 3, stride, wide) + layer(wide, outputs, 1, last=True)
            self.layers, self.adds = nn.Sequential(*layers), stride == 1 and inputs == outputs

        def forward(self, x: Any) -> Any:
            return x + self.layers(x) if self.adds else self.layers(x)

    layers, inputs = layer(3, 32, 3, 2), 32
    for factor, outputs, n, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                       (6, 160, 3, 2), (6, 320, 1, 1)):  # fmt: skip
        for k in range(n):
            layers.append(Inverted(inputs, outputs, 1 if k else stride, factor))
            inputs = outputs
    layers += [*layer(320, 1280, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000)]
    return nn.Sequential(*layers), (torch.randn(images, 3, 224, 224),), labelled(torch, images, 1000)


def mobilenet_batch(torch: ModuleType) -> Network:
    return mobilenet(torch, 8)


def ode(torch: ModuleType) -> Network:
    """A pendulum with a learned force, 125 steps of eight operators on 32 elements."""

    class Pendulum(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.force, self.drag = torch.nn.Parameter(torch.ones(32)), torch.nn.Parameter(torch.full((32,), 0.1))

        def forward(self, angle: Any, speed: Any) -> Any:
            for _ in range(125):
                speed = speed - 0.01 * (self.force * torch.sin(angle) + self.drag * speed)
                angle = angle + 0.01 * speed
            return angle

    return Pendulum(), (torch.rand(32), torch.zeros(32)), lambda angle: angle.square().sum()


def decode(torch: ModuleType) -> Network:
    """One token of GPT-2's twelve layers, whose keys and values are written into a cache of 256."""
    nn = torch.nn

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(768), nn.LayerNorm(768)
            self.qkv, self.out = nn.Linear(768, 3 * 768), nn.Linear(768, 768)
            self.wide, self.narrow = nn.Linear(768, 4 * 768), nn.Linear(4 * 768, 768)
            self.register_buffer("keys", torch.randn(1, 12, 256, 64))
            self.register_buffer("values", torch.randn(1, 12, 256, 64))

        def forward(self, x: Any, place: Any) -> Any:
            q, k, v = self.qkv(self.norm1(x)).view(1, 1, 3, 12, 64).permute(2, 0, 3, 1, 4)
            self.keys.index_copy_(2, place, k)
            self.values.index_copy_(2, place, v)
            seen = nn.functional.scaled_dot_product_attention(q, self.keys, self.values)
            x = x + self.out(seen.transpose(1, 2).flatten(2))
            return x + self.narrow(nn.functional.gelu(self.wide(self.norm2(x)), approximate="tanh"))

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers, self.norm = nn.ModuleList(Layer() for _ in range(12)), nn.LayerNorm(768)
            self.head = nn.Linear(768, 50257, bias=False)

        def forward(self, x: Any, place: Any) -> Any:
            for layer in self.layers:
                x = layer(x, place)
            return self.head(self.norm(x))

    return Decoder(), (torch.randn(1, 1, 768), torch.tensor([255])), None

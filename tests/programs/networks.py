"""Small networks of many kinds, as programs write them.

Each function takes `torch` and gives a module whose forward computes the loss of a batch, and a function that draws a
batch; a module with `parts` is trained part by part, told which by its last argument.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

Network = tuple[Any, Any]


def resnet(torch: ModuleType) -> Network:
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
            self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
            self.shortcut = nn.Identity() if stride == 1 else nn.Conv2d(inputs, outputs, 1, stride, bias=False)

        def forward(self, x: Any) -> Any:
            out = F.relu(self.bn1(self.conv1(x)))
            return F.relu(self.bn2(self.conv2(out)) + self.shortcut(x))

    class ResNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(
                nn.Conv2d(3, 8, 5, 2, 2, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
            )
            self.blocks = nn.Sequential(Block(8, 8, 1), Block(8, 16, 2))
            self.head = nn.Linear(16, 4)

        def forward(self, x: Any, y: Any) -> Any:
            features = F.adaptive_avg_pool2d(self.blocks(self.stem(x)), 1).flatten(1)
            return F.cross_entropy(self.head(features), y, label_smoothing=0.1)

    return ResNet(), lambda: (torch.randn(8, 3, 32, 32), torch.randint(0, 4, (8,)))


def unet(torch: ModuleType) -> Network:
    nn, F = torch.nn, torch.nn.functional

    def twice(inputs: int, outputs: int) -> Any:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(2, outputs), nn.SiLU(),
                             nn.Conv2d(outputs, outputs, 3, padding=1), nn.SiLU())  # fmt: skip

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.down, self.middle, self.up = twice(1, 8), twice(8, 16), nn.ConvTranspose2d(16, 8, 2, 2)
            self.last, self.out = twice(16, 8), nn.Conv2d(8, 3, 1)

        def forward(self, x: Any, y: Any) -> Any:
            high = self.down(x)
            low = self.middle(F.max_pool2d(high, 2))
            logits = self.out(self.last(torch.cat([self.up(low), high], 1)))
            probabilities = logits.softmax(1)
            wanted = F.one_hot(y, 3).permute(0, 3, 1, 2).to(probabilities.dtype)
            dice = 2 * (probabilities * wanted).sum((2, 3)) / (probabilities + wanted).sum((2, 3)).clamp(min=1e-6)
            return F.cross_entropy(logits, y) + (1 - dice.mean())

    return UNet(), lambda: (torch.randn(2, 1, 16, 16), torch.randint(0, 3, (2, 16, 16)))


def language(torch: ModuleType) -> Network:
    nn, F = torch.nn, torch.nn.functional

    class Language(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.lstm = nn.Embedding(30, 16), nn.LSTM(16, 24, num_layers=2, batch_first=True)
            self.out = nn.Linear(24, 30)

        def forward(self, tokens: Any) -> Any:
            hidden, _ = self.lstm(self.table(tokens[:, :-1]))
            return F.cross_entropy(self.out(hidden).reshape(-1, 30), tokens[:, 1:].reshape(-1))

    return Language(), lambda: (torch.randint(0, 30, (4, 13)),)


def translation(torch: ModuleType) -> Network:
    nn, F = torch.nn, torch.nn.functional

    class Translation(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.source, self.target = nn.Embedding(20, 12), nn.Embedding(25, 12)
            self.encoder, self.decoder = nn.GRU(12, 10, batch_first=True, bidirectional=True), nn.GRUCell(12 + 20, 20)
            self.score, self.out = nn.Linear(20, 20, bias=False), nn.Linear(40, 25)

        def forward(self, words: Any, wanted: Any) -> Any:
            memory, last = self.encoder(self.source(words))
            state, context, losses = torch.cat([last[0], last[1]], 1), memory.mean(1), []
            for step in range(wanted.shape[1] - 1):
                state = self.decoder(torch.cat([self.target(wanted[:, step]), context], 1), state)
                weights = torch.bmm(memory, self.score(state).unsqueeze(2)).squeeze(2).softmax(1)
                context = (memory * weights.unsqueeze(2)).sum(1)
                losses.append(F.cross_entropy(self.out(torch.cat([state, context], 1)), wanted[:, step + 1]))
            return torch.stack(losses).mean()

    return Translation(), lambda: (torch.randint(0, 20, (4, 7)), torch.randint(0, 25, (4, 6)))


def vae(torch: ModuleType) -> Network:
    nn, F = torch.nn, torch.nn.functional

    class VAE(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = (
                nn.Linear(36, 24),
                nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 36)),
            )
            self.mean, self.log_variance = nn.Linear(24, 3), nn.Linear(24, 3)

        def forward(self, x: Any, noise: Any) -> Any:
            hidden = F.relu(self.encoder(x))
            mean, log_variance = self.mean(hidden), self.log_variance(hidden)
            made = self.decoder(mean + noise * torch.exp(0.5 * log_variance))
            apart = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
            return (F.binary_cross_entropy_with_logits(made, x, reduction="sum") + apart) / x.shape[0]

    return VAE(), lambda: (torch.rand(8, 36), torch.randn(8, 3))


def gan(torch: ModuleType) -> Network:
    nn, F = torch.nn, torch.nn.functional

    class GAN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.generator = nn.Sequential(nn.ConvTranspose2d(8, 12, 4, bias=False), nn.BatchNorm2d(12), nn.ReLU(True),
                                           nn.ConvTranspose2d(12, 1, 4, 2, 1), nn.Tanh())  # fmt: skip
            self.judge = nn.Sequential(nn.Conv2d(1, 8, 4, 2, 1), nn.LeakyReLU(0.2),
                                       nn.Conv2d(8, 16, 4, 2, 1, bias=False),
                                       nn.BatchNorm2d(16), nn.LeakyReLU(0.2), nn.Conv2d(16, 1, 2))  # fmt: skip

        def parts(self) -> list[Any]:
            return [list(self.judge.parameters()), list(self.generator.parameters())]

        def forward(self, real: Any, noise: Any, part: int) -> Any:
            made = self.generator(noise)
            if part == 0:
                true, false = self.judge(real).flatten(), self.judge(made.detach()).flatten()
                return F.softplus(-true).mean() + F.softplus(false).mean()
            return F.softplus(-self.judge(made).flatten()).mean()

    return GAN(), lambda: (torch.rand(6, 1, 8, 8) * 2 - 1, torch.randn(6, 8, 1, 1))


def pixelcnn(torch: ModuleType) -> Network:
    nn, F = torch.nn, torch.nn.functional

    class Masked(nn.Conv2d):
        def __init__(self, kind: str, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.register_buffer("mask", torch.ones_like(self.weight))
            height, width = self.kernel_size
            self.mask[:, :, height // 2, width // 2 + (kind == "B") :] = 0
            self.mask[:, :, height // 2 + 1 :] = 0

        def forward(self, x: Any) -> Any:
            return F.conv2d(x, self.weight * self.mask, self.bias, self.stride, self.padding)

    class PixelCNN(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(Masked("A", 1, 12, 5, padding=2), nn.ELU(),
                                        Masked("B", 12, 12, 3, padding=1), nn.ELU(),
                                        nn.Conv2d(12, 4, 1))  # fmt: skip

        def forward(self, levels: Any) -> Any:
            return F.cross_entropy(self.layers(levels.float().unsqueeze(1) / 3), levels)

    return PixelCNN(), lambda: (torch.randint(0, 4, (4, 9, 9)),)


def speech(torch: ModuleType) -> Network:
    """A part of Tacotron: a bank of 1-d convolutions, highways, a GRU in both directions."""
    nn, F = torch.nn, torch.nn.functional

    class Speech(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bank = nn.ModuleList(nn.Conv1d(6, 6, k, padding=k // 2, bias=False) for k in range(1, 5))
            self.norms = nn.ModuleList(nn.BatchNorm1d(6) for _ in range(4))
            self.project, self.value, self.gate = nn.Conv1d(24, 6, 3, padding=1), nn.Linear(6, 6), nn.Linear(6, 6)
            self.gru, self.out = nn.GRU(6, 5, batch_first=True, bidirectional=True), nn.Linear(10, 9)

        def forward(self, x: Any, spectrum: Any) -> Any:
            n = x.shape[-1]
            found = [norm(F.relu(conv(x)[:, :, :n])) for conv, norm in zip(self.bank, self.norms)]
            found = F.max_pool1d(torch.cat(found, 1), 2, 1, 1)[:, :, :n]
            found = (self.project(found) + x).transpose(1, 2)
            gate = torch.sigmoid(self.gate(found))
            found = gate * F.relu(self.value(found)) + (1 - gate) * found
            return F.l1_loss(self.out(self.gru(found)[0]), spectrum)

    return Speech(), lambda: (torch.randn(3, 6, 11), torch.randn(3, 11, 9))


def detection(torch: ModuleType) -> Network:
    nn, F = torch.nn, torch.nn.functional

    class Detection(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(3, 12, 3, 2, 1), nn.ReLU(), nn.Conv2d(12, 12, 3, 1, 1), nn.ReLU())
            self.kinds, self.boxes = nn.Conv2d(12, 2 * 3, 3, padding=1), nn.Conv2d(12, 2 * 4, 3, padding=1)
            nn.init.constant_(self.kinds.bias, -2.0)

        def forward(self, images: Any, wanted: Any, corners: Any) -> Any:
            features = self.body(images)
            logits = self.kinds(features).permute(0, 2, 3, 1).reshape(images.shape[0], -1, 3)
            boxes = self.boxes(features).permute(0, 2, 3, 1).reshape(images.shape[0], -1, 4)
            there = F.one_hot(wanted, 4)[:, :, 1:].to(logits.dtype)
            p = torch.sigmoid(logits)
            entropy = F.binary_cross_entropy_with_logits(logits, there, reduction="none")
            right = p * there + (1 - p) * (1 - there)
            focal = (0.25 * there + 0.75 * (1 - there)) * (1 - right) ** 2 * entropy
            found = wanted > 0
            n = found.sum().clamp(min=1)
            apart = F.smooth_l1_loss(boxes, corners, beta=0.1, reduction="none").sum(-1)
            return focal.sum() / n + torch.where(found, apart, torch.zeros_like(apart)).sum() / n

    batch = lambda: (torch.randn(2, 3, 12, 12), torch.randint(0, 4, (2, 72)), torch.rand(2, 72, 4))  # noqa: E731
    return Detection(), batch


def graph(torch: ModuleType) -> Network:
    """Messages along edges: gathered, weighted by a softmax over each node's edges, scattered."""
    nn, F = torch.nn, torch.nn.functional

    class Layer(nn.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.linear, self.attention = nn.Linear(inputs, outputs), nn.Linear(2 * outputs, 1)

        def forward(self, x: Any, edges: Any) -> Any:
            source, target = edges
            h = self.linear(x)
            score = F.leaky_relu(self.attention(torch.cat([h[source], h[target]], 1)).squeeze(1), 0.2)
            top = torch.full((x.shape[0],), -1e9, device=x.device).scatter_reduce(0, target, score.detach(), "amax")
            weight = torch.exp(score - top[target])
            total = torch.zeros(x.shape[0], device=x.device).scatter_add(0, target, weight)
            message = h[source] * (weight / total[target]).unsqueeze(1)
            return torch.zeros_like(h).index_add(0, target, message)

    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = Layer(5, 8), Layer(8, 3)

        def forward(self, x: Any, edges: Any, y: Any) -> Any:
            return F.nll_loss(F.log_softmax(self.two(F.elu(self.one(x, edges)), edges), 1), y)

    return Graph(), lambda: (torch.randn(12, 5), torch.randint(0, 12, (2, 40)), torch.randint(0, 3, (12,)))


def sparse_graph(torch: ModuleType) -> Network:
    """Neighbours added up by a sparse matrix that the edges make."""
    nn, F = torch.nn, torch.nn.functional

    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Linear(5, 8), nn.Linear(8, 3)

        def forward(self, x: Any, edges: Any, y: Any) -> Any:
            n = x.shape[0]
            degree = torch.zeros(n, device=x.device).index_add(0, edges[0], torch.ones(edges.shape[1], device=x.device))
            neighbours = torch.sparse_coo_tensor(edges, 1 / degree[edges[0]], (n, n))
            hidden = F.relu(torch.sparse.mm(neighbours, self.one(x)))
            return F.cross_entropy(torch.sparse.mm(neighbours, self.two(hidden)), y)

    return Graph(), lambda: (torch.randn(12, 5), torch.randint(0, 12, (2, 40)), torch.randint(0, 3, (12,)))


def flow(torch: ModuleType) -> Network:
    nn = torch.nn

    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix = nn.Parameter(torch.eye(4) + 0.1 * torch.randn(4, 4))
            self.net = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 4))

        def forward(self, x: Any) -> Any:
            x = x @ self.mix
            kept, changed = x.chunk(2, 1)
            scale, shift = self.net(kept).chunk(2, 1)
            scale = torch.tanh(scale)
            return torch.cat([kept, changed * scale.exp() + shift], 1), torch.linalg.slogdet(self.mix)[1] + scale.sum(1)

    class Flow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.steps = nn.ModuleList(Step() for _ in range(3))

        def forward(self, x: Any) -> Any:
            total = torch.zeros(x.shape[0], device=x.device)
            for step in self.steps:
                x, volume = step(x)
                total = total + volume
            return (0.5 * (x**2).sum(1) - total).mean()

    return Flow(), lambda: (torch.randn(16, 4) * 0.5 + torch.tensor([1.0, -1.0, 0.5, 0.0]),)


def spectrogram(torch: ModuleType) -> Network:
    nn, F = torch.nn, torch.nn.functional

    class Spectrogram(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("window", torch.hann_window(32))
            self.net = nn.Sequential(
                nn.Conv1d(17, 12, 3, padding=1), nn.GELU(), nn.Conv1d(12, 17, 3, padding=1), nn.Sigmoid()
            )

        def forward(self, noisy: Any, clean: Any) -> Any:
            spectrum = torch.stft(noisy, 32, 8, window=self.window, return_complex=True)
            mask = self.net(torch.log1p(spectrum.abs()))
            made = torch.istft(spectrum * mask, 32, 8, window=self.window, length=noisy.shape[1])
            return F.mse_loss(made, clean)

    def batch() -> Any:
        clean = torch.sin(torch.arange(160) * (torch.rand(4, 1) + 0.1))
        return clean + 0.3 * torch.randn(4, 160), clean

    return Spectrogram(), batch


def bert(torch: ModuleType) -> Network:
    """Words that were struck out are told from those around them; what is padded is not looked at."""
    nn, F = torch.nn, torch.nn.functional

    class Bert(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places, self.norm = nn.Embedding(32, 16), nn.Embedding(12, 16), nn.LayerNorm(16)
            layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, activation="gelu", batch_first=True)
            self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.LayerNorm(16))
            self.bias = nn.Parameter(torch.zeros(32))

        def forward(self, words: Any, struck: Any, lengths: Any) -> Any:
            places = torch.arange(words.shape[1], device=words.device)
            padded = places[None, :] >= lengths[:, None]
            hidden = self.norm(self.words(words.masked_fill(struck, 0)) + self.places(places))
            hidden = self.head(self.layers(hidden, src_key_padding_mask=padded))
            logits = F.linear(hidden, self.words.weight, self.bias)
            wanted = words.masked_fill(~struck | padded, -100)
            return F.cross_entropy(logits.flatten(0, 1), wanted.flatten())

    def batch() -> Any:
        return torch.randint(1, 32, (4, 12)), torch.rand(4, 12) < 0.4, torch.randint(6, 13, (4,))

    return Bert(), batch


def diffusion(torch: ModuleType) -> Network:
    """The noise of images is told, by a U-Net that knows how much there is, with attention at its lowest level."""
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.norm1, self.conv1 = nn.GroupNorm(2, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
            self.time = nn.Linear(16, outputs)
            self.norm2, self.conv2 = nn.GroupNorm(2, outputs), nn.Conv2d(outputs, outputs, 3, padding=1)
            self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

        def forward(self, x: Any, time: Any) -> Any:
            h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
            return self.skip(x) + self.conv2(F.silu(self.norm2(h)))

    class Attention(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.norm, self.qkv = nn.GroupNorm(2, channels), nn.Conv2d(channels, 3 * channels, 1)
            self.out = nn.Conv2d(channels, channels, 1)

        def forward(self, x: Any) -> Any:
            b, c, h, w = x.shape
            q, k, v = self.qkv(self.norm(x)).reshape(b, 3, 2, c // 2, h * w).transpose(-1, -2).unbind(1)
            found = F.scaled_dot_product_attention(q, k, v)
            return x + self.out(found.transpose(-1, -2).reshape(b, c, h, w))

    class Diffusion(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.time = nn.Sequential(nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 16))
            self.first, self.high, self.smaller = nn.Conv2d(1, 8, 3, padding=1), Block(8, 8), nn.Conv2d(8, 8, 3, 2, 1)
            self.low, self.attention, self.lower = Block(8, 12), Attention(12), Block(12, 12)
            self.larger, self.last = nn.Conv2d(12, 8, 3, padding=1), Block(16, 8)
            self.out = nn.Sequential(nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 1, 3, padding=1))
            self.register_buffer("kept", torch.cumprod(1 - torch.linspace(1e-4, 0.02, 50), 0))

        def forward(self, images: Any, noise: Any, t: Any) -> Any:
            kept = self.kept[t].view(-1, 1, 1, 1)
            rates = torch.exp(-torch.arange(4, device=t.device) * 1.5)
            angles = t[:, None].float() * rates[None]
            time = self.time(torch.cat([angles.sin(), angles.cos()], 1))
            high = self.high(self.first(kept.sqrt() * images + (1 - kept).sqrt() * noise), time)
            low = self.lower(self.attention(self.low(self.smaller(high), time)), time)
            larger = self.larger(F.interpolate(low, scale_factor=2.0, mode="nearest"))
            return F.mse_loss(self.out(self.last(torch.cat([larger, high], 1), time)), noise)

    return Diffusion(), lambda: (torch.rand(2, 1, 8, 8), torch.randn(2, 1, 8, 8), torch.randint(0, 50, (2,)))


ALL = (
    resnet, unet, language, translation, vae, gan, pixelcnn, speech, detection, graph, sparse_graph, flow, spectrogram,
    bert, diffusion,
)  # fmt: skip


def train(torch: ModuleType, build: Any, steps: int, mode: str | None = None, device: str = "cpu") -> list[float]:
    """The losses of so many steps, from one seed; batches are drawn on the CPU. mode: of torch.compile."""
    torch.manual_seed(0)
    model, batch = build(torch)
    model = model.to(device)
    parts = model.parts() if hasattr(model, "parts") else [list(model.parameters())]
    optimizers = [torch.optim.Adam(part, lr=2e-3) for part in parts]
    run, losses = torch.compile(model, mode=mode) if mode else model, []
    given = [tuple(x.to(device) for x in batch()) for _ in range(4)]
    for step in range(steps):
        for part, optimizer in enumerate(optimizers):
            optimizer.zero_grad()
            loss = run(*given[step % 4], *([part] if len(parts) > 1 else []))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses

"""Modules for the tests of torch.export, written for either side: cases(torch) gives name -> (module, args, kwargs,
dynamic_shapes, args of another call that it must hold for)."""

from __future__ import annotations

from typing import Any


def cases(torch: Any) -> dict[str, tuple]:
    nn, F, Dim = torch.nn, torch.nn.functional, torch.export.Dim
    batch = Dim("batch", min=2, max=64)

    class Functions(nn.Module):
        def __init__(self, function: Any) -> None:
            super().__init__()
            self.function = function

        def forward(self, x: Any) -> Any:
            return self.function(x)

    class State(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 4)
            self.register_buffer("count", torch.zeros(()))
            self.register_buffer("shift", torch.full((4,), 3.0), persistent=False)
            self.unused, self.scale = nn.Parameter(torch.ones(2)), torch.ones(4) * 2

        def forward(self, x: Any, y: Any = None, *, flag: bool = True, factor: float = 2.0) -> Any:
            self.count.add_(1)
            h = torch.relu(self.linear(x) * self.scale + self.shift)
            if y is not None:
                h = h + y.sum()
            return {"out": h * factor, "rows": h.shape[0] * 2 + 1, "none": None, "three": 3, "count": self.count + 0}

    class Nested(nn.Module):
        def forward(self, a: Any, *args: Any, k: Any = None, **more: Any) -> Any:
            return [a["u"] + args[0][1], more["z"] * k, (a["u"][0, 1:, None], torch.tensor([1.0, 2.0]))]

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.attend = nn.Embedding(10, 8), nn.MultiheadAttention(8, 2, batch_first=True)
            self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 10)

        def forward(self, tokens: Any) -> Any:
            x = self.embed(tokens)
            y, _ = self.attend(x, x, x, need_weights=False)
            return F.log_softmax(self.head(self.norm(x + y)), -1)

    def several(x: Any) -> Any:
        a, b = x.chunk(2, 1)
        values, places = x.max(1)
        half = x.masked_fill(x > 0, float("-inf")).clamp(min=-5)
        return (
            a * b[:, :1],
            values,
            places,
            half,
            torch.cat([x, x]),
            x.to(torch.float64),
            x.reshape(x.shape[0] * 2, -1),
        )

    def made(x: Any) -> Any:
        grid = torch.arange(x.shape[0], dtype=torch.float32)
        return x + grid[:, None], x.new_zeros(x.shape[0] + 1), torch.full((2,), 7), x.mean((0, 1)), x * 2 - x.std()

    def shapes(x: Any) -> Any:
        return (
            x.transpose(0, 1).contiguous().view(-1, 2),
            x.unsqueeze(0).expand(3, -1, -1),
            x.flatten(),
            x.permute(1, 0),
            x.sum(-1, True),
        )

    def written(x: Any) -> Any:
        y, z = x.clone(), torch.zeros(x.shape[0], 5)
        y[:, 1:] = 0
        y[0] += 1
        z.scatter_(1, torch.zeros(x.shape[0], 1, dtype=torch.long), 1.0)
        places = F.one_hot(torch.arange(x.shape[0]) % 3, 3)
        return y, z, places, 1 - x, x.int() // 2, x.roll(1, 0), x.cumsum(0).topk(2, 1)[0], F.pad(x, (1, 1), value=2.0)

    class Images(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.norm = nn.Conv2d(1, 4, 3, padding=1, groups=1), nn.GroupNorm(2, 4)
            self.up, self.last = nn.ConvTranspose2d(4, 2, 2, 2), nn.Linear(2, 3)

        def forward(self, x: Any) -> Any:
            y = F.interpolate(F.silu(self.norm(self.first(x))), scale_factor=2, mode="bilinear", align_corners=False)
            y = self.up(F.avg_pool2d(F.max_pool2d(y, 2), 2))
            return self.last(F.adaptive_avg_pool2d(y, 1).flatten(1)), y

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.places = nn.Embedding(10, 8), nn.Embedding(64, 8)
            self.mix, self.head = nn.Linear(8, 24), nn.Linear(8, 10, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, tokens: Any) -> Any:
            rows, time = tokens.shape
            x = self.embed(tokens) + self.places(torch.arange(time))
            q, k, v = (part.view(rows, time, 2, 4).transpose(1, 2) for part in self.mix(x).split(8, 2))
            mask = torch.tril(torch.ones(time, time, dtype=torch.bool))
            weights = (q @ k.transpose(-2, -1)).masked_fill(~mask, float("-inf")).softmax(-1)
            y = (weights @ v).transpose(1, 2).contiguous().view(rows, time, 8)
            return self.head(x + y)[:, -1], F.cross_entropy(self.head(x).view(-1, 10), tokens.reshape(-1))

    open_image = {0: batch, 2: Dim("height", min=8, max=64)}
    conv = nn.Sequential(
        nn.Conv2d(1, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 3)
    )
    x, image = torch.arange(12.0).view(4, 3) / 7 - 1, torch.arange(128.0).view(2, 1, 8, 8).sin()
    tokens, first = torch.arange(12).view(3, 4) % 10, {0: batch}
    u = torch.arange(12.0).view(4, 3)
    return {
        "state": (
            State(),
            (x, u[1]),
            {"flag": True},
            {"x": first, "y": None, "flag": None},
            ((x.repeat(2, 1), x[0]), {"flag": True}),
        ),
        "static": (State(), (x,), {}, None, ((x + 1,), {})),
        "nested": (
            Nested(),
            ({"u": u}, [u * 3, u * 2]),
            {"z": u * 4, "k": 3},
            None,
            (({"u": u + 1}, [u, u]), {"z": u, "k": 3}),
        ),
        "several": (Functions(several), (torch.ones(4, 4) * x[:, :1],), {}, (first,), ((torch.ones(6, 4),), {})),
        "made": (Functions(made), (x,), {}, (first,), ((x.repeat(3, 1),), {})),
        "shapes": (Functions(shapes), (x.repeat(2, 2),), {}, ({0: 2 * Dim("half", min=2)},), ((x.repeat(4, 2),), {})),
        "convolutions": (conv.eval(), (image,), {}, (first,), ((image.repeat(2, 1, 1, 1),), {})),
        "attention": (
            Attention().eval(),
            (tokens,),
            {},
            ({0: batch, 1: Dim("time", min=2, max=99)},),
            ((tokens.repeat(2, 3),), {}),
        ),
        "recurrent": (nn.GRUCell(3, 5), (x, torch.ones(4, 5)), {}, None, ((x + 1, torch.zeros(4, 5)), {})),
        "gelu": (
            nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.Dropout(0.5)).eval(),
            (x,),
            {},
            ({0: Dim.AUTO},),
            ((x[:3],), {}),
        ),
        "alias": (Functions(lambda x: (x, x.view(-1), x.detach())), (x,), {}, None, ((x * 2,), {})),
        "written": (Functions(written), (x.repeat(1, 2),), {}, (first,), ((x.repeat(2, 2),), {})),
        "images": (Images(), (image,), {}, (open_image,), ((image.repeat(2, 1, 2, 1),), {})),
        "decoder": (Decoder(), (tokens,), {}, ({0: batch, 1: Dim("time", max=64)},), ((tokens.repeat(2, 3),), {})),
        "in place": (Functions(lambda x: x.mul(2).add_(1).relu_()), (x,), {}, (first,), ((x[:3],), {})),
    }

"""A small GPT of plain operators, the same text under Narthex and under PyTorch."""

from __future__ import annotations

from types import SimpleNamespace


def gpt(
    torch, blocks: int = 2, heads: int = 2, width: int = 16, vocabulary: int = 11, length: int = 6
) -> SimpleNamespace:
    """Its class, as a module of `torch` (Narthex or PyTorch), and functions that make batches."""
    nn, F = torch.nn, torch.nn.functional

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v = (nn.Linear(width, width, bias=bias) for bias in (True, False, True))
            self.out = nn.Linear(width, width)
            self.register_buffer("mask", torch.tril(torch.ones(length, length)))

        def forward(self, x):
            batch, length, _ = x.size()
            q, k, v = [
                p(x).view(batch, length, heads, width // heads).transpose(1, 2) for p in (self.q, self.k, self.v)
            ]
            scores = (q @ k.transpose(-2, -1)) * (width // heads) ** -0.5
            scores = scores.masked_fill(self.mask[:length, :length] == 0, float("-inf"))
            y = F.softmax(scores, dim=-1) @ v
            return self.out(y.transpose(1, 2).contiguous().view(batch, length, width))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width, bias=False)
            self.attention = Attention()
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            x = x + self.attention(self.norm_1(x))
            return x + self.down(F.gelu(self.up(self.norm_2(x))))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
            self.blocks = nn.ModuleList([Block() for _ in range(blocks)])
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, vocabulary, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, tokens, targets):
            places = torch.arange(tokens.size(1), device=tokens.device)
            x = self.tokens(tokens) + self.positions(places)
            for block in self.blocks:
                x = block(x)
            logits = self.head(self.norm(x))
            return F.cross_entropy(logits.view(-1, vocabulary), targets.view(-1))

    def batch(step: int, device: str = "cpu", rows: int = 3):
        numbers = [
            [(7 * step + 3 * row + column * (row + 2)) % vocabulary for column in range(length + 1)]
            for row in range(rows)
        ]
        whole = torch.tensor(numbers, device=device)
        return whole[:, :-1].contiguous(), whole[:, 1:].contiguous()

    return SimpleNamespace(GPT=GPT, batch=batch)


def train(torch, mode: str | None, device: str = "cpu", steps: int = 20, **sizes) -> list[float]:
    """The losses of a training run from a seed; mode None: eagerly."""
    parts = gpt(torch, **sizes)
    torch.manual_seed(1337)
    model = parts.GPT().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = torch.compile(model, mode=mode, fullgraph=True) if mode else model
    losses = []
    for i in range(steps):
        optimizer.zero_grad()
        loss = step(*parts.batch(i, device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses

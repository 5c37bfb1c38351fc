"""A BiLSTM tagger with a linear-chain CRF: packed sequences, forward algorithm in log space, Viterbi."""

import argparse
import io
import random

import torch
from torch import nn, optim
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset, Sampler

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true")
parser.add_argument("--mode", default=None)
parser.add_argument("--cell", default="LSTM")
args = parser.parse_args()
random.seed(3)
torch.manual_seed(3)

torch.set_default_dtype(torch.float64)

TAGS = ["O", "B-NUM", "I-NUM", "B-NAME", "I-NAME"]
WORDS = {
    "O": "the a of runs in sees and to with from".split(),
    "NUM": "one two three hundred thousand five".split(),
    "NAME": "Ada Bob Carla Smith Jones Lee".split(),
}
vocab = {"<pad>": 0, "<unk>": 1}
for ws in WORDS.values():
    for w in ws:
        vocab.setdefault(w, len(vocab))


def sentence():
    out = []
    while len(out) < random.randint(3, 12):
        kind = random.choice(["O", "O", "NUM", "NAME"])
        if kind == "O":
            out.append((random.choice(WORDS["O"]), 0))
        else:
            base = TAGS.index("B-" + kind)
            for k in range(random.randint(1, 3)):
                out.append((random.choice(WORDS[kind]), base + (k > 0)))
    return out


class Sentences(Dataset):
    def __init__(self, n):
        self.items = [sentence() for _ in range(n)]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        words, tags = zip(*self.items[i])
        return torch.tensor([vocab.get(w, 1) for w in words]), torch.tensor(tags)


class Buckets(Sampler):
    def __init__(self, lengths, size, generator):
        self.lengths, self.size, self.g = torch.as_tensor(lengths), size, generator

    def __iter__(self):
        noise = torch.rand(len(self.lengths), generator=self.g)
        order = torch.argsort(self.lengths + noise, stable=True)
        batches = order.split(self.size)
        for k in torch.randperm(len(batches), generator=self.g).tolist():
            yield batches[k].tolist()

    def __len__(self):
        return -(-len(self.lengths) // self.size)


def collate(batch):
    batch.sort(key=lambda pair: len(pair[0]), reverse=True)
    xs, ys = zip(*batch)
    return (
        pad_sequence(xs, batch_first=True),
        pad_sequence(ys, batch_first=True, padding_value=-1),
        torch.tensor([len(x) for x in xs]),
    )


class CRF(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.trans = nn.Parameter(torch.randn(n, n) * 0.1)
        self.start, self.end = nn.Parameter(torch.zeros(n)), nn.Parameter(torch.zeros(n))
        bad = torch.zeros(n, n, dtype=torch.bool)
        for i, a in enumerate(TAGS):
            for j, b in enumerate(TAGS):
                if b.startswith("I-") and a[2:] != b[2:]:
                    bad[i, j] = True
        self.register_buffer("bad", bad)

    def transitions(self):
        return self.trans.masked_fill(self.bad, -1e4)

    def score(self, e, tags, mask):
        B, T, _ = e.shape
        trans = self.transitions()
        safe = tags.clamp(min=0)
        emit = e.gather(2, safe.unsqueeze(-1)).squeeze(-1)
        s = (emit * mask).sum(1) + self.start[safe[:, 0]]
        s = s + (trans[safe[:, :-1], safe[:, 1:]] * mask[:, 1:]).sum(1)
        last = safe[torch.arange(B), mask.long().sum(1) - 1]
        return s + self.end[last]

    def partition(self, e, mask):
        trans = self.transitions()
        alpha = self.start + e[:, 0]
        for t in range(1, e.size(1)):
            nxt = torch.logsumexp(alpha.unsqueeze(2) + trans + e[:, t].unsqueeze(1), dim=1)
            alpha = torch.where(mask[:, t, None], nxt, alpha)
        return torch.logsumexp(alpha + self.end, 1)

    def forward(self, e, tags, mask):
        return (self.partition(e, mask) - self.score(e, tags, mask)).mean()

    @torch.no_grad()
    def decode(self, e, mask):
        trans = self.transitions()
        score, back = self.start + e[:, 0], []
        for t in range(1, e.size(1)):
            best, where = (score[:, :, None] + trans).max(dim=1)
            score = torch.where(mask[:, t, None], best + e[:, t], score)
            back.append(torch.where(mask[:, t, None], where, torch.arange(e.size(2)).expand_as(where)))
        best, tag = (score + self.end).max(1)
        path = [tag]
        for where in reversed(back):
            tag = where.gather(1, tag[:, None])[:, 0]
            path.append(tag)
        path = torch.stack(path[::-1], 1)
        return best, [p[m].tolist() for p, m in zip(path, mask)]


class Tagger(nn.Module):
    def __init__(self, n, width=24):
        super().__init__()
        self.emb = nn.Embedding(n, width, padding_idx=0, max_norm=None)
        self.drop = nn.Dropout(0.2)
        self.rnn = getattr(nn, args.cell)(width, width, num_layers=2, batch_first=True, bidirectional=True, dropout=0.1)
        self.proj = nn.utils.parametrizations.weight_norm(nn.Linear(2 * width, len(TAGS)))
        self.crf = CRF(len(TAGS))

    def emissions(self, x, lengths):
        packed = pack_padded_sequence(self.drop(self.emb(x)), lengths, batch_first=True)
        out, _ = self.rnn(packed)
        out, back = pad_packed_sequence(out, batch_first=True, total_length=x.size(1))
        return self.proj(out)

    def forward(self, x, y, lengths):
        e = self.emissions(x, lengths)
        mask = torch.arange(x.size(1))[None] < lengths[:, None]
        return self.crf(e, y, mask)


train, held = Sentences(96), Sentences(24)
sampler = Buckets([len(s) for s in train.items], 16, torch.Generator().manual_seed(1))
loader = DataLoader(train, batch_sampler=sampler, collate_fn=collate, num_workers=1)
model = Tagger(len(vocab))
opt = optim.SGD(model.parameters(), lr=0.5, momentum=0.9, nesterov=True, weight_decay=1e-5)
sched = optim.lr_scheduler.OneCycleLR(opt, max_lr=0.4, total_steps=5 * len(sampler))
run = torch.compile(model, dynamic=True, mode=args.mode) if args.compile else model
swa = optim.swa_utils.AveragedModel(model)
for epoch in range(5):
    model.train()
    for x, y, lengths in loader:
        opt.zero_grad()
        loss = run(x, y, lengths)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 5.0, norm_type=float("inf"))
        opt.step()
        sched.step()
        print(f"{epoch} {tuple(x.shape)} {loss.item():.7f} {norm.item():.6f} {sched.get_last_lr()[0]:.6f}")
    swa.update_parameters(model)
    model.eval()
    right = total = 0
    for x, y, lengths in DataLoader(held, batch_size=8, collate_fn=collate):
        with torch.no_grad():
            mask = torch.arange(x.size(1))[None] < lengths[:, None]
            best, paths = model.crf.decode(model.emissions(x, lengths), mask)
        for p, t, n in zip(paths, y, lengths):
            right += (torch.tensor(p) == t[:n]).sum().item()
            total += n.item()
    print(f"held {right}/{total} best {best.sum().item():.5f}", paths[0])
f = io.BytesIO()
torch.save(swa.state_dict(), f)
f.seek(0)
again = optim.swa_utils.AveragedModel(Tagger(len(vocab)))
print(again.load_state_dict(torch.load(f)), again.n_averaged.item())
again.eval()
x, y, lengths = next(iter(DataLoader(held, batch_size=24, collate_fn=collate)))
e = again.module.emissions(x, lengths)
mask = torch.arange(x.size(1))[None] < lengths[:, None]
e.retain_grad()
z = again.module.crf.partition(e, mask)
z.sum().backward()
marg = e.grad
print("marginals", f"{marg.sum(-1)[mask].min().item():.5f}", [f"{v:.5f}" for v in marg.mean((0, 1)).tolist()])
packed = pack_sequence([torch.arange(4.0), torch.arange(2.0)])
print(packed.data.tolist(), packed.batch_sizes.tolist())

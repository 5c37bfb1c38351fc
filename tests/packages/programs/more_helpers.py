"""schedulefree, lion-pytorch, ema-pytorch, local-attention and ncps: small packages that many programs use."""
import torch
from ema_pytorch import EMA
from lion_pytorch import Lion
from local_attention import LocalAttention, LocalTransformer
from ncps.torch import LTC, CfC
from ncps.wirings import AutoNCP
from schedulefree import AdamWScheduleFree, RAdamScheduleFree, SGDScheduleFree

torch.manual_seed(0)
x, y = torch.randn(16, 4), torch.randn(16, 2)
for kind, options in ((AdamWScheduleFree, {"lr": 1e-2, "warmup_steps": 2}), (RAdamScheduleFree, {"lr": 1e-2}),
                      (SGDScheduleFree, {"lr": 0.1}), (Lion, {"lr": 1e-2, "weight_decay": 1e-2})):
    net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    optimizer = kind(net.parameters(), **options)
    ema = EMA(net, beta=0.9, update_after_step=1, update_every=1)
    for _ in range(6):
        if hasattr(optimizer, "train"):
            optimizer.train()
        loss = (net(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update()
    if hasattr(optimizer, "eval"):
        optimizer.eval()
    print(kind.__name__, (net(x) - y).square().mean().item(), (ema(x) - y).square().mean().item())
attend = LocalAttention(dim=8, window_size=4, causal=True, look_backward=1, look_forward=0, dropout=0.1)
q, k, v = (torch.randn(2, 2, 16, 8, requires_grad=True) for _ in range(3))
mask = torch.arange(16)[None] < torch.tensor([[16], [11]])
out = attend(q, k, v, mask=mask)
out.square().mean().backward()
print(out.double().abs().sum().item(), q.grad.double().abs().sum().item(), k.grad.double().abs().sum().item())
lm = LocalTransformer(num_tokens=20, dim=16, depth=2, max_seq_len=32, local_attn_window_size=8, heads=2, dim_head=8)
ids = torch.randint(0, 20, (2, 32))
loss = lm(ids, return_loss=True)
loss.backward()
print(loss.item(), sum(p.grad.double().abs().sum().item() for p in lm.parameters() if p.grad is not None))
wired = AutoNCP(10, 2)
for cell in (CfC(3, wired), LTC(3, wired), CfC(3, 8, proj_size=2, mode="pure"), CfC(3, 8, mixed_memory=True)):
    out, state = cell(torch.randn(2, 5, 3))
    out.square().mean().backward()
    print(list(out.shape), out.double().abs().sum().item())
    print(sum(p.grad.double().abs().sum().item() for p in cell.parameters() if p.grad is not None))

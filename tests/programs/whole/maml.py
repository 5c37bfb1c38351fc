"""MAML on sinusoids: higher-order gradients through functional_call, vmap over tasks, learned step sizes."""

import argparse
from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, grad_and_value, hessian, jacrev, jvp, stack_module_state, vmap

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true")
parser.add_argument("--mode", default=None)
parser.add_argument("--steps", type=int, default=8)
args = parser.parse_args()
torch.manual_seed(7)
torch.set_default_dtype(torch.float64)


def tasks(n, k, g):
    amp = torch.empty(n, 1, 1).uniform_(0.1, 5.0, generator=g)
    phase = torch.rand(n, 1, 1, generator=g) * torch.pi
    x = torch.rand(n, 2 * k, 1, generator=g) * 10 - 5
    y = amp * torch.sin(x + phase)
    return x[:, :k], y[:, :k], x[:, k:], y[:, k:]


def build():
    return nn.Sequential(
        OrderedDict(
            [
                ("l1", nn.Linear(1, 40)),
                ("a1", nn.Softplus()),
                ("l2", nn.Linear(40, 40)),
                ("n", nn.RMSNorm(40)),
                ("a2", nn.GELU()),
                ("l3", nn.Linear(40, 1)),
            ]
        )
    )


def loop(first_order=False):
    """Tasks one after the other, torch.autograd.grad(create_graph=True)."""
    torch.manual_seed(7)
    model, g = build(), torch.Generator().manual_seed(1)
    lrs = nn.ParameterDict({n.replace(".", "_"): nn.Parameter(torch.tensor(0.02)) for n, _ in model.named_parameters()})
    opt = torch.optim.Adam([{"params": model.parameters()}, {"params": lrs.parameters(), "lr": 1e-3}], lr=5e-3)
    sched = torch.optim.lr_scheduler.MultiStepLR(opt, [8, 14], gamma=0.5)

    def adapt(params, x, y, inner=2):
        for _ in range(inner):
            loss = F.mse_loss(functional_call(model, params, (x,)), y)
            grads = torch.autograd.grad(loss, tuple(params.values()), create_graph=not first_order)
            params = {n: p - lrs[n.replace(".", "_")] * gr for (n, p), gr in zip(params.items(), grads)}
        return params

    for it in range(args.steps):
        xs, ys, xq, yq = tasks(4, 10, g)
        opt.zero_grad()
        total = 0.0
        for a, b, c, d in zip(xs, ys, xq, yq):
            fast = adapt(dict(model.named_parameters()), a, b)
            loss = F.mse_loss(functional_call(model, fast, c), d) / len(xs)
            loss.backward()
            total += loss.item()
        norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])
        nn.utils.clip_grads_with_norm_(model.parameters(), 10.0, norm)
        opt.step()
        sched.step()
        print(f"{'fo' if first_order else 'so'} {it} {total:.7f} {norm.item():.5f} {lrs['l1_weight'].item():.6f}")
    return model


def mapped():
    """All tasks at once: vmap(grad) inside, one backward outside; the whole in torch.compile if asked."""
    torch.manual_seed(7)
    model, g = build(), torch.Generator().manual_seed(1)
    params = {n: p.detach().clone().requires_grad_() for n, p in model.named_parameters()}
    opt = torch.optim.SGD(params.values(), lr=0.01, momentum=0.9)

    def inner_loss(p, x, y):
        return F.mse_loss(functional_call(model, p, (x,)), y)

    def one(p, xs, ys, xq, yq):
        for _ in range(2):
            gr = grad(inner_loss)(p, xs, ys)
            p = {n: p[n] - 0.02 * gr[n] for n in p}
        return inner_loss(p, xq, yq)

    def meta(p, *batch):
        return vmap(one, in_dims=(None, 0, 0, 0, 0))(p, *batch).mean()

    step = torch.compile(meta, mode=args.mode) if args.compile else meta
    for it in range(args.steps):
        loss = step(params, *tasks(4, 10, g))
        opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(params.values(), 5.0, foreach=True)
        opt.step()
        print(f"mapped {it} {loss.item():.7f} {norm.item():.5f}")
    outer = {n: p.detach() for n, p in params.items()}
    batch = tasks(4, 10, g)
    gv, value = grad_and_value(meta)(outer, *batch)
    print("functional", f"{value.item():.6f}", *(f"{v.norm().item():.5f}" for v in gv.values()))
    tangent = {n: torch.ones_like(p) for n, p in outer.items()}
    out, t = jvp(lambda p: meta(p, *batch), (outer,), (tangent,))
    print("jvp", f"{out.item():.6f} {t.item():.5f}", f"{sum(v.sum() for v in gv.values()).item():.5f}")
    h = hessian(lambda b: inner_loss({**outer, "l3.bias": b}, batch[0][0], batch[1][0]))(outer["l3.bias"])
    j = jacrev(lambda w: functional_call(model, {**outer, "l3.weight": w}, (batch[0][0],)))(outer["l3.weight"])
    print("hessian", h.shape, f"{h.item():.5f}", "jacobian", j.shape, f"{j.norm().item():.5f}")


def ensemble():
    """Five models by stack_module_state, per-sample gradients."""
    torch.manual_seed(9)
    models = [build() for _ in range(3)]
    params, buffers = stack_module_state(models)
    base = build().to("meta")
    x, y = torch.linspace(-3, 3, 12)[:, None], torch.sin(torch.linspace(-3, 3, 12))[:, None]

    def f(p, b, x):
        return functional_call(base, (p, b), (x,))

    out = vmap(f, in_dims=(0, 0, None))(params, buffers, x)
    F.huber_loss(out, y.expand_as(out)).backward()
    print("ensemble", out.shape, *(f"{p.grad.norm().item():.6f}" for p in params.values()))
    p0 = {n: p[0].detach() for n, p in params.items()}
    per = vmap(grad(lambda p, a, b: F.mse_loss(functional_call(models[0], p, (a,)), b)), in_dims=(None, 0, 0))(p0, x, y)
    print("each sample", *(f"{v.flatten(1).norm(dim=1).mean().item():.6f}" for v in per.values()))
    drop = nn.Sequential(nn.Linear(1, 8), nn.Dropout(0.5))
    pd = dict(drop.named_parameters())
    d = vmap(lambda a: functional_call(drop, pd, (a,)), randomness="different")(x)
    print("random", f"{d.sum().item():.5f}")


model = loop()
loop(first_order=True)
mapped()
ensemble()
# a Hessian-vector product and a Fisher trace by ordinary autograd
x, y, _, _ = (t[0] for t in tasks(1, 10, torch.Generator().manual_seed(5)))
loss = F.mse_loss(model(x), y)
ps = list(model.parameters())
gr = torch.autograd.grad(loss, ps, create_graph=True)
v = [torch.randn_like(p) for p in ps]
hv = torch.autograd.grad(gr, ps, grad_outputs=v, retain_graph=True, allow_unused=True, materialize_grads=True)
print("hvp", *(f"{h.norm().item():.5f}" for h in hv))
many = torch.autograd.grad(loss, ps[0], grad_outputs=torch.eye(1)[0].view(()).expand(()), retain_graph=True)
batched = torch.autograd.grad(model(x).squeeze(-1), ps[0], grad_outputs=torch.eye(10), is_grads_batched=True)
print("batched", batched[0].shape, f"{batched[0].norm().item():.5f}")

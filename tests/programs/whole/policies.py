"""PPO with continuous actions, and DDPG with a replay buffer and soft target updates, on environments in numpy."""

import argparse
import copy
import random
from collections import deque, namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical, Independent, Normal, TransformedDistribution
from torch.distributions.kl import kl_divergence
from torch.distributions.transforms import AffineTransform, TanhTransform
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.utils.data import BatchSampler, SubsetRandomSampler

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true")
parser.add_argument("--mode", default=None)
args = parser.parse_args()
random.seed(0)
np.random.seed(0)
torch.manual_seed(0)
torch.set_default_dtype(torch.float32)


class Pendulum:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def reset(self):
        self.th, self.v, self.t = self.rng.uniform(-np.pi, np.pi), self.rng.uniform(-1, 1), 0
        return self.obs()

    def obs(self):
        return np.array([np.cos(self.th), np.sin(self.th), self.v], dtype=np.float32)

    def step(self, a):
        a = float(np.clip(a, -2, 2))
        th = ((self.th + np.pi) % (2 * np.pi)) - np.pi
        cost = th**2 + 0.1 * self.v**2 + 0.001 * a**2
        self.v = np.clip(self.v + (15 * np.sin(self.th) + 3 * a) * 0.05, -8, 8)
        self.th += self.v * 0.05
        self.t += 1
        return self.obs(), -cost, self.t >= 50


def ortho(layer, gain=2**0.5):
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.constant_(layer.bias, 0)
    return layer


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.pi = nn.Sequential(
            ortho(nn.Linear(3, 32)), nn.Tanh(), ortho(nn.Linear(32, 32)), nn.Tanh(), ortho(nn.Linear(32, 1), 0.01)
        )
        self.vf = nn.Sequential(
            ortho(nn.Linear(3, 32)), nn.Tanh(), ortho(nn.Linear(32, 32)), nn.Tanh(), ortho(nn.Linear(32, 1), 1.0)
        )
        self.log_std = nn.Parameter(torch.full((1,), -0.5))

    def dist(self, obs):
        return Independent(Normal(self.pi(obs), self.log_std.exp().expand(1)), 1)


class RunningNorm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("mean", torch.zeros(n, dtype=torch.float64))
        self.register_buffer("var", torch.ones(n, dtype=torch.float64))
        self.register_buffer("count", torch.tensor(1e-4, dtype=torch.float64))

    @torch.no_grad()
    def update(self, x):
        var, mean = torch.var_mean(x.double(), 0, correction=0)
        delta, total = mean - self.mean, self.count + len(x)
        self.var.copy_((self.var * self.count + var * len(x) + delta**2 * self.count * len(x) / total) / total)
        self.mean += delta * len(x) / total
        self.count.fill_(total)

    def forward(self, x):
        return ((x - self.mean) / torch.sqrt(self.var + 1e-8)).clamp(-5, 5).float()


def gae(r, v, done, last, gamma=0.95, lam=0.9):
    adv = torch.zeros_like(r)
    run = 0.0
    for t in reversed(range(len(r))):
        nxt = last if t == len(r) - 1 else v[t + 1]
        nonterminal = 1.0 - done[t].float()
        delta = r[t] + gamma * nxt * nonterminal - v[t]
        run = delta + gamma * lam * nonterminal * run
        adv[t] = run
    return adv, adv + v


def ppo():
    model, norm = ActorCritic(), RunningNorm(3)
    opt = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-5)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda i: 1 - i / 6)
    env = Pendulum(1)

    def loss_fn(obs, act, old, adv, ret, val):
        d = model.dist(obs)
        logp = d.log_prob(act)
        ratio = torch.exp(logp - old)
        adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        policy = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
        v = model.vf(obs).squeeze(-1)
        clipped = val + torch.clamp(v - val, -0.2, 0.2)
        value = 0.5 * torch.maximum(F.mse_loss(v, ret, reduction="none"), (clipped - ret) ** 2).mean()
        with torch.no_grad():
            kl = ((ratio - 1) - (logp - old)).mean()
            frac = ((ratio - 1).abs() > 0.2).float().mean()
        return policy + 0.5 * value - 0.01 * d.entropy().mean(), kl, frac

    step = torch.compile(loss_fn, mode=args.mode) if args.compile else loss_fn
    for it in range(5):
        mem, obs = {k: [] for k in ("obs", "act", "logp", "r", "done", "v")}, env.reset()
        for _ in range(128):
            o = norm(torch.from_numpy(obs).unsqueeze(0))[0]
            with torch.no_grad():
                d = model.dist(o)
                a = d.sample()
                for k, x in (
                    ("obs", torch.from_numpy(obs)),
                    ("act", a),
                    ("logp", d.log_prob(a)),
                    ("v", model.vf(o)[0]),
                ):
                    mem[k].append(x)
            obs, r, done = env.step(a.item())
            mem["r"].append(r / 10)
            mem["done"].append(done)
            if done:
                obs = env.reset()
        raw = torch.stack(mem["obs"])
        o = norm(raw)
        act, logp, v = torch.stack(mem["act"]), torch.stack(mem["logp"]), torch.stack(mem["v"])
        r, done = torch.tensor(mem["r"], dtype=torch.float32), torch.as_tensor(np.array(mem["done"]))
        with torch.no_grad():
            adv, ret = gae(r, v, done, model.vf(norm(torch.from_numpy(obs)[None]))[0, 0])
        norm.update(raw)
        old_dist = model.dist(o)
        old_dist = Normal(old_dist.base_dist.loc.detach(), old_dist.base_dist.scale.detach().clone())
        for epoch in range(3):
            for idx in BatchSampler(SubsetRandomSampler(range(128)), 32, drop_last=False):
                loss, kl, frac = step(o[idx], act[idx], logp[idx], adv[idx], ret[idx], v[idx])
                opt.zero_grad()
                loss.backward()
                g = nn.utils.clip_grad_norm_(model.parameters(), 0.5, error_if_nonfinite=True)
                opt.step()
                print(f"ppo {it} {epoch} {loss.item():.7f} {kl.item():.3e} {frac.item():.4f} {g.item():.6f}")
        d = model.dist(o).base_dist
        print(f"kl {kl_divergence(old_dist, d).mean().item():.7f} return {r.sum().item():.5f}")
        sched.step()


Transition = namedtuple("Transition", "s a r s2 d")


class Replay:
    def __init__(self, size):
        self.s, self.s2 = torch.empty(size, 3), torch.empty(size, 3)
        self.a, self.r, self.d = torch.empty(size, 1), torch.empty(size), torch.empty(size, dtype=torch.bool)
        self.p = torch.zeros(size)
        self.n = self.i = 0

    def push(self, *t):
        for buf, x in zip((self.s, self.a, self.r, self.s2, self.d), t):
            buf[self.i] = torch.as_tensor(x)
        self.p[self.i] = self.p.max().clamp_min(1.0)
        self.i = (self.i + 1) % len(self.r)
        self.n = min(self.n + 1, len(self.r))

    def sample(self, k):
        w = self.p[: self.n] ** 0.6
        idx = torch.multinomial(w, k, replacement=True)
        weight = (self.n * w[idx] / w.sum()).pow(-0.4)
        return (
            Transition(*(b.index_select(0, idx) for b in (self.s, self.a, self.r, self.s2, self.d))),
            idx,
            weight / weight.max(),
        )


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.ModuleList(
            [
                nn.Sequential(
                    nn.Linear(4, 32),
                    nn.LayerNorm(32),
                    nn.ELU(),
                    nn.utils.parametrizations.spectral_norm(nn.Linear(32, 32)),
                    nn.Mish(),
                    nn.Linear(32, 1),
                )
                for _ in range(2)
            ]
        )

    def forward(self, s, a):
        return torch.cat([q(torch.cat((s, a), -1)) for q in self.q], -1)


class OU:
    def __init__(self, g):
        self.x, self.g = torch.zeros(1), g

    def __call__(self):
        self.x = self.x - 0.15 * self.x + 0.3 * torch.randn(1, generator=self.g)
        return self.x


def ddpg():
    actor = nn.Sequential(nn.Linear(3, 32), nn.SiLU(), nn.Linear(32, 32), nn.Hardswish(), nn.Linear(32, 1), nn.Tanh())
    critic = Critic()
    actor_t, critic_t = copy.deepcopy(actor).requires_grad_(False), copy.deepcopy(critic)
    for p in critic_t.parameters():
        p.requires_grad_(False)
    ao, co = (
        torch.optim.RAdam(actor.parameters(), 1e-3),
        torch.optim.NAdam(critic.parameters(), 2e-3, weight_decay=1e-4),
    )
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(co, factor=0.5, patience=2)
    buf, env, noise = Replay(200), Pendulum(5), OU(torch.Generator().manual_seed(11))

    def critic_loss(t, w):
        with torch.no_grad():
            eps = (torch.randn_like(t.a) * 0.2).clamp_(-0.5, 0.5)
            a2 = (actor_t(t.s2) + eps).clamp(-1, 1)
            y = t.r + 0.95 * (~t.d) * critic_t(t.s2, a2).amin(-1)
        q = critic(t.s, t.a)
        td = q - y.unsqueeze(-1)
        return (
            w[:, None] * F.smooth_l1_loss(q, y[:, None].expand_as(q), reduction="none", beta=0.5)
        ).mean(), td.detach().abs().mean(-1)

    def actor_loss(s):
        return -critic(s, actor(s))[:, 0].mean()

    if args.compile:
        critic_loss, actor_loss = torch.compile(critic_loss, mode=args.mode), torch.compile(actor_loss, mode=args.mode)
    obs, window = env.reset(), deque(maxlen=10)
    for step in range(160):
        with torch.no_grad():
            a = (actor(torch.from_numpy(obs)) + noise()).clamp_(-1, 1)
        nxt, r, done = env.step(2 * a.numpy()[0])
        buf.push(obs, a, r, nxt, done)
        obs = env.reset() if done else nxt
        if step < 40:
            continue
        t, idx, w = buf.sample(24)
        loss, td = critic_loss(t, w)
        co.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(critic.parameters(), 0.5)
        co.step()
        buf.p[idx] = td + 1e-3
        if step % 2 == 0:
            for p in critic.parameters():
                p.requires_grad_(False)
            al = actor_loss(t.s)
            ao.zero_grad()
            al.backward()
            ao.step()
            for p in critic.parameters():
                p.requires_grad_(True)
            with torch.no_grad():
                for m, mt in ((actor, actor_t), (critic, critic_t)):
                    for p, pt in zip(m.parameters(), mt.parameters()):
                        pt.lerp_(p, 0.05)
                    for b, bt in zip(m.buffers(), mt.buffers()):
                        bt.copy_(b)
        window.append(loss.item())
        if step % 10 == 9:
            plateau.step(np.mean(window))
        print(f"ddpg {step} {loss.item():.7f} {al.item():.7f} {td.max().item():.6f} {co.param_groups[0]['lr']:.6f}")
    v = parameters_to_vector(actor.parameters())
    print("vector", v.shape, f"{v.norm().item():.6f}")
    vector_to_parameters(v * 0.5, actor.parameters())
    print(f"{parameters_to_vector(actor.parameters()).norm().item():.6f}")


def squashed():
    loc = torch.linspace(-1, 1, 5, requires_grad=True)
    d = TransformedDistribution(
        Normal(loc, 0.5), [TanhTransform(cache_size=1), AffineTransform(0.5, 2.0, cache_size=1)]
    )
    x = d.rsample((3,))
    lp = d.log_prob(x)
    (g,) = torch.autograd.grad(lp.sum(), loc)
    print([f"{v:.6f}" for v in lp.sum(0).tolist()], [f"{v:.6f}" for v in g.tolist()])
    c = Categorical(logits=torch.stack([loc, -loc]))
    s = c.sample((4,))
    print(s.tolist(), [f"{v:.6f}" for v in c.log_prob(s).sum(0).tolist()], [f"{v:.6f}" for v in c.entropy().tolist()])


ppo()
ddpg()
squashed()

"""What programs do to tensors, modules and gradients: a compiled function may end at any statement (test_pieces.py)."""

import copy
import random

import narthex as torch
import narthex.nn.functional as F
import numpy as np
from narthex import nn
from narthex.utils.checkpoint import checkpoint


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.bn, self.drop = nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)
        self.register_buffer("n", torch.zeros(()))
        self.calls, self.cache, self.log = 0, {}, []

    def forward(self, x):
        self.calls += 1
        self.n += 1
        y = self.bn(self.a(x))
        self.cache["last"] = y.detach()
        self.log.append(y.shape[0])
        return self.drop(y)


def about_factory_leaf(m, x):
    w = torch.ones(4, requires_grad=True)
    y = (x * w).sum()
    y.backward()
    return w.grad, w.requires_grad, w.is_leaf


def about_randn_leaf(m, x):
    w = torch.randn(4, requires_grad=True)
    z = w * 2
    z.sum().backward()
    return w, w.grad


def about_empty_like(m, x):
    w = torch.empty_like(x, requires_grad=True)
    with torch.no_grad():
        w.fill_(2.0)
    (w * x).sum().backward()
    return w.grad


def about_param(m, x):
    p = nn.Parameter(torch.ones(4))
    y = (x * p).sum()
    y.backward()
    return p.grad, isinstance(p, nn.Parameter)


def about_linear_inside(m, x):
    own = nn.Linear(4, 2)
    y = own(x)
    y.sum().backward()
    return y.detach(), own.weight.grad, len(list(own.parameters()))


def about_freeze(m, x):
    for p in m.a.parameters():
        p.requires_grad_(False)
    y = m.a(x)
    r = y.requires_grad
    for p in m.a.parameters():
        p.requires_grad_(True)
    z = m.a(x)
    return y, r, z.requires_grad


def about_train_eval(m, x):
    m.eval()
    y = m(x)
    t1 = m.training
    m.train()
    z = m(x)
    return y, z, t1, m.training, m.calls, m.n.clone(), list(m.log), m.cache["last"]


def about_grad_modes(m, x):
    with torch.no_grad():
        a = m.a(x)
        with torch.enable_grad():
            b = m.a(x)
        c = m.a(x)
    d = m.a(x)
    return a.requires_grad, b.requires_grad, c.requires_grad, d.requires_grad, a, b


def about_set_grad(m, x):
    torch.set_grad_enabled(False)
    a = m.a(x)
    e = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    b = m.a(x)
    return a.requires_grad, e, b.requires_grad


def about_inference(m, x):
    with torch.inference_mode():
        a = m.a(x)
        i = a.is_inference()
    return a.clone(), i, torch.is_inference_mode_enabled()


def about_default_dtype(m, x):
    torch.set_default_dtype(torch.float64)
    a = torch.ones(2)
    b = torch.tensor(1.5)
    torch.set_default_dtype(torch.float32)
    return a, b, torch.ones(2), torch.get_default_dtype()


def about_seed(m, x):
    torch.manual_seed(3)
    a = torch.rand(3)
    b = F.dropout(x, 0.5)
    s = torch.initial_seed()
    return a, b, s


def about_fork(m, x):
    torch.manual_seed(1)
    with torch.random.fork_rng():
        torch.manual_seed(5)
        a = torch.rand(2)
    b = torch.rand(2)
    return a, b


def about_views(m, x):
    y = x.clone()
    v = y[1:]
    v.mul_(2)
    w = v.view(-1)
    w[0] = 7
    y[0] += 1
    u = y.t()
    u.add_(1)
    return y, v, w, u


def about_view_input(m, x):
    v = x[0]
    v += 1
    t = x.view(-1)
    t[3:5].zero_()
    return x, v, t


def about_detach_alias(m, x):
    d = x.detach()
    d.add_(1)
    e = x.data
    e.mul_(2)
    return x, d, e


def about_hook(m, x):
    got = []
    y = m.a(x)
    h = y.register_hook(lambda g: got.append(g.sum()))
    z = (y * 2).sum()
    z.backward()
    h.remove()
    return got[0], m.a.weight.grad


def about_retain(m, x):
    y = m.a(x)
    y.retain_grad()
    z = (y * 3).sum()
    z.backward()
    return y.grad


def about_module_hook(m, x):
    seen = []
    h = m.a.register_forward_hook(lambda mod, i, o: seen.append(o.shape) or o * 2)
    y = m.a(x)
    h.remove()
    z = m.a(x)
    return y, z, [tuple(s) for s in seen]


def about_grad_accum(m, x):
    m.zero_grad()
    m.a(x).sum().backward()
    g = m.a.weight.grad.clone()
    m.a(x).sum().backward()
    return g, m.a.weight.grad


def about_grad_edit(m, x):
    m.zero_grad()
    m.a(x).sum().backward()
    m.a.weight.grad.mul_(2)
    m.a.bias.grad = None
    m.a(x).sum().backward()
    return m.a.weight.grad, m.a.bias.grad


def about_optimizer(m, x):
    o = torch.optim.Adam(m.parameters(), lr=0.1)
    for _ in range(2):
        o.zero_grad()
        own = m.a(x).pow(2).mean()
        own.backward()
        o.step()
    return own.detach(), m.a.weight.detach().clone(), len(o.state)


def about_state_dict(m, x):
    sd = copy.deepcopy(m.state_dict())
    m.a.weight.data.zero_()
    y = m.a(x)
    m.load_state_dict(sd)
    z = m.a(x)
    return y, z


def about_new_attr(m, x):
    m.extra = x * 2
    m.number = 3
    y = m.extra + m.number
    del m.number
    return y, hasattr(m, "number"), m.extra


def about_buffer(m, x):
    m.register_buffer("late", x.mean(0))
    y = x + m.late
    m.late = m.late * 2
    m.late.add_(1)
    return y, m.late, list(dict(m.named_buffers()))


def about_param_replace(m, x):
    m.a.weight = nn.Parameter(m.a.weight.detach() * 2)
    y = m.a(x)
    y.sum().backward()
    return y, m.a.weight.grad


def about_autocast(m, x):
    with torch.autocast("cpu", torch.bfloat16):
        y = m.a(x)
        e = torch.is_autocast_enabled("cpu")
        with torch.autocast("cpu", enabled=False):
            z = m.a(x)
    return y, z, e, y.dtype, z.dtype


def about_shape_loop(m, x):
    out = x.new_zeros(x.shape)
    for i in range(x.size(0)):
        for j in range(0, x.size(1), 2):
            out[i, j] = x[i, j] * (i + j)
    return out


def about_item(m, x):
    s = x.sum().item()
    y = x * s
    if y.max() > 0:
        y = y - y.max()
    n = int(x[0, 0] * 10)
    return y, n, x.tolist()[0][0]


def about_mask(m, x):
    y = x.clone()
    y[y > 0] = -1
    z = x[x > 0]
    w = torch.nonzero(x > 0)
    y[0][y[0] < 0] += 5
    return y, z, w


def about_inplace_grad(m, x):
    y = m.a(x)
    y[0] = 0
    y[:, 1] *= 2
    y.relu_()
    y.sum().backward()
    return y.detach(), m.a.weight.grad


class Sq(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return x * x * k

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 * x * ctx.k + 1, None


def about_function(m, x):
    x = x.clone().requires_grad_()
    y = Sq.apply(x, 3)
    z = y.sum()
    z.backward()
    return y.detach(), x.grad


def about_checkpoint(m, x):
    x = x.clone().requires_grad_()
    y = checkpoint(lambda t: F.dropout(m.a(t), 0.5).relu(), x, use_reentrant=False)
    y.sum().backward()
    return y.detach(), x.grad


def about_resize(m, x):
    y = x.clone()
    y.resize_(2, 2)
    z = torch.empty(0)
    torch.add(x, 1, out=z)
    return y, z


def about_set(m, x):
    y = x.clone()
    y.data = x * 3
    z = y + 1
    y.set_(x[:2])
    return y, z


def about_out(m, x):
    o = torch.zeros(3, 4)
    torch.mul(x, 2, out=o)
    torch.sum(x, 0, out=o[0])
    return o


def about_func(m, x):
    def f(w):
        return (w * x).sum() ** 2

    w = torch.ones(4)
    g = torch.func.grad(f)(w)
    h = torch.func.hessian(f)(w)
    v = torch.vmap(lambda r: r.sum() * w)(x)
    return g, h, v


def about_random_state(m, x):
    random.seed(3)
    a = random.random()
    y = x * a
    b = random.randint(0, 9)
    st = random.getstate()
    c = random.random()
    random.setstate(st)
    return y, b, c, random.random()


def about_gen_obj(m, x):
    g = torch.Generator().manual_seed(3)
    a = torch.rand(2, generator=g)
    b = torch.randn(2, generator=g)
    c = torch.randperm(5, generator=g)
    return a, b, c


def about_rng_state(m, x):
    s = torch.get_rng_state()
    a = torch.rand(2)
    torch.set_rng_state(s)
    b = torch.rand(2)
    return a, b, torch.equal(a, b)


def about_lstm(m, x):
    own = nn.LSTMCell(4, 4)
    h = c = torch.zeros(3, 4)
    for _ in range(2):
        h, c = own(x, (h, c))
    return h.shape, c.requires_grad


def about_sched(m, x):
    o = torch.optim.SGD(m.a.parameters(), lr=1.0)
    s = torch.optim.lr_scheduler.StepLR(o, 1, 0.5)
    for _ in range(2):
        o.zero_grad()
        m.a(x).sum().backward()
        o.step()
        s.step()
    return m.a.weight.detach().clone(), o.param_groups[0]["lr"], s.get_last_lr()


def about_clip(m, x):
    m.zero_grad()
    m.a(x).sum().backward()
    n = nn.utils.clip_grad_norm_(m.a.parameters(), 0.1)
    return n, m.a.weight.grad


def about_ema(m, x):
    e = copy.deepcopy(m)
    with torch.no_grad():
        for a, b in zip(e.parameters(), m.parameters()):
            a.lerp_(b + 1, 0.1)
    return e.a.weight, m.a.weight.detach()


def about_tied(m, x):
    m.b = nn.Linear(4, 4, bias=False)
    m.b.weight = m.a.weight
    y = m.b(m.a(x))
    y.sum().backward()
    return y.detach(), m.a.weight.grad, len(list(m.parameters()))


def about_modlist(m, x):
    ml = nn.ModuleList([nn.Identity(), nn.ReLU()])
    ml.append(nn.Tanh())
    for k, own in enumerate(ml):
        x = own(x) + k
    md = nn.ModuleDict({"a": nn.ReLU()})
    md["b"] = nn.Sigmoid()
    for own in md.values():
        x = own(x)
    return x, list(md.keys()), len(ml)


def about_seq(m, x):
    s = nn.Sequential(m.a, nn.ReLU(), m.a)
    y = s(x)
    z = s[:2](x)
    s[1] = nn.Tanh()
    w = s(x)
    return y, z, w


def about_alias_out(m, x):
    a = x[0]
    b = [x, a, x]
    c = {"k": a}
    x = x * 2
    b[0].add_(1)
    return b, c, x, b[0] is b[2]


def about_return_input(m, x):
    y = x
    y += 1
    return x, y, x is y


def about_inplace_arg(m, x):
    x[0].mul_(2)
    x[:, 1] = x[:, 0]
    x.t()[2] += 1
    torch.add(x, 1, out=x)
    return x.sum()


def about_complex(m, x):
    z = torch.complex(x, x * 2)
    w = torch.view_as_real(z)
    w[..., 0] += 1
    a = z.abs()
    f = torch.fft.fft(z)
    return z, a, f.real, w.shape


def about_dtype(m, x):
    i = x.long()
    b = x > 0
    h = x.to(torch.bfloat16)
    y = i + b
    z = (h * 2).float() + y
    d = x.double()
    d[b] = 0
    return y, z, d, h


def about_random(m, x):
    a = torch.rand_like(x)
    b = torch.bernoulli(torch.full((3,), 0.5))
    x.normal_()
    c = torch.randint(0, 10, (4,))
    d = F.dropout(x, 0.3)
    e = torch.multinomial(torch.ones(5), 2)
    return a, b, x, c, d, e


def about_slice(m, x):
    y = x.clone()
    y[1:, ::2] = 0
    y[..., -1] = torch.arange(3.0)
    y[[0, 2]] *= 2
    y[torch.tensor([1]), torch.tensor([1])] = 9
    z = y[:, None, 1:]
    w = y[1, ..., 2]
    return y, z, w


def about_cat(m, x):
    own = []
    for k in range(3):
        own.append(x * k)
    y = torch.cat(own, 1)
    a, b = y.split([5, 7], 1)
    a.add_(1)
    c = torch.stack(y.unbind(0)[:2])
    return y, b, c


def about_cond_grad(m, x):
    y = m.a(x)
    if y.requires_grad:
        y = y.detach()
    y += 1
    z = m.a(y)
    with torch.no_grad():
        z *= 2
    return y, z


def about_grad_list(m, x):
    gs = torch.autograd.grad(m.a(x).sum(), list(m.a.parameters()))
    for p, g in zip(m.a.parameters(), gs):
        p.data.sub_(g, alpha=0.1)
    return gs, m.a.weight


def about_vjp(m, x):
    y, f = torch.func.vjp(torch.sin, x)
    (g,) = f(torch.ones_like(x))
    a, b = torch.func.jvp(torch.cos, (x,), (torch.ones_like(x),))
    return y, g, a, b


def about_fcall(m, x):
    p = {k: v * 2 for k, v in m.a.named_parameters()}
    y = torch.func.functional_call(m.a, p, (x,))
    y.sum().backward()
    return y, m.a.weight.grad


def about_zero_grad(m, x):
    m.a(x).sum().backward()
    old = m.a.weight.grad
    m.zero_grad()
    new = m.a.weight.grad
    m.a(x * 2).sum().backward()
    m.zero_grad(set_to_none=False)
    return old, new, m.a.weight.grad


def about_old_grad(m, x):
    m.a(x).sum().backward()
    g = m.a.weight.grad
    m.a.weight.grad = None
    h = g * 2
    m.a.weight.grad = h
    g.zero_()
    return g, h, m.a.weight.grad


def about_bias_swap(m, x):
    b = m.a.bias
    m.a.bias = None
    y = m.a(x)
    m.a.bias = b
    z = m.a(x)
    return y, z


def about_apply(m, x):
    def init(mod):
        if isinstance(mod, nn.Linear):
            nn.init.constant_(mod.weight, 0.5)
            nn.init.zeros_(mod.bias)

    m.apply(init)
    y = m.a(x)
    return y, m.a.weight


def about_numpy(m, x):
    a = x.detach().numpy().copy()
    b = a * 2
    y = torch.from_numpy(b) + x
    a[0] = 0
    z = torch.tensor(a)
    return y, z, float(b.sum())


def about_np_const(m, x):
    w = np.hanning(4).astype(np.float32)
    y = x * torch.from_numpy(w)
    s = np.sqrt(2.0) * np.pi
    return y * s, float(s)


def about_sort_tensors(m, x):
    v, i = torch.sort(x.flatten(), descending=True)
    u, inv, c = torch.unique(i % 3, return_inverse=True, return_counts=True)
    w = torch.where(x > 0, x, torch.zeros(()))
    a = x.argmax(1)
    return v, u, inv, c, w, a


def about_bn(m, x):
    y = m.bn(x)
    m.bn.eval()
    z = m.bn(x)
    m.bn.reset_running_stats()
    w = m.bn(x)
    m.bn.train()
    return y, z, w, m.bn.num_batches_tracked


def about_step_closure(m, x):
    o = torch.optim.LBFGS(m.a.parameters(), lr=0.1, max_iter=2)

    def closure():
        o.zero_grad()
        own = m.a(x).pow(2).mean()
        own.backward()
        return own

    own = o.step(closure)
    return own.detach(), m.a.weight


def about_meta(m, x):
    t = torch.empty(3, device="meta")
    y = x.to(x.device)
    z = torch.zeros(2, device=x.device, dtype=x.dtype)
    return t.shape, y is x, z


def about_as_strided(m, x):
    y = x.as_strided((2, 2), (4, 1), 1)
    y.add_(1)
    z = x.unfold(1, 2, 1)
    w = torch.diagonal(x)
    w.fill_(5)
    return x, y, z, w.is_contiguous()


def about_expand(m, x):
    y = x[:1].expand(3, 4)
    z = y.contiguous()
    z[0] = 1
    s = y.stride()
    return y, z, s


def about_channels(m, x):
    y = torch.randn(1, 3, 4, 4).to(memory_format=torch.channels_last)
    z = F.conv2d(y, torch.ones(2, 3, 3, 3))
    w = F.max_pool2d(z, 2)
    return z, w, y.is_contiguous(memory_format=torch.channels_last)


def about_hooks_remove(m, x):
    out = []
    h1 = m.a.register_forward_pre_hook(lambda mod, i: (i[0] * 2,))
    h2 = m.a.register_full_backward_hook(lambda mod, gi, go: out.append(go[0].sum()))
    y = m.a(x)
    y.sum().backward()
    h1.remove()
    h2.remove()
    z = m.a(x)
    return y, z, out, m.a.weight.grad


def about_tensor_attr(m, x):
    y = x * 2
    y.tag = "t"
    y.extra = x + 1
    z = y.extra * 2
    return y, y.tag, z


def about_int_tensor(m, x):
    i = torch.tensor(2)
    y = x[:i]
    n = [1, 2, 3][i]
    z = x * int(i) + range(5)[i]
    own = torch.zeros(3, dtype=torch.long)
    own[i] += 1
    return y, n, z, own


def about_bool_tensor(m, x):
    b = x.sum() > 0
    if b and x.numel() > 2:
        y = x
    else:
        y = -x
    c = bool((x == x).all())
    d = not b
    return y, c, d


def about_while_tensor(m, x):
    n = 0
    y = x.abs()
    while y.sum() > 0.5:
        y = y / 2
        n += 1
    return y, n


PROGRAMS = [value for name, value in list(globals().items()) if name.startswith("about_")]

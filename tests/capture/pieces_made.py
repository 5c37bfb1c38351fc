"""What programs make: leaves, parameters, modules, classes, arrays, hooks; a compiled function may end at any statement
(test_pieces.py)."""

import copy

import narthex as torch
from narthex import nn


def about_leaf_returned(m, x):
    d = torch.zeros(4, requires_grad=True)
    y = m.a(x + d)
    y.sum().backward()
    z = (d * x).sum()
    return d, z, d.grad


def about_module_returned(m, x):
    own = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5))
    own.eval()
    y = own(x)
    own[0].bias.requires_grad_(False)
    return y, own[0].weight, own[0].bias, own.training


def about_copy_stepped(m, x):
    own = copy.deepcopy(m.a)
    optimizer = torch.optim.SGD(own.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad()
        loss = own(x).pow(2).sum()
        loss.backward()
        optimizer.step()
    return loss.detach(), own.weight, own.bias.grad, m.a.weight.grad


def about_stored_leaf(m, x):
    m.extra = nn.Parameter(torch.ones(4))
    y = x * m.extra
    y.sum().backward()
    result = m.extra.grad.clone(), len(list(m.parameters()))
    del m.extra
    return result


def about_resize_more(m, x):
    y = x.detach().clone()
    y.resize_(2)
    z = y * 2
    y.resize_(3, 2)
    y[:] = 5
    x.resize_(x.shape) if not x.requires_grad else None
    return y, z


def about_data(m, x):
    d = torch.zeros(4, requires_grad=True)
    (d * x).sum().backward()
    d.data = (d + d.grad.sign()).clamp(-1, 1)
    d.grad.zero_()
    z = torch.ones(2)
    z.data = d.detach()
    z.add_(1)
    return d, z


def about_array_over(m, x):
    y = x.detach().float() * 2
    a = y.numpy()
    y.add_(1)
    z = x.detach() + torch.from_numpy(a)
    a[0] = 4
    return y, z, a.shape, a.tolist()


def about_leaf_hooks(m, x):
    got = []
    d = torch.ones(4, requires_grad=True)
    d.register_hook(lambda g: g * 2)
    h = d.register_hook(lambda g: got.append(g.sum()))
    y = m.a(x * d)
    y.register_hook(lambda g: g.clamp(max=0.5))
    y.sum().backward()
    h.remove()
    z = (d * 2).sum()
    z.backward()
    return d, d.grad, got, m.a.weight.grad


def about_module_class(m, x):
    class Scaled(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.inner = torch.nn.Linear(width, 2, bias=False)
            self.register_buffer("scale", torch.full((width,), 2.0))

        def forward(self, x):
            return self.inner(x * self.scale)

    made = Scaled(x.shape[-1])
    y = made(x)
    y.sum().backward()
    return y, made.inner.weight.grad, sorted(made.state_dict())


PROGRAMS = [value for name, value in list(globals().items()) if name.startswith("about_")]

# ruff: noqa: E501, E702  (programs)
"""__torch_function__ of subclasses and modes: every program on both sides, what was asked and what came of it."""

import functools
import json
import subprocess
import sys

import narthex as nt
import pytest
import torch

PROGRAMS = {
    "operators": """
x, y, i = make(ones), ones(), make(ones, torch.int64)
show(x + y, y + x, x + 1, 1 + x, x - y, 1 - x, x * 2, x / 2, x // 2, 2 // x, x % 2, 2 % x, x ** 2, 2 ** x, x @ y, -x, +x, abs(x))
show(~i, i & 1, 1 & i, i | 1, i ^ 1, i << 1, 1 << i, i >> 1, x < y, x <= 1, 1 < x, x == y, x != 1, y > x, x >= 1)
""",
    "in place": """
x, i = make(ones), make(ones, torch.int64)
y = x
x += 1; x -= 1; x *= 2; x /= 2; x **= 2; i //= 2; i %= 2; i &= 1; i |= 1; i ^= 1; i <<= 1; i >>= 1
x[0] = 1
x[0, 1] = x[1, 1]
show(x, i, x is y)
""",
    "attributes": """
x = make(ones)
show(x.shape, x.grad, x.dtype, x.requires_grad, x.is_leaf, x.T, x.mT, x.data, x.ndim, x._version, x.grad_fn)
x.data = ones()
x.grad = None
x.requires_grad = False
x.mine = 1
show(x.mine, x)
""",
    "methods": """
x, y = make(ones), ones()
show(x.size(), x.size(0), x.dim(), x.numel(), x.sum().item(), x.tolist(), x.to(torch.float64), x.float(), x.detach(), x.clone())
show(x.view(4), x.reshape(-1), x.stride(), x.is_contiguous(), x.max(0), x.chunk(2), x.norm(), x.new_zeros(2), x.type(), x.cpu())
show(x.allclose(y), x.where(x > 0, y), x.is_complex(), x.element_size(), x.requires_grad_(), x.storage_offset())
""",
    "the language": """
x, i = make(ones), make(ones, torch.int64)
show(len(x), list(x), bool(x.sum()), float(x.sum()), int(i.sum()), x[0], x[0, 1], x[:, None], 1 in x)
a, b = x
show(a, b)
""",
    "functions": """
x, y = make(ones), ones()
show(torch.add(x, 1), torch.add(y, x), torch.stack([y, x]), torch.cat((x, y)), torch.zeros_like(x), torch.equal(x, y))
show(torch.allclose(x, y), torch.where(x > 0, x, y), torch.max(x, 0), torch.einsum("ij,jk", x, y), torch.norm(x))
show(torch.fft.fft(x).real, torch.special.expit(x), torch.broadcast_tensors(x, y), torch.numel(x), torch.tensordot(x, y, 1))
show(torch.is_tensor(x), torch.is_floating_point(x), torch.linalg.vector_norm(x), torch.abs(x, out=ones()))
""",
    "functional": """
x, y, i = make(ones), ones(), make(ones, torch.int64)
show(F.relu(x), F.relu(x, True), F.relu(input=x), F.softmax(x, -1), F.softmax(x, dim=0, dtype=torch.float64), F.linear(y, x))
show(F.cross_entropy(x, torch.tensor([0, 1])), F.mse_loss(x, y), F.layer_norm(x, (2,)), F.pad(x, (1, 1)), F.normalize(x, dim=0))
show(F.embedding(i, y), F.one_hot(i), F.gelu(x), F.dropout(x, training=False), torch.nn.Linear(2, 2)(x).shape, torch.nn.ReLU()(x))
""",
    "without a function of its own": """
class Plain(torch.Tensor):
    pass
x = ones().as_subclass(Plain)
show(x + 1, x[0], x.sum(), torch.stack([x, x]), x.max(0).values, x.detach(), x.unbind(), x.shape, x.T, F.relu(x), x == x, x.tolist())
show(torch.Tensor._make_subclass(Plain, ones(), True).requires_grad, x.as_subclass(torch.Tensor), Plain(ones()))
""",
    "switched off": """
class Off(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl
x = ones().as_subclass(Off)
show(x, x + 1, x.shape, F.relu(x), torch.overrides.has_torch_function((x,)), has(x))
y = make(ones)
with torch._C.DisableTorchFunctionSubclass():
    show(y + 1, has(y), y.sum())
with torch._C.DisableTorchFunction():
    show(y + 1, has(y))
show(has(y), y + 1)
""",
    "who is asked first": """
class A(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        told.append(("A", [t.__name__ for t in types]))
        return NotImplemented if len(types) > 1 else super().__torch_function__(func, types, args, kwargs)
class B(A):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        told.append(("B", [t.__name__ for t in types]))
        return NotImplemented
class C(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        told.append(("C", [t.__name__ for t in types]))
        return "C answers"
a, b, c = (ones().as_subclass(t) for t in (A, B, C))
show(torch.add(a, c), torch.add(c, a), torch.stack([a, b, c]), a + c, c + a)
told.append("alone")
fails(lambda: a + b)
fails(lambda: torch.add(b, 1))
""",
    "one that is no tensor": """
class Duck:
    def __init__(self, value): self.value = value
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        told.append((func.__name__, [t.__name__ for t in types], len(args), sorted(kwargs or {})))
        return Duck(func(*[a.value if isinstance(a, Duck) else a for a in args], **(kwargs or {})))
d = Duck(ones())
show(torch.add(d, 1).value, torch.add(ones(), d, alpha=2).value, F.relu(d).value, torch.matmul(ones(), d).value, (ones() + d).value)
show(torch.overrides.is_tensor_like(d), torch.overrides.is_tensor_like(ones()), torch.overrides.is_tensor_like(1))
""",
    "gradients": """
x = ones().requires_grad_()
y = x.as_subclass(Logged)
show(type(y * 2).__name__, y.requires_grad, y.is_leaf)
(y * 3).sum().backward()
show(x.grad)
z = make(ones).requires_grad_()
(z * z).sum().backward()
show(z.grad)
show(torch.autograd.grad((z * z).sum(), z))
""",
    "parameters": """
p = torch.nn.Parameter(ones())
show(p + 1, has(p), type(p.data).__name__, torch.overrides.has_torch_function((p,)))
q = torch.nn.Parameter(make(ones))
show(type(q).__name__, isinstance(q, torch.nn.Parameter), q.requires_grad, q.is_leaf, isinstance(ones(), torch.nn.Parameter))
m = torch.nn.Module()
m.q = q
show([n for n, _ in m.named_parameters()], type(m.q).__name__)
""",
    "a mode": """
class Log(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        told.append((name(func), [t.__name__ for t in types], len(args), sorted(kwargs or {})))
        return func(*args, **(kwargs or {}))
x, s = ones(), make(ones)
told.clear()
with Log():
    x + 1; torch.add(x, x); x.sum(); x.shape; x[0]; x[0] = 2; F.relu(x); torch.zeros(2); torch.tensor([1.0]); -x; x.T
    x.add_(1); x.size(0); torch.stack([x, x]); torch.equal(x, x); len(x); torch.ones_like(x); torch.arange(3); x.mine = 1; x @ x
    s + 1
x + 1
""",
    "modes in modes": """
class Named(torch.overrides.TorchFunctionMode):
    def __init__(self, name): self.name = name
    def __repr__(self): return self.name
    def __torch_function__(self, func, types, args=(), kwargs=None):
        told.append((self.name, name(func), [m.name for m in torch.overrides._get_current_function_mode_stack()]))
        return func(*args, **(kwargs or {}))
x = ones()
with Named("outer") as o, Named("inner"):
    show(x + 1)
    with o:
        x * 2
    with torch._C.DisableTorchFunctionSubclass():
        x * 3
    with torch._C.DisableTorchFunction():
        x * 4
class Again(Named):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        told.append((self.name, name(func)))
        if func is torch.mul:
            with self:
                return torch.add(*args)
        return func(*args, **(kwargs or {}))
with Again("again"):
    show(torch.mul(x, x))
class Refuses(Named):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return NotImplemented
with Refuses("refuses"):
    fails(lambda: torch.add(x, x))
try:
    with Named("left"):
        raise KeyError("left")
except KeyError:
    pass
show(torch.overrides._get_current_function_mode())
class Fails(Named):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise ValueError("fails")
with Fails("fails"):
    fails(lambda: torch.add(x, x))
    fails(lambda: x.shape)
show(x.shape)
""",
    "modes and classes": """
class Log(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        told.append(("mode", name(func), [t.__name__ for t in types]))
        return func(*args, **(kwargs or {}))
x = make(ones)
with Log():
    x + 1
    torch.overrides.has_torch_function((ones(),))
with torch.overrides.BaseTorchFunctionMode():
    show(x + 1, ones() + 1)
""",
    "a device as a mode": """
with torch.device("meta"):
    show(torch.empty(2).device, torch.zeros(1).device, torch.tensor([1.0]).device, torch.nn.Linear(1, 1).weight.device)
show(torch.empty(2).device)
torch.set_default_device("meta")
show(torch.ones(2).device)
torch.set_default_device(None)
show(torch.ones(2).device)
""",
    "functions of one's own": """
def mine(a, b=None):
    if torch.overrides.has_torch_function((a, b)):
        return torch.overrides.handle_torch_function(mine, (a, b), a, b=b)
    return a + 1
@torch.overrides.wrap_torch_function(lambda a, b: (a, b))
def wrapped(a, b):
    return a * b
x = make(ones)
show(mine(ones()), wrapped(ones(), 2))
told.clear()
show(mine(x), wrapped(x, 2), torch.overrides.has_torch_function_unary(x), torch.overrides.has_torch_function_variadic(1, x))
show(mine.__name__, wrapped.__name__)
""",
    "what there is": """
functions = torch.overrides.get_overridable_functions()
wanted = [torch.add, torch.stack, torch.einsum, torch.where]
show([f in functions[torch] or f in functions[torch.functional] for f in wanted])
show(F.relu in functions[F], torch.Tensor.add in functions[torch.Tensor], torch.Tensor.__add__ in functions[torch.Tensor])
show(torch.Tensor.shape.__get__ in functions[torch.Tensor.shape], torch.linalg.norm in functions[torch.linalg])
show([torch.overrides.resolve_name(f) for f in (torch.Tensor.add, F.relu, torch.Tensor.shape.__get__, torch.ops.aten.add.Tensor)])
show([torch.overrides.is_tensor_method_or_property(f) for f in (torch.Tensor.add, torch.add, torch.Tensor.grad.__get__, F.relu)])
show([f in torch.overrides.get_testing_overrides() for f in (torch.add, torch.Tensor.add, F.relu)])
show(torch.overrides.get_testing_overrides()[F.relu](1), torch.is_tensor in torch.overrides.get_ignored_functions())
""",
    "a class with units": """
class Unit(torch.Tensor):
    @staticmethod
    def __new__(cls, data, unit):
        made = torch.Tensor._make_subclass(cls, torch.as_tensor(data))
        made.unit = unit
        return made
    def __repr__(self): return f"{self.tolist()} {self.unit}"
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        units = [a.unit for a in args if isinstance(a, Unit)]
        made = super().__torch_function__(func, types, args, kwargs)
        if isinstance(made, Unit): made.unit = "*".join(units) if func in (torch.mul, torch.Tensor.mul) else units[0]
        return made
a, b = Unit([1.0, 2.0], "m"), Unit([3.0, 4.0], "s")
show(repr(a * b), repr(torch.mul(a, b)), repr(a + a), repr(a[0]), repr(a.clone()), a.sum().unit)
""",
    "a table of implementations": """
HANDLED = {}
def implements(f):
    def put(g):
        HANDLED[f] = g
        return g
    return put
class Diagonal(object):
    def __init__(self, n, value): self.n, self.value = n, value
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func not in HANDLED or not all(issubclass(t, (torch.Tensor, Diagonal)) for t in types): return NotImplemented
        return HANDLED[func](*args, **(kwargs or {}))
@implements(torch.mean)
def mean(input): return float(input.value) / input.n
@implements(torch.matmul)
def matmul(a, b): return "matmul"
@implements(F.softmax)
def softmax(x, dim=None, _stacklevel=3, dtype=None): return ("softmax", dim)
d = Diagonal(5, 2)
show(torch.mean(d), torch.matmul(ones(), d), F.softmax(d, dim=1))
fails(lambda: torch.add(d, 1))
""",
}

PRELUDE = """
import sys, warnings
import importlib
torch = importlib.import_module(sys.argv[1])
F = torch.nn.functional
torch.overrides
warnings.simplefilter("ignore")
torch.manual_seed(0)
told, ALIASES = [], {"__rtruediv__": "__rdiv__", "linalg_norm": "norm"}
def ones(dtype=None): return torch.ones(2, 2, dtype=dtype)
def name(func): return ALIASES.get(func.__name__, func.__name__)
def text(value):
    if type(value).__name__ in ("tuple", "list") or hasattr(value, "_fields") or hasattr(value, "n_fields"):
        return [type(value).__name__, *map(text, value)]
    if isinstance(value, torch.Tensor):
        with torch._C.DisableTorchFunction():
            kind = type(value).__name__
            plain = value.detach().as_subclass(torch.Tensor)
            return f"{kind} {plain.tolist()} {plain.dtype} {value.requires_grad}"
    return repr(value).replace("narthex", "torch")
class Logged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunction():
            kinds = [text(a) if isinstance(a, (int, float, str)) else type(a).__name__ for a in args]
        told.append((name(func), [t.__name__ for t in types], kinds, sorted((kwargs or {}).items(), key=str).__len__()))
        return super().__torch_function__(func, types, args, kwargs)
def make(how, *args): return how(*args).as_subclass(Logged)
def has(x): return torch.overrides.has_torch_function_unary(x)
def show(*values): told.append(tuple(map(text, values)))
def fails(call):
    try:
        call()
    except Exception as error:
        told.append((type(error).__name__, str(error).replace("narthex", "torch").replace("<class '__main__.", "<class '")))
    else:
        told.append("it did not fail")
"""


EACH = """
def each(programs):
    import json
    found = {}
    for case, program in programs.items():
        told.clear()
        try:
            exec(program, dict(globals()))
        except Exception as error:
            import traceback
            told.append(traceback.format_exc())
        found[case] = list(map(str, told))
    print(json.dumps(found))
"""


@functools.cache
def ran(module: str) -> dict:
    """What every program told, by case."""
    code = PRELUDE + EACH + f"each({PROGRAMS!r})"
    done = subprocess.run([sys.executable, "-c", code, module], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", PROGRAMS)
def test_is_asked_as_in_pytorch(case):
    theirs = ran("torch")[case]
    assert "Traceback" not in theirs[-1]
    assert ran("narthex")[case] == theirs


class _Doubles(nt.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        made = super().__torch_function__(func, types, args, kwargs)
        return made * 1 if func is nt.sin and type(made) is nt.Tensor else made


class _Counts(nt.overrides.TorchFunctionMode):
    def __init__(self):
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


def test_a_compiled_function_leaves_subclasses_to_eager():
    def function(x, y):
        return (x + y).sin() * 2

    compiled = nt.compile(function, backend="eager")
    plain, marked = nt.ones(2), nt.ones(2).as_subclass(_Doubles)
    for x in (plain, marked, plain, marked):
        made = compiled(x, plain)
        assert type(made) is type(x) and made.tolist() == function(x, plain).tolist()
    assert [type(compiled(marked, plain)), type(compiled(plain, plain))] == [_Doubles, nt.Tensor]


def test_a_compiled_function_is_seen_by_a_mode_call_by_call():
    def function(x):
        return nt.sin(x) + 1

    compiled = nt.compile(function, backend="eager")
    x = nt.ones(2)
    compiled(x)
    for _ in range(2):
        with _Counts() as mode:
            compiled(x)
        assert mode.seen == ["sin", "add"]
    compiled(x)
    assert compiled.entries == 1


def test_a_mode_inside_a_compiled_function_ends_the_graph():
    def function(x, mode):
        y = nt.cos(x)
        with mode:
            y = nt.sin(y) + 1
        return nt.exp(y)

    compiled = nt.compile(function, backend="eager")
    x = nt.ones(2)
    for _ in range(3):
        mode, expected = _Counts(), _Counts()
        assert compiled(x, mode).tolist() == function(x, expected).tolist()
        assert mode.seen == expected.seen == ["sin", "add"]


def test_a_mode_belongs_to_its_thread():
    from threading import Thread

    def elsewhere():
        seen.append((nt.ones(2) + 1).tolist())

    seen = []
    with _Counts() as mode:
        thread = Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert mode.seen == [] and seen == [[2.0, 2.0]]
    assert torch.overrides is not nt.overrides

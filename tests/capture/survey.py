"""What programs and libraries do inside a compiled function, a row each: name, then an expression of x, ones of 2 x 2.
The 279 of a survey of public programs; test_survey.py says which of them end the graph, and why."""

import abc  # noqa: F401 - the expressions use them
import collections
import contextlib
import copy  # noqa: F401
import dataclasses
import enum
import functools
import inspect  # noqa: F401
import itertools  # noqa: F401
import logging
import math  # noqa: F401
import numbers  # noqa: F401
import operator  # noqa: F401
import os  # noqa: F401
import random  # noqa: F401
import re  # noqa: F401
import sys  # noqa: F401
import threading
import time  # noqa: F401
import typing
import warnings  # noqa: F401
import weakref

import narthex as torch
import numpy as np  # noqa: F401
from narthex import nn

F = nn.functional


class NS:
    pass


cfg = NS()
cfg.hidden = 4
cfg.act = "relu"


class E(enum.Enum):
    A = "a"
    B = "b"


class SE(str, enum.Enum):  # noqa: UP042 - as programs have it
    A = "a"
    B = "b"


class OD(collections.OrderedDict):
    pass


class Base(nn.Module):
    def __init__(s):
        super().__init__()
        s.l = nn.Linear(2, 2)


tab = {E.A: 1}
ttab = {(1, 2): 3, (2, 2): 5}
mods = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
lin = nn.Linear(2, 2)
seq = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
dd = {"a": torch.ones(2, 2), "b": torch.ones(2, 2)}
P = collections.namedtuple("P", "x y")


@dataclasses.dataclass
class DC:
    x: typing.Any = None
    y: int = 2


@dataclasses.dataclass(frozen=True)
class FDC:
    x: int = 1


fd = {FDC(): 3}


@functools.lru_cache
def lru(n):
    return n + 1


@contextlib.contextmanager
def cm():
    yield 3


lg = logging.getLogger("x")


@functools.wraps(lru)
def wrapped(n):
    return n


@torch.no_grad()
def ng(x):
    return x * 2


class Meta(type):
    @property
    def p(c):
        return 3


class WM(metaclass=Meta):
    pass


class Dyn:
    def __getattr__(s, k):
        if k == "zz":
            return 5
        raise AttributeError(k)


dyn = Dyn()
tl = threading.local()
tl.x = 1


class SlotC:
    __slots__ = ("t",)

    def __init__(s, t):
        s.t = t


class ListSub(list):
    pass


class DictSub(dict):
    pass


class TupSub(tuple):
    pass


class IntSub(int):
    pass


class StrSub(str):
    pass


isub = IntSub(3)
ssub = StrSub("ab")


# name -> source of an expression of x (2x2), or a body with "return"
def exec_mask(x):
    y = x.clone()
    y[y > 0] = 3
    return y


class SQ(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * x

    @staticmethod
    def backward(ctx, g):
        return g


def ctx_grad(x):
    with torch.set_grad_enabled(False):
        return x * 2


def ctx_inf(x):
    with torch.inference_mode():
        return x * 2


def ctx_ac(x):
    with torch.autocast("cpu", enabled=False):
        return x * 2


def ctx_null(x):
    with contextlib.nullcontext():
        return x * 2


def ctx_stack(x):
    with contextlib.ExitStack() as s:
        s.enter_context(torch.no_grad())
        return x * 2


def ctx_cm(x):
    with cm() as k:
        return x * k


def body_dd(x):
    d = collections.defaultdict(list)
    d["a"].append(x)
    return d["a"][0]


@functools.singledispatch
def sd(a):
    return 2


class CP:
    @functools.cached_property
    def v(s):
        return 3


def mk_wrapped():
    def deco(f):
        @functools.wraps(f)
        def g(*a, **k):
            return f(*a, **k)

        return g

    @deco
    def h(n):
        return n

    return h


class PM:
    def f(s, a, b):
        return a + b

    g = functools.partialmethod(f, 2)


class Sup:
    k = 1

    def m(s, x):
        return x + 1

    def m2(s, x):
        return x + 2


class Sub(Sup):
    n = 0

    def m(s, x):
        return super().m(x) * 2

    def m2(s, x):
        return super().m2(x) * 2

    @classmethod
    def c(cls, x):
        return x * cls.k

    @staticmethod
    def s(x):
        return x


class Pr:
    _v = 1

    @property
    def v(s):
        return s._v

    @v.setter
    def v(s, a):
        s._v = a


def prop(x):
    p = Pr()
    p.v = 3
    return x * p.v


def clsattr(x):
    Sub.n += 1
    return x


def setloop(x):
    o = NS()
    for k in ("a", "b"):
        setattr(o, k, x)
    return o.a + o.b


wrlin = weakref.ref(lin)


def wr():
    return wrlin()


def imp(x):
    import math as m

    return x * m.pi


def asrt(x):
    assert x.shape[0] == 2, "no"
    return x


def tr(x):
    try:
        return x * {}["a"]
    except KeyError:
        return x + 1


def tr2(x):
    try:
        return x * cfg.none
    except AttributeError:
        return x + 1


class MyErr(Exception):
    pass


def tr3(x):
    try:
        raise MyErr("a")
    except MyErr as e:
        return x + len(e.args)


def mt(x):
    match {"a": 1, "b": [1, 2]}:
        case {"a": 1, "b": [p, *_]}:
            return x * p
        case _:
            return x


def ncls(x):
    class Q:
        k = 3

    return x * Q.k


def rec(x, n):
    return x if n == 0 else rec(x + 1, n - 1)


def gen(x):
    yield x
    yield x * 2


class RB(nn.Module):
    def forward(s, x):
        s.register_buffer("zz", x * 2)
        return s.zz


rb = RB()


def regbuf(x):
    return rb(x)


def hook(x):
    x.register_hook(lambda g: g)
    return x * 2


def bw(x):
    w = x.clone().requires_grad_()
    (w * 2).sum().backward()
    return w.grad


def ag(x):
    w = x.clone().requires_grad_()
    return torch.autograd.grad((w * 2).sum(), w)[0]


def setit(x):
    y = x.clone()
    y[0] = 3
    y[:, 1] = x[0]
    return y


class TS(torch.Tensor):
    pass


async def _a(x):
    return x


def asy(x):
    try:
        _a(x).send(None)
    except StopIteration as e:
        return e.value


GG = 0


def glb(x):
    global GG
    GG += 1
    return x


def nl(x):
    k = 0

    def g():
        nonlocal k
        k += 1

    g()
    return x * k


def dl(x):
    k = 1

    def g():
        return k  # noqa: F821 - deleted below

    y = g()
    del k
    return x * y


class CC:
    def __call__(s, x):
        return x

    def __getitem__(s, i):
        return 2

    def __len__(s):
        return 2

    def __eq__(s, o):
        return True

    def __hash__(s):
        return 1


class UI:
    def __init__(s, n):
        s.n = n

    def __iter__(s):
        s.k = 0
        return s

    def __next__(s):
        if s.k >= s.n:
            raise StopIteration
        s.k += 1
        return s.k


ROWS = """
list(d.values())|torch.stack(list(dd.values())) + x
sum(d.values())|sum(dd.values()) + x
list(d.items())|[k for k, v in list(dd.items())] and x
d.values() loop|functools.reduce(lambda a, b: a + b, [v for v in dd.values()]) + x
tuple(d.values()) cat|torch.cat(tuple(dd.values())) + 1
*d.values()|torch.cat([*dd.values(), x])
max(d.values()) ints|x * max({'a': 1, 'b': 2}.values())
zip(d.keys(), d.values())|[a for a, b in zip(dd.keys(), dd.values())] and x
next(iter(d.values()))|next(iter(dd.values())) + x
next(iter(module.parameters()))|x.to(next(iter(lin.parameters())).dtype)
next(self.parameters()).device|x.to(next(lin.parameters()).device)
named_parameters loop|x + sum(p.sum() for n, p in seq.named_parameters())
torch.tensor(list)|x + torch.tensor([1., 2.])
torch.tensor(scalar)|x + torch.tensor(3.)
torch.as_tensor(x)|torch.as_tensor(x) + 1
torch.from_numpy|torch.from_numpy(np.ones(2, dtype='float32')) + x
x.new_tensor|x.new_tensor([1., 2.]) + x
torch.zeros_like/arange/linspace|torch.zeros_like(x) + torch.arange(2) + torch.linspace(0, 1, 2)
x.data|x.data + 1
x.detach().clone()|x.detach().clone()
x.requires_grad_()|x.clone().requires_grad_()
x.grad|x if x.grad is None else x * 2
x.is_leaf|x if x.is_leaf else x * 2
x.grad_fn|x if x.grad_fn is None else x * 2
x._version|x + x._version * 0
x.data_ptr()|x + x.data_ptr() * 0
x.item()|x * x.sum().item()
x.tolist()|x * x.tolist()[0][0]
int(x.sum())|x * int(x.sum())
float(tensor)|x * float(x.sum())
bool(tensor) if|x * 2 if x.sum() > 0 else x
x.nonzero()|x.nonzero()
torch.where(cond)|torch.where(x > 0)[0]
x[mask]|x[x > 0]
x[mask] = v|exec_mask(x)
x.unique()|torch.unique(x)
x.numpy()|x + torch.from_numpy(x.numpy())
len(x)|x * len(x)
for row in x|sum([r for r in x])
x.shape unpack|x.view(x.shape[0] * x.shape[1])
x.size()[:-1] + (1,)|x.view(x.size()[:-1] + (2,))
torch.Size([..])|x.view(torch.Size([4]))
x.type()|x.type(x.type())
x.type_as|x.type_as(x)
isinstance(x, torch.Tensor)|x if isinstance(x, torch.Tensor) else 0
isinstance(x, torch.FloatTensor)|x if isinstance(x, torch.FloatTensor) else x * 2
torch.is_tensor|x if torch.is_tensor(x) else 0
x.device.type|x * (1 if x.device.type == 'cpu' else 2)
torch.finfo|x.clamp(min=torch.finfo(x.dtype).min)
torch.jit.is_scripting|x if not torch.jit.is_scripting() else 0
torch.jit.is_tracing|x if not torch.jit.is_tracing() else 0
torch.compiler.is_compiling|x if not torch.compiler.is_compiling() else x
torch._dynamo.is_compiling|x if not torch._dynamo.is_compiling() else x
torch.overrides.has_torch_function|x if not torch.overrides.has_torch_function((x,)) else 0
torch._assert|torch._assert(True, 'm') or x
torch._check|torch._check(True) or x
torch.is_grad_enabled|x if torch.is_grad_enabled() else x * 2
torch.is_autocast_enabled|x if not torch.is_autocast_enabled() else x * 2
torch.get_autocast_dtype|x if torch.get_autocast_dtype('cpu') else x
torch.cuda.is_available|x if not torch.cuda.is_available() else 0
torch.backends.cuda.*|x if torch.backends.cuda.matmul.allow_tf32 in (True, False) else 0
torch.utils.checkpoint|torch.utils.checkpoint.checkpoint(lin, x, use_reentrant=False)
autograd.Function|SQ.apply(x)
set_grad_enabled ctx|ctx_grad(x)
inference_mode|ctx_inf(x)
autocast(enabled=False)|ctx_ac(x)
nullcontext|ctx_null(x)
ExitStack|ctx_stack(x)
contextmanager|ctx_cm(x)
threading.local|x * tl.x
random.random|x * random.random()
random.choice|x * random.choice([1, 1])
np.random|x * np.random.rand()
np.sqrt float|x * float(np.sqrt(4))
np.prod(shape)|x * int(np.prod(x.shape))
np.array const|x + float(np.array([1, 2]).sum())
math.ceil / floor / log2 / prod|x * math.ceil(2.5) * math.floor(2.5) * math.log2(4) * math.prod([1, 2])
math.isclose|x if math.isclose(1, 1) else 0
torch.Generator arg|torch.rand(2, generator=torch.Generator())
torch.manual_seed|(torch.manual_seed(0), x)[1]
copy.copy(dict)|x * copy.copy({'a': 1})['a']
copy.deepcopy(list)|x * len(copy.deepcopy([1, 2]))
copy.deepcopy(module)|copy.deepcopy(lin)(x)
dict.fromkeys|x * len(dict.fromkeys('ab', 0))
dict union a or b|x * len({'a': 1} | {'b': 2})
dict.setdefault|x * {'a': 1}.setdefault('b', 2)
dict subclass|x * DictSub(a=2)['a']
OrderedDict subclass|OD(a=x)['a']
OrderedDict()|collections.OrderedDict(a=x)['a']
defaultdict(list)|body_dd(x)
Counter|x * collections.Counter('aab')['a']
deque(maxlen)|collections.deque([x, x], maxlen=1)[0]
ChainMap|x * collections.ChainMap({'a': 2})['a']
list subclass|x * len(ListSub([1, 2]))
tuple subclass|x * len(TupSub([1, 2]))
int subclass arg|x * isub
str subclass|x * len(ssub)
namedtuple|P(x, 1).x
namedtuple._replace|P(x, 1)._replace(y=2).x
namedtuple._asdict|P(x, 1)._asdict()['x']
dataclass|DC(x).x
dataclasses.fields|[getattr(DC(x), f.name) for f in dataclasses.fields(DC)][0]
dataclasses.asdict|dataclasses.asdict(DC(1))['y'] * x
dataclasses.replace|dataclasses.replace(DC(x), y=3).x
frozen dataclass key|x * fd[FDC()]
Enum compare|x if E.A == E.A else 0
Enum(value)|x if E('a') is E.A else 0
Enum key|x * tab[E.A]
Enum iteration|x * len([e for e in E])
str Enum ==|x if SE.A == 'a' else 0
tuple key|x * ttab[(1, 2)]
tuple key of shape|x * ttab.get(tuple(x.shape), 0)
set of tuples|x * len({(1, 2), (2, 1)})
x in list of str|x if 'a' in ['a', 'b'] else 0
x in tuple of types|x if type(x) in (torch.Tensor,) else 0
frozenset|x * len(frozenset([1, 2]))
bytes|x * b'ab'[0]
bytearray|x * len(bytearray(3))
str methods isnumeric isalnum|x if '1'.isnumeric() and 'a'.isalnum() else 0
str.format / % / f|x if '{}'.format(3) == '3' and '%d' % 3 == '3' and f'{3}' == '3' else 0
str.translate / maketrans|x if 'a'.translate({97: 98}) == 'b' else 0
str * int|x * len('ab' * 3)
re.match|x if re.match('a', 'ab') else 0
operator.itemgetter|x * operator.itemgetter('a')({'a': 2})
operator.attrgetter|x * operator.attrgetter('hidden')(cfg)
operator.methodcaller|operator.methodcaller('add', 1)(x)
operator.contains/concat/setitem|x * operator.contains([1], 1)
operator.iadd|operator.iadd(x.clone(), 1)
itertools.groupby|x * len(list(itertools.groupby([1, 1])))
itertools.tee|x * sum(itertools.tee([1, 2])[0])
itertools.combinations_with_replacement|x * len(list(itertools.combinations_with_replacement([1, 2], 2)))
functools.partial call|functools.partial(torch.add, x)(1)
functools.partial kw|functools.partial(F.softmax, dim=-1)(x)
functools.lru_cache|x * lru(3)
functools.cmp_to_key|x * sorted([2, 1], key=functools.cmp_to_key(lambda a, b: a - b))[0]
functools.singledispatch|x * sd(3)
functools.cached_property|x * CP().v
functools.wraps inside|x * mk_wrapped()(3)
functools.partialmethod|x * PM().g(3)
super() in method|Sub().m(x)
super(A, self)|Sub().m2(x)
classmethod/staticmethod|Sub.c(x) + Sub.s(x)
property + setter|prop(x)
class attr write|clsattr(x)
cls.__name__ / __qualname__ / __module__|x * len(Sub.__name__ + Sub.__qualname__)
type(x).__mro__|x * len(Sub.__mro__)
cls.__dict__|x if 'm' in Sub.__dict__ else 0
obj.__class__.__name__|x * len(lin.__class__.__name__)
func.__name__|x * len(lru.__name__)
func.__code__.co_varnames|x * len(mk_wrapped.__code__.co_varnames)
inspect.signature|x * len(inspect.signature(mk_wrapped).parameters)
inspect.isfunction|x if inspect.isfunction(mk_wrapped) else 0
metaclass property|x * WM.p
hasattr dynamic|x if hasattr(dyn, 'zz') and not hasattr(dyn, 'qq') else 0
getattr(torch, name)|getattr(torch, cfg.act)(x)
getattr(F, name)|getattr(F, cfg.act)(x)
module.__dict__|F.__dict__['relu'](x)
vars(obj)|x * vars(cfg)['hidden']
dir(obj)|x if 'hidden' in dir(cfg) else 0
obj.__dict__.items()|x * len(list(cfg.__dict__.items()))
setattr loop|setloop(x)
slots object|SlotC(x).t
weakref.ref()|wr()(x)
warnings.warn|(warnings.warn('w'), x)[1]
logging.info|(lg.info('w'), x)[1]
logger.warning_once lru|(lru('a' * 0 + 'b') if False else 0, x)[1]
print|(print(end=''), x)[1]
time.time|(time.time(), x)[1]
os.environ.get|x if os.environ.get('NOPE') is None else 0
sys.version_info|x if sys.version_info >= (3, 8) else 0
sys.modules check|x if 'torchvision' not in sys.modules else 0
import inside|imp(x)
typing.cast|typing.cast(torch.Tensor, x)
isinstance(obj, typing.Sequence)|x if isinstance([1], collections.abc.Sequence) else 0
isinstance(obj, Mapping)|x if isinstance({}, collections.abc.Mapping) else 0
isinstance(3, numbers.Number)|x if isinstance(3, numbers.Number) else 0
isinstance union|x if isinstance(3, int | float) else 0
callable / id / hash|x if callable(lru) else 0
id(module)|x if id(lin) else 0
hash(str)|x if hash('a') is not None else 0
globals()|x if 'lin' in globals() else 0
locals()|x if 'x' in locals() else 0
eval|x * eval('1 + 1')
assert|asrt(x)
try/except KeyError|tr(x)
try/except AttributeError hasattr style|tr2(x)
raise/catch custom|tr3(x)
match statement|mt(x)
walrus|x * n2 if (n2 := 2) else 0
lambda default|(lambda t, k=2: t * k)(x)
nested class def|ncls(x)
recursion|rec(x, 3)
generator expr sum|sum(x * k for k in range(3))
generator function|sum(gen(x))
dict comprehension|{k: x for k in 'ab'}['a']
star unpack|[*[x], *(x,)][0]
zip(strict=True)|[a for a, b in zip([x], [1], strict=True)][0]
enumerate(start)|[x * i for i, m in enumerate(mods, 1)][0]
reversed(ModuleList)|[m for m in reversed(mods)][0](x)
ModuleList slice|[m for m in mods[1:]][0](x)
mods[-1]|mods[-1](x)
Sequential index|seq[0](x)
len(ModuleList)|x * len(mods)
module.children()|[c for c in seq.children()][0](x)
module.modules()|x * len(list(seq.modules()))
named_modules()|x * len(dict(seq.named_modules()))
state_dict()|x * len(seq.state_dict())
module.training|x if lin.training else 0
module.train()|(lin.train(), x)[1]
module.to(dtype)|lin.to(torch.float32)(x)
module.weight.dtype / .T|x @ lin.weight.T
Parameter made inside|nn.Parameter(torch.ones(2)) * x
nn.Module made inside|nn.ReLU()(x)
nn.Linear made inside|nn.Linear(2, 2)(x).shape[0] * x
register_buffer in forward|regbuf(x)
x.register_hook|hook(x.clone().requires_grad_())
x.backward()|bw(x)
torch.autograd.grad|ag(x)
x.add_ input|x.clone().add_(1)
x[0] = v|setit(x)
x.copy_|x.clone().copy_(x)
x.zero_/fill_|x.clone().zero_().fill_(2)
torch.add(out=)|torch.add(x, 1, out=torch.empty(2, 2))
x.resize_|x.clone().resize_(4)
x.to('cpu', non_blocking)|x.to('cpu', non_blocking=True)
x.cpu().float().half()|x.cpu().float().half().float()
x.is_cuda|x if not x.is_cuda else 0
x.stride() / storage_offset|x * x.stride(0) + x.storage_offset()
x.is_contiguous(memory_format)|x if x.is_contiguous() else 0
x.element_size|x * x.element_size()
x.as_strided|x.as_strided((2,), (1,))
x.unfold|x.unfold(0, 2, 1)
x.expand_as/repeat_interleave|x.expand_as(x).repeat_interleave(2, 0)
x.sum((0, 1), keepdim)|x.sum((0, 1), keepdim=True)
x.max(dim).values|x.max(-1).values
x.topk / sort|x.topk(1).values + x.sort()[0][:, :1]
torch.einsum|torch.einsum('ij,jk->ik', x, x)
x @ x / chunk / split|x @ x.chunk(2)[0].T
F.scaled_dot_product_attention|F.scaled_dot_product_attention(x[None], x[None], x[None])
F.interpolate|F.interpolate(x[None, None], scale_factor=2.0)
F.pad|F.pad(x, (1, 1))
F.one_hot|F.one_hot(torch.arange(2))
F.cross_entropy|F.cross_entropy(x, torch.arange(2))
F.conv2d|F.conv2d(x[None, None], torch.ones(1, 1, 1, 1))
F.grid_sample|F.grid_sample(x[None, None], torch.ones(1, 1, 1, 2))
F.layer_norm/group_norm|F.layer_norm(x, (2,))
F.embedding|F.embedding(torch.arange(2), x)
torch.func.vmap|torch.vmap(lambda t: t * 2)(x)
torch.func.grad|torch.func.grad(lambda t: t.sum())(x)
tensor subclass|x.as_subclass(TS) * 2
torch.utils._pytree.tree_map|torch.utils._pytree.tree_map(lambda t: t + 1, {'a': x})['a']
torch.distributions|torch.distributions.Normal(x, 1).log_prob(x)
nn.init inside|nn.init.zeros_(x.clone())
complex polar (rope)|torch.view_as_real(torch.polar(x, x))
torch.fft|torch.fft.fft(x).real
async def|asy(x)
global statement|glb(x)
nonlocal|nl(x)
del local closure|dl(x)
class with __call__ / __getitem__ / __len__|CC()(x) * CC()[0] * len(CC())
class with __bool__/__eq__/__hash__|x if CC() == CC() else 0
user iterator class|sum(UI(3)) * x
str(x.dtype).split|x if str(x.dtype).split('.')[1] == 'float32' else 0
x.dtype.is_floating_point|x if x.dtype.is_floating_point else 0
x.dtype in (..)|x if x.dtype in (torch.float32, torch.float16) else 0
torch.promote_types/result_type|x.to(torch.promote_types(x.dtype, torch.float64))
x.ndim / x.dim() / x.numel()|x * x.ndim * x.dim() * x.numel()
slice object index|x[slice(0, 1)]
Ellipsis/None index|x[..., None]
negative step / list index|x[[0, 1]]
sorted(key=lambda)|x * sorted([2, 1], key=lambda k: -k)[0]
min(key=)|x * min([2, 1], key=lambda k: -k)
any/all genexp|x if any(k > 0 for k in [0, 1]) and all(k for k in [1]) else 0
round/divmod/pow|x * round(2.6) * divmod(5, 2)[0] * pow(2, 2)
int('3')/float('2')|x * int('3') * float('2')
bin/hex/ord/chr|x * len(bin(3) + hex(3)) * ord('a')
complex()|x * abs(complex(1, 0))
object()|x if object() is not None else 0
type('N', (), {})|x * type('N', (), {'k': 2}).k
""".strip().splitlines()

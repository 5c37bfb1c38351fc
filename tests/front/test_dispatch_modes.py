# ruff: noqa: E501, E702  (programs)
"""__torch_dispatch__ of modes and tensor classes: every program on both sides, what was asked and what came of it."""

import functools
import json
import subprocess
import sys

import narthex as nt
import pytest

PROGRAMS = {
    "a logging mode": """
with Log():
    y = torch.add(x, x); y = y * 2; y.add_(1); torch.zeros(2); y.sum(); y[0]; y.t(); x @ y; torch.cat([x, y]); -y
    x.sum(0); x.sum(0, keepdim=True); torch.arange(3); x.reshape(4); x.max(0); x.split(1); x.to(torch.float64); x > 0
show(y)
x + 1
""",
    "below autograd": """
w = ones().requires_grad_()
with Log():
    y = (x @ w).sum()
show(y, y.requires_grad, y.grad_fn is None)
y.backward()
show(w.grad)
class Inside(Log):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = super().__torch_dispatch__(func, types, args, kwargs)
        told.append(made.requires_grad)
        return made
with Inside():
    show(w.mul(2).requires_grad)
""",
    "modes in modes": """
class Named(Log):
    def __init__(self, name):
        super().__init__()
        self.name = name
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        told.append((self.name, [m.name for m in dispatch._get_current_dispatch_mode_stack()]))
        return func(*args, **(kwargs or {}))
with Named("outer"), Named("inner") as inner:
    x + 1
    with dispatch._disable_current_modes():
        x + 2
    with inner:
        x * 2
show(dispatch._get_current_dispatch_mode(), dispatch.is_in_torch_dispatch_mode())
class Fails(Log):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise ValueError("fails")
with Fails():
    fails(lambda: x + 1)
class Replaces(Log):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.add.Tensor: func = torch.ops.aten.mul.Tensor
        return func(*args, **(kwargs or {}))
with Replaces():
    show(torch.add(x, x * 3))
""",
    "a mode that moves what is made": """
class Wide(Log):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        return made.double() if isinstance(made, torch.Tensor) and made.dtype is torch.float32 else made
with Wide():
    y = torch.add(x, 1)
show(y)
""",
    "a wrapper class": """
a = Wrapped(x)
show(a + 1, 1 + a, a * a, a.sum(), a[0], a.t(), torch.cat([a, a]), a.shape, a.dtype, a.device, torch.nn.functional.relu(a))
show(a + x, x + a, a.split(1), type(a.detach()).__name__)
b = Wrapped(ones())
b.add_(2)
show(b)
""",
    "a wrapper class and gradients": """
a = Wrapped(x).requires_grad_()
y = (a * a).sum()
show(type(y).__name__, y.requires_grad)
y.backward()
show(type(a.grad).__name__, a.grad)
""",
    "a wrapper class that holds parameters": """
p = torch.nn.Parameter(Wrapped(ones()))
show(type(p).__name__, isinstance(p, torch.nn.Parameter), p.requires_grad, p.is_leaf)
m = torch.nn.Linear(2, 2, bias=False)
m.weight = p
y = m(x)
show(type(y).__name__, y)
""",
    "flatten": """
a = Wrapped(x)
show(dispatch.is_traceable_wrapper_subclass(a), dispatch.is_traceable_wrapper_subclass(x))
show(dispatch.transform_subclass(a, lambda name, part: part + 1))
class No(torch.Tensor): pass
fails(lambda: torch.Tensor._make_wrapper_subclass(No, (2,)))
""",
    "refused": """
class Not(torch.Tensor):
    @staticmethod
    def __new__(cls): return torch.Tensor._make_wrapper_subclass(cls, (2, 2))
    __torch_function__ = torch._C._disabled_torch_function_impl
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None): return NotImplemented
fails(lambda: torch.add(Not(), 1))
""",
}
PRELUDE = """
import importlib, json, sys, warnings
torch = importlib.import_module(sys.argv[1])
dispatch = importlib.import_module(sys.argv[1] + ".utils._python_dispatch")
warnings.simplefilter("ignore")
told = []
def ones(): return torch.ones(2, 2)
x = ones()
def text(value):
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size): return [type(value).__name__, *map(text, value)]
    if isinstance(value, Wrapped): return f"Wrapped {text(value.inner)}"
    if isinstance(value, torch.Tensor): return f"{type(value).__name__} {value.tolist()} {value.dtype} {value.requires_grad}"
    return repr(value)
def show(*values): told.append(json.dumps(list(map(text, values))).replace("narthex", "torch"))
def plain(value):
    if isinstance(value, torch.Tensor): return type(value).__name__ + str(list(value.shape))
    if isinstance(value, (list, tuple)): return [plain(part) for part in value]
    return str(value).replace("narthex", "torch")
class Log(dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        told.append((str(func), [t.__name__ for t in types], plain(args), {k: plain(v) for k, v in (kwargs or {}).items() if k not in ("pin_memory", "device")}))
        return func(*args, **(kwargs or {}))
class Wrapped(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, device=inner.device)
    def __init__(self, inner): self.inner = inner
    def __repr__(self): return f"Wrapped({self.inner})"
    __torch_function__ = torch._C._disabled_torch_function_impl
    def __tensor_flatten__(self): return ["inner"], None
    @staticmethod
    def __tensor_unflatten__(parts, context, size, stride): return Wrapped(parts["inner"])
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if str(func) not in ("aten.detach.default", "aten.clone.default", "aten.alias.default"): told.append((str(func), [t.__name__ for t in types]))
        def un(v): return v.inner if isinstance(v, Wrapped) else type(v)(map(un, v)) if isinstance(v, (list, tuple)) else v
        def wrap(v): return Wrapped(v) if isinstance(v, torch.Tensor) else type(v)(map(wrap, v)) if isinstance(v, (list, tuple)) else v
        made = wrap(func(*un(args), **{k: un(v) for k, v in (kwargs or {}).items()}))
        return dispatch.return_and_correct_aliasing(func, args, kwargs, made)
def fails(call):
    try: call()
    except Exception as error: told.append((type(error).__name__, str(error).replace("narthex", "torch").split(" object at")[0]))
    else: told.append("it did not fail")
def each(programs):
    found = {}
    for case, program in programs.items():
        told.clear()
        try: exec(program, dict(globals()))
        except Exception:
            import traceback
            told.append(traceback.format_exc())
        found[case] = list(map(str, told))
    print(json.dumps(found))
"""


@functools.cache
def ran(module: str) -> dict:
    """What every program told, by case."""
    code = PRELUDE + f"each({PROGRAMS!r})"
    done = subprocess.run([sys.executable, "-c", code, module], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("case", PROGRAMS)
def test_is_asked_as_in_pytorch(case):
    theirs = ran("torch")[case]
    assert "Traceback" not in theirs[-1]
    assert ran("narthex")[case] == theirs


def test_a_compiled_function_is_seen_operator_by_operator():
    from narthex.utils._python_dispatch import TorchDispatchMode

    class Log(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    def function(x):
        return nt.sin(x) * 2

    seen, x = [], nt.ones(2)
    compiled = nt.compile(function, backend="eager")
    compiled(x)
    for _ in range(2):
        with Log():
            compiled(x)
    assert seen == ["aten.sin.default", "aten.mul.Tensor"] * 2
    compiled(x)
    assert len(seen) == 4 and compiled.entries == 1

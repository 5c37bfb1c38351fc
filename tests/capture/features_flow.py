"""More cases of features.py: functions, generators, text, exceptions, `with`, containers of modules."""

import contextlib
import functools
import math
import operator

import narthex as torch
import narthex.nn.functional as F
from narthex import nn

from .conftest import ones, ramp
from .features import TABLE, Config, Scope, case, defaults, trained

# ---- closures, arguments, functions


@case()
def closure_read(x):
    k = 3

    def inner(y):
        return y * k + x

    return inner(x)


@case()
def closure_written(x):
    total = 0

    def add(k):
        nonlocal total
        total = total + k
        return total

    add(1)
    return x + add(2) + total


def make_counter():
    count = [0]
    total = 0

    def count_up(x):
        nonlocal total
        total = total + 1
        count.append(total)
        return x * total + len(count)

    return count_up


@case(lambda scale: (ramp(2, 2) * scale, make_counter()))
def closure_of_the_caller_written(x, count_up):
    return count_up(x)


@case()
def default_arguments(x):
    return defaults(x)


@case()
def star_arguments(x):
    values, named = [4, 5], {"shift": 2, "extra": 3}
    return defaults(x, 1, *values, **named) + defaults(x, *[2], shift=4)


@case(lambda scale: (ramp(2, 2) * scale, 2, 3))
def star_parameters(x, *rest, **named):
    return x * rest[0] + rest[1] + len(named)


@case()
def lambdas(x):
    return (lambda f, y: f(y))(lambda y, k=2: y * k, x)


@case()
def partial(x):
    twice = functools.partial(defaults, k=2)
    return twice(x) + functools.partial(twice, x, shift=5)()


HALF = functools.partial(defaults, k=0.5, shift=0)


@case()
def partial_of_the_module(x):
    return HALF(x) + 1


def shouted(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs) * 2

    return inner


@case()
def decorated(x):
    @shouted
    def inner(y):
        """Says something."""
        return y + 1

    return inner(x), inner.__name__, inner.__doc__


@case()
def recursion(x):
    def power(y, n):
        return y if n == 0 else power(y * 2, n - 1)

    return power(x, 4)


@case()
def reduces(x):
    return functools.reduce(operator.add, [x, x * 2], x) + operator.mul(x, 3)


# ---- generators and comprehensions


@case()
def comprehensions(x):
    parts = [x + k for k in range(4) if k % 2]
    return parts, {k: v * 2 for k, v in zip("ab", parts)}, sorted({k % 2 for k in range(5)})


@case()
def generator_expression(x):
    return sum(x * k for k in range(3)), max(len(name) for name in ("a", "bcd")), any(k > 1 for k in range(5))


@case()
def generator_function(x):
    def count(n):
        for k in range(n):
            got = yield x + k
            if got:
                yield x * got

    walk = count(3)
    first = next(walk)
    return first, walk.send(7), list(walk)


@case()
def yield_from(x):
    def inner():
        yield x
        return x * 5

    def outer():
        result = yield from inner()
        yield result
        yield from [x + 1, x + 2]

    return list(outer())


@case()
def generator_left_early(x):
    def count():
        k = 0
        while True:
            yield k
            k += 1

    for k in count():
        if k == 3:
            break
    return x + k


@case()
def unpacked_generator(x):
    q, k, v = (part * 2 for part in (x, x + 1, x + 2))
    return q @ k + v


# ---- text


@case()
def f_strings(x):
    name = f"{x.shape[0]}-{x.dtype!r:>14}|{math.pi:.2f}|{[1, 'a']}|{x.dim()=}"
    return x + len(name), name


@case()
def string_methods(x):
    text = "a,b;c".replace(";", ",").split(",")[1].upper().join(["-", "+"])
    old = "%s %d" % ("a", 2)  # noqa: UP031 - the feature
    return x + len(text), "{} {k:>3}".format("q", k=1), old, text.startswith("-"), "b" in text


# ---- exceptions


@case()
def caught(x):
    try:
        x = x + 1
        raise ValueError("bad", 3)
    except (KeyError, ValueError) as error:
        return x * error.args[1] + len(str(error.args[0]))


@case()
def caught_in_the_caller(x):
    def fails(y):
        if y.dim() == 2:
            raise KeyError("none")
        return y

    try:
        y = fails(x)
    except KeyError:
        y = x - 1
    else:
        y = x * 0
    finally:
        x = x + 1
    return x + y


class Refused(ValueError):
    def __init__(self, message, code):
        super().__init__(message)
        self.code = code


@case()
def exception_of_ones_own(x):
    try:
        try:
            raise Refused("no", 4)
        except KeyError:
            return x
        except Refused as error:
            code = error.code
            raise RuntimeError("outer") from error
    except RuntimeError as error:
        return x + code, str(error), type(error).__name__, isinstance(error.__cause__, Refused)


@case()
def lookup_that_fails(x):
    try:
        return x * TABLE["none"]
    except KeyError:
        pass
    try:
        return x + [1, 2][5]
    except IndexError:
        pass
    try:
        return x + x.no_such_attribute
    except AttributeError:
        return x + 7


@case()
def torch_error_caught(x):
    try:
        return x + x.new_empty(7) if hasattr(x, "new_empty") and False else x @ x[0, :1]
    except RuntimeError:
        return x + 2


@case()
def finally_on_return(x):
    order = []

    def inner(y):
        try:
            return y + 1
        finally:
            order.append("done")

    return inner(x), order


@case()
def loop_with_try(x):
    for k in range(4):
        try:
            if k == 1:
                continue
            if k == 3:
                break
            x = x + k
        finally:
            x = x * 2
    return x


@case()
def asserts(x):
    assert x.shape[0] == 2, f"{x.shape[0]} rows"
    assert isinstance(x, torch.Tensor)
    return x + 1


# ---- with


@case(trained)
def no_grad_inside(x):
    y = x * 2
    with torch.no_grad():
        z = y * 3
    return y, z, z + y


@case(trained)
def enable_grad_inside(x):
    with torch.no_grad():
        z = x * 3
        with torch.enable_grad():
            y = x * 2
    return y, z


@case(trained)
def set_grad_enabled_inside(x):
    with torch.set_grad_enabled(False):
        y = x * 2
    torch.set_grad_enabled(False)
    z = x * 4
    torch.set_grad_enabled(True)
    return y, z, x * 3


@torch.no_grad()
def without_grad(x):
    return x * 2


@case(trained)
def no_grad_as_decorator(x):
    return without_grad(x), x + 1


@case(trained)
def no_grad_left_by_exception(x):
    try:
        with torch.no_grad():
            y = x * 2
            raise ValueError
    except ValueError:
        return y, x * 2


@case()
def null_context(x):
    with contextlib.nullcontext(5) as k:
        return x + k


@case()
def autocast_off(x):
    with torch.autocast("cpu", enabled=False):
        return x @ x


@contextlib.contextmanager
def shifted(box, k):
    box.append(k)
    try:
        yield k + 1
    except KeyError:
        box.append("caught")
    finally:
        box.append("left")


@case()
def context_manager_of_a_generator(x):
    box = []
    with shifted(box, 2) as k:
        x = x + k
    with shifted(box, 3):
        raise KeyError
    return x, box


@case(lambda scale: (ramp(2, 2) * scale, Scope()))
def context_managers_of_ones_own(x, outer):
    with outer as a, Scope(True) as b:
        x = x + a.depth + b.depth
        raise ValueError
    return x + outer.depth


@case(trained)
def exit_stack(x):
    box = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(shifted(box, 1))
        stack.callback(box.append, "called")
        y = x * 2
    return y, x * 2, box


# ---- containers of modules


class Layer(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.weight = nn.Parameter(ramp(2, 2))
        self.register_buffer("shift", ones(2))
        self.k = k

    def forward(self, x):
        return torch.mm(x, self.weight) * self.k + self.shift


class Tree(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({"first": Layer(1), "list": nn.ModuleList([Layer(2), Layer(3)])})
        self.params = nn.ParameterList([nn.Parameter(ones(2, 2))])
        self.named = nn.ParameterDict({"w": nn.Parameter(ones(2))})
        self.chain = nn.Sequential(Layer(1), nn.ReLU())

    def forward(self, x):
        x = self.parts["first"](x)
        for layer in self.parts["list"]:
            x = layer(x)
        for name, part in self.parts.items():
            x = x + len(name) + part.training
        for p in self.params:
            x = x + p
        return self.chain(x) + self.parts["list"][-1](x) + len(self.parts) + self.named["w"]


TREE = Tree()
HOOKED = Layer(2)
HOOKED.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
HOOKED.register_forward_hook(lambda module, args, result: result * module.k)


@case()
def module_containers(x):
    return TREE(x)


@case()
def forward_hooks(x):
    return HOOKED(x)


@case()
def module_walks(x):
    for name, p in TREE.named_parameters():
        if p.dim() == 2:
            x = x + p * len(name)
    return x, [name for name, _ in TREE.named_children()], len(list(TREE.modules()))


class Switched(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = Config()
        self.dropout = nn.Dropout(0.0)
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        self.last = self.dropout(x) * self.config.n_embd
        if self.training:
            return self.last + self.steps
        return self.last


@case(lambda scale: (ramp(2, 2) * scale, Switched()))
def module_attributes_written(x, module):
    return module(x) + module(x), module.steps


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(5, 4)
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 5, bias=False)
        self.tokens.weight = self.head.weight

    def forward(self, tokens, targets=None):
        batch, length = tokens.size()
        assert length <= 8, f"{length} tokens"
        positions = torch.arange(0, length, dtype=torch.long, device=tokens.device)
        x = self.norm(self.tokens(tokens) + positions.view(1, length, 1))
        q, k, v = (t.view(batch, length, 2, 2).transpose(1, 2) for t in (x, x * 2, x + 1))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        x = (F.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(batch, length, 4)
        logits = self.head(x)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)


torch.manual_seed(0)
EMBEDDER = Embedder()


@case(lambda scale: (torch.tensor([[1, 2, scale], [0, 3, 4]]), torch.tensor([[2, 3, 4], [3, 4, -1]])))
def small_language_model(tokens, targets):
    return EMBEDDER(tokens, targets)

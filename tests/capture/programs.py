"""Functions of one feature each, with their arguments: what capture must run as the interpreter does.

A row: the function, what makes its arguments, the number of graphs that it should give (None: not checked).
"""

import narthex as torch

from .conftest import ones, ramp

SCALE = 3
TABLE = {"a": 2, "b": 5}
WEIGHTS = [ones(2, 2), ramp(2, 2)]


class Printed(list):
    """What was printed: of a class that capture does not write to, so that appending ends the graph."""


printed = Printed()


def two():
    return ramp(2, 2), ones(2, 2)


def one():
    return (ramp(2, 2),)


def add(x, y):
    return torch.add(x, y)


def operators(x, y):
    return (x @ y.t() * y + y).sum()


def alpha(x, y):
    return torch.add(x, y, alpha=2)


def numbers(x):
    return x * 2 + 1.5 + True


def reads_global(x):
    return x * SCALE


def reads_table(x):
    return x * TABLE["b"]


def reads_list_of_tensors(x):
    return x + WEIGHTS[0] * WEIGHTS[1]


def loops_over_list(x):
    for weight in WEIGHTS:
        x = x + weight
    return x


def helper(x, scale=2, *, shift=1):
    return x * scale + shift


def inlines(x):
    return helper(x) + helper(x, 3, shift=4)


def nests(x):
    def inner(y):
        return y + x

    return inner(x * 2)


def rebinds_closure(x):
    def inner():
        return x * 2

    x = x + 1
    return inner()


def comprehension(x):
    return [x + k for k in range(3)]


def lambda_argument(x):
    return (lambda f, y: f(y))(lambda y: y + 1, x)


def star(x, y):
    def inner(*args, **kwargs):
        return args[0] + kwargs["y"]

    return inner(*[x], **{"y": y})


def tuple_result(x, y):
    return x + y, (x, 3, None), [y * 2], {"sum": x + 1, "k": "v"}


def shared_result(x):
    part = [x + 1]
    return part, part


def identity(x, y):
    return x


def no_tensor(x):
    return 7


def nothing(x):
    x + 1


def unpacks(x):
    a, (b, c) = x, (x + 1, x + 2)
    a, b = b, a
    return a * b + c


def branches(x):
    if x.dim() == 2 and x.shape[0] == 2 and not x.requires_grad:
        return x + 1
    return x - 1


def asks_kind(x):
    if isinstance(x, torch.Tensor) and x.dtype == torch.float32 and x is not None:
        return x * len(x.shape)
    return x


def while_loop(x):
    k = 0
    while k < 4:
        if k == 2:
            k += 2
            continue
        x = x + k
        k += 1
    return x


def builds(x):
    parts = [x]
    parts.append(x + 1)
    parts.extend((x, x))
    named = {"n": len(parts)}
    named["x"] = parts[-1]
    for key, value in named.items():
        if key == "n":
            x = x + value
    return x, parts, named


def slices(x):
    parts = (x, x + 1, x + 2)[1:]
    return parts[0] + parts[-1]


def zips(x):
    for weight, (k, shift) in zip(WEIGHTS, enumerate((1, 2))):
        x = x + weight * shift + k
    return x


def in_place(x):
    y = x * 1
    y.add_(2)
    y += 1
    return y


def changes_argument(x):
    x.add_(1)
    return x, x * 2


def strings(x):
    name = "a,b".split(",")[1] + "!"
    return x + len(name), name.upper()


def converts(x):
    return x.double().to(torch.float32).cpu() + x.T.half().float()


def dict_comprehension(x):
    parts = {name: x + k for k, name in enumerate("ab")}
    return parts["a"] * parts["b"], parts


def compares(x):
    return x + 1 if 1 < SCALE <= 3 and "a" in TABLE and SCALE not in (1, 2) else x


# ---- breaks


def prints(x, y):
    z = x + y
    printed.append(1)
    return z * y


def prints_in_loop(x):
    for k in range(3):
        printed.append(k)
        x = x + k
    return x


def prints_in_expression(x, y):
    return (x + y) * (printed.append(1) or 2) + [x, y][0]


def prints_in_callee(x):
    def inner(y):
        y = y + 1
        printed.append(2)
        return y * 3

    return inner(x) + inner(x * 2)


def branches_on_data(x):
    if x.sum().item() > 3:
        x = x + 1
    else:
        x = x * 2
    return x + 1


def raises_and_catches(x):
    try:
        x = x + 1
        raise ValueError("a")
    except ValueError as error:
        return x * len(str(error))
    finally:
        printed.append(3)


def shape_error(x):
    try:
        return x + ones(7)
    except RuntimeError:
        return x + 2


def with_block(x):
    with torch.no_grad():
        y = x * 2
    return y + 1


def generator(x):
    return sum(y for y in [x, x + 1])


def formats(x):
    return f"{x.sum().item():.1f}", x + 1


class Counter:
    def __init__(self):
        self.n = 0
        self.shift = 2

    def step(self, x):
        self.n += 1
        return x + self.n

    @property
    def twice(self):
        return self.shift * 2

    @staticmethod
    def plain(x):
        return x + 1

    @classmethod
    def of_class(cls, x):
        return x * 2


def counts(x, counter):
    return counter.step(x) + counter.step(x)


def properties(x, counter):
    return x * counter.twice + counter.plain(x) + counter.of_class(x)


class Base:
    def step(self, x):
        return x + 1


class Derived(Base):
    def step(self, x):
        return super().step(x) * 2


def calls_super(x):
    return Derived().step(x) + DERIVED.step(x)


def kind_of_parameter(x):
    p = PARAMETER
    return x + p, type(p).__name__, isinstance(p, torch.nn.Parameter), isinstance(x, torch.nn.Parameter)


DERIVED = Derived()
PARAMETER = torch.nn.Parameter(ones(2, 2))


def swaps_what_is_the_same(x, y):
    b = x
    x = y
    for k in range(3):
        b = b + y
        printed.append(k)
        x = b + 1
        x, y = y, x
    return x, y


def closure_in_a_loop(x, y):
    for _ in range(3):

        def inner(y, k=1):
            return y * k + x  # noqa: B023 - the variable, not its value: that is the point

        x = inner(y)
        x = x + 1
    return x


class Stack(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([Scaled(k) for k in range(3)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x + self.layers[0](x)


class Scaled(torch.nn.Module):
    def __init__(self, k):
        super().__init__()
        self.weight = torch.nn.Parameter(ones(2, 2))
        self.k = k

    def forward(self, x):
        return torch.mm(x, self.weight) * self.k


def module_tree(x):
    return STACK(x)


STACK = Stack()


def deletes(x):
    y = x + 1
    del x
    return y


def calls_builtin_twice(x):
    first = id(x) > 0
    second = id(x) > 0
    return x + first + second


def with_counter():
    return ramp(2, 2), Counter()


CAPTURED = [add, operators, alpha, tuple_result, star]
CAPTURED_ONE = [
    numbers, reads_global, reads_table, reads_list_of_tensors, loops_over_list, inlines, nests, rebinds_closure,
    comprehension, lambda_argument, shared_result, unpacks, branches, asks_kind, while_loop, builds, slices, zips,
    in_place, changes_argument, strings, compares, deletes, module_tree, converts, dict_comprehension,
]  # fmt: skip
WITHOUT_GRAPH = [(identity, two), (no_tensor, one)]
BROKEN = [
    (prints, two, 2), (prints_in_loop, one, None), (prints_in_expression, two, None), (prints_in_callee, one, None),
    (branches_on_data, one, None), (raises_and_catches, one, None), (shape_error, one, None), (with_block, one, None),
    (generator, one, None), (formats, one, None), (counts, with_counter, None), (calls_builtin_twice, one, None),
    (swaps_what_is_the_same, two, None), (closure_in_a_loop, two, 1), (calls_super, one, None),
    (kind_of_parameter, one, None),
]  # fmt: skip
ROWS = (
    [(function, two, 1) for function in CAPTURED]
    + [(function, one, 1) for function in CAPTURED_ONE]
    + [(function, make, 0) for function, make in WITHOUT_GRAPH]
    + [(nothing, one, None), (properties, with_counter, 1)]
    + BROKEN
)

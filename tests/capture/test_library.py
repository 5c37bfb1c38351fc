"""What packages of models do around their tensors, in one graph each: attributes looked up by a class's own code,
copies, signatures, sentinels, generators that are left, errors that are caught while sizes vary."""

import collections.abc
import copy
import dataclasses
import functools
import inspect
import random
import subprocess
import sys
import warnings

import narthex as torch
import numpy
import pytest
from narthex import _C

from .conftest import ones, ramp, same


class Renamed:
    """Attributes under other names, as configurations of models have them."""

    names = {"size": "width"}  # noqa: RUF012

    def __init__(self):
        self.width, self.parts, self.me = 3, [1, {"k": (2, [3])}], self

    def __getattribute__(self, key):
        if key in super().__getattribute__("names"):
            key = super().__getattribute__("names")[key]
        return super().__getattribute__(key)

    def __setattr__(self, key, value):
        super().__setattr__(super().__getattribute__("names").get(key, key), value)

    @property
    def twice(self):
        return 2 * self.size

    @functools.lru_cache  # noqa: B019 - as programs have it
    def once(self, n):
        return n + 1


class Made(Renamed):
    def __getattr__(self, key):
        if key == "made":
            return 5
        raise AttributeError(key)


class Row(collections.abc.Sequence):
    def __init__(self, values):
        self.values = values

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        return self.values[index]


@dataclasses.dataclass
class Options:
    scale: int = 2
    parts: list = dataclasses.field(default_factory=lambda: [1, 2])


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return grad * 5


CONFIG, MADE, ROW, NOTHING = Renamed(), Made(), Row([1, 2, 3]), object()


def looks_up(x):
    return x * MADE.size + MADE.made + MADE.twice + MADE.once(3) + hasattr(MADE, "none")


def first_even(x):
    for value in ROW:
        if value % 2 == 0:
            break
    return x * value


def copies(x):
    config = copy.deepcopy(CONFIG)
    config.parts[1]["k"][1].append(4)
    config.size = 7
    del config.width
    return x * len(config.parts[1]["k"][1]), config.me is config, hasattr(config, "size"), CONFIG.width, CONFIG.parts


def defaults(x, scale=NOTHING):
    return x if scale is NOTHING else x * scale


def takes(x, *, scale=2):
    return x * scale if "scale" in inspect.signature(takes).parameters else x


CASES = {
    "own lookup": looks_up,
    "deepcopy": copies,
    "deepcopy of data": lambda x: copy.deepcopy([x.shape, {"a": (1, None)}, {"a": 2}["a"]]) and x,
    "asdict": lambda x: x * dataclasses.asdict(Options())["scale"],
    "signature": takes,
    "parameters": lambda x: x * len(inspect.signature(takes).parameters),
    "sentinel": defaults,
    "a generator is left": first_even,
    "function without gradients": lambda x: Square.apply(x) + 1,
    "no fake": lambda x: x if isinstance(x, torch._subclasses.FakeTensor) else x * 2,
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("backend", ["eager", "narthex"])
def test_is_one_graph(name, backend):
    function = CASES[name]
    compiled = torch.compile(function, fullgraph=True, backend=backend)
    for scale in (1, 2, 3):
        x = ramp(2, 2) * scale
        assert same(compiled(x), function(x.clone()))
    assert compiled.entries == 1


class Layer:
    def __init__(self, scale):
        self.scale = scale

    def forward(self, x, y=1):
        return x * self.scale


def test_the_signature_of_a_method_is_asked_once_for_all_objects():
    layers, starts = [Layer(scale) for scale in (2, 3, 4)], []

    def function(x):
        for layer in layers:
            x = layer.forward(x) + len(inspect.signature(layer.forward).parameters)
        return x

    compiled = torch.compile(function, fullgraph=True)
    _C.set_capture_log(lambda event, **info: starts.append(event) if event == "start" else None)
    try:
        assert same(compiled(ramp(2)), function(ramp(2)))
    finally:
        _C.set_capture_log(None)
    assert len(starts) == 2  # up to the first question, and to the end


def test_a_copy_is_made_anew_and_what_it_is_made_of_is_guarded():
    table = {"a": [1]}
    compiled = torch.compile(lambda x: (copy.deepcopy(table), x + 1), fullgraph=True)
    first, second = compiled(ramp(1))[0], compiled(ramp(1))[0]
    assert first == second == table and first is not second and first["a"] is not table["a"]
    table["a"].append(2)
    assert compiled(ramp(1))[0] == {"a": [1, 2]} and compiled.entries == 2


def test_a_copy_by_code_of_the_class_ends_the_graph():
    class Own:
        def __deepcopy__(self, memo):
            return 3

    own = Own()
    compiled = torch.compile(lambda x: x * copy.deepcopy(own))
    assert same(compiled(ramp(2)), ramp(2) * 3)


def test_a_generator_whose_end_runs_code_ends_the_graph():
    log = []

    def parts():
        try:
            yield 1
        finally:
            log.append("end")

    def function(x):
        for part in parts():
            x = x * part
            break
        return x

    with pytest.raises(RuntimeError, match="a generator inside try or with"):
        torch.compile(function, fullgraph=True)(ramp(2))
    assert same(torch.compile(function)(ramp(2)), ramp(2)) and log


def test_gradients_of_a_function_of_ones_own():
    compiled = torch.compile(lambda x: Square.apply(x).sum())
    for gives in (True, False, True):
        x = (ramp(2) + 1).requires_grad_(gives)
        result = compiled(x)
        assert result.tolist() == 5 and result.requires_grad is gives
        if gives:
            result.backward()
            assert x.grad.tolist() == [5, 5]


def test_errors_that_are_caught_while_sizes_vary():
    def function(x):
        try:
            n = CONFIG.none
        except AttributeError:
            n = 2
        try:
            n += [1, 2][3]
        except IndexError:
            n += 1
        return x.view(-1)[: x.size(0)] * n + sum(ROW)

    compiled = torch.compile(function, fullgraph=True)
    for n in (2, 3, 4, 5):
        assert same(compiled(ramp(n, 2)), function(ramp(n, 2)))
    assert compiled.entries == 2


def test_a_write_into_what_the_graph_made_beside_inputs_that_share_memory():
    table = ramp(4)
    parts = [table[:2], table[:2]]

    def function(x):
        y = x + parts[0]
        y += parts[1]
        return y

    compiled = torch.compile(function, fullgraph=True)
    for _ in range(2):
        assert same(compiled(ramp(2)), function(ramp(2)))
        table.add_(1)
    assert compiled.entries == 1


class Drops(torch.nn.Module):
    """Layers that are left out by chance while one trains."""

    def __init__(self, draw):
        super().__init__()
        self.draw = draw

    def forward(self, x):
        for _ in range(3):
            chance = self.draw()
            if self.training and chance < 0.5:
                continue
            x = x * 2
        return x


DRAWS = {
    "random.random": random.random,
    "random.uniform": lambda: random.uniform(0, 1),
    "random.gauss": lambda: random.gauss(0, 1),
    "Random": random.Random(3).random,
    "of numpy": lambda: numpy.random.uniform(0, 1),
    "of numpy's new ones": numpy.random.default_rng(3).random,
}


@pytest.mark.parametrize("name", DRAWS)
def test_random_numbers_that_nobody_looks_at_are_drawn_by_each_run(name):
    draw, following = DRAWS[name], []
    for wrap in (lambda model: model, lambda model: torch.compile(model, fullgraph=True)):
        random.seed(3), numpy.random.seed(3)
        model = wrap(Drops(draw).eval())
        if name == "Random":
            draw.__self__.seed(3)
        elif name == "of numpy's new ones":
            draw.__self__.bit_generator.state = numpy.random.default_rng(3).bit_generator.state
        for k in range(3):
            assert model(ones(2) + k).tolist() == [8 * (k + 1)] * 2
        following.append(draw())
    assert following[0] == following[1]


@pytest.mark.parametrize("function", [lambda x: x * random.random(), lambda x: (x + 1, random.uniform(0, 1))])
def test_random_numbers_that_are_used_end_the_graph(function):
    found = []
    for each in (function, torch.compile(function)):
        random.seed(3)
        found.append([each(ramp(2)) for _ in range(3)])
    assert same(*found)
    with pytest.raises(_C.Unsupported, match=r"Random\.(random|uniform)"):
        torch.compile(function, fullgraph=True)(ramp(2))


def test_a_layer_left_out_by_chance_trains_as_uncompiled():
    found = []
    for wrap in (lambda model: model, torch.compile):
        random.seed(3)
        model = wrap(Drops(random.random))
        found.append([model(ones(2)).tolist() for _ in range(6)])
    assert found[0] == found[1] and len({str(x) for x in found[0]}) > 1


def test_warnings_are_given_at_each_call_where_the_program_gives_them():
    def inner(x):
        warnings.warn("deep", DeprecationWarning, stacklevel=2)
        return x

    def function(x):
        warnings.warn("careful")  # noqa: B028 - as programs have it
        return inner(x) + 1

    seen = []
    for each in (function, torch.compile(function, fullgraph=True)):
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            each(ramp(2)), each(ramp(2))
        seen.append([(str(w.message), w.category, w.filename, w.lineno) for w in given])
    assert seen[0] == seen[1] and len(seen[0]) == 4


@pytest.mark.parametrize("level", [1, 2, 3, 4, 20])
@pytest.mark.parametrize("ends", [False, True])
def test_warnings_beyond_the_function_are_at_the_line_of_each_call(level, ends):
    def inner(x):
        warnings.warn("deep", stacklevel=level)
        return x * 2

    def function(x):
        if ends:
            torch._dynamo.graph_break()
        return inner(x) + 1

    def caller(each):
        return each(ramp(2))

    seen = []
    for each in (function, torch.compile(function, fullgraph=not ends)):
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            caller(each), each(ramp(2))
        seen.append([(w.filename, w.lineno) for w in given])
    assert seen[0] == seen[1] and len(seen[0]) == 2


def test_functions_by_class_follow_what_is_registered():
    @functools.singledispatch
    def factor(of):
        return 2

    factor.register(int)(lambda of: 3)

    def function(x, of):
        return x * factor(of)

    class Listed(list):
        pass

    compiled, given = torch.compile(function, fullgraph=True), (5, "a", Listed(), True)
    assert [compiled(ones(1), of).item() for of in given] == [3, 2, 2, 3]
    factor.register(list)(lambda of: 7)
    factor.register(int)(lambda of: 8)
    factor.register(collections.abc.Hashable)(lambda of: 9)
    assert [compiled(ones(1), of).item() for of in given] == [function(1, of) for of in given] == [8, 9, 7, 8]


def test_all_names_of_an_object():
    class Settings:
        size = 1

        def __init__(self):
            self.own = 1

    def function(x, settings):
        return x + len([name for name in dir(settings) if name[0] != "_"]) + 10 * ("more" in dir(Settings))

    compiled, settings = torch.compile(function, fullgraph=True), Settings()
    assert compiled(ones(1), settings).item() == 3
    settings.other = 2
    assert compiled(ones(1), settings).item() == 4
    Settings.more = 3
    assert compiled(ones(1), settings).item() == 15


def test_map_gives_its_function_the_very_containers():
    def function(x):
        parts = [{"a": x}, {"a": x + 1}]

        def twice(part):
            part["b"] = part["a"] * 2
            return part

        made = list(map(twice, parts))
        return made[0] is parts[0], parts[1]["b"], list(map(torch.add, [x, x], [1, 2]))

    found, expected = torch.compile(function, fullgraph=True)(ramp(2)), function(ramp(2))
    assert found[0] is True and same(found[1], expected[1]) and same(found[2][1], expected[2][1])


def test_a_warning_that_is_an_error_is_caught():
    def function(x):
        try:
            warnings.warn("careful")  # noqa: B028 - as programs have it
        except UserWarning:
            return x * 5
        return x

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same(torch.compile(function)(ramp(2)), ramp(2) * 5)


EVALS = [("1 + 1", True), (" (2, 'a')[0]", True), ("scale * 2", False), ("len([0 for _ in ()])", False)]


@pytest.mark.parametrize(("text", "is_one"), [*EVALS, ("[1, 2]", False), ("1 / 0", False)])
def test_eval_of_constants(text, is_one, check):
    """What names nothing is a constant of the graph; other text runs as code, and errors are the program's."""

    def function(x, scale):
        try:
            made = eval(text)
        except ZeroDivisionError:
            made = 7
        return x * (made if isinstance(made, int) else len(made))

    check(function, lambda: (ones(2), 3), fullgraph=is_one)
    if not is_one:
        with pytest.raises(_C.Unsupported, match=r"function eval|\(eval\)"):
            torch.compile(function, fullgraph=True)(ones(2), 3)


def test_a_tensor_of_a_size_that_varies():
    compiled = torch.compile(lambda x: x / torch.sqrt(torch.tensor(x.size(0), dtype=torch.float) * 2), fullgraph=True)
    for n in (2, 8, 18, 32):
        assert same(compiled(ramp(n)), ramp(n) / (2 * n) ** 0.5)
    assert compiled.entries == 2


def test_requires_grad_of_what_does_already(check):
    def function(x, w):
        y = (x @ w).requires_grad_()
        return y.tanh(), x.requires_grad_(False)

    compiled = check(function, lambda: (ones(2, 2), ones(2, 2).requires_grad_()), fullgraph=True)
    assert len(compiled.graphs) == 1
    with pytest.raises(_C.Unsupported, match="requires_grad_, which makes a leaf"):
        torch.compile(lambda x: x.requires_grad_() * 1, fullgraph=True)(ones(2))


def test_modules_of_ours_are_loaded_for_a_trace():
    program = """
import sys
import narthex as torch

@torch.compile(fullgraph=True, backend="eager")
def function(x):
    import narthex.utils.flop_counter as found
    return x + len(found.__name__)

assert "narthex.utils.flop_counter" not in sys.modules
print(function(torch.ones(1)).item())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == f"{1.0 + len('narthex.utils.flop_counter')}\n", done.stderr


class Spectral(torch.nn.Module):
    """What it remembers is replaced through .data, as older spectral norms do."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.u, self.v = (torch.nn.Parameter(torch.randn(n), requires_grad=False) for n in (4, 3))
        self.weight = torch.nn.Parameter(torch.randn(4, 3))
        self.register_buffer("calls", torch.zeros(2))

    def forward(self, x):
        self.v.data = torch.mv(self.weight.data.t(), self.u.data)
        self.v.data = self.v.data / self.v.norm()
        self.u.data = torch.mv(self.weight.data, self.v.data)
        self.calls.data = self.calls + 1
        self.calls.add_(1)
        return x @ (self.weight / self.u.dot(self.weight.mv(self.v))) + self.calls.sum()


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_data_of_what_existed_before_is_replaced_by_each_run(mode):
    found = []
    for wrap in (lambda model: model, lambda model: torch.compile(model, fullgraph=True, mode=mode)):
        model, steps = Spectral(), []
        call = wrap(model)
        for k in range(4):
            y = call(ramp(2, 4) + k)
            y.sum().backward()
            state = [p.detach().clone() for p in (model.u, model.v, model.weight.grad, model.calls)]
            steps.append([y.detach(), model.calls._version, *state])
        found.append(steps)
    for expected, got in zip(*found, strict=True):
        assert got[1] == expected[1]
        torch.testing.assert_close([got[0], *got[2:]], [expected[0], *expected[2:]])


@pytest.mark.parametrize("change", [lambda x: None, lambda x: x.add_(1), lambda x: x.data.mul_(3)])
def test_data_becomes_that_of_another_tensor(change):
    def function(x, y):
        x.data = y
        change(x)
        return x + y

    found = []
    for each in (function, torch.compile(function, fullgraph=True)):
        x, y, z = ramp(2), ones(2), ones(2) * 5
        shown, results = x.view(2), [each(x, y)]
        results += [x.clone(), y.clone(), shown, torch.tensor(x.data_ptr() == y.data_ptr())]
        results += [each(x, z), x.clone(), y, z, each(x, x), x]
        found.append(results)
    assert same(*found)


def test_data_of_what_has_a_gradient_ends_the_graph():
    def function(x):
        x.data = x.data + 1
        return x * 2

    with pytest.raises(_C.Unsupported, match=r"Parameter\.data"):
        torch.compile(function, fullgraph=True)(torch.nn.Parameter(ramp(2)))

"""torch.compile(module) and torch.compile(object): what a call runs is found at each call, and nothing of it stays."""

import copy
import functools
import gc
import operator
import pickle
import weakref

import narthex as nt
import pytest
from narthex import nn


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(nt.tensor([2.0, 3.0]))

    def forward(self, x):
        return x * self.weight


class Calls(nn.Module):
    """Overrides __call__."""

    def __call__(self, x):
        return super().__call__(x) + 1

    def forward(self, x):
        return x * 5


class Count:
    def __call__(self, x):
        return x + 1


@nt.compile
def compiled_function(x):
    "Adds one."
    return x + 1


X = nt.tensor([1.0, 10.0])


def counted(graphs):
    def backend(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    return backend


def test_a_forward_that_is_changed_later_is_the_one_that_runs():
    graphs, model = [], Scale()
    compiled = nt.compile(model, backend=counted(graphs))
    assert compiled(X).tolist() == [2, 30] and len(graphs) == 1
    model.forward = lambda x: x - 1
    assert compiled(X).tolist() == [0, 9] and len(graphs) == 2
    del model.forward
    assert compiled(X).tolist() == [2, 30] and len(graphs) == 2

    class Later(Scale):
        pass

    later = Later()
    compiled = nt.compile(later, backend=counted(graphs))
    assert compiled(X).tolist() == [2, 30] and len(graphs) == 3
    Later.forward = lambda self, x: x * self.weight * 2
    assert compiled(X).tolist() == [4, 60] and len(graphs) == 4
    Later.__call__ = lambda self, x: x + 100
    assert compiled(X).tolist() == [101, 110] and len(graphs) == 5


def test_a_class_with_its_own_call():
    graphs = []
    compiled = nt.compile(Calls(), backend=counted(graphs), fullgraph=True)
    assert compiled(X).tolist() == [6, 51] and compiled(X).tolist() == [6, 51] and len(graphs) == 1


def test_hooks_are_part_of_the_graph():
    graphs, seen, model = [], [], Scale()
    compiled = nt.compile(model, backend=counted(graphs), fullgraph=True)
    handle = model.register_forward_hook(lambda module, args, result: result + 1)
    first = model.register_forward_pre_hook(lambda module, args: args[0] * 10)
    for _ in range(3):
        assert compiled(X).tolist() == model(X).tolist() == [21, 301]
    assert len(graphs) == 1 and "result + 1" in graphs[0].code
    assert compiled.forward(X).tolist() == [21, 301]  # PyTorch's forward runs them, too
    handle.remove()
    first.remove()
    assert compiled(X).tolist() == [2, 30] and len(graphs) == 2
    compiled.register_forward_hook(lambda module, args, result: seen.append(module) or result - 1)
    assert compiled(X).tolist() == [1, 29] and len(graphs) == 2 and seen == [compiled]
    assert model(X).tolist() == [2, 30]


def test_objects_with_a_call():
    graphs, count = [], Count()
    compiled = nt.compile(count, backend=counted(graphs))
    assert compiled(X).tolist() == compiled(X).tolist() == [2, 11] and len(graphs) == 1
    before = Count.__call__
    Count.__call__ = lambda self, x: x + 5
    try:
        assert compiled(X).tolist() == [6, 15] and len(graphs) == 2
    finally:
        Count.__call__ = before
    assert compiled(X).tolist() == [2, 11] and len(graphs) == 2


def test_the_original_is_copied_and_pickled():
    model = Scale()
    compiled = nt.compile(model)
    assert compiled(X).tolist() == [2, 30]
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with nt.no_grad():
            other.weight.fill_(7)
        assert other(X).tolist() == [7, 70] and model(X).tolist() == [2, 30]


def test_a_compiled_module_is_copied():
    compiled = nt.compile(Scale(), fullgraph=True)
    assert compiled(X).tolist() == [2, 30]
    other = copy.deepcopy(compiled)
    assert isinstance(other, nt._dynamo.OptimizedModule) and other._orig_mod is not compiled._orig_mod
    with nt.no_grad():
        other.weight.fill_(7)
    assert other(X).tolist() == [7, 70] and compiled(X).tolist() == [2, 30]


def test_a_module_compiled_in_place_is_copied_uncompiled():
    model = Scale()
    model.compile(fullgraph=True)
    seen = []
    assert model(X).tolist() == [2, 30] and model._compiled_call_impl is not None
    other = copy.deepcopy(model)
    assert "_compiled_call_impl" not in vars(other) and not other._has_hooks
    with nt.no_grad():
        other.weight.fill_(7)
    assert other(X).tolist() == [7, 70] and model(X).tolist() == [2, 30]
    handle = model.register_forward_hook(lambda module, args, result: seen.append(1) or result * 2)
    assert model(X).tolist() == [4, 60] and seen == [1]
    handle.remove()
    assert model(X).tolist() == [2, 30] and model._has_hooks


def test_no_wrapper_outlives_its_user():
    model = Scale()
    compiled = nt.compile(model)
    compiled(X)
    gone = weakref.ref(compiled)
    del compiled
    gc.collect()
    assert gone() is None


def test_the_wrapper_answers_for_the_module():
    model = Scale()
    compiled = nt.compile(model)
    assert type(compiled.dynamo_ctx) is nt._dynamo.eval_frame.OptimizeContext
    other = nt._dynamo.OptimizedModule(model, compiled.dynamo_ctx)
    assert other(X).tolist() == [2, 30] and other._orig_mod is model
    assert compiled._torchdynamo_orig_callable == model.forward
    model.eval()
    assert compiled.training is False and compiled.train() is compiled and model.training is True
    with pytest.raises(TypeError, match=r"^Scale does not support len\(\)$"):
        len(compiled)
    assert len(nt.compile(nn.Sequential(nn.ReLU(), nn.ReLU()))) == 2


def test_compiled_modules_inside_compiled_functions_and_modules():
    graphs, inner = [], nt.compile(Scale())
    outer = nn.Sequential(inner, Calls())
    for f in (lambda x: inner(x) + 1, nt.compile(outer), outer):
        compiled = nt.compile(f, backend=counted(graphs), fullgraph=True)
        assert compiled(X).tolist() == f(X).tolist() == compiled(X).tolist()
    assert len(graphs) == 3
    model = inner._orig_mod
    compiled = nt.compile(lambda x: inner(x), backend=counted(graphs), fullgraph=True)
    assert compiled(X).tolist() == [2, 30]
    model.register_forward_hook(lambda module, args, result: result + 1)
    assert compiled(X).tolist() == [3, 31]


def test_compiled_functions_are_copied_and_pickled_as_functions_are():
    assert copy.deepcopy(compiled_function) is compiled_function
    assert pickle.loads(pickle.dumps(compiled_function)) is compiled_function
    assert compiled_function.__name__ == "compiled_function" and compiled_function.__doc__ == "Adds one."
    assert compiled_function.__module__ == __name__
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(nt.compile(lambda x: x))


def test_classes():
    graphs = []

    @nt.compile(backend=counted(graphs))
    class Adds:
        def __call__(self, x):
            return x + 3

    assert isinstance(Adds, type) and Adds()(X).tolist() == [4, 13] and len(graphs) == 1


def test_a_replaced_optimize_is_the_way_of_torch_compile(monkeypatch):
    calls, before = [], nt._dynamo.optimize

    def optimize(*args, **kwargs):
        calls.append((args, kwargs))
        return before(*args, **kwargs)

    monkeypatch.setattr(nt._dynamo, "optimize", optimize)
    assert nt.compile(Scale(), backend="eager", dynamic=False)(X).tolist() == [2, 30]
    ((args, kwargs),) = calls
    assert (
        args == ()
        and kwargs["backend"].compiler_name == "eager"
        and isinstance(kwargs["backend"], nt._TorchCompileWrapper)
    )
    assert (kwargs["nopython"], kwargs["dynamic"], kwargs["disable"]) == (False, False, False)
    monkeypatch.setattr(nt._dynamo, "optimize", lambda **kwargs: lambda model: "mine")
    assert nt.compile(Scale()) == "mine" and nt.compile(backend="eager")(Scale()) == "mine"


def test_reset_forgets_what_was_compiled():
    compiled = nt.compile(Scale())
    compiled(X)
    assert compiled.forward.entries == 1 and compiled.forward in nt._dynamo.eval_frame.captured_functions
    nt._dynamo.reset()
    assert compiled.forward.entries == 0 and compiled(X).tolist() == [2, 30]


def test_is_compiling_is_true_in_captured_code_alone():
    def f(x):
        both = nt._dynamo.is_compiling(), nt.compiler.is_dynamo_compiling()
        return (x + 1 if nt.compiler.is_compiling() else x - 1), both

    result, both = nt.compile(f, fullgraph=True)(X)
    assert result.tolist() == [2, 11] and both == (True, True)
    result, both = f(X)
    assert result.tolist() == [0, 9] and both == (False, False)
    seen = []
    nt.compile(lambda x: (nt._dynamo.disable(lambda: seen.append(nt.compiler.is_compiling()))(), x + 1))(X)
    assert seen == [False]


def adds(x, y):
    return x + y


@pytest.mark.parametrize("fn, args, expected", [
    (functools.partial(adds, nt.tensor([1.0])), (X,), [2, 11]),
    (nt.add, (X, X), [2, 20]),
    (nt.Tensor.add, (X, X), [2, 20]),
    (operator.mul, (X, X), [1, 100]),
], ids=["partial", "torch", "method", "operator"])  # fmt: skip
def test_callables_without_python_code_are_captured(fn, args, expected):
    graphs = []
    compiled = nt.compile(fn, backend=counted(graphs), fullgraph=True)
    assert compiled(*args).tolist() == compiled(*args).tolist() == expected and len(graphs) == 1


def test_generator_functions_raise_where_no_break_is_allowed():
    def numbers(x):
        yield x + 1

    async def later(x):
        return x

    for f in (numbers, later):
        with pytest.raises(nt._C.Unsupported, match="generator or coroutine function"):
            nt.compile(f, fullgraph=True)(X)
    assert next(nt.compile(numbers)(X)).tolist() == [2, 11]


@pytest.mark.parametrize("make", [
    lambda p: nt.optim.SGD(p, lr=0.1, momentum=0.9),
    lambda p: nt.optim.AdamW(p, lr=0.1),
    lambda p: nt.optim.Adam(p, lr=0.1, foreach=False),
], ids=["sgd", "adamw", "adam"])  # fmt: skip
def test_an_optimizer_step_in_a_compiled_function(make):
    """It ends the graph where it must, instead of raising."""
    results = []
    for compile in (lambda f: f, lambda f: nt.compile(f)):
        nt.manual_seed(0)
        model = nn.Linear(2, 2)
        optimizer = make(model.parameters())

        def step(x, model=model, optimizer=optimizer):
            loss = model(x).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach() * 2

        run = compile(step)
        results.append([[run(X).item() for _ in range(4)], model.weight.tolist()])
    assert results[0] == results[1]


def test_a_resized_out_in_a_compiled_function():
    def f(x, out):
        y = x + 1
        nt.add(x, y, out=out)
        return out * 2

    out, other = nt.empty(0), nt.empty(0)
    assert nt.compile(f)(X, out).tolist() == f(X, other).tolist() and out.tolist() == other.tolist() == [3, 21]
    with pytest.raises(nt._C.Unsupported, match="resizes the tensor"):
        nt.compile(f, fullgraph=True)(X, nt.empty(0))


def test_operators_are_copied_as_what_they_are():
    packet = nt.ops.aten.add
    assert copy.deepcopy(packet) is packet and copy.deepcopy(packet.Tensor) is packet.Tensor
    assert copy.deepcopy(nt.ops.aten) is nt.ops.aten and copy.copy(packet) is packet

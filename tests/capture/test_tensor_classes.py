"""Tensors of classes of one's own in a compiled function: one graph, the class asked as uncompiled, results
of its class; torch.Tensor(...) as a call."""

from typing import Any

import narthex as nt
import pytest


def classes(lib: Any) -> dict[str, Any]:
    class Plain(lib.Tensor):
        pass

    class Below(Plain):
        pass

    class Silent(lib.Tensor):
        __torch_function__ = lib._C._disabled_torch_function_impl

    class Counting(lib.Tensor):
        calls = 0

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            Counting.calls += 1
            return super().__torch_function__(func, types, args, kwargs or {})

    class Named(lib.Tensor):
        names: list = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            Named.names.append(func.__name__)
            with lib._C.DisableTorchFunctionSubclass():
                made = func(*args, **(kwargs or {}))
            kept = not isinstance(made, lib.Tensor) or func is lib.Tensor.shape.__get__
            return made if kept else made.as_subclass(Named)

    handled: dict = {lib.sin: lambda x: lib.cos(x.as_subclass(lib.Tensor))}

    class Handling(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func in handled:
                return handled[func](*args, **(kwargs or {}))
            return super().__torch_function__(func, types, args, kwargs or {})

    return {c.__name__: c for c in (Plain, Below, Silent, Counting, Named, Handling)}


EXPRESSIONS = """
x * 2 + 1
lib.sin(x) + x.shape[0]
(x.sum(), x.dtype, x.shape, x.size(0), x.ndim, len(x), x.requires_grad)
(lib.nn.functional.relu(x), lib.stack([x, x]), lib.cat([x, lib.ones(2, 2)]))
x.t() @ x
written(x.clone())
x.add_(1)
lib.Tensor(x) + 1
x.as_subclass(Plain) * 2
(x.split(1), x.max(0))
Plain(x) * 2
lib.Tensor._make_subclass(Plain, x.detach()) * 3
(x.T, x.data, x.grad)
(lib.zeros_like(x), x.new_ones(2), x.to(lib.float64), isinstance(x, Plain), type(x).__name__)
([row for row in x], x[0], x[:, 1], -x, 2 - x, x / 3, 1 / x, x**2, x == 1)
x * x.tag
(lib.Tensor(x), lib.Tensor([1.0, 2.0]), lib.Tensor(2, 3).shape, lib.Tensor().shape, lib.Tensor((1, 2)))
""".strip().splitlines()


def written(x: Any) -> Any:
    x.add_(1)
    x[0] = 3
    return x


def described(lib: Any, value: Any) -> Any:
    if isinstance(value, lib.Tensor):
        plain = value.detach().as_subclass(lib.Tensor)
        return type(value).__name__, plain.tolist(), value.requires_grad
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [described(lib, part) for part in value]
    return str(value).replace("narthex", "torch")


def runs(lib: Any, text: str, kind: str, backend: str = "") -> list:
    """Results of two calls and what the classes were asked for; without a backend uncompiled."""
    known = classes(lib)
    space: dict = {"lib": lib, "written": written, **known}
    exec(f"def function(x):\n    return {text}", space)
    function = space["function"]
    called = lib.compile(function, fullgraph=True, backend=backend) if backend else function
    found = []
    for scale in (1, 2):
        x = (lib.arange(4.0).view(2, 2) + scale).as_subclass(known[kind])
        x.tag = 5
        known["Counting"].calls = 0
        known["Named"].names.clear()
        result = called(x)
        asked = known["Counting"].calls, tuple(known["Named"].names)
        found.append((described(lib, result), asked))
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", classes(nt))
@pytest.mark.parametrize("text", EXPRESSIONS)
def test_is_one_graph(text: str, kind: str) -> None:
    wanted = runs(nt, text, kind)
    for backend in ("eager", "inductor"):
        assert runs(nt, text, kind, backend) == wanted


def close(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, float):
        return abs(found - wanted) <= 1e-5 * max(1.0, abs(wanted))
    if isinstance(wanted, (list, tuple)):
        return len(found) == len(wanted) and all(map(close, found, wanted))
    return found == wanted


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ("Plain", "Below", "Silent", "Handling"))
@pytest.mark.parametrize("text", EXPRESSIONS[:9])
def test_results_are_pytorchs(text: str, kind: str) -> None:
    torch = pytest.importorskip("torch")
    for (found, _), (wanted, _) in zip(runs(nt, text, kind, "eager"), runs(torch, text, kind)):
        assert close(found, wanted)


class Changing(nt.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


def test_the_class_is_guarded() -> None:
    def function(x):
        return x * 2

    compiled = nt.compile(function, fullgraph=True, backend="eager")
    plain, own = nt.ones(2), nt.ones(2).as_subclass(Changing)
    for x in (own, plain, own):
        assert type(compiled(x)) is type(x) and compiled.entries <= 2
    before = Changing.__dict__["__torch_function__"]
    Changing.__torch_function__ = classmethod(lambda cls, func, types, args=(), kwargs=None: 7)
    try:
        assert compiled(own) == function(own) == 7
    finally:
        Changing.__torch_function__ = before
    with nt._C.DisableTorchFunctionSubclass():
        assert type(compiled(own)) is type(function(own)) is nt.Tensor


def test_gradients_reach_what_a_class_was_made_of() -> None:
    def function(x):
        return (x * x.as_subclass(Changing)).sum()

    for f in (function, nt.compile(function, fullgraph=True)):
        x = nt.arange(3.0).requires_grad_()
        made = f(x)
        made.backward()
        assert type(made) is Changing and x.grad.tolist() == [0, 2, 4]


def test_a_class_that_dispatches_ends_the_graph() -> None:
    class Dispatching(nt.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    def function(x):
        return x * 2

    x = nt.ones(2).as_subclass(Dispatching)
    with pytest.raises(RuntimeError, match="a tensor of a class of the user's own"):
        nt.compile(function, fullgraph=True)(x)

"""What stands around capture in PyTorch: contexts, stances, guards that fail, the backend that is meant by none."""

from typing import Any

import narthex as nt
import pytest
import torch
import torch._dynamo.testing

BOTH = pytest.mark.parametrize("m", [nt, torch], ids=["ours", "theirs"])


@BOTH
def test_forced_backends(m: Any) -> None:
    """Compiled functions use it while it is forced, those compiled before too, and their own again afterwards."""
    m._dynamo.reset()
    own, forced = m._dynamo.testing.CompileCounter(), m._dynamo.testing.CompileCounter()
    compiled = m.compile(lambda x: x * 2, backend=own)
    x = m.ones(3)
    compiled(x)
    with m.compiler.set_stance("default", force_backend=forced):
        assert compiled(x).tolist() == [2, 2, 2] and (own.frame_count, forced.frame_count) == (1, 1)

    @m.compiler.set_stance("default", force_backend="eager")
    def inside() -> Any:
        return compiled(x + 1)

    assert inside().tolist() == [4, 4, 4] and forced.frame_count == 1
    compiled(x)
    assert forced.frame_count == 1
    with pytest.raises(RuntimeError, match="non-default stance cannot have force_backend set"):
        m.compiler.set_stance("force_eager", force_backend="eager")


def test_a_forced_engine_takes_open_sizes() -> None:
    compiled = nt.compile(lambda x: x.view(x.size(0) * 2, -1).sum(), backend="eager", dynamic=True)
    with nt.compiler.set_stance("default", force_backend="narthex"):
        assert [compiled(nt.ones(n, 4)).item() for n in (2, 3, 5)] == [8, 12, 20]
    assert compiled(nt.ones(7, 4)).item() == 28


@BOTH
@pytest.mark.parametrize("stance", ["eager_then_compile", "aot_eager_then_compile"])
def test_a_first_call_that_is_not_compiled(m: Any, stance: str) -> None:
    """The second call leaves open what changed since the first; what is compiled stays so after the stance."""
    m._dynamo.reset()
    m._dynamo.eval_frame._EXAMPLE_INPUTS = None  # PyTorch keeps the first calls of each line for good
    counter, counts = m._dynamo.testing.CompileCounter(), []
    compiled = m.compile(lambda x, k: x * k[0], backend=counter)
    with m.compiler.set_stance(stance):
        for sizes in ((3, 4), (5, 4), (7, 4), (7, 6)):
            assert compiled(m.ones(*sizes), k=[2]).tolist() == (m.ones(*sizes) * 2).tolist()
            counts.append(counter.frame_count)
    assert compiled(m.ones(9, 4), k=[2]).shape == (9, 4)
    assert [*counts, counter.frame_count] == [0, 1, 1, 2, 2]


@BOTH
def test_modules_and_functions_compiled_before(m: Any) -> None:
    m._dynamo.reset()
    m._dynamo.eval_frame._EXAMPLE_INPUTS = None
    counter = m._dynamo.testing.CompileCounter()
    module, before = m.compile(m.nn.Linear(3, 3), backend=counter), m.compile(lambda x: x + 1, backend=counter)
    before(m.ones(2))
    with m.compiler.set_stance("eager_then_compile"):
        for n in (3, 4, 5):
            assert module(m.ones(n, 3)).shape == (n, 3)
        before(m.ones(2))
    assert counter.frame_count == 2


@BOTH
def test_guards_that_need_not_be_asked(m: Any) -> None:
    m._dynamo.reset()
    counter = m._dynamo.testing.CompileCounter()
    compiled = m.compile(lambda x, k: x * k, backend=counter, dynamic=False)
    compiled(m.ones(3), 2), compiled(m.ones(3), 3)
    with m.compiler.set_stance(skip_guard_eval_unsafe=True):
        assert [compiled(m.ones(3), k).tolist() for k in (2, 3, 2)] == [[2] * 3, [3] * 3, [2] * 3]
        with pytest.raises(RuntimeError, match="Recompilation triggered with skip_guard_eval_unsafe stance"):
            compiled(m.ones(3), 9)
    assert compiled(m.ones(3), 9).tolist() == [9] * 3 and counter.frame_count == 3
    with m.compiler.set_stance("force_eager", skip_guard_eval_unsafe=True):
        assert m.compile(lambda x: x - 1, backend=counter)(m.ones(1)).item() == 0 and counter.frame_count == 3


@BOTH
def test_default_backend(m: Any) -> None:
    counter, before = m._dynamo.testing.CompileCounter(), m.compiler.get_default_backend()
    m.compiler.set_default_backend(counter)
    try:
        assert m.compile(lambda x: x + 1)(m.ones(1)).item() == 2
        assert counter.frame_count == 1 and m.compiler.get_default_backend() is counter
        m.compile(lambda x: x - 1, backend="eager")(m.ones(1))
        assert counter.frame_count == 1
    finally:
        m.compiler.set_default_backend(None)
    assert m.compiler.get_default_backend() == before


@BOTH
def test_guards_that_fail_are_told(m: Any) -> None:
    m._dynamo.reset()
    failed: list = []

    def f(x: Any, k: Any) -> Any:
        return x * 2 if k else x + 1

    compiled = m._dynamo.optimize("eager", guard_fail_fn=failed.append)(f)
    compiled(m.ones(2), True)
    assert failed == []
    compiled(m.ones(2), True)
    assert failed == []
    compiled(m.ones(2), False)
    assert len(failed) == 1 and "k" in failed[0].reason and failed[0].orig_code is f.__code__
    assert isinstance(failed[0], m._dynamo.types.GuardFail)


@BOTH
def test_contexts(m: Any) -> None:
    frame = m._dynamo.eval_frame
    for kind in (frame.OptimizeContext, frame.RunOnlyContext, frame.DisableContext):
        assert issubclass(kind, frame._TorchDynamoContext)
    assert isinstance(m._dynamo.optimize("eager"), frame.OptimizeContext)
    counter = m._dynamo.testing.CompileCounter()
    compiled = m.compile(lambda x: x * 3, backend=counter)
    assert frame.RunOnlyContext()(lambda x: x + 1)(m.ones(1)).item() == 2
    assert frame.DisableContext()(lambda x: x * 3)(m.ones(1)).item() == 3 and counter.frame_count == 0
    assert compiled(m.ones(1)).item() == 3 and counter.frame_count == 1


@BOTH
def test_set_eval_frame(m: Any) -> None:
    set_eval_frame = m._C._dynamo.eval_frame.set_eval_frame
    assert set_eval_frame(None) is None and set_eval_frame(False) is None and set_eval_frame(None) is False
    for bad in (True, 3):
        with pytest.raises(TypeError, match="expected a callable"):
            set_eval_frame(bad)


@BOTH
def test_a_replaced_optimize_is_what_compile_calls(m: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list = []
    real = m._dynamo.optimize

    def mine(*args: Any, **kwargs: Any) -> Any:
        calls.append(kwargs["backend"])
        return real(*args, **kwargs)

    monkeypatch.setattr(m._dynamo, "optimize", mine)
    assert m.compile(lambda x: x + 1, backend="eager")(m.ones(1)).item() == 2 and len(calls) == 1


def test_gradients_on_in_a_graph_that_began_without():
    """What is differentiated there has no history afterwards; what would have one ends the graph before."""
    weight = nt.nn.Parameter(nt.ones(4))

    def forces(x):
        with nt.enable_grad():
            y = x.clone().requires_grad_()
            (g,) = nt.autograd.grad((y * weight).sin().sum(), y, create_graph=True)
        return g.detach(), (x * weight).sum()

    def kept(x):
        with nt.enable_grad():
            y = x * weight
        return y

    def written(x, z):
        with nt.enable_grad():
            z.mul_(weight)
        return z * x

    x = nt.randn(4)
    with nt.no_grad():
        for f, args, whole in ((forces, (x,), True), (kept, (x,), False), (written, (x, nt.ones(4)), False)):
            given = [nt.ones(4) if a is not x else a for a in args]
            expected, found = f(*args), nt.compile(f, fullgraph=whole)(*given)
            pairs = zip(expected, found) if isinstance(expected, tuple) else [(expected, found)]
            for a, b in [*pairs, *zip(args, given)]:
                assert nt.allclose(a, b) and a.requires_grad == b.requires_grad
        with pytest.raises(nt._C.Unsupported, match="a history, in a graph that began with gradients off"):
            nt.compile(kept, fullgraph=True)(x)

"""Edges of the graph, hooks of several tensors, saved tensors that are written, versions, swapped tensors, selective
checkpoints: beside PyTorch."""

from __future__ import annotations

import gc
from typing import Any

import narthex as nt
import pytest
import torch
from both import LIBS, close


def graph(lib: Any) -> Any:
    return lib.autograd.graph


def checkpoint_of(lib: Any) -> Any:
    if lib is nt:
        import narthex.utils.checkpoint as checkpoint
    else:
        import torch.utils.checkpoint as checkpoint
    return checkpoint


def test_gradient_edges() -> None:
    found = []
    for lib in LIBS:
        w = lib.arange(3.0).requires_grad_()
        a, b = (w * 2).unbind()[:2]
        y = (w * 3).sin()
        edge = graph(lib).get_gradient_edge(y)
        assert edge.output_nr == 0 and edge.node == y.grad_fn
        assert graph(lib).get_gradient_edge(b).output_nr == 1
        leaf = graph(lib).get_gradient_edge(w)
        assert leaf.node.name() == "torch::autograd::AccumulateGrad" and leaf.node.variable is w
        loss = (y * y).sum() + a * b
        inputs = [edge, w, leaf, graph(lib).get_gradient_edge(b), graph(lib).GradientEdge(y.grad_fn, 0)]
        one = lib.autograd.grad(loss, inputs, retain_graph=True)
        del y
        two = lib.autograd.grad(edge, w, lib.ones(3), retain_graph=True)
        three = lib.autograd.grad([edge], [leaf], [lib.ones(3) * 2], retain_graph=True)
        lib.autograd.backward(graph(lib).get_gradient_edge(loss), retain_graph=True)
        lib.autograd.backward([graph(lib).GradientEdge(edge.node, 0)], [lib.ones(3)], inputs=[leaf, w])
        found.append([*one, *two, *three, w.grad])
        with pytest.raises(RuntimeError, match="It is not possible to get the gradient edge for a Tensor"):
            graph(lib).get_gradient_edge(lib.ones(2))
    for mine, theirs in zip(*found, strict=True):
        close(mine, theirs)


def test_nodes_have_classes_and_are_one_object() -> None:
    """Programs walk the graph by the names of the classes, and keep nodes in sets."""
    found = []
    for lib in LIBS:
        w = lib.ones(3, requires_grad=True)
        y = (w * 2).sin() + w
        walked, left = [], [y.grad_fn]
        while left:
            node = left.pop()
            walked.append(type(node).__name__)
            assert isinstance(node, graph(lib).Node)
            left += [child for child, _ in node.next_functions if child is not None]
        sine = y.grad_fn.next_functions[0][0]
        assert sine is y.grad_fn.next_functions[0][0] and type(sine) is type(w.sin().grad_fn)
        with pytest.raises(TypeError, match="cannot create 'SinBackward0' instances"):
            type(sine)()
        with pytest.raises(AttributeError, match="'SinBackward0' object has no attribute 'left'"):
            sine.left = 1
        found.append((walked, repr(type(sine))))
    assert found[0] == found[1] and "AccumulateGrad" in found[0][0]


def test_an_edge_knows_the_size() -> None:
    w = nt.ones(2, 3, requires_grad=True)
    edge = nt.autograd.graph.get_gradient_edge(w * 2)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        nt.autograd.backward(edge)
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        nt.autograd.backward(edge, nt.ones(3))
    with pytest.raises(ValueError, match="there is no result 4"):
        nt.autograd.grad(w.sum(), nt.autograd.graph.GradientEdge(edge.node, 4))


@pytest.mark.parametrize("mode", ["all", "any"])
def test_hooks_of_several_tensors(mode: str) -> None:
    heard = []
    for lib in LIBS:
        said: list = []
        a, b, c, d = (lib.full((2,), float(k + 1), requires_grad=True) for k in range(4))
        e = b * c

        def hook(grads: Any, said: list = said) -> None:
            grads = grads if isinstance(grads, list) else [grads]
            said.append([g if g is None else g.tolist() for g in grads])

        handle = graph(lib).register_multi_grad_hook((a, b, e, d), hook, mode=mode)
        (a * e * d).sum().backward(retain_graph=True)
        (a * 3).sum().backward()
        (e * 2).sum().backward(retain_graph=True)
        (lib.ones(2, requires_grad=True) * 2).sum().backward()
        handle.remove()
        (a * 5).sum().backward()
        heard.append(said)
        with pytest.raises(ValueError, match="Expects mode to be one of"):
            graph(lib).register_multi_grad_hook((a,), hook, mode="some")
    if mode == "any":  # which gradient comes first is the engine's affair
        assert len(heard[0]) == len(heard[1])
    else:
        assert heard[0] == heard[1]


def test_hooks_of_several_tensors_in_grad() -> None:
    """PyTorch refuses leaves among the tensors then."""
    a, b = nt.ones(2, requires_grad=True), nt.ones(2, requires_grad=True)
    said: list = []
    nt.autograd.graph.register_multi_grad_hook((a, b), lambda grads: said.append([g is not None for g in grads]))
    nt.autograd.grad((a * b).sum(), [a])
    nt.autograd.grad((a * b).sum(), [a, b])
    nt.autograd.backward((a * b).sum(), inputs=[b])
    assert said == [[True, False], [True, True], [False, True]]
    with pytest.raises(RuntimeError, match="no backward runs here"):
        nt._C.will_run(nt.autograd.graph.get_gradient_edge(a).node)


def test_saved_tensors_that_are_written() -> None:
    found = []
    for lib in LIBS:
        w = lib.tensor([1.0, 2.0, 3.0], requires_grad=True)
        with graph(lib).allow_mutation_on_saved_tensors() as context:
            a = w * 2
            y = a * a.sin()
            a.zero_()
            view = a[1:]
            z = (view * view + 1).exp()
            view.add_(5)
            u = lib.tensor([1.0, 2.0])
            v = (u * w[:2]).sum()
            u.fill_(7)
            lib.add(u, 1, out=u)
            (y.sum() + z.sum() + v + a.sum()).backward()
            context.clear()
            kept = w.cos()
            with pytest.raises(RuntimeError, match="cannot be nested"), graph(lib).allow_mutation_on_saved_tensors():
                pass
        found.append((w.grad, a.detach(), u))
        with pytest.raises(AssertionError, match="Trying to backward outside of the"):
            kept.sum().backward()
    for mine, theirs in zip(*found, strict=True):
        close(mine, theirs)


def test_versions_by_hand() -> None:
    for lib in LIBS:
        x, w = lib.ones(2), lib.ones(2, requires_grad=True)
        y = x * w
        graph(lib).increment_version(x)
        graph(lib).increment_version([x, x.view(2)])
        assert x._version == 3
        with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
            y.sum().backward()
        with pytest.raises(RuntimeError, match="expects? each element of the iterable to be a tensor"):
            graph(lib).increment_version([1])


def test_swapped_tensors() -> None:
    for lib in LIBS:
        a, b = lib.nn.Parameter(lib.arange(3.0)), lib.ones(2, 2, dtype=lib.float64)
        (a * 2).sum().backward()
        a.mark, one, other = "a", id(a), id(b)
        gc.collect()
        lib.utils.swap_tensors(a, b)
        assert (id(a), id(b)) == (one, other) and b.mark == "a" and not hasattr(a, "mark")
        assert type(a) is lib.Tensor and isinstance(b, lib.nn.Parameter) and b.requires_grad and not a.requires_grad
        assert b.grad.tolist() == [2, 2, 2] and b.tolist() == [0, 1, 2] and a.dtype is lib.float64
        (b * 3).sum().backward()
        assert b.grad.tolist() == [5, 5, 5]
        view = a[0]
        with pytest.raises(RuntimeError):
            lib.utils.swap_tensors(a, b)
        del view


def test_a_graph_that_waits_refuses_the_swap() -> None:
    """PyTorch swaps, and refuses the backward."""
    a, b = nt.ones(2, requires_grad=True), nt.ones(2)
    waiting = a * 2
    with pytest.raises(RuntimeError, match="a graph that waits for its backward"):
        nt.utils.swap_tensors(a, b)
    del waiting
    nt.utils.swap_tensors(a, b)
    assert b.requires_grad


# ---- selective checkpoints -----------------------------------------------------------------------------------------
def run_checkpointed(lib: Any, policy: Any, **keywords: Any) -> tuple:
    """(results and gradients, operators of the first run, of the second)."""
    checkpoint = checkpoint_of(lib)
    calls: dict = {False: 0, True: 0}

    def count(context: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        calls[context.is_recompute] += 1
        return policy(checkpoint.CheckpointPolicy, op)

    lib.manual_seed(0)
    x, w = lib.randn(4, 4, requires_grad=True), lib.randn(4, 4, requires_grad=True)
    n_run: list = []

    def function(x: Any, w: Any) -> Any:
        n_run.append(1)
        y = lib.mm(x, w).sin()
        return lib.mm(y, w).cos().exp()

    def contexts() -> tuple:
        return checkpoint.create_selective_checkpoint_contexts(count, **keywords)

    y = checkpoint.checkpoint(function, x, w, use_reentrant=False, context_fn=contexts)
    y.sum().backward()
    return (y.detach(), x.grad, w.grad), calls, len(n_run)


@pytest.mark.parametrize("which", ["mm", "all", "none", "bool"])
def test_selective_checkpoints(which: str) -> None:
    def policy(policies: Any, op: Any) -> Any:
        if which == "bool":
            return "mm" in str(op)
        saved = which == "all" or (which == "mm" and "mm" in str(op))
        return policies.MUST_SAVE if saved else policies.PREFER_RECOMPUTE

    mine, theirs = run_checkpointed(nt, policy), run_checkpointed(torch, policy)
    for a, b in zip(mine[0], theirs[0], strict=True):
        close(a, b, 1e-4, 1e-5)
    assert mine[2] == theirs[2] == 2 and mine[1][True] == theirs[1][True] == 0


def test_what_is_kept_is_not_computed_again() -> None:
    from narthex.utils._python_dispatch import TorchDispatchMode

    seen: list = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    checkpoint = checkpoint_of(nt)
    x, w = nt.randn(3, 3, requires_grad=True), nt.randn(3, 3)
    contexts = lambda: checkpoint.create_selective_checkpoint_contexts([nt.ops.aten.mm.default])  # noqa: E731
    call = lambda: checkpoint.checkpoint(lambda a: nt.mm(a, w).sin().exp(), x, use_reentrant=False, context_fn=contexts)  # noqa: E731
    y = call()
    with Watch():
        y.sum().backward()
    assert seen.count("aten.sin.default") == 1 and seen.count("aten.mm.default") == 1  # the one of the derivative
    y = call()
    y.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="Trying to backward an extra time"):
        y.sum().backward()


def test_kept_results_that_were_written() -> None:
    for lib in LIBS:
        checkpoint = checkpoint_of(lib)
        for allowed in (False, True):
            x = lib.randn(3, requires_grad=True)

            def function(a: Any, lib: Any = lib) -> Any:
                return (a.sin().mul_(2)).exp()

            contexts = lambda c=checkpoint, a=allowed, lib=lib: c.create_selective_checkpoint_contexts(  # noqa: E731
                [lib.ops.aten.sin.default], allow_cache_entry_mutation=a
            )
            y = checkpoint.checkpoint(function, x, use_reentrant=False, context_fn=contexts)
            if allowed:
                y.sum().backward()
            else:
                with pytest.raises(RuntimeError, match="Tensor cached during selective activation checkpoint has been"):
                    y.sum().backward()
        with pytest.raises(ValueError, match="Expected op in `op_list` to be an OpOverload"):
            checkpoint.create_selective_checkpoint_contexts([lib.ops.aten.sin])
        with pytest.raises(TypeError, match="policy_fn_or_list must be either a function or a list of ops"):
            checkpoint.create_selective_checkpoint_contexts(3)
        assert lib.ops.aten.detach.default in checkpoint.SAC_IGNORED_OPS
        assert [p.value for p in checkpoint.CheckpointPolicy] == list(range(6))


def test_small_things_of_the_profiler() -> None:
    import narthex.autograd.profiler as mine
    import torch.autograd.profiler as theirs

    for module in (mine, theirs):
        seen = module.EnforceUnique()
        seen.see(1, "a")
        with pytest.raises(RuntimeError, match="duplicate key"):
            seen.see(1, "a")
        tracker = module.KinetoStepTracker
        start = tracker.current_step()
        tracker.init_step_count("x")
        assert [tracker.increment_step(name) for name in "xyx"] == [start + 1, start + 2, start + 2]
        assert tracker.erase_step_count("x") and not tracker.erase_step_count("x")

        class Event:
            def __init__(self, at: int) -> None:
                self.at = at

            def start_ns(self) -> int:
                return self.at

        records = module.MemRecordsAcc([(Event(k),) for k in (5, 1, 3, 9)])
        assert [one[0].at for one in records.in_interval(2, 5)] == [3, 5]

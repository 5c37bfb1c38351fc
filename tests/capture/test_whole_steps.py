"""Whole training steps in one graph: zeroing, forward, backward, clipping and the optimizer, against eager mode."""

from __future__ import annotations

import narthex as torch
import narthex.nn.functional as F
import pytest
from narthex import nn

OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {"lr": 0.1}),
    "sgd with momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, "nesterov": True}),
    "adam": (torch.optim.Adam, {"lr": 0.01, "amsgrad": True, "weight_decay": 0.01}),
    "adamw": (torch.optim.AdamW, {"lr": 0.01, "maximize": True}),
    "rmsprop": (torch.optim.RMSprop, {"lr": 0.01, "momentum": 0.9, "centered": True}),
    "adagrad": (torch.optim.Adagrad, {"lr": 0.01, "lr_decay": 0.1}),
    "adadelta": (torch.optim.Adadelta, {}),
    "adamax": (torch.optim.Adamax, {"lr": 0.01}),
    "nadam": (torch.optim.NAdam, {"lr": 0.01}),
    "rprop": (torch.optim.Rprop, {"lr": 0.01}),
    "radam": (torch.optim.RAdam, {"lr": 0.01, "betas": (0.6, 0.7), "weight_decay": 0.01}),
    "radam, decoupled": (torch.optim.RAdam, {"lr": 0.01, "weight_decay": 0.01, "decoupled_weight_decay": True}),
    "asgd": (torch.optim.ASGD, {"lr": 0.1, "t0": 2, "weight_decay": 0.01}),
    "adafactor": (torch.optim.Adafactor, {"lr": 0.05, "weight_decay": 0.01}),
}
BATCHES = 6


def batches():
    generator = torch.Generator().manual_seed(1)
    for _ in range(BATCHES):
        yield torch.randn(5, 8, generator=generator), torch.randint(0, 4, (5,), generator=generator)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


def close(a, b) -> None:
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


def trained(make, wrap):
    """The losses of a run, and the model; `make(model)` gives its step."""
    model = network()
    step = wrap(make(model))
    return [step(*batch).detach().clone() for batch in batches()], model


def compare(make, fullgraph: bool = True):
    """Both runs agree in losses, parameters and gradients. How often the step was traced."""
    counter = torch._dynamo.testing.CompileCounter()
    eager, model = trained(make, lambda step: step)
    compiled, other = trained(make, lambda step: torch.compile(step, backend=counter, fullgraph=fullgraph))
    close(eager, compiled)
    for mine, its in zip(model.parameters(), other.parameters()):
        close(mine, its)
        assert (mine.grad is None) == (its.grad is None)
        if mine.grad is not None:
            close(mine.grad, its.grad)
            assert not its.grad.requires_grad and its.grad.is_leaf
    return counter.frame_count


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str):
    kind, options = OPTIMIZERS[name]

    def make(model):
        optimizer = kind(model.parameters(), **options)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss

        return step

    assert compare(make) <= 2  # the first one makes the state


@pytest.mark.parametrize("mode", ["max-autotune", "reduce-overhead"])
def test_modes(mode: str):
    def make(model):
        optimizer = torch.optim.AdamW(model.parameters())

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return step

    eager, model = trained(make, lambda step: step)
    compiled, other = trained(make, lambda step: torch.compile(step, mode=mode, fullgraph=True))
    close(eager, compiled)
    for mine, its in zip(model.parameters(), other.parameters()):
        close(mine, its)


def test_by_hand():
    def make(model):
        parameters = list(model.parameters())

        def step(x, y):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            with torch.no_grad():
                for parameter in parameters:
                    parameter -= 0.1 * parameter.grad
                    parameter.grad = None
            return loss

        return step

    assert compare(make) == 1


def test_zeros_in_place():
    def make(model):
        parameters = list(model.parameters())

        def step(x, y):
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            with torch.no_grad():
                for parameter in parameters:
                    parameter.add_(parameter.grad, alpha=-0.1)
                    parameter.grad.zero_()
            return loss

        return step

    assert compare(make) <= 2


def test_gradients_accumulate():
    def make(model):
        def step(x, y):
            loss = F.cross_entropy(model(x), y)
            (loss / 2).backward()
            return loss

        return step

    assert compare(make) <= 2


def test_accumulates_in_place():
    w = torch.ones(3, requires_grad=True)
    w.grad = held = torch.zeros(3)
    step = torch.compile(lambda x: (w * x).sum().backward(), fullgraph=True)
    step(torch.ones(3))
    assert w.grad is held and held.tolist() == [1, 1, 1]
    step(torch.ones(3))
    assert w.grad is held and held.tolist() == [2, 2, 2]


def test_gradients_have_memory_of_their_own():
    a, b = (torch.ones(3, requires_grad=True) for _ in range(2))

    def step(seed):
        (a + b).backward(seed)
        a.grad.mul_(2)

    for run in (step, torch.compile(step, fullgraph=True)):
        a.grad = b.grad = None
        seed = torch.ones(3)
        run(seed)
        assert (a.grad.tolist(), b.grad.tolist(), seed.tolist()) == ([2] * 3, [1] * 3, [1] * 3)
        (a.sum() + b.sum()).backward()
        assert a.grad.is_contiguous()


def test_twice_with_the_graph_kept():
    w = torch.randn(4, 4, requires_grad=True)

    def step(x):
        y = (x @ w).sin().sum()
        y.backward(retain_graph=True)
        first = w.grad.clone()
        y.backward()
        return first, w.grad

    x = torch.randn(2, 4)
    expected = [value.clone() for value in step(x)]
    w.grad = None
    close(expected, [value.clone() for value in torch.compile(step, fullgraph=True)(x)])


def test_a_history_that_is_used_up():
    w = torch.randn(4, 4, requires_grad=True)

    def step(x):
        y = (x @ w).sin()
        loss = y.sum()
        loss.backward()
        return loss, y, w * 2

    loss, y, fresh = torch.compile(step, fullgraph=True)(torch.randn(2, 4))
    assert loss.requires_grad and not loss.is_leaf
    for over in (loss, y.sum()):
        with pytest.raises(RuntimeError, match="a second time"):
            over.backward()
    fresh.sum().backward()


def test_what_is_used_up_stays_one_tensor():
    w, seen = torch.randn(3, requires_grad=True), []

    def step(x):
        loss = (x * w).sum()
        loss.backward()
        seen.append(loss)
        return loss, loss

    first, second = torch.compile(step, fullgraph=True)(torch.randn(3))
    assert first is second is seen[0]


def test_what_is_used_up_beside_what_has_no_history():
    w = torch.randn(3, requires_grad=True)

    def step(x):
        loss = (x * w).sum()
        loss.backward()
        return loss.detach(), loss, loss.detach()

    results = torch.compile(step, fullgraph=True)(torch.randn(3))
    assert [result.requires_grad for result in results] == [False, True, False]
    assert results[0].item() == results[1].item() == results[2].item()


def test_gradients_of_gradients():
    w = torch.randn(3, requires_grad=True)

    def step(x):
        (w * x).pow(3).sum().backward(create_graph=True)
        penalty = w.grad.pow(2).sum()
        w.grad = None
        penalty.backward()
        return w.grad

    x = torch.randn(3)
    expected = step(x).clone()
    w.grad = None
    close(expected, torch.compile(step, fullgraph=True)(x))


def test_reading_and_writing_gradients():
    w, unused = torch.ones(3, requires_grad=True), torch.ones(2, requires_grad=True)

    @torch.compile(fullgraph=True)
    def read(x):
        return x * w.grad if w.grad is not None else x

    @torch.compile(fullgraph=True)
    def write(x):
        w.grad = x + 1
        unused.grad = None
        return w.grad * 2

    assert read(torch.ones(3)).tolist() == [1, 1, 1]
    w.grad = torch.full((3,), 4.0)
    assert read(torch.ones(3)).tolist() == [4, 4, 4]
    w.grad = torch.full((3,), 5.0)
    assert read(torch.ones(3)).tolist() == [5, 5, 5]
    assert write(torch.ones(3)).tolist() == [4, 4, 4] and w.grad.tolist() == [2, 2, 2] and unused.grad is None
    with pytest.raises(RuntimeError, match="attempting to assign a gradient of size"):
        torch.compile(lambda x: setattr(w, "grad", x), fullgraph=True)(torch.ones(4))
    assert w.grad.tolist() == [2, 2, 2]


def test_a_schedule_changes_the_rate():
    def make(model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

        def inner(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        def outer(x, y):
            loss = (outer.inner or inner)(x, y)
            schedule.step()
            return loss

        outer.inner = None
        outer.own = inner
        return outer

    counter = torch._dynamo.testing.CompileCounter()

    def wrap(step):
        step.inner = torch.compile(step.own, backend=counter, fullgraph=True)
        return step

    close(trained(make, lambda step: step)[0], trained(make, wrap)[0])
    assert counter.frame_count <= 3  # the rate becomes a number of the call


def test_a_schedule_is_stepped_in_the_graph():
    w = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    @torch.compile
    def step():
        optimizer.zero_grad()
        w.sum().backward()
        optimizer.step()
        schedule.step()

    for expected in (0.5, 0.25, 0.125, 0.0625):
        step()
        assert w.tolist() == [expected] * 3 and optimizer.param_groups[0]["lr"] == expected / 2


@pytest.mark.parametrize("way", [zip, enumerate, reversed])
def test_what_iterators_hand_on_is_written(way):
    """Containers with tensors in them are themselves, no copies."""
    groups = [{"rate": 1, "tensors": [torch.ones(2)]}, {"rate": 2, "tensors": [torch.ones(2)]}]

    @torch.compile(fullgraph=True)
    def change(x):
        for item in way(groups):
            group = item if way is reversed else item[-1]
            group["rate"] += 10
            x = x + group["tensors"][0]
        return x

    assert [change(torch.zeros(2)).tolist() for _ in range(2)] == [[2, 2], [2, 2]]
    assert [group["rate"] for group in groups] == [21, 22]


def test_what_is_chosen_is_written():
    groups = [{"rate": rate, "tensors": [torch.ones(2)]} for rate in (3, 1, 2)]

    @torch.compile(fullgraph=True)
    def change(x):
        for group in sorted(groups, key=lambda group: group["rate"])[:1]:
            group["rate"] += 10
        for group in filter(lambda group: group["rate"] == 2, groups):
            group["rate"] += 20
        max(groups, key=lambda group: group["rate"])["rate"] += 100
        min(groups, key=lambda group: group["rate"])["rate"] += 1000
        return x + groups[0]["tensors"][0]

    assert change(torch.zeros(2)).tolist() == [1, 1]
    assert [group["rate"] for group in groups] == [1003, 11, 122]


def test_hooks_end_the_graph():
    w = torch.ones(3, requires_grad=True)
    seen = []
    w.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.clone()))
    step = torch.compile(lambda x: (w * x).sum().backward())
    step(torch.ones(3))
    step(torch.ones(3))
    assert [grad.tolist() for grad in seen] == [[1, 1, 1], [2, 2, 2]]


def test_a_history_from_before():
    w = torch.ones(3, requires_grad=True)
    step = torch.compile(lambda y: (y * 2).sum().backward())
    step(w * 3)
    step(w * 3)
    assert w.grad.tolist() == [12, 12, 12]


def test_a_leaf_of_its_own():
    def step(x):
        own = x.clone().requires_grad_()
        (own * 3).sum().backward()
        return own.grad

    assert torch.compile(step)(torch.ones(3)).tolist() == [3, 3, 3]


def test_a_defaultdict_by_key():
    from collections import defaultdict

    counts, tensor = defaultdict(list), torch.ones(2)

    def note(x):
        counts["a"].append(1)
        counts[tensor].append(2)
        return x + len(counts["a"])

    compiled = torch.compile(note)
    assert [compiled(torch.zeros(1)).item() for _ in range(3)] == [1, 2, 3]
    assert counts == {"a": [1, 1, 1], tensor: [2, 2, 2]} and list(counts) == ["a", tensor]


def test_what_reads_its_numbers_breaks():
    w = torch.ones(3, requires_grad=True)
    optimizer = torch.optim.LBFGS([w], lr=0.1, max_iter=3)

    def step(x):
        def closure():
            optimizer.zero_grad()
            loss = (w * x).pow(2).sum()
            loss.backward()
            return loss

        optimizer.step(closure)

    with pytest.raises(torch._dynamo.exc.Unsupported, match="run_hooked"):
        torch.compile(step, fullgraph=True)(torch.ones(3))
    for _ in range(3):
        torch.compile(step)(torch.ones(3))
    assert optimizer.state[w]["func_evals"] >= 3


def test_settings_that_change_end_the_graph():
    """A cycle changes the betas as well: the step is run by itself then, and nothing is compiled again and again."""

    def make(model):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=3 * BATCHES)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        step.after = schedule.step
        return step

    counter = torch._dynamo.testing.CompileCounter()

    def run(wrap):
        model = network()
        step = make(model)
        follow, called, losses = step.after, wrap(step), []
        for _ in range(3):
            for batch in batches():
                losses.append(called(*batch).detach().clone())
                follow()
        return losses

    close(run(lambda step: step), run(lambda step: torch.compile(step, backend=counter)))
    assert counter.frame_count <= 4


def test_large_optimizers_step_by_themselves():
    w = torch.ones(513, 512, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.5)

    def step():
        optimizer.zero_grad()
        w.sum().backward()
        optimizer.step()

    assert torch._dynamo.explain(step)().break_reasons
    torch.compile(step, fullgraph=True)()
    assert w[0, 0].item() == 0


@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
def test_written_where_they_lie(mode: str | None):
    w, seen = torch.ones(100, 100), []

    def step(x):
        before = w * 2
        w.mul_(0.5).add_(x)
        seen.append(before.sum())
        return before

    compiled = torch.compile(step, mode=mode, fullgraph=True)
    address = w.data_ptr()
    for expected in (2.0, 3.0, 3.5):
        assert compiled(torch.ones(100, 100))[0, 0].item() == expected
    assert w.data_ptr() == address and w[0, 0].item() == 1.875
    assert [value.item() for value in seen] == [20000, 30000, 35000]

"""Schedules of schedules, cycles, restarts; averages of weights; hooks of optimizers: PyTorch's numbers and errors."""

import copy
import importlib

import narthex as nt
import pytest
import torch
from both import close, over

BOTH = (nt, torch)
PLANS = {
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda e: 0.9 + 0.01 * e),
    "polynomial": lambda s, o: s.PolynomialLR(o, 6, 2.0),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3),
    "longer restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "triangular": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 3, 2),
    "triangular2": lambda s, o: s.CyclicLR(o, [0.01, 0.02], [0.2, 0.3], 2, mode="triangular2"),
    "exp_range": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 3, mode="exp_range", gamma=0.9, cycle_momentum=False),
    "scale_fn": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 2, scale_fn=lambda x: 1 / (1 + x), scale_mode="iterations"),
    "sequence": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9), s.StepLR(o, 2)], [3, 7]),
    "warm-up": lambda s, o: s.SequentialLR(o, [s.LinearLR(o, 0.1, 1, 4), s.CosineAnnealingLR(o, 8)], [4]),
    "chain": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9)]),
    "sequence of chains": lambda s, o: s.SequentialLR(
        o, [s.ChainedScheduler([s.ConstantLR(o, 0.5, 2), s.ExponentialLR(o, 0.9)]), s.PolynomialLR(o, 4)], [5]),
}  # fmt: skip


def optimizer_of(t, kind="SGD"):
    options = {"momentum": 0.9} if kind == "SGD" else {}
    weights = [t.nn.Parameter(t.ones(2)) for _ in range(2)]
    return getattr(t.optim, kind)([{"params": weights[:1]}, {"params": weights[1:], "lr": 0.05}], lr=0.1, **options)


def values(optimizer):
    return [(g["lr"], g.get("momentum"), g.get("betas")) for g in optimizer.param_groups]


def flat(trace):
    return [x for row in trace for group in row for value in group
            for x in (value if isinstance(value, tuple) else [value]) if x is not None]  # fmt: skip


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_rates(plan, kind):
    traces = []
    for t in BOTH:
        optimizer = optimizer_of(t, kind)
        schedule = PLANS[plan](t.optim.lr_scheduler, optimizer)
        trace = [values(optimizer)]
        for epoch in range(14):
            optimizer.step()
            schedule.step()
            trace.append(values(optimizer))
            if epoch == 5:
                state = copy.deepcopy(schedule.state_dict())
                kept = copy.deepcopy(optimizer.state_dict())
        last = schedule.get_last_lr()
        again = optimizer_of(t, kind)
        resumed = PLANS[plan](t.optim.lr_scheduler, again)
        again.load_state_dict(kept)
        resumed.load_state_dict(state)
        for _ in range(8):
            again.step()
            resumed.step()
            trace.append(values(again))
        traces.append((flat(trace), last, sorted(state)))
    assert traces[0][0] == pytest.approx(traces[1][0], rel=1e-9, abs=1e-12)
    assert traces[0][1] == pytest.approx(traces[1][1])


def test_restarts_at_fractions():
    traces = []
    for t in BOTH:
        optimizer, trace = optimizer_of(t), []
        schedule = t.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 2, 3)
        for epoch in (0.5, 1.9, 2.0, 7.5, 8, 30.25, 0):
            schedule.step(epoch)
            trace.append(values(optimizer))
        traces.append(flat(trace))
    assert traces[0] == pytest.approx(traces[1])


MISTAKES = {
    "T_0": lambda s, o, n: s.CosineAnnealingWarmRestarts(o, 0),
    "T_mult": lambda s, o, n: s.CosineAnnealingWarmRestarts(o, 2, 1.5),
    "eta_min": lambda s, o, n: s.CosineAnnealingWarmRestarts(o, 2, 1, "x"),
    "epoch": lambda s, o, n: s.CosineAnnealingWarmRestarts(o, 2).step(-1),
    "mode": lambda s, o, n: s.CyclicLR(o, 0.1, 0.2, mode="x"),
    "length": lambda s, o, n: s.CyclicLR(o, [0.1], 0.2),
    "none": lambda s, o, n: s.ChainedScheduler([]),
    "none in sequence": lambda s, o, n: s.SequentialLR(o, [], []),
    "milestones": lambda s, o, n: s.SequentialLR(o, [s.StepLR(o, 1)], [1]),
    "plateau": lambda s, o, n: s.ChainedScheduler([s.ReduceLROnPlateau(o)]),
    "no schedule": lambda s, o, n: s.SequentialLR(o, [3], []),
    "strategy": lambda s, o, n: n.swa_utils.SWALR(o, 0.1, anneal_strategy="x"),
    "epochs": lambda s, o, n: n.swa_utils.SWALR(o, 0.1, -1),
    "decay": lambda s, o, n: n.swa_utils.get_ema_multi_avg_fn(1.5),
    "sparse": lambda s, o, n: n.SparseAdam(o.param_groups[0]["params"], lr=0),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake):
    said = []
    for t in BOTH:
        with pytest.raises((ValueError, TypeError)) as error:
            MISTAKES[mistake](t.optim.lr_scheduler, optimizer_of(t), t.optim)
        said.append((error.type, str(error.value)))
    assert said[0] == said[1]


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 4])
def test_swa_rates(strategy, epochs):
    traces = []
    for t in BOTH:
        optimizer, trace = optimizer_of(t), []
        schedule = t.optim.swa_utils.SWALR(optimizer, [0.02, 0.3], epochs, strategy)
        for _ in range(7):
            optimizer.step()
            schedule.step()
            trace.append(values(optimizer))
        traces.append(flat(trace))
    assert traces[0] == pytest.approx(traces[1])


AVERAGES = {
    "plain": lambda u: {},
    "buffers": lambda u: {"use_buffers": True},
    "ema": lambda u: {"multi_avg_fn": u.get_ema_multi_avg_fn(0.9)},
    "ema of each": lambda u: {"avg_fn": u.get_ema_avg_fn(0.9)},
    "swa": lambda u: {"multi_avg_fn": u.get_swa_multi_avg_fn()},
    "swa of each": lambda u: {"avg_fn": u.get_swa_avg_fn()},
}


@pytest.mark.parametrize("average", AVERAGES)
def test_averaged_models(average):
    data = torch.randn(4, 6, 3, generator=torch.Generator().manual_seed(0))
    made = []
    for t in BOTH:
        t.manual_seed(0)
        model = t.nn.Sequential(t.nn.Linear(3, 4), t.nn.BatchNorm1d(4))
        averaged = t.optim.swa_utils.AveragedModel(model, **AVERAGES[average](t.optim.swa_utils))
        optimizer = t.optim.SGD(model.parameters(), 0.1)
        batches = [over(x) if t is nt else x for x in data]
        for x in batches:
            optimizer.zero_grad()
            model(x).sin().sum().backward()
            optimizer.step()
            averaged.update_parameters(model)
        made.append((averaged, batches))
    for _ in range(2):
        mine, theirs = made[0][0].state_dict(), made[1][0].state_dict()
        assert list(mine) == list(theirs)
        for name, value in theirs.items():
            close(mine[name], value, 1e-5, 1e-6)
        for t, (averaged, batches) in zip(BOTH, made, strict=True):
            t.optim.swa_utils.update_bn(batches, averaged)


def test_hooks():
    seen = []
    for t in BOTH:
        of = importlib.import_module(t.__name__ + ".optim.optimizer")
        optimizer, calls = optimizer_of(t), []
        handles = [
            optimizer.register_state_dict_pre_hook(lambda o, calls=calls: calls.append("before")),
            optimizer.register_state_dict_post_hook(lambda o, s: {**s, "more": 1}),
            optimizer.register_state_dict_post_hook(lambda o, s, calls=calls: calls.append(sorted(s)), prepend=True),
            optimizer.register_load_state_dict_pre_hook(
                lambda o, s, calls=calls: calls.append(sorted(s)) or {k: v for k, v in s.items() if k != "more"}),
            optimizer.register_load_state_dict_post_hook(lambda o, calls=calls: calls.append("loaded")),
            of.register_optimizer_step_pre_hook(lambda o, a, k, calls=calls: calls.append("pre")),
            of.register_optimizer_step_post_hook(lambda o, a, k, calls=calls: calls.append("post")),
            optimizer.register_step_post_hook(lambda o, a, k, calls=calls: calls.append("own")),
        ]  # fmt: skip
        state = optimizer.state_dict()
        optimizer.load_state_dict(state)
        optimizer.step()
        for handle in handles:
            handle.remove()
        optimizer.step()
        optimizer.load_state_dict(optimizer.state_dict())
        seen.append((calls, sorted(state)))
    assert seen[0] == seen[1]


def test_sparse_adam_refuses_dense_gradients():
    for t in BOTH:
        w = t.nn.Parameter(t.ones(2))
        optimizer = t.optim.SparseAdam([w])
        optimizer.step()
        w.grad = t.ones(2)
        with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients"):
            optimizer.step()

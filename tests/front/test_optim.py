"""Optimizers and schedules: PyTorch's numbers, states and messages."""

import copy
import warnings

import narthex as nt
import pytest
import torch
from both import close, needs, over, same

SGD = [
    {"lr": 0.1},
    {"lr": 0.05, "momentum": 0.9},
    {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
    {"lr": 0.05, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    {"lr": 0.1, "maximize": True},
]
ADAM = [
    {"lr": 0.01},
    {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1},
    {"lr": 0.02, "amsgrad": True, "maximize": True},
]


def problem(module, start, target):
    """Parameters w, b and a function that leaves the gradients of a quadratic loss in them. They are sums of two, since
    the bits of matrix products differ from machine to machine, and b begins far away, as a step of RMSprop makes much
    of a gradient near 0."""
    w = module.nn.Parameter(module.tensor(start))
    b = module.nn.Parameter(module.tensor([3.5, -4.25]))
    goal = module.tensor(target)

    def gradients():
        difference = (w[:, :, None] * goal[None]).sum(1) + b
        (difference * difference).sum().backward()

    return [w, b], gradients


def run(module, make, steps=20, after=None):
    parameters, gradients = problem(module, [[1.0, -2.0], [0.5, 3.0]], [[0.3, 0.1], [-0.2, 0.4]])
    optimizer = make(module.optim, parameters)
    for step in range(steps):
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        gradients()
        optimizer.step()
        if after is not None:
            optimizer = after(step, parameters, optimizer)
    return parameters, optimizer


def check(make, after=None):
    mine, my_optimizer = run(nt, make, after=after)
    theirs, their_optimizer = run(torch, make, after=after)
    for a, b in zip(mine, theirs):
        close(a, b, 1e-5, 1e-6)
    my_state, their_state = my_optimizer.state_dict(), their_optimizer.state_dict()
    assert my_state["param_groups"] == their_state["param_groups"]
    assert list(my_state["state"]) == list(their_state["state"])
    for number, values in their_state["state"].items():
        assert list(my_state["state"][number]) == list(values)
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                close(my_state["state"][number][name], value, 1e-5, 1e-6)
    return my_optimizer, their_optimizer


@pytest.mark.parametrize("options", SGD, ids=str)
def test_sgd(options):
    check(lambda optim, parameters: optim.SGD(parameters, foreach=False, **options))


@needs(nt.optim, "Adam", "AdamW")
@pytest.mark.parametrize("name", ["Adam", "AdamW"])
@pytest.mark.parametrize("options", ADAM, ids=str)
def test_adam(name, options):
    check(lambda optim, parameters: getattr(optim, name)(parameters, foreach=False, **options))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"alpha": 0.9, "eps": 1e-6, "weight_decay": 0.1},
        {"momentum": 0.9, "maximize": True},
        {"centered": True, "momentum": 0.5},
    ],
    ids=str,
)
def test_rmsprop(options):
    check(lambda optim, parameters: optim.RMSprop(parameters, foreach=False, lr=0.01, **options))


def test_groups_and_names():
    def make(optim, parameters):
        optimizer = optim.SGD([{"params": [parameters[0]], "lr": 0.02, "extra": "kept"}], lr=0.1, foreach=False)
        optimizer.add_param_group({"params": parameters[1], "momentum": 0.5})
        return optimizer

    mine, theirs = check(make)
    assert repr(mine) == repr(theirs)
    named, _ = run(nt, lambda optim, parameters: optim.SGD([("w", parameters[0]), ("b", parameters[1])], lr=0.1), 1)
    assert len(named) == 2


def test_state_goes_over():
    """A state_dict loaded after 5 steps, also PyTorch's into Narthex, continues with the same numbers."""

    def make(optim, parameters):
        return optim.SGD(parameters, lr=0.05, momentum=0.9, foreach=False)

    def after(step, parameters, optimizer):
        if step != 5:
            return optimizer
        again = make(nt.optim if isinstance(parameters[0], nt.Tensor) else torch.optim, parameters)
        again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        return again

    check(make, after)
    _, trained = run(torch, make, 5)
    state = trained.state_dict()
    for values in state["state"].values():
        values["momentum_buffer"] = over(values["momentum_buffer"])
    parameters, _ = problem(nt, [[1.0, -2.0], [0.5, 3.0]], [[0.3, 0.1], [-0.2, 0.4]])
    mine = make(nt.optim, parameters)
    mine.load_state_dict(state)
    assert mine.state[parameters[0]]["momentum_buffer"].tolist() == state["state"][0]["momentum_buffer"].tolist()


def test_hooks_closure_zero_grad():
    (w, b), gradients = problem(nt, [[1.0, -2.0], [0.5, 3.0]], [[0.3, 0.1], [-0.2, 0.4]])
    optimizer, seen = nt.optim.SGD([w, b], lr=0.1), []
    handle = optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: seen.append("before"))
    optimizer.register_step_post_hook(lambda optimizer, args, kwargs: seen.append("after"))

    def closure():
        optimizer.zero_grad()
        gradients()
        return 7.0

    assert optimizer.step(closure) == 7.0 and seen == ["before", "after"]
    handle.remove()
    optimizer.step()
    assert seen == ["before", "after", "after"]
    optimizer.zero_grad(set_to_none=False)
    assert w.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    optimizer.zero_grad()
    assert w.grad is None
    before = w.tolist()
    optimizer.step()
    assert w.tolist() == before


@pytest.mark.parametrize(
    "wrong, error, message",
    [
        (lambda t, w: t.optim.SGD([], lr=0.1), ValueError, "optimizer got an empty parameter list"),
        (lambda t, w: t.optim.SGD(w, lr=0.1), TypeError, "params argument given to the optimizer"),
        (lambda t, w: t.optim.SGD([w], lr=-1), ValueError, "Invalid learning rate: -1"),
        (lambda t, w: t.optim.SGD([w], lr=1, momentum=-1), ValueError, "Invalid momentum value: -1"),
        (lambda t, w: t.optim.SGD([w], lr=1, nesterov=True), ValueError, "Nesterov momentum requires"),
        (lambda t, w: t.optim.SGD([w * 2], lr=1), ValueError, "can't optimize a non-leaf Tensor"),
        (lambda t, w: t.optim.SGD([3], lr=1), TypeError, "optimizer can only optimize Tensors"),
        (lambda t, w: t.optim.SGD([{"params": w}, {"params": w}]), ValueError, "some parameters appear in more than"),
        (lambda t, w: t.optim.SGD([{"params": {w}}], lr=1), TypeError, "need to be organized in ordered collections"),
        (lambda t, w: t.optim.SGD([w]).load_state_dict({"state": {}, "param_groups": []}), ValueError, "loaded state"),
    ],
)
def test_errors(wrong, error, message):
    for module in (nt, torch):
        with pytest.raises(error, match=message):
            wrong(module, module.nn.Parameter(module.tensor([1.0])))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_ways_that_exclude_each_other(name):
    for module in (nt, torch):
        make = getattr(module.optim, name)
        with pytest.raises(RuntimeError, match="`fused` and `foreach` cannot be `True` together."):
            make([module.nn.Parameter(module.tensor([1.0]))], lr=0.1, fused=True, foreach=True)
        with pytest.raises(RuntimeError, match="`fused` does not support `differentiable`"):
            make([module.nn.Parameter(module.tensor([1.0]))], lr=0.1, fused=True, differentiable=True)


@pytest.mark.parametrize("way", [{}, {"foreach": True}, {"foreach": False}, {"fused": True}], ids=str)
@pytest.mark.parametrize("options", [("SGD", o) for o in SGD] + [("AdamW", o) for o in ADAM], ids=str)
def test_many_parameters(options, way):
    """One step for all: of every size, gradients in any order of memory, one parameter without; also on npu:0."""
    from narthex.compat import torch_npu  # noqa: F401  (adds npu:0)

    name, arguments = options
    sizes = [(3,), (33, 65), (), (2, 0), (400, 128), (5, 4, 3)]
    for place in ("cpu", "npu:0"):
        theirs = [torch.nn.Parameter(torch.randn(size, generator=torch.Generator().manual_seed(7))) for size in sizes]
        mine = [nt.nn.Parameter(nt.tensor(p.tolist()).reshape(p.shape).to(place)) for p in theirs]
        optimizers = [module for module in (torch, nt)]
        pairs = [getattr(m.optim, name)(p, **arguments, **way) for m, p in zip(optimizers, (theirs, mine))]
        for step in range(3):
            for k, (p, q) in enumerate(zip(theirs, mine)):
                g = torch.randn(sizes[k], generator=torch.Generator().manual_seed(10 * step + k))
                own = nt.tensor(g.tolist()).reshape(g.shape)
                p.grad = None if k == 0 and step == 1 else g
                q.grad = None if k == 0 and step == 1 else (own.t().contiguous().t() if g.dim() == 2 else own).to(place)
            for optimizer in pairs:
                optimizer.step()
        for p, q in zip(theirs, mine):
            close(q.cpu(), p, 2e-6, 1e-7)


def test_options_that_are_not_there():
    with pytest.raises(NotImplementedError, match="betas as Tensors with differentiable=True"):
        nt.optim.Adam([nt.nn.Parameter(nt.ones(1))], betas=(nt.tensor(0.9), nt.tensor(0.9)), differentiable=True)
    with pytest.raises(AttributeError, match="'Newton': Narthex .*it has ASGD"):
        nt.optim.Newton  # noqa: B018


SCHEDULES = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda epoch: 0.9**epoch),
    "LambdaLR two": lambda s, o: s.LambdaLR(o, [lambda epoch: 0.9**epoch, lambda epoch: 1.0 / (epoch + 1)]),
    "StepLR": lambda s, o: s.StepLR(o, 3, gamma=0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 5, 5], gamma=0.5),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.8),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.25, 4),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.1, 1.0, 6),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 7, eta_min=0.01),
    "CosineAnnealingLR up": lambda s, o: s.CosineAnnealingLR(o, 3),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.5, total_steps=22),
    "OneCycleLR linear": lambda s, o: s.OneCycleLR(
        o, [0.5, 0.2], epochs=11, steps_per_epoch=2, anneal_strategy="linear"
    ),
    "OneCycleLR three": lambda s, o: s.OneCycleLR(o, 0.5, 21, three_phase=True, pct_start=0.4, cycle_momentum=False),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name):
    """The same rates, to the last bit, over 20 epochs with a reload in the middle."""
    rates = []
    for module in (nt, torch):
        w, b = (module.nn.Parameter(module.tensor([1.0])) for _ in range(2))
        optimizer = module.optim.SGD([{"params": [w]}, {"params": [b], "lr": 0.3}], lr=0.1, momentum=0.9)
        schedule = SCHEDULES[name](module.optim.lr_scheduler, optimizer)
        seen = [schedule.get_last_lr()]
        for epoch in range(20):
            optimizer.step()
            schedule.step()
            seen.append([group["lr"] for group in optimizer.param_groups])
            assert schedule.get_last_lr() == seen[-1]
            seen.append([group["momentum"] for group in optimizer.param_groups])
            if epoch == 9:
                state, saved = schedule.state_dict(), optimizer.state_dict()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    schedule = SCHEDULES[name](module.optim.lr_scheduler, optimizer)
                schedule.load_state_dict(state)
                optimizer.load_state_dict(saved)
        rates.append(seen)
    assert rates[0] == rates[1]


def test_one_cycle_with_adam_and_too_many_steps():
    groups = []
    for module in (nt, torch):
        optimizer = module.optim.Adam([module.nn.Parameter(module.tensor([1.0]))], lr=0.1)
        schedule = module.optim.lr_scheduler.OneCycleLR(optimizer, 0.5, total_steps=3)
        for _ in range(2):
            optimizer.step()
            schedule.step()
        groups.append({name: value for name, value in optimizer.param_groups[0].items() if name != "params"})
        schedule.step()
        with pytest.raises(ValueError, match="Tried to step 4 times. The specified number of total steps is 3"):
            schedule.step()
        with pytest.raises(ValueError, match="either total_steps OR"):
            module.optim.lr_scheduler.OneCycleLR(optimizer, 0.5)
    assert groups[0] == groups[1]


@pytest.mark.parametrize(
    "options",
    [{}, {"mode": "max", "patience": 1}, {"threshold_mode": "abs", "threshold": 0.3}, {"cooldown": 2, "min_lr": 0.02}],
    ids=str,
)
def test_plateau(options):
    measures = [5.0, 4.0, 4.1, 4.0, 3.9999, 4.2, 3.0, 3.0, 3.0, 3.0, 3.1, 2.9, 2.8, 2.8, 2.8, 2.9, 2.8, 2.8, 2.8]
    seen = []
    for module in (nt, torch):
        optimizer = module.optim.SGD([module.nn.Parameter(module.tensor([1.0]))], lr=0.1)
        schedule = module.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **{"patience": 2, "factor": 0.5, **options})
        rates = []
        for measure in measures:
            schedule.step(module.tensor(measure))
            rates.append((schedule.get_last_lr(), schedule.num_bad_epochs, schedule.best))
        seen.append((rates, schedule.state_dict()))
        with pytest.raises(ValueError, match="Factor should be < 1.0"):
            module.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=1.0)
    assert seen[0] == seen[1]


def test_schedule_before_optimizer():
    w = nt.nn.Parameter(nt.tensor([1.0]))
    schedule = nt.optim.lr_scheduler.StepLR(nt.optim.SGD([w], lr=0.1), 2)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        schedule.step()
    with pytest.raises(TypeError, match="int is not an Optimizer"):
        nt.optim.lr_scheduler.StepLR(3, 2)


@needs(nt.nn.utils, "clip_grad_norm_")
@pytest.mark.parametrize("norm_type", [2.0, 1.0, 3.0, float("inf")])
@pytest.mark.parametrize("limit", [0.5, 100.0])
def test_clip_grad_norm(norm_type, limit):
    if norm_type == float("inf") and not hasattr(nt.Tensor, "amax"):
        with pytest.raises(NotImplementedError, match="amax"):
            nt.nn.utils.get_total_norm([], norm_type)
        return
    values = [[[3.0, -4.0], [0.5, 0.0]], [1.0, -2.0]]
    results = []
    for module in (nt, torch):
        parameters = [module.nn.Parameter(module.tensor(value)) for value in values]
        for parameter in parameters:
            parameter.grad = parameter.detach() * 2
        norm = module.nn.utils.clip_grad_norm_(parameters, limit, norm_type)
        results.append([norm] + [parameter.grad for parameter in parameters])
    for mine, theirs in zip(*results):
        close(mine, theirs)
    bad = nt.nn.Parameter(nt.tensor([1.0]))
    bad.grad = nt.tensor([float("inf")])
    with pytest.raises(RuntimeError, match="is non-finite"):
        nt.nn.utils.clip_grad_norm_(bad, 1.0, error_if_nonfinite=True)


@needs(nt.nn.utils, "clip_grad_value_")
def test_clip_grad_value():
    results = []
    for module in (nt, torch):
        parameter = module.nn.Parameter(module.tensor([1.0, -5.0, 0.25, float("nan")]))
        parameter.grad = parameter.detach() * 2
        module.nn.utils.clip_grad_value_([parameter], 1.5)
        results.append(parameter.grad)
    same(*results)


def _ends(m, name: str, options: dict) -> list:
    """The parameters after four steps by a schedule, and what becomes of a rate that is a tensor."""
    p, q = m.nn.Parameter(m.arange(4.0) + 1), m.nn.Parameter(m.ones(2, 3))
    given = {key: make(m) if callable(make) else make for key, make in options.items()}
    optimizer = getattr(m.optim, name)([p, q], **given)
    rate = optimizer.param_groups[0]["lr"]
    schedule = m.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    for _ in range(4):

        def closure():
            optimizer.zero_grad()
            loss = (p**2).sum() + (q * 3).sin().sum()
            loss.backward()
            return loss

        closure()
        optimizer.step(*([closure] if name == "LBFGS" else []))
        if name != "LBFGS":  # whose last step is the rate itself in PyTorch, and changes with it
            schedule.step()
    assert optimizer.param_groups[0]["lr"] is rate or not isinstance(rate, m.Tensor)
    return [*p.tolist(), *q.flatten().tolist(), float(rate), *map(float, schedule.get_last_lr())]


RATED = ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "Adadelta", "ASGD", "RMSprop", "Rprop", "LBFGS")


@pytest.mark.parametrize("name", RATED + ("Adafactor",))
def test_rates_that_are_tensors(name):
    for make in (lambda m: m.tensor(0.01), lambda m: m.tensor([0.02]), lambda m: m.tensor(0.01, dtype=m.float64)):
        ours, theirs = (_ends(m, name, {"lr": make}) for m in (nt, torch))
        assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-6)
    for wrong in (lambda m: m.tensor([0.1, 0.2]), lambda m: m.tensor(-0.5)):
        said = []
        for m in (nt, torch):
            try:
                said.append(_ends(m, name, {"lr": wrong}))
            except ValueError as error:
                said.append(str(error))
        assert said[0] == said[1]


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_betas_that_are_tensors(name):
    both = lambda m: (m.tensor(0.9), m.tensor([0.99]))  # noqa: E731
    half = lambda m: (m.tensor(0.9), 0.99)  # noqa: E731
    for more in ({}, {"foreach": False}, {"amsgrad": True}, {"maximize": True}, {"lr": lambda m: m.tensor(0.01)}):
        ours, theirs = (_ends(m, name, {"betas": both, **more}) for m in (nt, torch))
        assert ours == pytest.approx(theirs, rel=1e-5, abs=1e-6)
    rate = {"lr": lambda m: m.tensor(0.01)}
    over = lambda m: (m.tensor(1.5), m.tensor(0.9))  # noqa: E731
    for wrong in ({"betas": half}, {"betas": both, "foreach": True}, {"foreach": True, **rate}, {"betas": over}):
        said = []
        for m in (nt, torch):
            with pytest.raises(ValueError) as error:  # noqa: PT011
                _ends(m, name, wrong)
            said.append(str(error.value))
        assert said[0] == said[1]


@pytest.mark.parametrize("name", ["Muon", "SparseAdam"])
def test_wrong_rates_of_the_others(name):
    for wrong in (lambda m: m.tensor([0.1, 0.2]), lambda m: m.tensor(-0.5), lambda m: -0.5):
        said = []
        for m in (nt, torch):
            with pytest.raises(ValueError) as error:  # noqa: PT011
                getattr(m.optim, name)([m.nn.Parameter(m.ones(2, 3))], lr=wrong(m))
            said.append(str(error.value))
        assert said[0] == said[1]

"""The optimizers that step one parameter after the other, and L-BFGS: PyTorch's numbers, states and messages."""

from collections import OrderedDict

import narthex as nt
import pytest
import torch
from test_optim import check

MORE = {
    "Adagrad": [{}, {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5},
                {"maximize": True}],
    "Adadelta": [{}, {"lr": 0.5, "rho": 0.8, "weight_decay": 0.1, "maximize": True}],
    "Adamax": [{}, {"lr": 0.1, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}],
    "NAdam": [{}, {"lr": 0.1, "weight_decay": 0.1, "momentum_decay": 0.1},
              {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "RAdam": [{}, {"lr": 0.1, "weight_decay": 0.1}, {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "ASGD": [{}, {"lr": 0.1, "lambd": 0.01, "t0": 3, "weight_decay": 0.1}],
    "Rprop": [{}, {"lr": 0.1, "etas": (0.3, 1.5), "step_sizes": (1e-3, 0.2)}],
    "Adafactor": [{}, {"lr": 0.1, "weight_decay": 0.1, "d": 2.0}, {"maximize": True}],
}  # fmt: skip


@pytest.mark.parametrize(("name", "options"), [(name, o) for name, several in MORE.items() for o in several], ids=str)
def test_numbers(name, options):
    def again(step, parameters, optimizer):
        """Half way the state goes through a state_dict into a new optimizer."""
        if step != 9:
            return optimizer
        other = type(optimizer)(parameters, **options)
        other.load_state_dict(optimizer.state_dict())
        return other

    check(lambda optim, params: getattr(optim, name)(params, **options), after=again)


@pytest.mark.parametrize(
    "options", [{}, {"nesterov": False, "momentum": 0.5}, {"adjust_lr_fn": "match_rms_adamw"}], ids=str
)
@pytest.mark.parametrize("shape", [(4, 6), (6, 4)])
def test_muon(options, shape):
    ends = []
    for t in (torch, nt):
        t.manual_seed(0)
        w = t.nn.Parameter(t.randn(shape))
        optimizer = t.optim.Muon([w], lr=0.05, **options)
        for _ in range(5):
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
        ends.append(w.detach().numpy())
    assert abs(ends[0] - ends[1]).max() < 2e-2 * 0.05  # products in bfloat16
    with pytest.raises(ValueError, match="only supports 2D"):
        nt.optim.Muon([nt.nn.Parameter(nt.ones(3))])


@pytest.mark.parametrize(
    "options",
    [{}, {"lr": 0.5, "history_size": 3}, {"line_search_fn": "strong_wolfe"},
     {"line_search_fn": "strong_wolfe", "max_iter": 4, "lr": 2.0}],
    ids=str,
)  # fmt: skip
def test_lbfgs(options):
    """Rosenbrock's valley in four dimensions."""
    traces = []
    for t in (torch, nt):
        x = t.nn.Parameter(t.tensor([-1.2, 1.0, 0.5, -0.3], dtype=t.float64))
        optimizer, trace = t.optim.LBFGS([x], **options), []

        def closure(t=t, x=x, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum() * 0.01
            loss.backward()
            return loss

        for _ in range(6):
            trace.append(optimizer.step(closure).item())
        state = optimizer.state[x]
        traces.append((trace, x.tolist(), state["n_iter"], state["func_evals"]))
    assert traces[0][2:] == traces[1][2:]
    for k in (0, 1):
        assert traces[1][k] == pytest.approx(traces[0][k], rel=1e-6)


@pytest.mark.parametrize(
    ("name", "options"),
    [("Adagrad", {"lr": -1}), ("Adagrad", {"eps": -1}), ("Adadelta", {"rho": 2}), ("Adamax", {"betas": (1.0, 0.9)}),
     ("NAdam", {"momentum_decay": -1}), ("RAdam", {"betas": (0.9, 1.0)}), ("ASGD", {"weight_decay": -1}),
     ("Rprop", {"etas": (1.5, 1.2)}), ("Adafactor", {"d": 0.5}), ("Adafactor", {"beta2_decay": 1}),
     ("LBFGS", {"lr": -1}), ("Muon", {"adjust_lr_fn": "no"})],
)  # fmt: skip
def test_errors(name, options):
    said = []
    for t in (torch, nt):
        with pytest.raises(ValueError) as error:
            getattr(t.optim, name)([t.nn.Parameter(t.ones(2, 2))], **options)
        said.append(str(error.value))
    assert said[0] == said[1]


def test_a_wrapper_that_leaves_out_init_patches_its_step() -> None:
    for lib in (nt, torch):
        calls: list = []

        class Wrapper(lib.optim.Optimizer):
            def __init__(self, inner) -> None:
                self._optimizer_step_pre_hooks = OrderedDict()
                self._optimizer_step_post_hooks = OrderedDict()
                self.inner = inner
                self._patch_step_function()

            def step(self, closure=None):
                calls.append("step")  # noqa: B023
                return self.inner.step(closure)

        wrapper = Wrapper(lib.optim.SGD([lib.nn.Parameter(lib.ones(2))], lr=0.1))
        wrapper.register_step_pre_hook(lambda *_: calls.append("before"))  # noqa: B023
        wrapper.step()
        assert calls == ["before", "step"] and Wrapper.step.hooked


# ---- steps that are differentiated ----------------------------------------------------------------------------------
DIFFERENTIATED = {
    "Adadelta": [{}, {"weight_decay": 0.1, "maximize": True}],
    "Adagrad": [{}, {"lr_decay": 0.1, "weight_decay": 0.1}],
    "Adam": [{}, {"amsgrad": True, "weight_decay": 0.1}, {"maximize": True, "decoupled_weight_decay": True}],
    "AdamW": [{}, {"amsgrad": True}],
    "Adamax": [{}, {"weight_decay": 0.1}],
    "ASGD": [{}, {"t0": 0, "weight_decay": 0.1}],
    "NAdam": [{}, {"weight_decay": 0.1, "decoupled_weight_decay": True}],
    "RAdam": [{}, {"weight_decay": 0.1, "betas": (0.9, 0.5)}],
    "RMSprop": [{}, {"centered": True, "momentum": 0.9, "weight_decay": 0.1}],
    "Rprop": [{}],
    "SGD": [{}, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, {"momentum": 0.9, "dampening": 0.1}],
}
TAKE_LR = ("Adam", "AdamW", "NAdam", "RAdam", "SGD")  # PyTorch's others refuse a tensor
ONCE = ("Adamax 0", "Adamax 1", "Adam 1", "AdamW 1", "RMSprop 1", "Rprop 0")  # PyTorch refuses a second step's backward
CASES = [(name, number) for name, all_options in DIFFERENTIATED.items() for number in range(len(all_options))]


def unrolled(module, name, options, steps, with_lr=False):
    """Gradients through the steps: of where the parameter was, of what made its gradients, of the learning rate."""
    start, by = (module.tensor(v, dtype=module.float64, requires_grad=True) for v in ([1.0, -2.0], [0.3, 0.5]))
    lr = module.tensor(0.1, dtype=module.float64, requires_grad=True) if with_lr else 0.1
    p = start.clone()
    optimizer = getattr(module.optim, name)([p], lr=lr, differentiable=True, **options)
    for k in range(steps):
        optimizer.zero_grad()
        now = p.clone()  # what a step writes is saved nowhere
        p.grad = module.autograd.grad((by * now**2 + k * now).sum(), now, create_graph=True)[0]
        optimizer.step()
    state = {key: value.requires_grad for key, value in optimizer.state[p].items() if key in ("exp_avg", "square_avg")}
    wanted = [start, by, lr] if with_lr else [start, by]
    found = module.autograd.grad(p.square().sum(), wanted, allow_unused=True)  # SGD forgets how its momentum began
    return [p.tolist(), *([] if g is None else g.tolist() for g in found)], state


@pytest.mark.parametrize("name, number", CASES)
def test_a_step_is_differentiated(name, number):
    options = DIFFERENTIATED[name][number]
    for steps in (1,) if f"{name} {number}" in ONCE else (1, 2):
        (mine, state), (theirs, their_state) = (unrolled(module, name, options, steps) for module in (nt, torch))
        for a, b in zip(mine, theirs):
            assert a == pytest.approx(b, rel=1e-4, abs=1e-7)  # PyTorch counts steps in float32 here
        assert state == their_state


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_three_steps_have_the_slopes_of_differences(name):
    """Also where PyTorch refuses a second one; in Rprop the gradients' signs alone count."""
    if name == "ASGD":
        pytest.skip("its step is the gradient's, which SGD's is")
    (_, *found), _ = unrolled(nt, name, {}, 3)
    for which, at in enumerate(([1.0, -2.0], [0.3, 0.5])):
        for k in range(2):
            ends = []
            for change in (1e-6, -1e-6):
                start, by = ([1.0, -2.0], [0.3, 0.5])
                moved = [list(start), list(by)]
                moved[which][k] = at[k] + change
                p = nt.tensor(moved[0], dtype=nt.float64, requires_grad=True)
                scale = nt.tensor(moved[1], dtype=nt.float64)
                optimizer = getattr(nt.optim, name)([p], lr=0.1)
                for step in range(3):
                    optimizer.zero_grad()
                    (scale * p**2 + step * p).sum().backward()
                    optimizer.step()
                ends.append(p.detach().square().sum().item())
            assert found[which][k] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("name", TAKE_LR)
def test_a_learning_rate_is_differentiated(name):
    (mine, _), (theirs, _) = (unrolled(module, name, {}, 1, with_lr=True) for module in (nt, torch))
    for a, b in zip(mine, theirs):
        assert a == pytest.approx(b, rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("name", DIFFERENTIATED)
@pytest.mark.parametrize("how", ["leaf", "foreach", "capturable", "plain", "two rates"])
def test_what_a_differentiated_or_captured_step_refuses(name, how):
    said = []
    for module in (nt, torch):
        p = module.tensor([1.0, 2.0], requires_grad=True)
        options = {"capturable": True} if how == "capturable" else {"differentiable": how != "plain"}
        options |= {"foreach": True} if how == "foreach" else {"lr": module.ones(2)} if how == "two rates" else {}
        try:
            made = p if how in ("leaf", "capturable") else p.clone()
            optimizer = getattr(module.optim, name)([made], **options)
            made.grad = module.ones(2)
            optimizer.step()
            said.append(made.tolist() == p.tolist())
        except Exception as error:
            said.append(type(error))
    assert said[0] is said[1]


def test_a_captured_step_compiles_and_runs_elsewhere():
    lines = []
    for options in ({}, {"capturable": True}):
        p = nt.nn.Parameter(nt.ones(3))
        optimizer = nt.optim.Adam([p], lr=0.1, **options)

        @nt.compile
        def step(p=p, optimizer=optimizer):
            optimizer.step()

        for _ in range(3):
            (p**2).sum().backward()
            step()
            optimizer.zero_grad()
        lines.append(p.tolist())
    assert lines[0] == lines[1]
